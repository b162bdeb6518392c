"""Files that are damaged, foreign, or look like a trajectory get one sentence."""

from pathlib import Path
from typing import Any

import h5py
import pytest

from md_gie.errors import TrajectoryError
from md_gie.trajectory import H5MDReader, H5MDWriter
from md_gie.trajectory.describe import describe_trajectory
from tests.trajectory.conftest import write


def test_damage_is_named_and_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5md", range(10))
    with h5py.File(path, "r+", libver=("earliest", "v110")) as file:
        file["particles/trajectory/position/value"][4, 2, 1] += 1e-3
    with pytest.raises(TrajectoryError, match="frame 4 differs from its checksum"):
        H5MDWriter.open_existing(path)
    with H5MDReader(path) as reader, pytest.raises(TrajectoryError, match="frame 4"):
        reader.verify()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"not hdf5 at all", "cannot be read as HDF5"), (None, "no such trajectory")],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "a.h5md"
    if content is not None:
        path.write_bytes(content)
    for opener in (H5MDReader, H5MDWriter.open_existing):
        with pytest.raises(TrajectoryError, match=message):
            opener(path)


def test_foreign_hdf5_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(TrajectoryError, match="not a trajectory of md_gie"):
        H5MDReader(tmp_path / "a.h5")


LOOKALIKES = {
    "group for the count": ("md_gie/n_committed", "group"),
    "text for the count": ("md_gie/n_committed", "text"),
    "group for checksums": ("md_gie/crc32", "group"),
    "data for checksums": ("md_gie/crc32", [1, 2, 3]),
    "count too large": ("md_gie/n_committed", 4),
    "count negative": ("md_gie/n_committed", -1),
    "no parameters": ("parameters", None),
    "no numbers": ("parameters/md_gie/numbers", None),
    "no such element": ("parameters/md_gie/numbers", [8, 1, 1, 8, 0]),
    "one mass": ("parameters/md_gie/mass", [1.0]),
    "no starts": ("md_gie/runs", None),
    "numbers for starts": ("md_gie/runs", [1, 2]),
    "no box": ("particles/trajectory/box", None),
    "group for positions": ("particles/trajectory/position/value", "group"),
    "no positions": ("particles/trajectory/position/value", None),
    "flat positions": ("particles/trajectory/position/value", [1.0, 2.0, 3.0]),
    "text for times": ("particles/trajectory/position/time", ["a", "b", "c"]),
    "group for steps": ("particles/trajectory/position/step", "group"),
    "group for forces": ("particles/trajectory/force/value", "group"),
    "observables are data": ("observables/trajectory", [1.0]),
    "observable is empty": ("observables/trajectory/stress", "group"),
}


@pytest.mark.parametrize("case", LOOKALIKES)
def test_lookalikes_get_one_sentence(tmp_path: Path, case: str) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    name, content = LOOKALIKES[case]
    with h5py.File(path, "r+") as file:
        del file[name]
        if content == "group":
            file.create_group(name)
        elif content is not None:
            file[name] = content
    with pytest.raises(TrajectoryError, match=r"a.h5md is not laid out as a trajectory"):
        describe_trajectory(path)
    with pytest.raises(TrajectoryError):
        H5MDWriter.open_existing(path)
    # Nothing holds the file any more.
    with h5py.File(path, "r+"):
        pass


@pytest.mark.parametrize(
    ("name", "value"), [("versions", "not JSON"), ("versions", 3), ("surroundings", "[1]")]
)
def test_odd_metadata_gets_one_sentence(tmp_path: Path, name: str, value: Any) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    with h5py.File(path, "r+") as file:
        file["parameters/md_gie"].attrs[name] = value
    with pytest.raises(TrajectoryError, match="not laid out as a trajectory"):
        describe_trajectory(path)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("particles/trajectory/box", "boundary"),
        ("particles/trajectory/force/value", "unit"),
        ("observables/trajectory/stress/value", "unit"),
        ("md_gie/crc32", "elements"),
    ],
)
def test_missing_attribute_gets_one_sentence(tmp_path: Path, name: str, attribute: str) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    with h5py.File(path, "r+") as file:
        del file[name].attrs[attribute]
    with pytest.raises(TrajectoryError, match="not laid out as a trajectory"):
        describe_trajectory(path)


@pytest.mark.parametrize("signature", [b"HEAP", b"TREE", b"SNOD"])
def test_broken_index_gets_one_sentence(tmp_path: Path, signature: bytes) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    content = path.read_bytes()
    assert signature in content
    path.write_bytes(content.replace(signature, b"XXXX"))
    with pytest.raises(TrajectoryError, match=r"not laid out as a trajectory|cannot be read"):
        describe_trajectory(path)
    with pytest.raises(TrajectoryError, match=r"not laid out as a trajectory|cannot be read"):
        H5MDWriter.open_existing(path)


@pytest.mark.parametrize("text", ["not JSON", "3", "[3]"])
def test_odd_summaries_get_one_sentence(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    with h5py.File(path, "r+") as file:
        file["md_gie"].attrs["summaries"] = text
    with H5MDReader(path) as reader, pytest.raises(TrajectoryError, match="not laid out"):
        assert reader.summaries
