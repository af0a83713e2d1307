"""Discs of complex s, and rays of complex t that serve all s of a disc: what integrals of normal noise are made of."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Disc", "Ray"]

_NOTHING = 90.0
"""Nodes with less than exp(−90) of the largest e^{sW} of a ray are left out."""

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class Disc(NamedTuple):
    """Discs of s on one half of the blanket at one ε, each with the path of t that serves it.

    Attributes
    ----------
    centres, radii : numpy.ndarray
        Of the discs.
    edges, angles : numpy.ndarray
        At which edge the path leaves the real axis, and into which direction.
    starts, gains : numpy.ndarray
        W = start + gain·(t − 1); the gain is −1 on the other half.
    """

    centres: Complex
    radii: Array
    edges: NDArray[np.int64]
    angles: Array
    starts: Array
    gains: Array

    def chosen(self, kept: NDArray[np.int64]) -> "Disc":
        """Return some of them."""
        return Disc(
            self.centres[kept],
            self.radii[kept],
            self.edges[kept],
            self.angles[kept],
            self.starts[kept],
            self.gains[kept],
        )


class Ray(NamedTuple):
    """Nodes of a ray: W, weights with the density, and bounds for all s of the disc.

    Attributes
    ----------
    values, weights : numpy.ndarray
        W at the nodes, and the density times the weights; a row for each disc.
    wrong : numpy.ndarray
        By how much the sum may differ from the integral of e^{sW}.
    slopes : numpy.ndarray
        A bound of the integral of |e^{sW}| times the derivative of the density.
    sizes, squares : tuple of numpy.ndarray
        Bounds of the integrals of |e^{sW}| and of |W²e^{sW}|, for the disc and for one of half its radius.
    """

    values: Complex
    weights: Complex
    wrong: Array
    slopes: Array
    sizes: tuple[Array, Array]
    squares: tuple[Array, Array]

    def chosen(self, kept: NDArray[np.int64] | slice) -> "Ray":
        """Return some of them."""
        sizes, squares = ((both[0][kept], both[1][kept]) for both in (self.sizes, self.squares))
        return Ray(self.values[kept], self.weights[kept], self.wrong[kept], self.slopes[kept], sizes, squares)

    def powers(self, centres: Complex) -> Complex:
        """Return e^{sW} at the nodes times their weights, for one s of each row."""
        return np.asarray(self.weights * np.exp(centres[:, None] * self.values))

    def sums(self, centres: Complex, steps: Complex, nodes: Array) -> tuple[Complex, Array]:
        """Return the sums of e^{sW} along each ray at s = centre + step·node, and how wrong that makes them.

        The nodes are those of an even rule, ascending: e^{−dW} is the inverse of e^{dW}.
        """
        powers, sums = self.powers(centres), np.empty((len(centres), len(nodes)), dtype=np.complex128)
        far = (centres[:, None] * self.values).real + np.abs(steps)[:, None] * np.abs(self.values)
        top = far.max(axis=1)
        gone = far < top[:, None] - _NOTHING
        lost = np.where(gone, np.abs(self.weights), 0.0).sum(axis=1) * np.exp(top - _NOTHING) * 1.01
        powers, values = np.where(gone, 0.0, powers), np.where(gone, 0.0, self.values)
        plain = ~((steps.imag != 0) | values.imag.any(axis=1) | powers.imag.any(axis=1))
        moves = np.multiply.outer(steps, nodes[len(nodes) // 2 :])
        for rows, real in ((np.flatnonzero(~plain), False), (np.flatnonzero(plain), True)):
            # Real numbers are faster.
            parts = [part[rows].real if real else part[rows] for part in (moves, values, powers)]
            growths = np.exp(parts[0][:, :, None] * parts[1][:, None, :])
            after, before = (each @ parts[2][:, :, None] for each in (growths, 1 / growths))
            sums[rows] = np.concatenate((before[:, ::-1, 0], after[:, :, 0]), axis=1)
        return sums, lost
