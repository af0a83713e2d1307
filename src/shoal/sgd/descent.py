"""The training loop of linear models: draw the steps, clip, charge, add noise, step.

There is one loop, wherever the noise is added: on the sum of a batch, by a trainer who sees the gradients; or on every
example's own gradient, by a client who sends nothing else (the local model). The `Run` says which.
"""

import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import NotFiniteError
from shoal.progress import progress
from shoal.sgd.account import Account
from shoal.sgd.gradient_noise import Noise, margin_for, noised
from shoal.sgd.linear_model import Floats, LinearModel
from shoal.sgd.progress_label import ProgressLabel
from shoal.sgd.sampler import Indices

__all__ = ["Descent", "TrainingData"]

Labels = NDArray[np.intp]

_CHUNK = 1 << 18
"""About how many numbers are gathered or drawn at once."""
_MARKS = 100
"""About how often the loss is noted."""
_DECAY = 20.0
"""The learning rate falls with 1/√(1 + 20·t), where t is the part of the steps that is done."""


class _Chunk(NamedTuple):
    """The examples of some steps, one after the other, and where each step ends."""

    rows: Floats
    lengths: Floats
    labels: Labels
    target: Floats
    ends: list[int]


class TrainingData:
    """Rows and labels, gathered in the order of training some steps at a time.

    Parameters
    ----------
    rows : numpy.ndarray
        The features, one row for each example.
    lengths : Floats
        |x| of each, with the 1 of an intercept.
    labels : numpy.ndarray
        The index of each example's class.
    scores : int
        How many scores the model has: 1 for two classes.
    """

    def __init__(self, rows: NDArray[Any], lengths: Floats, labels: Labels, scores: int) -> None:
        self._rows, self._lengths, self._labels = rows, lengths, labels
        self._classes = np.arange(scores)[:, None] if scores > 1 else np.ones((1, 1), np.intp)

    def gather(self, batches: list[Indices]) -> _Chunk:
        """Return the examples of these batches."""
        indices = np.concatenate(batches)
        labels = self._labels.take(indices)
        return _Chunk(
            self._rows.take(indices, axis=0).astype(np.float64, copy=False),
            self._lengths.take(indices),
            labels,
            (labels == self._classes).astype(np.float64),
            np.cumsum([len(batch) for batch in batches]).tolist(),
        )


class Descent:
    """Noisy gradient descent on a linear model, in place.

    Parameters
    ----------
    model : LinearModel
        To be trained.
    account : Account
        Has the run, and is charged for every epoch before its first noise is drawn.
    key : bytes
        32 secret bytes, which draws and noise come from.
    rate : float
        The learning rate of the first step.
    penalty : float
        λ of a penalty λ/2·|weights|².
    average : bool
        Whether the models of the second half of the steps are averaged.
    """

    def __init__(
        self, model: LinearModel, account: Account, *, key: bytes, rate: float, penalty: float, average: bool
    ) -> None:
        run = account.run
        self.model, self.done = model, 0
        self._account, self._run, self._key = account, run, key
        self._rate, self._penalty, self._average = rate, penalty, average
        self._steps = run.steps * run.epochs
        self._sum, self._averaged = np.zeros_like(model.flat), 0
        self._noise, self._normals, self._vector = Noise(key=key), np.empty((0, 0)), 0
        self._deviation = run.seen_multiplier * run.clip_norm
        # For as many as there can be, and not for as many as there are, which nobody may know.
        together = run.sampler.largest(run, account.delta) if run.sums_only else 1
        self._margin = margin_for(together, single=False, parameters=model.flat.size)

    @property
    def weights(self) -> Floats:
        """The result: the mean of the models of the second half of all steps, or the last model."""
        return self._sum / self._averaged if self._average else self.model.flat

    def train(
        self,
        data: TrainingData,
        *,
        curve: list[tuple[int, float]],
        held_out: tuple[Floats, Labels] | None = None,
        track_loss: bool = False,
        verbose: bool = False,
    ) -> Floats:
        """Make all epochs, and return the result.

        Parameters
        ----------
        data : TrainingData
            The examples.
        curve : list of (int, float)
            Gets pairs of steps done and mean loss.
        held_out : tuple, optional
            Rows and labels whose loss is noted.
        track_loss : bool
            Whether, without those, the loss of the next examples is noted.
        verbose : bool
            Whether a line is written to standard error after every epoch.
        """
        run, model = self._run, self.model
        features, vectors = model.weights.shape[1], 1 if run.sums_only else run.batch_size
        width = max(1, _CHUNK // max(run.batch_size * features, vectors * model.flat.size))
        every = max(1, self._steps // _MARKS)
        noted = held_out is not None or track_loss
        if noted:
            width = min(width, every)
        chunks, label = run.epochs * -(-run.steps // width), ProgressLabel(self._account, curve)
        for epoch, first, batches in progress(self._drawn(width), total=chunks, label=label):
            chunk = data.gather(batches)
            if noted and self.done >= every * len(curve) and (held_out or len(chunk.labels)):
                curve.append((self.done, model.loss(*(held_out or (chunk.rows, chunk.labels)))))
            if first == 0:
                self._vector = 0
            for total in self._noised_sums(chunk, epoch):
                self.step(total)
            if not math.isfinite(model.flat.sum()):  # which says no more than the noised sums do
                raise NotFiniteError(
                    f"the weights are not finite; {self._account.epochs:,} epochs had begun. Lower the "
                    "learning rate, or scale the features"
                )
            if verbose and first + len(batches) == run.steps:
                sys.stderr.write(f"{label}\n")
        if held_out is not None:
            model.flat[:] = self.weights
            curve.append((self.done, model.loss(*held_out)))
        return self.weights

    def _drawn(self, width: int) -> Iterator[tuple[int, int, list[Indices]]]:
        """Yield the epoch, the first step and the batches of some steps at a time."""
        for epoch in range(self._run.epochs):
            batches = self._run.batches(key=self._key, epoch=epoch)
            for first in range(0, self._run.steps, width):
                yield epoch, first, batches[first : first + width]

    def _noised_sums(self, chunk: _Chunk, epoch: int) -> Iterator[Floats]:
        """Yield the noised sum of every step, at the model as it is when the sum is asked for."""
        start, height = 0, max(1, _CHUNK // self.model.flat.size)
        for step, end in enumerate(chunk.ends):
            if self._run.sums_only:
                yield self._noised(chunk, slice(start, end), epoch, min(height, len(chunk.ends) - step))[0]
            else:
                total = np.zeros_like(self.model.flat)
                for low in range(start, end, height):
                    part = slice(low, min(low + height, end))
                    total += self._noised(chunk, part, epoch, min(height, chunk.ends[-1] - low)).sum(axis=0)
                yield total
            start = end

    def _noised(self, chunk: _Chunk, part: slice, epoch: int, ahead: int) -> Floats:
        """Return the vectors of some examples, clipped and noised: one for their sum, or one for each of them.

        Noise is drawn for `ahead` vectors at once, for a sum without examples too. An epoch is charged before that.
        """
        rows, lengths, target = chunk.rows[part], chunk.lengths[part], chunk.target[:, part]
        if self._run.sums_only:
            vectors = self.model.clipped_sum(rows, lengths, target, clip_norm=self._run.clip_norm)[None]
        else:
            vectors = self.model.clipped_gradients(rows, lengths, target, clip_norm=self._run.clip_norm)
        if self._account.epochs == epoch:
            self._account.charge()
        count, size = vectors.shape
        if not len(self._normals):
            self._normals = self._noise.table(size, epoch=epoch, first_step=self._vector, steps=ahead)
        normals, self._normals = self._normals[:count], self._normals[count:]
        self._vector += count
        return noised(vectors, normals, deviation=self._deviation, margin=self._margin)

    def step(self, total: Floats) -> None:
        """Take a step along a noised sum. It is divided by b, however many examples are in it."""
        now = self._rate / math.sqrt(1 + _DECAY * self.done / self._steps)
        total *= now / self._run.batch_size
        self.model.flat -= total
        if self._penalty:
            self.model.weights /= 1 + now * self._penalty
        self.done += 1
        if self._average and 2 * self.done > self._steps:
            self._sum += self.model.flat
            self._averaged += 1
