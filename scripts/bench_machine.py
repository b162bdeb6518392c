"""What a benchmark ran on."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import md_gie


def commit() -> str:
    """Commit of the checkout that holds this script, or that which an export names."""
    folder = Path(__file__).parent
    exported = folder.parent / "COMMIT"
    if exported.exists():
        return exported.read_text().strip()
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.strip()


def gpu() -> dict[str, Any]:
    """GPU and versions."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": version("triton"),
        "md_gie": md_gie.__version__,
        "commit": commit(),
    }
