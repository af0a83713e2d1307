"""A linear model of class scores: the gradient of an example is (p − y)·xᵀ, and its length |p − y|·|x|.

So a batch is clipped without any gradient of its own for an example: the sum is a product of two matrices. A gradient
that is not finite counts as zero.
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "LinearModel"]

Floats = NDArray[np.float64]


class LinearModel:
    """Scores that are linear in the features: one for two classes, else one for each class.

    Parameters
    ----------
    scores : int
        k, how many scores an example has.
    features : int
        d.
    intercept : bool
        Whether a constant is added to each score.

    Examples
    --------
    >>> model = LinearModel(scores=1, features=2, intercept=False)
    >>> rows, lengths, target = np.array([[3.0, 4.0], [0.6, 0.0]]), np.array([5.0, 0.6]), np.array([[1.0, 0.0]])
    >>> model.clipped_gradients(rows, lengths, target, clip_norm=1).round(2).tolist()
    [[-0.6, -0.8], [0.3, 0.0]]
    >>> model.clipped_sum(rows, lengths, target, clip_norm=1).round(2).tolist()
    [-0.3, -0.8]
    """

    def __init__(self, *, scores: int, features: int, intercept: bool) -> None:
        size = scores * features
        self.flat = np.zeros(size + scores * intercept)
        self.weights = self.flat[:size].reshape(scores, features)
        self.constants = self.flat[size:, None] if intercept else None
        self._sum = np.empty_like(self.flat)
        self.not_finite = 0
        """How many gradients were not finite, and counted as zero; a number that tells of the data."""

    def scores(self, rows: Floats) -> Floats:
        """Return the scores, one column for each example."""
        scores: Floats = self.weights @ rows.T
        if self.constants is not None:
            scores += self.constants
        return scores

    def residuals(self, rows: Floats, target: Floats) -> Floats:
        """Return probabilities less truth, one column for each example; the target is 1 for the true class, else 0."""
        values = self.scores(rows)
        if len(values) == 1:
            values *= 0.5
            np.tanh(values, out=values)
            values *= 0.5
            values += 0.5
        else:
            values -= values.max(axis=0)
            np.exp(values, out=values)
            values /= values.sum(axis=0)
        values -= target
        return values

    def clipped_sum(self, rows: Floats, lengths: Floats, target: Floats, *, clip_norm: float) -> Floats:
        """Return the sum of the examples' gradients, each clipped to the norm; it holds until the next call.

        Parameters
        ----------
        rows : Floats
            The examples.
        lengths : Floats
            |x| of each, with the 1 of the intercept.
        target : Floats
            One column for each example: 1 for its class and 0 for others.
        clip_norm : float
            C.
        """
        residuals = self._clipped_residuals(rows, lengths, target, clip_norm)
        size = self.weights.size
        np.matmul(residuals, rows, out=self._sum[:size].reshape(self.weights.shape))
        if self.constants is not None:
            residuals.sum(axis=1, out=self._sum[size:])
        return self._sum

    def clipped_gradients(self, rows: Floats, lengths: Floats, target: Floats, *, clip_norm: float) -> Floats:
        """Return every example's own gradient, clipped to the norm, one row for each; arguments as of `clipped_sum`."""
        residuals = self._clipped_residuals(rows, lengths, target, clip_norm).T
        size = self.weights.size
        gradients = np.empty((len(rows), self.flat.size))
        of_weights = gradients[:, :size].view()
        of_weights.shape = (len(rows), *self.weights.shape)  # unlike reshape, this never copies
        np.multiply(residuals[:, :, None], rows[:, None, :], out=of_weights)
        if self.constants is not None:
            gradients[:, size:] = residuals
        return gradients

    def _clipped_residuals(self, rows: Floats, lengths: Floats, target: Floats, clip_norm: float) -> Floats:
        residuals = self.residuals(rows, target)
        norms = np.abs(residuals[0]) if len(residuals) == 1 else np.sqrt((residuals * residuals).sum(axis=0))
        norms *= lengths
        if not math.isfinite(norms.sum()):
            bad = ~np.isfinite(norms)
            self.not_finite += int(bad.sum())
            residuals[:, bad] = 0.0  # and not a factor of 0, which would leave what is not a number
            norms[bad] = 0.0
        np.maximum(norms, clip_norm, out=norms)
        residuals *= np.divide(clip_norm, norms, out=norms)
        return residuals

    def loss(self, rows: Floats, labels: NDArray[np.intp]) -> float:
        """Return the mean of −ln of the probability of the true class, by its index."""
        scores = self.scores(rows)
        if len(scores) == 1:
            return float(np.logaddexp(0, np.where(labels, -scores[0], scores[0])).mean())
        scores -= scores.max(axis=0)
        return float((np.log(np.exp(scores).sum(axis=0)) - scores[labels, np.arange(len(labels))]).mean())
