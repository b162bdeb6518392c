"""Units of md_gie and the constants that convert to others: eV, Å, amu, fs, K.

Values: CODATA 2018 (exact where the SI defines them), as tabulated by NIST,
https://physics.nist.gov/cuu/Constants/.
"""

BOLTZMANN_EV_K = 8.617333262145179e-05
"""Boltzmann constant, eV/K (exact: 1.380649e-23 J/K over 1.602176634e-19 J/eV)."""

AMU_A2_FS2_EV = 1.66053906660e-27 * 1e10 / 1.602176634e-19
"""One amu Å²/fs² in eV: mass (amu) times velocity² (Å²/fs²) times this is an energy in eV."""

EV_A3_GPA = 160.2176634
"""One eV/Å³ in GPa."""

EV_KJ_MOL = 96.48533212331001
"""One eV per particle in kJ/mol."""
