"""The loss of a model on examples that are not protected."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from shoal.sgd.sampler import Indices
from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.examples import Examples

__all__ = ["Validation"]


class Validation:
    """Held-out examples, and the mean loss of a model on them.

    Nothing is changed by asking: the model is evaluated without gradients, and goes on as it was.

    Parameters
    ----------
    model, loss : nn.Module, Loss
        As for `BookKeeping`.
    examples : Examples
        The held-out data; the guarantee is not about them.
    together : int
        How many examples are computed at once.
    """

    def __init__(self, model: nn.Module, loss: Loss, examples: Examples, *, together: int) -> None:
        self._model, self._loss, self._examples, self._together = model, loss, examples, together

    def mean_loss(self, share: Callable[[Indices], Indices]) -> tuple[float, int]:
        """Return the mean loss of those that `share` leaves of all their indices, and how many they are."""
        chosen = share(np.arange(self._examples.count))
        modes: list[tuple[nn.Module, Any]] = [(module, module.training) for module in self._model.modules()]
        losses = []
        self._model.eval()
        try:
            with torch.no_grad():
                for start in range(0, len(chosen), self._together):
                    for group in self._examples.load(chosen[start : start + self._together]):
                        losses += self._loss(self._model(*group.inputs), group.target).double().tolist()
        finally:
            for module, mode in modes:
                module.training = mode
        return math.fsum(losses) / len(losses) if losses else math.nan, len(losses)
