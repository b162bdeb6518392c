"""Complete state of a run as arrays and facts, and back, refusing what belongs to another run."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray

from md_gie.errors import TrajectoryError
from md_gie.md.observers import to_numpy
from md_gie.md.state import MDState
from md_gie.neighbors.cache import NeighborCache, ReferenceState
from md_gie.trajectory import Restart

_TENSORS = tuple(name for name in MDState._fields if name != "step")


def pack(state: MDState, cache: NeighborCache) -> dict[str, NDArray[Any]]:
    """Return every array that the continuation of a state needs."""
    arrays = {name: to_numpy(getattr(state, name)) for name in _TENSORS}
    reference = cache.reference_state()
    if reference is not None:
        # The order of edges, and so the last bits of sums, depends on where the list was built.
        arrays |= {f"neighbors_{name}": value for name, value in reference._asdict().items()}
    return arrays


def unpack(restart: Restart, cache: NeighborCache, device: torch.device) -> MDState:
    """Return the state of a restart file, and put the neighbour list as it was."""
    arrays = restart.arrays
    if "neighbors_positions" in arrays:
        cache.restore(
            ReferenceState(*(arrays[f"neighbors_{name}"] for name in ReferenceState._fields))
        )
    tensors = {name: torch.as_tensor(arrays[name]).to(device) for name in _TENSORS}
    return MDState(step=restart.step, **tensors)


def check_same_run(saved: Mapping[str, Any], now: Mapping[str, Any], source: str) -> None:
    """Compare what a restart file was written under with what the run is now.

    Raises
    ------
    TrajectoryError
        Naming each fact that differs, with both values.
    """
    changed = [
        f"{name} was {_brief(saved.get(name))} and is now {_brief(value)}"
        for name, value in now.items()
        if saved.get(name) != value
    ]
    if changed:
        raise TrajectoryError(
            f"{source} belongs to another run: {'; '.join(changed)}; restore these to go on, or "
            "start a new run with another [output] trajectory",
            changed=changed,
        )


def _brief(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    shown = ", ".join(map(str, value[:6]))
    return f"[{shown}{', …' if len(value) > 6 else ''}] ({len(value)} entries)"
