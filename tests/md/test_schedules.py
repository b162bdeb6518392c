"""Ramps: between, before and after their points."""

import pytest

from md_gie.md import Schedule
from md_gie.md.schedules import schedule


def test_linear_between_points_and_constant_outside() -> None:
    ramp = Schedule([(10.0, 300.0), (20.0, 100.0), (40.0, 200.0)])
    times = (-5.0, 0.0, 10.0, 15.0, 20.0, 25.0, 40.0, 1e9)
    assert [ramp.at(time) for time in times] == [300, 300, 300, 200, 100, 125, 200, 200]
    assert (ramp.first, ramp.last, ramp.highest) == (300, 200, 300)


@pytest.mark.parametrize("time", [-1.0, 0.0, 1.0])
def test_a_number_is_a_constant_schedule(time: float) -> None:
    assert schedule(7.5).at(time) == 7.5
    ramp = Schedule.constant(3.0)
    assert schedule(ramp) is ramp
