"""The names that others rely on; a change here is a change of the public interface."""

import importlib
import importlib.util
import inspect
import pkgutil
from pathlib import Path

import pytest

import md_gie

ROOT = Path(__file__).parent.parent
PUBLIC = {
    "md_gie.check": ["CheckReport", "Row", "check_structure"],
    "md_gie": ["DynamicsGuard", "GIECalculator", "NeighborCache", "Structure", "load_potential"],
    "md_gie.cli": ["main"],
    "md_gie.engine": ["Engine", "Evaluation", "bundled_models", "load_potential", "resolve_model"],
    "md_gie.md": [
        "BussiVerlet", "Freedom", "Integrator", "LangevinBAOAB", "MDState", "NoseHooverChains",
        "RunConfig", "RunSummary", "Schedule", "Simulation", "StochasticCellRescaling",
        "VelocityVerlet", "differentiable_forces", "maxwell_boltzmann", "model_energy",
        "plan_from_config", "roll", "run_from_config",
    ],
    "md_gie.model": ["DPA4", "DPA4Config", "load_model", "read_checkpoint", "write_checkpoint"],
    "md_gie.neighbors": ["Edges", "NeighborCache", "ReferenceState", "check_geometry"],
    "md_gie.ops": ["Edges", "harmonic_scatter", "zonal_scatter"],
    "md_gie.relax": ["RelaxConfig", "RelaxOutcome", "relax_from_config"],
    "md_gie.report": ["write_report"],
    "md_gie.training": ["TrainingConfig", "TrainingResult", "read_config", "train_from_config"],
    "md_gie.trajectory": [
        "Frame", "H5MDReader", "H5MDWriter", "Observable", "Restart", "RestartFiles",
        "TrajectoryHeader", "TrajectoryOptions",
    ],
}  # fmt: skip
BRIDGES = {
    "ase_calculator": ["GIECalculator"],
    "dynamics_guard": ["DynamicsGuard"],
    "lammps_bridge": ["attach", "gie_attach", "gie_invoke", "gie_post_force"],
}


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names_are_these(package):
    assert importlib.import_module(package).__all__ == PUBLIC[package]


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_exists_and_is_documented(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        assert inspect.getdoc(getattr(module, name)), name
        assert name in dir(module)


def test_every_package_with_public_names_is_pinned():
    packages = {
        f"md_gie.{found.name}" for found in pkgutil.iter_modules(md_gie.__path__) if found.ispkg
    }
    assert packages - {"md_gie.calculators"} == set(PUBLIC) - {"md_gie"}


def test_bridges_are_these():
    package = importlib.import_module("md_gie.calculators")
    assert sorted(found.name for found in pkgutil.iter_modules(package.__path__)) == list(BRIDGES)
    for module, names in BRIDGES.items():
        bridge = importlib.import_module(f"md_gie.calculators.{module}")
        assert all(getattr(bridge, name).__module__ == bridge.__name__ for name in names)


def test_errors_are_these_and_catch_as_built_in_ones():
    errors = importlib.import_module("md_gie.errors")
    kinds = {
        name: kind.__mro__
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    }
    value_errors = {name for name, mro in kinds.items() if ValueError in mro}
    assert value_errors == {"CheckpointError", "ConfigError", "StructureError", "TrajectoryError"}
    assert set(kinds) - value_errors == {
        "CompilationError",
        "MDGIEError",
        "NeighborOverflowError",
        "SimulationError",
    }
    assert all(errors.MDGIEError in mro for mro in kinds.values())


def test_calculator_takes_these_options():
    parameters = inspect.signature(md_gie.GIECalculator).parameters
    options = {name: p.default for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert next(iter(parameters)) == "model"
    assert options.items() >= {
        "device": "auto", "dtype": "float32", "kernels": "auto", "skin": 0.5, "branch": None
    }.items()  # fmt: skip
    assert len(options) == len(parameters) - 1
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'md_gie' has no attribute 'GIECalculater'$"):
        md_gie.GIECalculater  # noqa: B018


def test_bare_calculators_folder_cannot_be_imported():
    spec = importlib.util.spec_from_file_location(
        "calculators", ROOT / "calculators" / "__init__.py"
    )
    module = importlib.util.module_from_spec(spec)
    message = (
        "this folder is the package md_gie.calculators, but it was imported as 'calculators'; "
        'write "import md_gie.calculators" instead'
    )
    with pytest.raises(ImportError) as caught:
        spec.loader.exec_module(module)
    assert str(caught.value) == message
