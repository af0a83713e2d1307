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

from shoal.numerics.complex_near_zero import expm1
from shoal.numerics.moment_series import MOST_TERMS, USUAL, alike, bent_exponential, series, terms_of
from shoal.numerics.normal_disc import Disc, Ray
from shoal.rounding import slack

__all__ = ["LARGEST", "NormalRays", "falling", "normal_rays", "rule"]

_ELLIPSE = 2 + math.sqrt(3)
"""The sum of the half axes of the ellipse in which integrands are bounded; it lies in a disc of twice the length."""
LARGEST = 60.0
"""Up to where the power series is used for positive s."""
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
    """Moments of t − 1 up to each edge: those of order k are divided by the edge's own t − 1, to the power of k.

    `losses` are moments of order 0, 1 and 2 of what may be wrong up to each edge.
    """

    edges: Array
    reach: Array
    scaled: Array
    wrong: Array
    widest: Array
    rounding: Array
    losses: Array
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
        parts = np.empty((count, MOST_TERMS))
        for order in range(MOST_TERMS):
            parts[:, order] = masses.sum(axis=1)
            masses = masses * ratios
        scaled = np.zeros((count + 1, MOST_TERMS))
        orders = np.arange(MOST_TERMS)
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
        spans = np.arange(3)[:, None]
        losses = np.cumsum(doubts * widest**spans + rounding * reach[1:] ** spans, axis=1) * (1 + 1e-9)
        losses = np.pad(losses, ((0, 0), (1, 0)))
        return _Real(edges, reach, scaled, doubts, widest, rounding, losses, beyond, excess)

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
        self, discs: Disc, points: Any, *, plain: NDArray[np.bool_], around: Array | float = 0.0
    ) -> tuple[Any, Array]:
        """Return ∫ (e^{sW} − 1 − sW) up to the edge, less ∫ (1 + sW) beyond it; and how wrong that may be.

        Points have one row for each disc, those of one half and then, for the same s and ε, those of the other. In
        `plain` rows, return ∫ e^{sW} up to the edge, which may be much smaller. The error holds for all s that are no
        farther than `around` from the points.
        """
        real, edges = self.real, discs.edges
        start, gain, level = discs.starts[:, None], discs.gains[:, None], plain[:, None]
        reach = real.reach[edges][:, None]
        pushed, shifted = points * gain, points * start
        total = series(real.scaled, edges, pushed * reach)
        first, second = (real.scaled[edges, order, None] for order in (0, 1))
        second = second * reach
        half = len(points) // 2  # the other half has the same
        growth = np.exp(shifted[:half])
        grown = expm1(shifted[:half]) if np.iscomplexobj(points) else np.expm1(shifted[:half])
        growth, grown, bent = (
            np.tile(each, (2, 1)) for each in (growth, grown, bent_exponential(shifted[:half], grown))
        )
        beyond, excess = real.beyond[edges][:, None], real.excess[edges][:, None]
        value = bent * first + grown * pushed * second + growth * total
        value = value - beyond - points * (start * beyond + gain * (excess - beyond))
        size = np.abs(points).max(axis=1) + around
        lowest = np.where(level, shifted.real, np.maximum(shifted.real, 0.0)).max(axis=1)
        wrong = self._lost(discs, size, lowest + around * np.abs(discs.starts), plain)[:, None]
        places = self.half + self.deviation * real.edges[edges][:, None]
        tails = (
            slack(64)
            * (4 + places**2)
            * (beyond * (1 + np.abs(shifted) + np.abs(pushed)) + np.abs(pushed) * excess * (4 + 1 / self.deviation**2))
        )
        whole = growth * (first + pushed * second + total)
        return np.where(level, whole, value), (wrong + np.where(level, 0.0, tails)).max(axis=1)

    def _lost(self, discs: Disc, size: Array, lowest: Array, plain: NDArray[np.bool_]) -> Array:
        """Return by how much the integrals up to the edge may be wrong, for the largest |s| of each row.

        |e^w − 1 − w| ≤ e^{|w|}·min(|w|²/2, 2 + |w|), and |w| is at most |s|·(|gain|·(t − 1) + |start|).
        """
        real, edges, start, gain = self.real, discs.edges, np.abs(discs.starts), np.abs(discs.gains)
        # With the largest exponential of all panels, moments of what is wrong do.
        none, one, two = real.losses[:, edges]
        linear = size * (gain * one + start * none)
        square = size**2 * (gain**2 * two + 2 * gain * start * one + start**2 * none)
        far = size * gain * np.concatenate(([0.0], real.widest))[edges]
        wrong = np.exp(np.minimum(far + lowest, 700.0)) * np.where(
            plain, none, np.minimum(square / 2, 2 * none + linear)
        )
        # Where that is much larger than others, panel by panel.
        rows = np.flatnonzero(far > 2 * USUAL)
        if len(rows):
            inner = np.arange(len(real.widest)) < edges[rows][:, None]
            size, start, gain = size[rows][:, None], start[rows][:, None], gain[rows][:, None]
            wrong[rows] = 0.0
            for reaches, doubts in ((real.widest, real.wrong), (real.reach[1:], real.rounding)):
                away = size * gain * reaches
                whole = away + size * start
                sizes = np.where(plain[rows][:, None], 1.0, np.minimum(whole**2 / 2, 2 + whole))
                parts = np.exp(np.minimum(away + lowest[rows][:, None], 700.0)) * sizes * doubts
                wrong[rows] += np.where(inner, parts, 0.0).sum(axis=1)
        return np.asarray(wrong)

    def plainly(self, moves: Complex, edges: NDArray[np.int64]) -> Complex:
        """Return ∫ e^{u(t − 1)} up to each edge, at the u of its row."""
        table, steps = self.real.scaled, moves * self.real.reach[edges][:, None]
        return np.asarray(table[edges, 0, None] + table[edges, 1, None] * steps + series(table, edges, steps))

    def bends(self, discs: Disc, *, parts: tuple[float, ...]) -> tuple[Complex, list[Array]]:
        """Return ∫ W·e^{sW} up to the edge, less ∫ W over all t, in the middle of each disc; and ∫ W²·e^{xW}.

        The latter is the larger one of those at both ends of the disc, or of a part of it.
        """
        real, far = self.real, discs.gains * self.real.reach[discs.edges]
        start = discs.starts
        centres = discs.centres if discs.centres.imag.any() else discs.centres.real  # real numbers are faster
        first, second = self._sums(centres * far, discs.edges, 2)
        mean = start * (real.scaled[-1, 0] + real.beyond[-1]) + discs.gains * (real.excess[0] - real.beyond[0])
        slopes = np.exp(centres * start) * (start * first + far * second) - mean
        squares = []
        widest = np.maximum(np.abs(start), np.abs(start + far))  # the largest |W| up to the edge
        wide = np.flatnonzero(discs.radii * widest > 1)
        square = self._squares(discs, discs.centres.real)
        for part in parts:
            # Away from the middle, e^{xW} grows by no more than this; where that is much, both ends are looked at.
            most = square * np.exp(np.minimum(part * discs.radii * widest, 2.0))
            if len(wide):
                few = discs.chosen(wide)
                ends = [self._squares(few, few.centres.real + side * few.radii) for side in (-part, part)]
                most[wide] = np.maximum(*ends)
            squares.append(most)
        return np.asarray(slopes), squares

    def _squares(self, discs: Disc, points: Array) -> Array:
        """Return ∫ W²·e^{xW} up to the edge of each disc, for its real x."""
        start, far = discs.starts, discs.gains * self.real.reach[discs.edges]
        first, second, third = self._sums(points * far, discs.edges, 3)
        return np.asarray(np.exp(points * start) * (start**2 * first + 2 * start * far * second + far**2 * third))

    def _sums(self, moves: Any, edges: NDArray[np.int64], count: int) -> Any:
        """Return Σ u^k/k!·m_{k+j} for j = 0, 1 and so on, with moments as they are in the table."""
        sums = np.empty((count, len(moves)), dtype=moves.dtype)
        for chosen in alike(np.abs(moves)):
            terms = min(terms_of(moves[chosen]), MOST_TERMS - 2)
            powers = np.empty((len(chosen), terms), dtype=moves.dtype)
            powers[:, 0] = 1
            np.cumprod(moves[chosen, None] / np.arange(1, terms), axis=1, out=powers[:, 1:])
            table = self.real.scaled[:, : terms + 2][edges[chosen]]
            for shift in range(count):
                sums[shift, chosen] = np.einsum("ij,ij->i", powers, table[:, shift : shift + terms])
        return sums

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
        ratios, masses = np.empty((2, len(size), panels * count), dtype=np.complex128)
        for rows, real in ((discs.angles == 0, True), (discs.angles != 0, False)):  # real numbers are faster
            middles, steps = centre[rows], (half * turns[:, None])[rows]
            if real:
                middles, steps = middles.real, steps.real
            spots = middles[:, :, None] + steps[:, :, None] * nodes
            shares = self._densities(np.log(spots), spots) * (steps[:, :, None] * weights)
            ratios[rows], masses[rows] = (each.reshape(len(spots), panels * count) for each in (spots, shares))
        return ratios, masses, centre, half, points

    def along(self, discs: Disc, count: int) -> Ray:
        """Return the ray of each disc, with so many nodes a panel."""
        ratios, masses, centre, half, points = self.nodes(discs, _PANELS if self.deviation <= _WIDE else _MORE, count)
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
        lengths = np.maximum.reduce([np.abs(values) for values in discs.values(centre)])
        largest = (np.abs(discs.centres) + discs.radii)[:, None] * lengths
        farthest = (lengths + discs.speeds[1][:, None] * half) ** 2
        bounds = []
        for radii in (discs.radii, discs.radii / 2):
            covered = 2 * half * top(radii, half)
            rest, square, slope = self._rest(discs._replace(radii=radii), points)
            bounds.append((covered.sum(axis=1) + rest, (covered * farthest).sum(axis=1) + square))
            if radii is discs.radii:
                wrong = wrong + rest + (covered * slack(256) * (4 + places**2 + largest)).sum(axis=1)
                bends = covered * (1 + self.deviation * (places + 1.5 * self.deviation * half / sizes))
                slopes = slope + (bends / (sizes - half)).sum(axis=1)
        return Ray(ratios - 1, masses, wrong, slopes, (bounds[0][0], bounds[1][0]), (bounds[0][1], bounds[1][1]))

    def _top(self, discs: Disc, centre: Complex) -> Callable[[Array, Array], Array]:
        """Return bounds of |e^{sW}| times the density, for s within radii and t within a reach of the centres.

        Re sW and |W| are convex in the gain, so that between two gains they are largest at one of them.
        """
        several, logs = discs.values(centre), np.log(centre)
        spots = self.half + self.deviation * logs
        pushes = np.maximum.reduce([(discs.centres[:, None] * values).real for values in several])
        exponents = pushes - 0.5 * (spots**2).real
        places, sizes = np.abs(spots), np.abs(centre)
        lengths = np.maximum.reduce([np.abs(values) for values in several])
        heights = self.deviation / math.sqrt(2 * math.pi) / sizes
        speed = discs.speeds[1][:, None]

        def top(radii: Array, reach: Array) -> Array:
            turn = -np.log1p(-reach / sizes)
            pushed = (np.abs(discs.centres) + radii)[:, None] * (speed * reach) + radii[:, None] * lengths
            spread = turn * (1 + self.deviation * (places + 0.5 * self.deviation * turn))
            return np.asarray(np.exp(np.minimum(exponents + pushed + spread, 700.0)) * heights)

        return top

    def _densities(self, logs: Any, ratios: Any) -> Any:
        exponents = -0.5 * (self.half + self.deviation * logs) ** 2
        return self.deviation / math.sqrt(2 * math.pi) * np.exp(exponents) / ratios

    def _rest(self, discs: Disc, points: Complex) -> tuple[Array, Array, Array]:
        """Return bounds of the integrals beyond the last panel of each ray."""
        logs, several, angles = np.log(points), [each[:, 0] for each in discs.values(points[:, None])], discs.angles
        places = np.abs(self.half + self.deviation * logs)
        size, (slow, speed) = np.abs(discs.centres), discs.speeds
        turned = np.cos(np.angle(discs.centres) + angles) * np.sign(discs.gains)
        falls = slow * (-size * turned - discs.radii)  # how fast e^{sW} falls at least
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
        ends = np.exp(
            np.maximum.reduce([(discs.centres * values).real + discs.radii * np.abs(values) for values in several])
        )
        ends = ends * np.abs(self._densities(logs, points)) / least
        with np.errstate(over="ignore", invalid="ignore"):
            plain = ends / rates
            length = np.maximum.reduce([np.abs(values) for values in several])
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
