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
from shoal.losses.normal_disc import Disc, Ray
from shoal.rounding import slack

__all__ = ["LARGEST", "USUAL", "NormalRays", "falling", "normal_rays", "rule"]

_ELLIPSE = 2 + math.sqrt(3)
"""The sum of the half axes of the ellipse in which integrands are bounded; it lies in a disc of twice the length."""
_TERMS, _FEW = 160, 24
LARGEST, USUAL = 60.0, 2.5
"""Up to where the power series is used, for positive s and for others."""
_MOMENTS = 12
"""Nodes a panel of the moments."""
_PANELS, _MORE, _WIDE = 20, 32, 3.0
"""Panels of a ray, and those for more noise than this, which has shorter ones."""
_CELLS = 3
"""Into how many cells each panel is divided where only a bound is asked for."""
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
        self, discs: Disc, points: Complex, *, plain: NDArray[np.bool_], around: Array | float = 0.0
    ) -> tuple[Complex, Array]:
        """Return ∫ (e^{sW} − 1 − sW) up to the edge, less ∫ (1 + sW) beyond it; and how wrong that may be.

        Points have one row for each disc. In `plain` rows, return ∫ e^{sW} up to the edge, which may be much
        smaller. The error holds for all s that are no farther than `around` from the points.
        """
        real, edges = self.real, discs.edges
        start, gain, level = discs.starts[:, None], discs.gains[:, None], plain[:, None]
        table, reach = real.scaled[edges], real.reach[edges][:, None]
        pushed, shifted = points * gain, points * start
        total = _series(table, pushed * reach)
        first = table[:, 0, None]
        second = table[:, 1, None] * reach
        growth, grown = np.exp(shifted), expm1(shifted)
        beyond, excess = real.beyond[edges][:, None], real.excess[edges][:, None]
        value = _bent(shifted, grown) * first + grown * pushed * second + growth * total
        value = value - beyond - points * (start * beyond + gain * (excess - beyond))
        # |e^w − 1 − w| ≤ e^{|w|}·min(|w|²/2, 2 + |w|), panel by panel, for the largest s of a row.
        size = (np.abs(points).max(axis=1) + around)[:, None]
        lowest = np.where(level, shifted.real, np.maximum(shifted.real, 0.0)).max(axis=1)[:, None]
        lowest = lowest + np.reshape(around * np.abs(discs.starts), (-1, 1))
        inner = np.arange(len(real.widest)) < edges[:, None]
        wrong = np.zeros((len(points), 1))
        for reaches, doubts in ((real.widest, real.wrong), (real.reach[1:], real.rounding)):
            far = size * np.abs(gain) * reaches
            whole = far + size * np.abs(start)
            sizes = np.where(level, 1.0, np.minimum(whole**2 / 2, 2 + whole))
            parts = np.exp(np.minimum(far + lowest, 700.0)) * sizes * doubts
            wrong = wrong + np.where(inner, parts, 0.0).sum(axis=1)[:, None]
        places = self.half + self.deviation * real.edges[edges][:, None]
        tails = (
            slack(64)
            * (4 + places**2)
            * (beyond * (1 + np.abs(shifted) + np.abs(pushed)) + np.abs(pushed) * excess * (4 + 1 / self.deviation**2))
        )
        whole = growth * (first + pushed * second + total)
        return np.where(level, whole, value), (wrong + np.where(level, 0.0, tails)).max(axis=1)

    def plainly(self, moves: Complex, edges: NDArray[np.int64]) -> Complex:
        """Return ∫ e^{u(t − 1)} up to each edge, at the u of its row."""
        table, steps = self.real.scaled[edges], moves * self.real.reach[edges][:, None]
        return np.asarray(table[:, 0, None] + table[:, 1, None] * steps + _series(table, steps))

    def bends(self, discs: Disc, *, parts: tuple[float, ...]) -> tuple[Complex, list[Array]]:
        """Return ∫ W·e^{sW} up to the edge, less ∫ W over all t, in the middle of each disc; and ∫ W²·e^{xW}.

        The latter is the larger one of those at both ends of the disc, or of a part of it.
        """
        real, far = self.real, discs.gains * self.real.reach[discs.edges]
        start = discs.starts
        first, second, _ = self._sums(discs.centres * far, discs.edges)
        mean = start * (real.scaled[-1, 0] + real.beyond[-1]) + discs.gains * (real.excess[0] - real.beyond[0])
        slopes = np.exp(discs.centres * start) * (start * first + far * second) - mean
        squares = []
        for part in parts:
            ends = []
            for side in (-part, part):
                points = discs.centres.real + side * discs.radii
                first, second, third = self._sums(points * far, discs.edges)
                ends.append(np.exp(points * start) * (start**2 * first + 2 * start * far * second + far**2 * third))
            squares.append(np.maximum(ends[0], ends[1]))
        return np.asarray(slopes), squares

    def _sums(self, moves: Any, edges: NDArray[np.int64]) -> tuple[Any, Any, Any]:
        """Return Σ u^k/k!·m_{k+j} for j = 0, 1, 2, with moments as they are in the table."""
        sums = np.empty((3, len(moves)), dtype=moves.dtype)
        for chosen in _alike(np.abs(moves)):
            terms = min(_terms(moves[chosen]), _TERMS - 2)
            powers = np.empty((len(chosen), terms), dtype=moves.dtype)
            powers[:, 0] = 1
            np.cumprod(moves[chosen, None] / np.arange(1, terms), axis=1, out=powers[:, 1:])
            table = self.real.scaled[edges[chosen]]
            for shift in range(3):
                sums[shift, chosen] = np.einsum("ij,ij->i", powers, table[:, shift : shift + terms])
        return sums[0], sums[1], sums[2]

    def nodes(self, discs: Disc, panels: int, count: int) -> tuple[Complex, Complex, Complex, Array, Complex]:
        """Return t at nodes of the rays, and weights with the density; middles and half lengths of panels, and ends."""
        size, speed = np.abs(discs.centres), np.abs(discs.gains)
        turns = np.exp(1j * discs.angles)
        first = 1 + self.real.reach[discs.edges]
        points = first.astype(np.complex128)
        centre = np.empty((len(size), panels), dtype=np.complex128)
        half = np.empty((len(size), panels))
        least, most = 1.2 / (size * speed), min(0.22, 0.35 / self.deviation)
        for panel in range(panels):
            length = np.minimum(np.maximum(least, 0.07 * np.abs(points - first)), most * np.abs(points))
            half[:, panel] = length
            step = length * turns
            centre[:, panel] = points + step
            points = points + 2 * step
        nodes, weights, _ = rule(count)
        steps = (half * turns[:, None])[:, :, None]
        ratios = centre[:, :, None] + steps * nodes
        masses = self._densities(np.log(ratios), ratios) * (steps * weights)
        flat = (len(size), -1)
        return ratios.reshape(flat), masses.reshape(flat), centre, half, points

    def along(self, discs: Disc, count: int) -> Ray:
        """Return the ray of each disc, with so many nodes a panel."""
        start, gain = discs.starts[:, None], discs.gains[:, None]
        ratios, masses, centre, half, points = self.nodes(discs, _PANELS if self.deviation <= _WIDE else _MORE, count)
        values = start + gain * (ratios - 1)
        error = rule(count)[2]
        # Bounds: in the middle of a panel, or of a part of it, times how much anything grows within a disc around it.
        top = self._top(discs, centre)
        wrong = (error * half * top(discs.radii, 2 * half)).sum(axis=1) * 1.01
        cells = (np.arange(_CELLS) + 0.5) * (2 / _CELLS) - 1
        steps = half * np.exp(1j * discs.angles)[:, None]
        centre = (centre[:, :, None] + steps[:, :, None] * cells).reshape(len(half), -1)
        half = np.repeat(half / _CELLS, _CELLS, axis=1)
        top = self._top(discs, centre)
        places, sizes = np.abs(self.half + self.deviation * np.log(centre)), np.abs(centre)
        lengths = np.abs(start + gain * (centre - 1))
        largest = (np.abs(discs.centres) + discs.radii)[:, None] * lengths
        farthest = (lengths + np.abs(gain) * half) ** 2
        bounds = []
        for radii in (discs.radii, discs.radii / 2):
            covered = 2 * half * top(radii, half)
            rest, square, slope = self._rest(discs._replace(radii=radii), points)
            bounds.append((covered.sum(axis=1) + rest, (covered * farthest).sum(axis=1) + square))
            if radii is discs.radii:
                wrong = wrong + rest + (covered * slack(256) * (4 + places**2 + largest)).sum(axis=1)
                bends = covered * (1 + self.deviation * (places + 1.5 * self.deviation * half / sizes))
                slopes = slope + (bends / (sizes - half)).sum(axis=1)
        return Ray(values, masses, wrong, slopes, (bounds[0][0], bounds[1][0]), (bounds[0][1], bounds[1][1]))

    def _top(self, discs: Disc, centre: Complex) -> Callable[[Array, Array], Array]:
        """Return bounds of |e^{sW}| times the density, for s within radii and t within a reach of the centres."""
        values, logs = discs.starts[:, None] + discs.gains[:, None] * (centre - 1), np.log(centre)
        spots = self.half + self.deviation * logs
        exponents = (discs.centres[:, None] * values).real - 0.5 * (spots**2).real
        places, lengths, sizes = np.abs(spots), np.abs(values), np.abs(centre)
        heights = self.deviation / math.sqrt(2 * math.pi) / sizes
        speed = np.abs(discs.gains)[:, None]

        def top(radii: Array, reach: Array) -> Array:
            turn = -np.log1p(-reach / sizes)
            pushed = (np.abs(discs.centres) + radii)[:, None] * (speed * reach) + radii[:, None] * lengths
            spread = turn * (1 + self.deviation * (places + 0.5 * self.deviation * turn))
            return np.asarray(np.exp(np.minimum(exponents + pushed + spread, 700.0)) * heights)

        return top

    def _densities(self, logs: Complex, ratios: Complex) -> Complex:
        exponents = -0.5 * (self.half + self.deviation * logs) ** 2
        return np.asarray(self.deviation / math.sqrt(2 * math.pi) * np.exp(exponents) / ratios)

    def _rest(self, discs: Disc, points: Complex) -> tuple[Array, Array, Array]:
        """Return bounds of the integrals beyond the last panel of each ray."""
        logs, values, angles = np.log(points), discs.starts + discs.gains * (points - 1), discs.angles
        places = np.abs(self.half + self.deviation * logs)
        size, speed = np.abs(discs.centres), np.abs(discs.gains)
        turned = np.cos(np.angle(discs.centres) + angles) * np.sign(discs.gains)
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


def _alike(sizes: Array) -> list[NDArray[np.int64]]:
    """Return which numbers are small and which are large, so that few terms serve the former."""
    large = sizes > 2 * USUAL
    groups = [np.flatnonzero(~large), np.flatnonzero(large)]
    return [group for group in groups if len(group)]


def _series(table: Array, moves: Complex) -> Complex:
    """Return the sums of m_k·u^k/k! from k = 2 on, a row of u for each row of moments."""
    sums = np.empty(moves.shape, dtype=np.complex128)
    for chosen in _alike(np.abs(moves).max(axis=1)):
        few, rows = moves[chosen], table[chosen]
        total = np.zeros(few.shape, dtype=np.complex128)
        for order in range(_terms(few) - 1, 1, -1):
            total += rows[:, order, None]
            total *= few
            total /= order
        # The loop has multiplied by u/k once too often for k = 2: the sum is Σ m_k·u^{k−1}·1!/k!.
        sums[chosen] = total * few
    return sums


def _bent(z: Complex, grown: Complex) -> Complex:
    """Return exp(z) − 1 − z, accurate where z is close to zero, from exp(z) − 1."""
    near = np.abs(z) < 0.5
    bent = grown - z
    small = z[near]
    total = np.zeros(small.shape, dtype=np.complex128)
    for order in range(16, 1, -1):
        total = (total + 1) * (small / order)
    bent[near] = total * small
    return np.asarray(bent)
