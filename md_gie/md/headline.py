"""What a run is about, in a line."""

from md_gie.md.config import RunConfig
from md_gie.md.schedules import Schedule
from md_gie.md.setup import RunParts


def headline(config: RunConfig, parts: RunParts, first: int) -> str:
    """Tell model, ensemble, steps and trajectory; ends with a newline."""
    md, engine = config.md, parts.engine
    conditions = ""
    if md.ensemble != "nve" and md.temperature is not None:
        conditions += f" at {_shown(md.temperature)} K"
    if md.pressure is not None:
        conditions += f" and {_shown(md.pressure)} GPa"
    movable = parts.integrator.freedom.movable
    n_frozen = 0 if movable is None else int((movable == 0).sum())
    frozen = f" ({n_frozen} frozen)" if n_frozen else ""
    return (
        f"{len(parts.structure)} atoms{frozen}, model {engine.name} on {engine.device.type}, "
        f"{str(engine.dtype).removeprefix('torch.')}; {md.ensemble}{conditions}, "
        f"{parts.integrator.freedom.count} degrees of freedom, steps {first} to "
        f"{md.n_steps} of {md.timestep_fs:g} fs; every {config.output.trajectory_every} steps to "
        f"{config.trajectory_file}\n"
    )


def _shown(schedule: Schedule) -> str:
    if schedule.first == schedule.last:
        return f"{schedule.first:g}"
    return f"{schedule.first:g} to {schedule.last:g}"
