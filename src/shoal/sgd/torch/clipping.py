"""The sum of a batch's gradients, each clipped to the same length over all parameters together."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from shoal.errors import NotFiniteError, ParameterError
from shoal.sgd.torch.book_keeping import BookKeeping, Part, UnfitError
from shoal.sgd.torch.examples import Batch, Examples
from shoal.sgd.torch.loss import Loss
from shoal.sgd.torch.per_example import PerExample

__all__ = ["Clipping"]

_TRIAL = 3


class Clipping:
    """Sums of clipped gradients: by book-keeping where the model allows it, else with every example's gradient formed.

    Parameters
    ----------
    model, loss, trained : as for `BookKeeping`.
    clip_norm : the largest length of a gradient.
    virtual_batch_size : so many examples are computed at once; all of a batch, or as many as fit, if it is None.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        trained: dict[str, nn.Parameter],
        *,
        clip_norm: float,
        virtual_batch_size: int | None = None,
    ) -> None:
        self._model, self._loss, self._trained = model, loss, trained
        self._clip_norm, self._virtual = clip_norm, virtual_batch_size
        self._formed = PerExample(model, loss, trained)
        self._books: BookKeeping | None = None
        self.why = ""
        try:
            self._books = BookKeeping(model, loss, trained)
        except UnfitError as error:
            self.why = str(error)

    @property
    def route(self) -> str:
        """How gradients are clipped: "book-keeping" or "per-example"; `why` says why not the former."""
        return "per-example" if self._books is None else "book-keeping"

    def total(
        self, batch: Batch, *, scale: float = 1.0, room: list[Tensor] | None = None
    ) -> tuple[list[Tensor], float]:
        """Return the sum of clipped gradients times `scale`, parameter by parameter, and the mean loss of the batch.

        The sums are put into `room`, one tensor a parameter, if it is given.

        Raises
        ------
        NotFiniteError
            if the gradient of an example is not a number, with the index of the example.
        """
        sums = [torch.empty_like(each) for each in self._trained.values()] if room is None else room
        losses = 0.0
        start = 0
        while start < len(batch):
            size = self._virtual or (len(batch) if self._books else self._formed.most)
            here = slice(start, min(start + size, len(batch)))
            part = self._part(tuple(value[here] for value in batch.inputs), batch.target[here])
            if not math.isfinite(part.squares.sum().item()):
                self._complain(part, batch.indices[here])
            weights = part.squares.rsqrt().mul_(self._clip_norm * scale).clamp_max_(scale)
            here_only = sums if start == 0 else [torch.empty_like(each) for each in sums]
            part.totals(weights.to(part.losses.dtype), here_only)
            if start:
                for whole, more in zip(sums, here_only, strict=True):
                    whole.add_(more)
            losses += part.losses.sum().item()
            start = here.stop
        return sums, losses / len(batch)

    def _part(self, inputs: tuple[Tensor, ...], target: Tensor) -> Part:
        if self._books is not None:
            try:
                return self._books.part(inputs, target)
            except UnfitError as error:
                self._books, self.why = None, str(error)
        return self._formed.part(inputs, target)

    def _complain(self, part: Part, indices: np.ndarray) -> None:
        bad = torch.nonzero(~torch.isfinite(part.squares)).flatten().tolist()
        all_of = "; all of its batch, so the model may have diverged" if len(bad) == len(indices) > 1 else ""
        raise NotFiniteError(
            f"the gradient of example {indices[bad[0]]} is not finite{all_of}. Nothing was spent or changed: look at "
            "the example for missing or huge values, or make the learning rate smaller"
        )

    def try_out(self, examples: Examples) -> None:
        """Refuse models that mix examples or keep statistics; find out which route is right. Nothing is changed."""
        indices = np.arange(_TRIAL) % examples.count
        inputs, target = examples.load(indices)
        with self._untouched():
            mixed = self._first_loss(inputs, target)
            first = [value[:1].expand_as(value).contiguous() for value in (*inputs, target)]
            alone = self._first_loss(tuple(first[:-1]), first[-1])
            if not torch.allclose(mixed, alone, rtol=1e-5, atol=1e-6, equal_nan=True):
                raise ParameterError(
                    "the loss of an example depends on the other examples of its batch, so no gradient is its own; "
                    "remove what mixes examples: statistics of the batch, or operations along its first axis"
                )
            if self._books is not None:
                try:
                    self._books.check(inputs, target)
                except UnfitError as error:
                    self._books, self.why = None, str(error)
            if self._books is None:
                self._try_formed(inputs, target)

    def _first_loss(self, inputs: tuple[Tensor, ...], target: Tensor) -> Tensor:
        with _same_randomness(target.device), torch.no_grad():
            return self._loss(self._model(*inputs), target)[0]

    def _try_formed(self, inputs: tuple[Tensor, ...], target: Tensor) -> None:
        try:
            self._formed.part(inputs, target)
        except ParameterError:
            raise
        except Exception as error:
            kinds = sorted({type(module).__name__ for module in self._model.modules() if not list(module.children())})
            raise ParameterError(
                f"torch.func cannot differentiate this model example by example ({str(error).splitlines()[0]}); its "
                f"layers are {', '.join(kinds)}. Recurrent layers, choices that depend on an example, and operations "
                "in place are the usual reasons: use others, torch.where, and operations out of place"
            ) from error

    @contextmanager
    def _untouched(self) -> Iterator[None]:
        """Leave random numbers and buffers as they were, and refuse a model that changes its buffers."""
        before = [(name, each, each._version, each.clone()) for name, each in self._model.named_buffers()]
        with _same_randomness(next(iter(self._trained.values())).device):
            yield
        now = dict(self._model.named_buffers())
        changed = []
        for name, buffer, version, value in before:
            if now[name] is not buffer or (buffer._version != version and not torch.equal(buffer, value)):
                changed.append(name)
                now[name].data.copy_(value)
        if changed:
            raise ParameterError(
                f"the model changes {', '.join(changed)} as it runs, without noise; use layers that keep no statistics"
            )


def _same_randomness(device: torch.device) -> AbstractContextManager[None]:
    """Put random numbers back afterwards."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])
