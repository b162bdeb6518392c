"""``python -m md_gie`` is ``md-gie``."""

import sys

from md_gie.cli import main

if __name__ == "__main__":
    sys.exit(main())
