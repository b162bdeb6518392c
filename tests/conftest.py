"""Set-up of all tests."""

import os

# Before PyTorch is loaded: workers share the cores, and each would start a thread for every core.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
