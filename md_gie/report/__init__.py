"""Reports: one HTML file, without network, that shows what a run did."""

from md_gie.report.write import write_report

__all__ = ["write_report"]
