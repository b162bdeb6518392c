"""Draw a run of liquid water: temperature, potential energy, and radial distributions.

    python scripts/plot_water.py water_nvt.h5md -o scripts/results/water_nvt.png

With ``--json`` the numbers are kept as well: temperature, first O–O peak, drift of the conserved
quantity. Needs matplotlib (the extra ``plots``).
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from md_gie.trajectory import Frame, H5MDReader

Array = NDArray[np.float64]

OXYGEN, HYDROGEN = 8, 1
BIN = 0.05  # Å
BLUE, ORANGE, GREY = "#2b6cb0", "#c05621", "#718096"


def radial_distribution(
    frames: list[Frame], numbers: NDArray[np.int64], pair: tuple[int, int]
) -> tuple[Array, Array]:
    """g(r) between two elements, and the bins' centres in Å, averaged over frames.

    Reaches to half of the smallest height of the first cell, within which the nearest image of a
    pair is the only one.
    """
    first, second = (np.flatnonzero(numbers == element) for element in pair)
    heights = 1 / np.linalg.norm(np.linalg.inv(frames[0].cell), axis=0)
    edges = np.arange(0.0, heights.min() / 2, BIN)
    counts, ideal = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    n_pairs = len(first) * len(second) - (len(first) if pair[0] == pair[1] else 0)
    for frame in frames:
        fractional = frame.positions @ np.linalg.inv(frame.cell)
        vectors = fractional[second][None] - fractional[first][:, None]
        vectors = (vectors - np.round(vectors)) @ frame.cell
        distances = np.sqrt((vectors**2).sum(-1)).ravel()
        if pair[0] == pair[1]:
            distances = distances[distances > 0]
        counts += np.histogram(distances, edges)[0]
        ideal += n_pairs * shells / abs(np.linalg.det(frame.cell))
    return (edges[1:] + edges[:-1]) / 2, counts / ideal


def peak(centres: Array, g: Array, low: float, high: float) -> float:
    """Place of the highest bin between two distances, refined by a parabola through three bins."""
    window = np.flatnonzero((centres > low) & (centres < high))
    top = window[g[window].argmax()]
    left, middle, right = g[top - 1 : top + 2]
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend else 0.0
    return float(centres[top] + shift * BIN)


def draw(trajectory: Path, output: Path, discard_ps: float) -> dict[str, float]:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with H5MDReader(trajectory) as reader:
        times = reader.times_fs / 1000
        temperature = reader.observable("temperature")
        energy = reader.observable("potential_energy")
        conserved = reader.observable("conserved_energy")
        numbers = reader.header.numbers
        kept = [reader[int(index)] for index in np.flatnonzero(times >= discard_ps)]
    if not kept:
        raise SystemExit(f"{trajectory} ends at {times[-1]:g} ps; give a smaller --discard-ps")
    settled = times >= discard_ps
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    trace(axes[0], times, temperature, "temperature / K", settled)
    per_molecule = 1000 * (energy - energy[-1]) / (numbers == OXYGEN).sum()
    trace(axes[1], times, per_molecule, "energy − last / meV per molecule", settled)
    for pair, name, color in (
        ((OXYGEN, OXYGEN), "O–O", BLUE),
        ((OXYGEN, HYDROGEN), "O–H", ORANGE),
    ):
        centres, g = radial_distribution(kept, numbers, pair)
        axes[2].plot(centres, g, color=color, label=name)
        if pair == (OXYGEN, OXYGEN):
            first = peak(centres, g, 2.2, 3.5)
            axes[2].axvline(first, color=GREY, lw=0.8, ls=":")
            axes[2].set_title(f"first O–O peak at {first:.2f} Å", fontsize="medium")
    # The bond's peak is ten times as high as anything else.
    axes[2].set(xlabel="r / Å", ylabel="g(r)", xlim=(0.5, None), ylim=(0, 4))
    axes[2].legend(frameon=False)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=130)
    per_atom = conserved[settled] / len(numbers)
    drift = np.polyfit(times[settled], per_atom, 1)[0] if settled.sum() > 2 else np.nan
    return {
        "frames": len(kept),
        "first_ps": float(times[settled][0]),
        "last_ps": float(times[-1]),
        "mean_temperature_K": float(temperature[settled].mean()),
        "spread_of_temperature_K": float(temperature[settled].std()),
        "first_O_O_peak_A": first,
        "drift_of_conserved_meV_per_atom_per_ps": 1000 * float(drift),
    }


def trace(axis: Any, times: Array, values: Array, label: str, settled: NDArray[np.bool_]) -> None:
    mean = values[settled].mean()
    axis.plot(times, values, color=BLUE, lw=0.8)
    axis.plot(times[settled], np.full(settled.sum(), mean), color=GREY, lw=1.2)
    axis.set(xlabel="time / ps", ylabel=label)
    axis.set_title(f"mean {mean:.1f}", fontsize="medium")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trajectory", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="PNG, PDF or SVG")
    parser.add_argument("--discard-ps", type=float, default=0.0, help="left out of the averages")
    parser.add_argument("--json", type=Path, help="where to keep the numbers")
    options = parser.parse_args()
    numbers = draw(options.trajectory, options.output, options.discard_ps)
    text = json.dumps(numbers, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
