"""How commands end: exit statuses, and the one line of a complaint."""

import sys

UNPHYSICAL = 1
MISTAKE = 2
SIGNAL_BASE = 128


def complain(message: object, status: int) -> int:
    """Print a message to stderr and return the exit status."""
    print(f"md-gie: {message}", file=sys.stderr)
    return status
