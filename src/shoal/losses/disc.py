"""Discs of complex s, and rays of complex t that serve all s of a disc: what integrals of normal noise are made of."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Disc", "Ray"]

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

    def sums(self, points: Complex) -> Complex:
        """Return the sums of e^{sW} along each ray, at the points of its row."""
        sums = np.empty(points.shape, dtype=np.complex128)
        plain = ~(points.imag.any(axis=1) | self.values.imag.any(axis=1) | self.weights.imag.any(axis=1))
        rows = np.flatnonzero(~plain)
        powers = np.exp(points[rows][:, :, None] * self.values[rows][:, None, :])
        sums[rows] = (powers @ self.weights[rows][:, :, None])[:, :, 0]
        rows = np.flatnonzero(plain)  # real numbers are faster
        growths = np.exp(points.real[rows][:, :, None] * self.values.real[rows][:, None, :])
        sums[rows] = (growths @ self.weights.real[rows][:, :, None])[:, :, 0]
        return sums
