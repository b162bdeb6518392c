"""Weights: a scoped view of a model's parameters, from which the boxes fold their constants."""

from collections.abc import Mapping

import torch
from torch import Tensor

ConstantKey = tuple[int, torch.dtype, torch.device]


class Weights:
    """Parameters of one box, by their names in the checkpoint without the box's prefix.

    Folding is differentiable, so that training sees the checkpoint's own parameters; inference
    folds once in float64 and casts the result.

    Parameters
    ----------
    parameters : mapping
        All parameters of the model, by full name.
    prefix : str
        Scope of this view, with its closing dot.
    constants : dict, optional
        Cache for the casts of constant tables; shared by all scopes of one model.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        prefix: str = "",
        constants: dict[ConstantKey, tuple[Tensor, Tensor]] | None = None,
    ) -> None:
        self._parameters = parameters
        self._prefix = prefix
        self._constants = {} if constants is None else constants
        self._network = parameters["descriptor.radial_basis.adam_freqs"]

    def __getitem__(self, name: str) -> Tensor:
        return self._parameters[self._prefix + name]

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._parameters

    def at(self, scope: str) -> "Weights":
        """Return the view of a box inside this one."""
        return Weights(self._parameters, f"{self._prefix}{scope}.", self._constants)

    def constant(self, table: Tensor) -> Tensor:
        """Cast a constant table to the network's dtype and device, once."""
        like = self._network
        key = (id(table), like.dtype, like.device)
        cached = self._constants.get(key)
        # The table is kept beside its cast: a number of a table that is gone may be given again.
        if cached is None or cached[0] is not table:
            cached = (table, table.to(dtype=like.dtype, device=like.device))
            self._constants[key] = cached
        return cached[1]
