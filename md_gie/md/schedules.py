"""Values that a run is to follow: constant, or linear between points in time."""

from bisect import bisect_right
from collections.abc import Sequence


class Schedule:
    """A number as a function of time: linear between points, constant before and after them.

    Parameters
    ----------
    points : sequence of (time, value)
        Times in fs, increasing; at least one point.
    """

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._times = [time for time, _ in points]
        self._values = [value for _, value in points]

    @classmethod
    def constant(cls, value: float) -> "Schedule":
        """Return a schedule of one value."""
        return cls([(0.0, value)])

    @property
    def first(self) -> float:
        """Value at the first point."""
        return self._values[0]

    @property
    def last(self) -> float:
        """Value at the last point."""
        return self._values[-1]

    @property
    def highest(self) -> float:
        """Largest value."""
        return max(self._values)

    def at(self, time_fs: float) -> float:
        """Return the value at a time."""
        after = bisect_right(self._times, time_fs)
        if after == 0 or after == len(self._times):
            return self._values[max(0, after - 1)]
        (t0, t1), (y0, y1) = (
            (numbers[after - 1], numbers[after]) for numbers in (self._times, self._values)
        )
        return y0 + (y1 - y0) * (time_fs - t0) / (t1 - t0)


def schedule(value: "float | Schedule") -> Schedule:
    """Return a schedule as it is, and a number as a constant one."""
    return value if isinstance(value, Schedule) else Schedule.constant(value)
