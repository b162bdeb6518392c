"""Command line: ``md-gie COMMAND``; parses, calls, prints.

Each command is a file of its name with a function ``add`` that adds its parser. Heavy modules are
imported when a command needs them, so that ``--help`` answers at once.
"""

from md_gie.cli.program import main

__all__ = ["main"]
