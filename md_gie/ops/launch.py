"""Which tensors Triton kernels serve, and what their launches share; imports no Triton itself."""

import importlib
import importlib.util
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from types import ModuleType

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.float64, torch.bfloat16)
"""Floating dtypes that the kernels take; bfloat16 is accumulated in float32."""

TAIL_PROGRAMS = 64
"""Programs that clear the gradients of padding edges."""


@lru_cache(maxsize=1)
def has_triton() -> bool:
    """Whether Triton is installed; on AMD's GPUs the kernels were never tried, and do not count."""
    return importlib.util.find_spec("triton") is not None and torch.version.hip is None


def is_served(tensor: Tensor) -> bool:
    """Whether the device and dtype of a tensor are among those of the Triton kernels."""
    return tensor.is_cuda and tensor.dtype in DTYPES and has_triton()


def implementation(package: str, tensor: Tensor) -> ModuleType:
    """Choose the module ``gpu`` or ``cpu`` of an operator's package for a tensor."""
    return importlib.import_module(f"{package}.{'gpu' if is_served(tensor) else 'cpu'}")


def device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Make the tensor's GPU current: Triton launches on the current one."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def power_of_2(n: int) -> int:
    """Smallest power of 2 that is not below ``n``."""
    return 1 << max(0, n - 1).bit_length()
