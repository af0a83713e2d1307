"""Discs of complex s, and rays of complex t that serve all s of a disc: what integrals of normal noise are made of."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Disc", "Ray"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class Disc(NamedTuple):
    """Discs of s on one half of the blanket at one ε or several, each with the path of t that serves it.

    Attributes
    ----------
    centres, radii : numpy.ndarray
        Of the discs.
    edges, angles : numpy.ndarray
        At which edge the path leaves the real axis, and into which direction.
    starts, gains : numpy.ndarray
        W = start + gain·(t − 1); the gain is −1 on the other half.
    ends : tuple of tuple of numpy.ndarray
        Other starts and gains, with the former between them: bounds hold for all of these.
    """

    centres: Complex
    radii: Array
    edges: NDArray[np.int64]
    angles: Array
    starts: Array
    gains: Array
    ends: tuple[tuple[Array, Array], ...] = ()

    def chosen(self, kept: NDArray[np.int64] | slice) -> "Disc":
        """Return some of them."""
        return Disc(
            self.centres[kept],
            self.radii[kept],
            self.edges[kept],
            self.angles[kept],
            self.starts[kept],
            self.gains[kept],
            tuple((starts[kept], gains[kept]) for starts, gains in self.ends),
        )

    def joined(self, other: "Disc") -> "Disc":
        """Return both, one after the other."""
        return Disc(
            np.concatenate((self.centres, other.centres)),
            np.concatenate((self.radii, other.radii)),
            np.concatenate((self.edges, other.edges)),
            np.concatenate((self.angles, other.angles)),
            np.concatenate((self.starts, other.starts)),
            np.concatenate((self.gains, other.gains)),
            tuple(
                (np.concatenate((one[0], two[0])), np.concatenate((one[1], two[1])))
                for one, two in zip(self.ends, other.ends, strict=True)
            ),
        )

    def values(self, ratios: Complex) -> list[Complex]:
        """Return W at these t of each disc, at both ends."""
        return [np.asarray(start[:, None] + gain[:, None] * (ratios - 1)) for start, gain in self._extremes]

    @property
    def _extremes(self) -> tuple[tuple[Array, Array], ...]:
        return self.ends or ((self.starts, self.gains),)

    @property
    def speeds(self) -> tuple[Array, Array]:
        """The least and the largest size of the gains."""
        sizes = [np.abs(gains) for _, gains in self._extremes]
        return np.minimum.reduce(sizes), np.maximum.reduce(sizes)


class Ray(NamedTuple):
    """Nodes of a ray: t − 1, weights with the density, and bounds for all s of the disc.

    Attributes
    ----------
    excess, weights : numpy.ndarray
        t − 1 at the nodes, and the density times the weights; a row for each disc.
    wrong : numpy.ndarray
        By how much the sum may differ from the integral of e^{sW}.
    slopes : numpy.ndarray
        A bound of the integral of |e^{sW}| times the derivative of the density.
    sizes, squares : tuple of numpy.ndarray
        Bounds of the integrals of |e^{sW}| and of |W²e^{sW}|, for the disc and for one of half its radius.
    """

    excess: Complex
    weights: Complex
    wrong: Array
    slopes: Array
    sizes: tuple[Array, Array]
    squares: tuple[Array, Array]

    def chosen(self, kept: NDArray[np.int64] | slice) -> "Ray":
        """Return some of them."""
        sizes, squares = ((both[0][kept], both[1][kept]) for both in (self.sizes, self.squares))
        return Ray(self.excess[kept], self.weights[kept], self.wrong[kept], self.slopes[kept], sizes, squares)
