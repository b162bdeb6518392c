"""Copies of other processes' atoms: positions and features to them, forces back to the owners."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from md_gie.calculators.lammps_bridge.halo_plan import Sending
from md_gie.ops.csr import segment_sum


class ProcessHalo:
    """The halo of one process; satisfies :class:`md_gie.model.halo.Halo`.

    Own atoms come first, then the copies, grouped by the process that owns them. All methods
    are collective: every process of the communicator calls them in the same order, with or
    without atoms. Messages pass through host memory, from the thread that calls.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm
    sending : Sending
        What this process sends.
    n_own : int
    device : torch.device
        Where features are.
    features : bool
        Whether features are exchanged between the layers of the model.

    Attributes
    ----------
    n_own, n_copies : int
    """

    def __init__(
        self,
        communicator: Any,
        sending: Sending,
        n_own: int,
        device: torch.device,
        *,
        features: bool,
    ) -> None:
        self._communicator = communicator
        self._sending = sending
        self._device = device
        self._features = features
        arriving = np.empty_like(sending.counts)
        communicator.Alltoall(sending.counts, arriving)
        self._sent, self._received = sending.counts, arriving
        self.n_own, self.n_copies = n_own, int(arriving.sum())
        # Sums over all copies of an atom in a fixed order: the same bits every time.
        order = np.argsort(sending.atoms, kind="stable")
        pointer = np.searchsorted(sending.atoms[order], np.arange(n_own + 1))
        self._atoms = torch.from_numpy(sending.atoms).to(device)
        self._order = torch.from_numpy(order).to(device)
        self._pointer = torch.from_numpy(pointer).to(device)

    @property
    def exchange(self) -> Callable[[Tensor], Tensor] | None:
        """Features (R, n_own, C) of own atoms to (R, N, C) of all rows; None if not exchanged."""
        return self._exchange if self._features else None

    def copy_positions(
        self, positions: NDArray[np.float64], cell: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Positions (N, 3) of own atoms and copies, from those of own atoms (n_own, 3)."""
        copies = positions[self._sending.atoms] + self._sending.images @ cell
        return np.concatenate([positions, self._swap(copies, self._sent, self._received)])

    def copy_numbers(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Whole numbers (N,) of own atoms and copies, such as types."""
        received = self._swap(numbers[self._sending.atoms], self._sent, self._received)
        return np.concatenate([numbers, received])

    def add_copies(self, values: Tensor) -> Tensor:
        """Values (n_own, K) of own atoms plus those of all their copies; from values (N, K)."""
        own, copies = values[: self.n_own], values[self.n_own :]
        return own + self._return(copies)

    def _exchange(self, features: Tensor) -> Tensor:
        out: Tensor = _Exchange.apply(features, self)  # type: ignore[no-untyped-call]
        return out

    def _send(self, values: Tensor) -> Tensor:
        """Values (n_own, ...) of own atoms to those of copies (n_copies, ...)."""
        leaving = values.index_select(0, self._atoms).cpu().numpy()
        return self._on_device(self._swap(leaving, self._sent, self._received))

    def _return(self, values: Tensor) -> Tensor:
        """Values (n_copies, ...) of copies, summed over the copies of each own atom."""
        returned = self._swap(values.cpu().numpy(), self._received, self._sent)
        ordered = self._on_device(returned).index_select(0, self._order)
        total: Tensor = segment_sum(ordered, self._pointer)
        return total

    def _on_device(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self._device)

    def _swap(
        self, values: NDArray[Any], leaving: NDArray[np.int64], arriving: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Rows of ``values``, grouped by receiver, for rows grouped by sender."""
        values = np.ascontiguousarray(values)
        received = np.empty((int(arriving.sum()), *values.shape[1:]), values.dtype)
        width = int(np.prod(values.shape[1:], dtype=np.int64)) * values.itemsize
        if width == 0:
            return received
        rows = _row_type(width)
        try:
            self._communicator.Alltoallv(
                [values, (leaving, _starts(leaving)), rows],
                [received, (arriving, _starts(arriving)), rows],
            )
        finally:
            rows.Free()
        return received


class _Exchange(torch.autograd.Function):
    """Features of own atoms for all rows; gradients of copies go back to the owners."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, halo: ProcessHalo) -> Tensor:
        ctx.halo = halo
        copies = halo._send(features.detach().transpose(0, 1))
        return torch.cat([features, copies.transpose(0, 1)], dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        halo: ProcessHalo = ctx.halo
        own, copies = gradients[0][:, : halo.n_own], gradients[0][:, halo.n_own :]
        return own + halo._return(copies.transpose(0, 1)).transpose(0, 1), None


def _row_type(width: int) -> Any:
    """MPI type of one row, so that counts are rows and stay below 2**31."""
    from mpi4py import MPI

    return MPI.BYTE.Create_contiguous(width).Commit()


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    starts: NDArray[np.int64] = np.cumsum(counts) - counts
    return starts
