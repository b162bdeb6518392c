"""Rows of the self-test and how they are printed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes
    ----------
    name : str
        What ought to hold.
    passed : bool or None
        None if it could not be looked at; ``text`` then says why.
    text : str
        What was measured and what is allowed.
    """

    name: str
    passed: bool | None
    text: str

    @classmethod
    def within(cls, name: str, value: float, limit: float, unit: str, what: str = "") -> "Row":
        """Row that passes if a number is at most a limit."""
        # Written so that what is not a number fails.
        return cls(name, value <= limit, f"{what}{value:.2g} {unit}, allowed {limit:.2g}")

    @classmethod
    def skipped(cls, name: str, reason: str) -> "Row":
        """Row that says why nothing was compared."""
        return cls(name, None, reason)


@dataclass(frozen=True)
class CheckReport:
    """Result of the self-test.

    Attributes
    ----------
    title : str
    rows : tuple of Row
    seconds : float
    """

    title: str
    rows: tuple[Row, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no row failed."""
        return all(row.passed is not False for row in self.rows)

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        words = {True: "pass", False: "FAIL", None: "  - "}
        lines = [f"{words[row.passed]}  {row.name:<{width}}  {row.text}" for row in self.rows]
        failed = sum(row.passed is False for row in self.rows)
        skipped = sum(row.passed is None for row in self.rows)
        verdict = f"{failed} failed" if failed else "all passed"
        if skipped:
            verdict += f", {skipped} not applicable"
        closing = (
            f"{len(self.rows) - failed - skipped} of {len(self.rows)} checks passed ({verdict})"
        )
        return "\n".join([self.title, "", *lines, "", f"{closing}, {self.seconds:.0f} s"])
