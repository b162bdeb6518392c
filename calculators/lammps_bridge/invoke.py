"""The front of ``fix python/invoke``: forces by that fix, energy and virial by a fix external."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from md_gie.calculators.lammps_bridge.api import LammpsAPI
from md_gie.calculators.lammps_bridge.bridge import Bridge
from md_gie.calculators.lammps_bridge.forces import Shares
from md_gie.errors import ConfigError

_ALTERNATIVE = (
    "use 'fix ID all external pf/callback 1 1' with 'python gie_attach' instead, which serves "
    "every build, dynamics and minimization"
)


class InvokeBridge(Bridge):
    """A bridge whose forces wait for ``fix python/invoke`` to fetch them.

    Its fix external, which has to come first in the script, publishes energy and virial and adds
    no forces.
    """

    _waiting: Shares | None = None

    def _deliver(self, rows: NDArray[np.float64], shares: Shares) -> None:
        rows[:] = 0.0
        if self._waiting is not None:
            raise ConfigError(
                "LAMMPS has not called fix python/invoke at the last force evaluation, as in a "
                f"minimization or with an interval above 1; {_ALTERNATIVE}"
            )
        self._waiting = shares

    def post_force(self) -> None:
        """Add the waiting forces to LAMMPS's."""
        if self._waiting is None:
            raise ConfigError(
                f"fix {self.fix} has no forces of this step for fix python/invoke; in the script, "
                "the fix external has to come before the fix python/invoke"
            )
        shares, self._waiting = self._waiting, None
        self.add_forces(self._api.atoms("f", len(shares.forces)), shares)


def check_build(api: LammpsAPI) -> None:
    """Refuse a build that calls ``fix python/invoke`` only after the first step of a run."""
    if not api.calls_invoke_at_setup:
        raise ConfigError(
            f"this LAMMPS (version {api.version}) does not call fix python/invoke at the set-up "
            f"of a run, so that every run would begin with a half step without forces; "
            f"{_ALTERNATIVE}"
        )


def find_invoke_bridge(bridges: list[Any]) -> InvokeBridge:
    """Find the bridge that waits to be called."""
    for bridge in bridges:
        if isinstance(bridge, InvokeBridge):
            return bridge
    raise ConfigError(
        "fix python/invoke calls gie_post_force, but no potential is attached; put 'python "
        "gie_invoke invoke' before the first run"
    )
