"""Evaluate a DPA4 checkpoint with DeePMD-kit and print energy, forces and virial as JSON.

Runs in DeePMD-kit's own environment (deepmd-kit and numpy are enough; ase for other files than
.npz) and knows nothing of md_gie, so that the two can be compared:

    python scripts/check_deepmd.py MODEL.pt STRUCTURE [--frame N]

STRUCTURE is extended XYZ, plain or gzipped, or any file that ASE reads.
"""

import argparse
import gzip
import json
import re
import sys
from pathlib import Path

import numpy as np
from deepmd.infer import DeepPot


def main() -> None:
    parser = argparse.ArgumentParser(description="Evaluate a DPA4 checkpoint with DeePMD-kit.")
    parser.add_argument("model")
    parser.add_argument("structure")
    parser.add_argument("--frame", type=int, default=0)
    arguments = parser.parse_args()
    symbols, positions, cell = read_structure(Path(arguments.structure), arguments.frame)
    potential = DeepPot(arguments.model)
    type_map = potential.get_type_map()
    types = [type_map.index(symbol) for symbol in symbols]
    box = None if cell is None else cell.reshape(1, 9)
    energy, forces, virial = potential.eval(positions.reshape(1, -1), box, types)[:3]
    json.dump(
        {
            "energy": float(energy.item()),
            "forces": forces[0].astype(float).tolist(),
            "virial": virial[0].astype(float).reshape(3, 3).tolist(),
        },
        sys.stdout,
    )
    sys.stdout.write("\n")


def read_structure(path: Path, frame: int) -> tuple[list[str], np.ndarray, np.ndarray | None]:
    """Symbols, positions (N, 3) Å and cell (3, 3) Å, None for open boundaries."""
    if not path.name.endswith((".extxyz", ".xyz", ".extxyz.gz", ".xyz.gz")):
        import ase.io

        atoms = ase.io.read(path, index=frame)
        cell = atoms.cell.array if atoms.pbc.any() else None
        return list(atoms.symbols), atoms.positions, cell
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as stream:
        for _ in range(frame):
            for _ in range(int(stream.readline()) + 1):
                stream.readline()
        n_atoms, comment = int(stream.readline()), stream.readline()
        rows = [stream.readline().split() for _ in range(n_atoms)]
    if not re.search(r"Properties=species:S:1:pos:R:3", comment) and "Properties" in comment:
        raise SystemExit(f"{path}: columns must start with species and pos")
    lattice = re.search(r'Lattice="([^"]*)"', comment)
    cell = np.array(lattice.group(1).split(), dtype=float).reshape(3, 3) if lattice else None
    positions = np.array([row[1:4] for row in rows], dtype=float)
    return [row[0] for row in rows], positions, cell


if __name__ == "__main__":
    main()
