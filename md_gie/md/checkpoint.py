"""Complete state of a run as arrays and facts, and back, refusing what belongs to another run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
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


def is_whole(restart: Restart) -> bool:
    """Tell whether a restart file holds all that a run goes on from, finite and of one size."""
    facts, arrays = restart.facts, restart.arrays
    types = {"run_id": str, "n_frames": int, "surroundings": dict, "numbers": list}
    types |= {"n_bath": int, "n_builds": int}
    if not all(type(facts.get(name)) is type_ for name, type_ in types.items()):
        return False
    n_atoms = len(facts["numbers"])
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_TENSORS, ())
    shapes |= dict.fromkeys(("positions", "velocities", "forces"), (n_atoms, 3))
    shapes |= {"masses": (n_atoms,), "cell": (3, 3), "virial": (3, 3)}
    shapes["bath"] = (facts["n_bath"],)
    if any(name.startswith("neighbors_") for name in arrays):
        shapes |= {"neighbors_positions": (n_atoms, 3), "neighbors_cell": (3, 3)}
        shapes |= {"neighbors_pbc": (3,)}
    return all(
        name in arrays
        and arrays[name].shape == shape
        and arrays[name].dtype == (np.bool_ if name == "neighbors_pbc" else np.float64)
        and bool(np.isfinite(arrays[name]).all())
        for name, shape in shapes.items()
    )


def unpack(restart: Restart, cache: NeighborCache, device: torch.device) -> MDState:
    """Return the state of a restart file that is whole, and put the neighbour list as it was."""
    arrays = restart.arrays
    if "neighbors_positions" in arrays:
        cache.restore(
            ReferenceState(*(arrays[f"neighbors_{name}"] for name in ReferenceState._fields))
        )
        # That list was counted when it was built first.
        cache.n_builds = restart.facts["n_builds"]
    tensors = {name: torch.as_tensor(arrays[name]) for name in _TENSORS}
    bath = tensors.pop("bath")
    tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
    return MDState(step=restart.step, bath=bath, **tensors)


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
