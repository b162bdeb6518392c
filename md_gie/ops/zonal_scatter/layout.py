"""Shapes of a zonal scatter: which rows of the coupling belong to which radial slot."""

import math

from torch import Tensor

MAX_KERNEL_DEGREE = 7
"""Largest degree of the Triton kernels: sums of all rows live in registers."""


def max_degree(n_coupling_rows: int) -> int:
    """Largest degree L of a coupling with (L+1)² rows, or (L+1)² - 1 without the scalar row."""
    return (
        math.isqrt(n_coupling_rows + 1) - 1
        if not _has_scalar(n_coupling_rows)
        else (math.isqrt(n_coupling_rows) - 1)
    )


def first_row(n_coupling_rows: int) -> int:
    """Output row of the first coupling row: 0 with the scalar row among them, else 1."""
    return 0 if _has_scalar(n_coupling_rows) else 1


def degree_slices(coupling: Tensor, radial: Tensor) -> tuple[int, list[tuple[int, int, int]]]:
    """Split the coupling's rows by degree.

    Returns
    -------
    first : int
        Output row of the first coupling row: 0 with the scalar row, else 1.
    slices : list of (begin, end, slot)
        Coupling rows ``begin:end`` of each degree and the radial slot that they multiply.
    """
    rows, slots = coupling.shape[1], radial.shape[1]
    first = first_row(rows)
    slices = []
    for slot, degree in enumerate(range(first, max_degree(rows) + 1)):
        begin = degree * degree - first
        slices.append((begin, begin + 2 * degree + 1, 0 if slots == 1 else slot))
    return first, slices


def _has_scalar(n_coupling_rows: int) -> bool:
    return math.isqrt(n_coupling_rows) ** 2 == n_coupling_rows


def check_arguments(
    coupling: Tensor, radial: Tensor, row_ptr: Tensor, degree: int | None = None
) -> None:
    """Refuse arguments that do not fit together; the message names the argument.

    With ``degree`` the first argument holds edge vectors.

    Raises
    ------
    ValueError
        If a rank, size, dtype or device is not as :func:`zonal_scatter` documents.
    """
    for name, tensor, rank in (
        ("coupling" if degree is None else "vectors", coupling, 2),
        ("radial", radial, 3),
        ("row_ptr", row_ptr, 1),
    ):
        if tensor.dim() != rank:
            raise ValueError(f"`{name}` must have {rank} axes, got shape {tuple(tensor.shape)}")
        if tensor.device != coupling.device:
            raise ValueError(f"`{name}` is on {tensor.device}, `coupling` on {coupling.device}")
    if radial.dtype != coupling.dtype or not coupling.is_floating_point():
        raise ValueError(
            f"`coupling` and `radial` must share one floating dtype, got {coupling.dtype} and "
            f"{radial.dtype}"
        )
    if row_ptr.is_floating_point() or row_ptr.shape[0] < 1:
        raise ValueError(
            f"`row_ptr` must hold N + 1 integers, got {row_ptr.shape[0]} of {row_ptr.dtype}"
        )
    if radial.shape[0] != coupling.shape[0]:
        raise ValueError(
            f"`radial` has {radial.shape[0]} edges, `coupling` has {coupling.shape[0]}"
        )
    rows = coupling.shape[1] if degree is None else (degree + 1) ** 2 - 1
    degree = max_degree(rows)
    n_degrees = degree + 1 if _has_scalar(rows) else degree
    if rows == 0 or (degree + 1) ** 2 - rows not in (0, 1):
        raise ValueError(f"`coupling` must have (L+1)² or (L+1)² - 1 rows, got {rows}")
    if radial.shape[1] not in (1, n_degrees):
        raise ValueError(
            f"`radial` must have 1 or {n_degrees} slots for {rows} coupling rows, got "
            f"{radial.shape[1]}"
        )
