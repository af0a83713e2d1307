"""E[e^{sW}] − 1 of the blanket of normal noise for complex s, where it has no moments: along rays in the plane of t.

With t the likelihood ratio, W/e^ε = W₀ + g·(t − 1), W₀ = e^{−ε} − 1, and g is e^{−ε} on one half of the blanket and −1
on the other. The density of t is analytic, so that the integral may leave the real axis at any t_L and go on along a
ray on which e^{sW} falls (docs/theory/numerics.md, section 2.7). Up to t_L it is a power series in s, with moments
that do not depend on ε. Every integral comes with a bound of its error that holds for all s of a disc.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.losses.complex_near_zero import expm1
from shoal.rounding import slack

__all__ = ["LARGEST", "USUAL", "Disc", "NormalRays", "Ray", "falling", "normal_rays", "rule"]

_ELLIPSE = 2 + math.sqrt(3)
"""The sum of the half axes of the ellipse in which integrands are bounded; it lies in a disc of twice the length."""
_TERMS, _FEW = 160, 24
LARGEST, USUAL = 60.0, 2.5
"""Up to where the power series is used, for positive s and for others."""
_MOMENTS, _ALONG = 12, 10
"""Nodes a panel: of the moments, and of a ray."""
_PANELS = 20
_CELLS = 4
"""Panels of a ray, and into how many cells each is divided where only a bound is asked for."""
_NOTHING, _CALM = 55.0, 9.0
"""Exponents: of what is left out, and of what is not worth a detour."""
_FARTHER = 16.0
"""How many deviations beyond t = 1 the moments reach."""

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


@lru_cache(maxsize=16)
def rule(count: int) -> tuple[Array, Array, float]:
    """Return Gauss's nodes and weights on [−1, 1], and what the error is at most, times the largest value."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights, 64 / 15 * _ELLIPSE ** (-2 * count) / (1 - _ELLIPSE**-2)


class Disc(NamedTuple):
    """Discs of s, each with the paths of t that serve it.

    Attributes
    ----------
    centres, radii : numpy.ndarray
        Of the discs.
    upper, lower : numpy.ndarray
        At which edge the path leaves the real axis, on the half with g > 0 and on the other.
    angles : tuple of numpy.ndarray
        Into which direction, on either half.
    """

    centres: Complex
    radii: Array
    upper: NDArray[np.int64]
    lower: NDArray[np.int64]
    angles: tuple[Array, Array]

    def chosen(self, kept: NDArray[np.int64]) -> "Disc":
        """Return some of them."""
        angles = self.angles[0][kept], self.angles[1][kept]
        return Disc(self.centres[kept], self.radii[kept], self.upper[kept], self.lower[kept], angles)


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


class _Real(NamedTuple):
    """Moments of t − 1 up to each edge: those of order k are divided by the edge's own t − 1, to the power of k."""

    edges: Array
    reach: Array
    scaled: Array
    wrong: Array
    widest: Array
    rounding: Array
    beyond: Array
    excess: Array


@dataclass(frozen=True)
class NormalRays:
    """The transform of W for normal noise of this deviation, at any ε.

    Attributes
    ----------
    deviation : float
        σ.
    """

    deviation: float

    @property
    def half(self) -> float:
        """Where t is one, in deviations of the noise: 1/(2σ)."""
        return 0.5 / self.deviation

    def heights(self, logs: Array) -> Array:
        """Return the density of log t on one half of the blanket."""
        return np.asarray(
            self.deviation / math.sqrt(2 * math.pi) * np.exp(-0.5 * (self.half + self.deviation * logs) ** 2)
        )

    @cached_property
    def real(self) -> _Real:
        """The moments on the real axis."""
        width = min(0.5, 1 / self.deviation)
        count = math.ceil(_FARTHER / self.deviation / width)
        edges = np.asarray(width * np.arange(count + 1), dtype=np.float64)
        nodes, weights, error = rule(_MOMENTS)
        logs = edges[:-1, None] + width / 2 * (1 + nodes)
        reach = np.expm1(edges)
        masses = self.heights(logs) * weights * (width / 2)
        ratios = np.expm1(logs) / reach[1:, None]
        parts = np.empty((count, _TERMS))
        for order in range(_TERMS):
            parts[:, order] = masses.sum(axis=1)
            masses = masses * ratios
        scaled = np.zeros((count + 1, _TERMS))
        orders = np.arange(_TERMS)
        for index in range(count):
            shrink = reach[index] / reach[index + 1]
            scaled[index + 1] = scaled[index] * shrink**orders + parts[index]
        # Within a disc of twice half a panel around its middle.
        middles = edges[:-1] + width / 2
        places = self.half + self.deviation * middles
        tops = self.heights(middles) * np.exp(self.deviation * places * width + 0.5 * (self.deviation * width) ** 2)
        widest = np.expm1(middles + width)
        doubts = error * width / 2 * tops * 1.01
        rounding = slack(512) * (8 + (places + self.deviation * width) ** 2) * self.heights(edges[:-1]) * width
        spots = self.half + self.deviation * edges
        beyond = np.array([0.5 * math.erfc(spot / math.sqrt(2)) for spot in spots.tolist()])
        excess = np.array([0.5 * math.erfc((spot - 1 / self.deviation) / math.sqrt(2)) for spot in spots.tolist()])
        return _Real(edges, reach, scaled, doubts, widest, rounding, beyond, excess)

    def edge(self, reach: Array) -> NDArray[np.int64]:
        """Return the last edge at which t − 1 is at most this."""
        return np.asarray(np.searchsorted(self.real.reach, reach, side="right") - 1)

    def far(self, speeds: Array) -> NDArray[np.int64]:
        """Return the edge beyond which the density times e^{speed·(t − 1)} is nothing; or zero, if it grows large."""
        real = self.real
        places = self.half + self.deviation * real.edges
        pushed = np.multiply.outer(speeds, real.reach)
        exponents = pushed - 0.5 * (places**2 - self.half**2)
        after = exponents < -_NOTHING
        found = np.argmax(after, axis=1)
        inner = np.arange(len(real.edges)) <= found[:, None]
        calm = after.any(axis=1) & (np.where(inner, exponents, -math.inf).max(axis=1) <= _CALM)
        calm &= np.take_along_axis(pushed, found[:, None], axis=1)[:, 0] <= 0.7 * LARGEST
        return np.where(calm, found, 0)

    def on_axis(
        self,
        points: Complex,
        start: float,
        gain: float,
        edges: NDArray[np.int64],
        *,
        plain: NDArray[np.bool_],
        around: Array | float = 0.0,
    ) -> tuple[Complex, Array]:
        """Return ∫ (e^{sW} − 1 − sW) up to the edge, less ∫ (1 + sW) beyond it; and how wrong that may be.

        Points have one row for each edge. In `plain` rows, return ∫ e^{sW} up to the edge, which may be much
        smaller. The error holds for all s that are no farther than `around` from the points.
        """
        real = self.real
        table, reach = real.scaled[edges], real.reach[edges][:, None]
        pushed, shifted = points * gain, points * start
        moves = pushed * reach
        terms = _terms(moves)
        total = np.zeros(points.shape, dtype=np.complex128)
        for order in range(terms - 1, 1, -1):
            total = (total + table[:, order, None]) * (moves / order)
        # The loop has multiplied by moves/order once too often for order 2: the sum is Σ m_k·u^{k−1}·1!/k!.
        total = total * moves
        first = table[:, 0, None]
        second = table[:, 1, None] * reach
        growth, grown = np.exp(shifted), expm1(shifted)
        bent = _bent(shifted)
        beyond, excess = real.beyond[edges][:, None], real.excess[edges][:, None]
        value = bent * first + grown * pushed * second + growth * total
        value = value - beyond - points * (start * beyond + gain * (excess - beyond))
        # |e^w − 1 − w| ≤ e^{|w|}·min(|w|²/2, 2 + |w|), panel by panel, for the largest s of a row.
        size = (np.abs(points).max(axis=1) + around)[:, None]
        lowest = np.where(plain[:, None], shifted.real, np.maximum(shifted.real, 0.0)).max(axis=1)[:, None]
        lowest = lowest + np.reshape(around * np.abs(start), (-1, 1))
        inner = np.arange(len(real.widest)) < edges[:, None]
        wrong = np.zeros((len(points), 1))
        for reaches, doubts in ((real.widest, real.wrong), (real.reach[1:], real.rounding)):
            far = size * abs(gain) * reaches
            whole = far + size * abs(start)
            sizes = np.where(plain[:, None], 1.0, np.minimum(whole**2 / 2, 2 + whole))
            parts = np.exp(np.minimum(far + lowest, 700.0)) * sizes * doubts
            wrong = wrong + np.where(inner, parts, 0.0).sum(axis=1)[:, None]
        places = self.half + self.deviation * real.edges[edges][:, None]
        tails = (
            slack(64)
            * (4 + places**2)
            * (beyond * (1 + np.abs(shifted) + np.abs(pushed)) + np.abs(pushed) * excess * (4 + 1 / self.deviation**2))
        )
        whole = growth * (first + pushed * second + total)
        return np.where(plain[:, None], whole, value), wrong + np.where(plain[:, None], 0.0, tails)

    def slopes(self, points: Complex, start: float, gain: float, edges: NDArray[np.int64]) -> Complex:
        """Return ∫ W·e^{sW} up to the edge, less ∫ W over all t; one point for each edge."""
        real = self.real
        first, second, _ = self._sums(points * (gain * real.reach[edges]), edges)
        whole = start * (real.scaled[-1, 0] + real.beyond[-1]) + gain * (real.excess[0] - real.beyond[0])
        return np.asarray(np.exp(points * start) * (start * first + gain * real.reach[edges] * second) - whole)

    def squares(self, points: Array, start: float, gain: float, edges: NDArray[np.int64]) -> Array:
        """Return ∫ W²·e^{xW} up to the edge, for real x; one point for each edge."""
        far = gain * self.real.reach[edges]
        first, second, third = self._sums(points * far, edges)
        return np.asarray(np.exp(points * start) * (start**2 * first + 2 * start * far * second + far**2 * third))

    def _sums(self, moves: Any, edges: NDArray[np.int64]) -> tuple[Any, Any, Any]:
        """Return Σ u^k/k!·m_{k+j} for j = 0, 1, 2, with moments as they are in the table."""
        terms = min(_terms(moves), _TERMS - 2)
        powers = np.empty((len(moves), terms), dtype=moves.dtype)
        powers[:, 0] = 1
        np.cumprod(moves[:, None] / np.arange(1, terms), axis=1, out=powers[:, 1:])
        table = self.real.scaled[edges]
        parts = [np.einsum("ij,ij->i", powers, table[:, shift : shift + terms]) for shift in range(3)]
        return parts[0], parts[1], parts[2]

    def along(self, discs: Disc, start: float, gain: float) -> Ray:
        """Return the ray of each disc, on one half of the blanket."""
        edges = discs.upper if gain > 0 else discs.lower
        angles = discs.angles[0 if gain > 0 else 1]
        size, speed = np.abs(discs.centres), abs(gain)
        turns = np.exp(1j * angles)
        first = 1 + self.real.reach[edges]
        points = first.astype(np.complex128)
        middles, lengths = [], []
        for _ in range(_PANELS):
            length = np.maximum(1.2 / (size * speed), 0.07 * np.abs(points - first))
            length = np.minimum(length, min(0.22, 0.35 / self.deviation) * np.abs(points))
            middles.append(points + length * turns)
            lengths.append(length)
            points = points + 2 * length * turns
        centre, half = np.stack(middles, axis=1), np.stack(lengths, axis=1)
        nodes, weights, error = rule(_ALONG)
        ratios = centre[:, :, None] + (half * turns[:, None])[:, :, None] * nodes
        logs = np.log(ratios)
        densities = self._densities(logs, ratios)
        flat = (len(edges), -1)
        steps = (half * turns[:, None])[:, :, None] * weights
        values = start + gain * (ratios - 1)
        # Bounds: in the middle of a panel, or of a part of it, times how much anything grows within a disc around it.
        top = self._top(discs, centre, start, gain)
        wrong = (error * half * top(discs.radii, 2 * half)).sum(axis=1) * 1.01
        cells = (np.arange(_CELLS) + 0.5) * (2 / _CELLS) - 1
        centre = (centre[:, :, None] + (half * turns[:, None])[:, :, None] * cells).reshape(flat)
        half = np.repeat(half / _CELLS, _CELLS, axis=1)
        top = self._top(discs, centre, start, gain)
        places = np.abs(self.half + self.deviation * np.log(centre))
        lengths = np.abs(start + gain * (centre - 1))
        largest = (size + discs.radii)[:, None] * lengths
        farthest = (lengths + speed * half) ** 2
        bounds = []
        for radii in (discs.radii, discs.radii / 2):
            covered = 2 * half * top(radii, half)
            rest, square, slope = self._rest(discs._replace(radii=radii), points, angles, start, gain)
            bounds.append((covered.sum(axis=1) + rest, (covered * farthest).sum(axis=1) + square))
            if radii is discs.radii:
                wrong = wrong + rest + (covered * slack(256) * (4 + places**2 + largest)).sum(axis=1)
                bends = covered * (1 + self.deviation * (places + 1.5 * self.deviation * half / np.abs(centre)))
                slopes = slope + (bends / (np.abs(centre) - half)).sum(axis=1)
        return Ray(
            values.reshape(flat),
            (densities * steps).reshape(flat),
            wrong,
            slopes,
            (bounds[0][0], bounds[1][0]),
            (bounds[0][1], bounds[1][1]),
        )

    def _top(self, discs: Disc, centre: Complex, start: float, gain: float) -> Callable[[Array, Array], Array]:
        """Return bounds of |e^{sW}| times the density, for s within radii and t within a reach of the centres."""
        values, logs = start + gain * (centre - 1), np.log(centre)
        exponents = (discs.centres[:, None] * values).real - 0.5 * ((self.half + self.deviation * logs) ** 2).real
        places, lengths, sizes = np.abs(self.half + self.deviation * logs), np.abs(values), np.abs(centre)
        heights = self.deviation / math.sqrt(2 * math.pi) / sizes

        def top(radii: Array, reach: Array) -> Array:
            turn = -np.log1p(-reach / sizes)
            pushed = (np.abs(discs.centres) + radii)[:, None] * (abs(gain) * reach) + radii[:, None] * lengths
            spread = turn * (1 + self.deviation * (places + 0.5 * self.deviation * turn))
            return np.asarray(np.exp(np.minimum(exponents + pushed + spread, 700.0)) * heights)

        return top

    def _densities(self, logs: Complex, ratios: Complex) -> Complex:
        exponents = -0.5 * (self.half + self.deviation * logs) ** 2
        return np.asarray(self.deviation / math.sqrt(2 * math.pi) * np.exp(exponents) / ratios)

    def _rest(
        self, discs: Disc, points: Complex, angles: Array, start: float, gain: float
    ) -> tuple[Array, Array, Array]:
        """Return bounds of the integrals beyond the last panel of each ray."""
        logs, values = np.log(points), start + gain * (points - 1)
        places = np.abs(self.half + self.deviation * logs)
        size, speed = np.abs(discs.centres), abs(gain)
        turned = np.cos(np.angle(discs.centres) + angles) * (1 if gain > 0 else -1)
        falls = speed * (-size * turned - discs.radii)  # how fast e^{sW} falls
        # The density does not grow any more where z·e^{iφ}/t has a positive real part; arg z is at most that below.
        ahead = np.abs(angles) - np.abs(np.angle(points))
        real = self.half + self.deviation * logs.real
        calm = (ahead <= math.pi / 2) & (real > 0)
        calm &= np.arctan2(self.deviation * np.abs(angles), real) + ahead <= math.pi / 2
        calm |= np.abs(angles) <= math.pi / 4 + 1e-9
        # Else it grows by no more than this; |t| is at least `least` times what it is here.
        least = np.where(ahead > math.pi / 2, np.sin(ahead), 1.0)
        steep = self.deviation * ((places + self.deviation * np.abs(angles)) / least + 0.5 * self.deviation)
        rates = np.where(calm, falls, falls - steep / np.abs(points))
        rates = np.where(rates > 0, rates, 1e-300) * 0.999
        ends = np.exp((discs.centres * values).real + discs.radii * np.abs(values))
        ends = ends * np.abs(self._densities(logs, points)) / least
        with np.errstate(over="ignore", invalid="ignore"):
            plain = ends / rates
            length = np.abs(values)
            squares = ends * (length**2 / rates + 2 * speed * length / rates**2 + 2 * speed**2 / rates**3)
            slopes = plain * (1 + self.deviation * (places + self.deviation)) / np.abs(points)
            grow = ends * self.deviation**2 / np.abs(points) ** 2 / rates**2
        return tuple(np.where(ends > 0, part, 0.0) for part in (plain, squares, slopes + grow))  # type: ignore[return-value]


def falling(points: Complex) -> tuple[Array, Array]:
    """Return the directions of the rays of either half along which e^{sW} falls."""
    turns = np.angle(points)
    return np.maximum(math.pi / 4, 3 * math.pi / 4 - turns), -np.clip(turns - math.pi / 4, 0, math.pi / 4)


@lru_cache(maxsize=32)
def normal_rays(deviation: float) -> NormalRays:
    """Return the transform for this deviation; its moments are computed once."""
    return NormalRays(deviation)


def _terms(moves: Complex) -> int:
    """Return how many terms of the series of e^u count, for the largest u; the rest is below its rounding."""
    return min(_TERMS, math.ceil(_FEW + 3.5 * float(np.abs(moves).max(initial=0.0))))


def _bent(z: Complex) -> Complex:
    """Return exp(z) − 1 − z, accurate where z is close to zero."""
    near = np.abs(z) < 0.5
    small = np.where(near, z, 0.0)
    total = np.zeros(z.shape, dtype=np.complex128)
    for order in range(16, 1, -1):
        total = (total + 1) * (small / order)
    return np.asarray(np.where(near, total * small, expm1(z) - z))
