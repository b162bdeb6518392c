"""``python scripts/run_md.py CONFIG [options]`` is ``md-gie run CONFIG [options]``."""

import sys

from md_gie.cli import main

sys.exit(main(["run", *sys.argv[1:]]))
