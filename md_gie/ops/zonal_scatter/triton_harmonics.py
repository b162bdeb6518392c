r"""Zonal couplings evaluated inside a kernel: real harmonics of an edge's direction.

``B_lm(x, y, z) = Y_lm(-x, y, z)`` with :math:`\sum_m Y_{lm}^2 = 1`, factored as

.. math:: B_{l,m} = Q_l^m(z)\, c_m, \quad B_{l,-m} = Q_l^m(z)\, s_m, \quad
          c_m + i s_m = (-x + i y)^m,

where Q are the Schmidt semi-normalised Legendre functions over the m-th power of the sine, which
are polynomials. All loops unroll: degree and order are constants of the compilation.

References
----------
Recursion and derivative of the semi-normalised functions: Winch et al., Geomagnetism and synthetic
aperture radar, Geophys. J. Int. 160, 487 (2005), doi:10.1111/j.1365-246X.2004.02472.x.
"""

import triton
import triton.language as tl


@triton.jit
def scaled(x, FACTOR: tl.constexpr):
    """Multiply by a constant in the dtype of ``x``; a bare number would be rounded to float32."""
    return x * tl.full((1,), FACTOR, x.dtype)


@triton.jit
def unit_vector(vectors, e, live, EPSILON: tl.constexpr, ACC: tl.constexpr):
    """Direction (x, y, z) and inverse length of edge vectors; dead edges point along z."""
    x = tl.load(vectors + e * 3, live, 0.0).to(ACC)
    y = tl.load(vectors + e * 3 + 1, live, 0.0).to(ACC)
    z = tl.load(vectors + e * 3 + 2, live, 1.0).to(ACC)
    inverse = 1.0 / tl.sqrt(x * x + y * y + z * z + EPSILON * EPSILON)
    return x * inverse, y * inverse, z * inverse, inverse


@triton.jit
def legendre(z, L: tl.constexpr):
    """Tuple of Q_l^m at index l (l + 1) / 2 + m."""
    out = (z * 0.0 + 1.0,)
    for l in tl.static_range(1, L + 1):
        for m in tl.static_range(l + 1):
            if m == l:
                diagonal = out[(l - 1) * l // 2 + l - 1]
                out = out + (scaled(diagonal, 1.0 if l == 1 else (1 - 1 / (2 * l)) ** 0.5),)
            elif m == l - 1:
                out = out + (scaled(out[(l - 1) * l // 2 + m] * z, (2 * l - 1) ** 0.5),)
            else:
                higher = out[(l - 1) * l // 2 + m] * z * (2 * l - 1)
                lower = scaled(out[(l - 2) * (l - 1) // 2 + m], ((l - 1) * (l - 1) - m * m) ** 0.5)
                out = out + (scaled(higher - lower, (l * l - m * m) ** -0.5),)
    return out


@triton.jit
def circular(x, y, L: tl.constexpr):
    """Tuples of c_m and s_m for m = 0..L."""
    cosines, sines = (x * 0.0 + 1.0,), (x * 0.0,)
    for m in tl.static_range(1, L + 1):
        c, s = cosines[m - 1], sines[m - 1]
        cosines, sines = cosines + (-x * c - y * s,), sines + (-x * s + y * c,)
    return cosines, sines


@triton.jit
def harmonic(q, cosines, sines, l: tl.constexpr, m: tl.constexpr):
    """B_lm for m = -l..l."""
    if m >= 0:
        return q[l * (l + 1) // 2 + m] * cosines[m]
    else:
        return q[l * (l + 1) // 2 - m] * sines[-m]


@triton.jit
def harmonic_gradient(q, cosines, sines, l: tl.constexpr, m: tl.constexpr):
    """Differentiate the polynomial B_lm for x, y and z."""
    k: tl.constexpr = m if m >= 0 else -m
    here = q[l * (l + 1) // 2 + k]
    zero = here * 0.0
    slope = zero
    if k < l:
        half: tl.constexpr = 0.5 if k == 0 else 1.0
        slope = scaled(q[l * (l + 1) // 2 + k + 1], (half * (l - k) * (l + k + 1)) ** 0.5)
    if m == 0:
        return zero, zero, slope
    elif m > 0:
        return -k * here * cosines[k - 1], -k * here * sines[k - 1], slope * cosines[k]
    else:
        return -k * here * sines[k - 1], k * here * cosines[k - 1], slope * sines[k]
