"""Set-up of all tests."""

import os

# Before PyTorch is loaded. Threads that wait must not spin, or tests crawl on a busy machine; and
# workers share the cores, while each would start a thread for every core.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

# Without a GPU, Triton's interpreter runs the kernels; it must know before they load.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
