"""Self-test: whether a potential does on a user's own structure what physics demands of it."""

from md_gie.check.run import check_structure
from md_gie.check.table import CheckReport, Row

__all__ = ["CheckReport", "Row", "check_structure"]
