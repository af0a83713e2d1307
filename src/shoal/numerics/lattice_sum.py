"""E[(W₁ + … + Wₙ)₊] from both sides, for a W that has been moved to multiples of a step: few nodes of a contour.

At a tilt θ, with N steps a to a period and the nodes s = θ + 2πik/(Na), and M the moment generating function of W,

    (1/N) · Σ_k  M(s)ⁿ · κ(s)      =      Σ_l  e^{θlNa} · E[(S − lNa)₊],      κ(s) = a/(2·sinh(sa/2))²,

and every term on the right is non-negative: the sum is an upper bound of E[(S)₊]. From below, any test does: for G a
multiple of a that is close to W, E[(S)₊] ≥ E[S; ΣG > ca] = n·E[W₁; ΣG > ca], and

    (1/N) · Σ_k  E[W·e^{sG}] · E[e^{sG}]ⁿ⁻¹ · e^{−sca}/(e^{sa} − 1)      =      Σ_l  e^{θlNa} · E[W₁; ΣG > (c + lN)a].

Where n is large, |M(s)| is so much less than M(θ) away from the real axis that few nodes count; a fast Fourier
transform over coarser nodes proves it. Else all of them are transformed. docs/theory/numerics.md has the proofs.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.complex_near_zero import expm1, log1p
from shoal.rounding import UNIT, slack

__all__ = ["LatticeSum"]

_DROPPED, _HIDDEN = 50.0, 45.0
"""Nodes are left out where |M(s)/M(θ)|ⁿ is below exp(−50), and charged; all are kept if it is not below exp(−45)."""
_GUARDED = 4096
"""Values within so many steps of zero prove that others are."""
_FINE, _FINER, _PROOF = 8, 32, 1 << 14
"""How many times as many nodes as values the proof has: at least, and up to so many nodes in all."""
_MOST_NODES = 1 << 18
_MOST_TERMS = 1 << 20
_STEEPEST = 600.0
_LEAST = 1e-9
"""Of M(θ): less is not told from rounding."""
_WILDEST = 200.0
"""More jumps than this are never expected, at a tilt that is of any use."""
_LEAPS = (1.05, 1.1, 1.2, 1.3, 1.45, 1.7, 2.0, 2.5, 4.0)
"""Of the tilt: others, at which Chernoff's bound of the aliases is tried."""

Array = NDArray[np.float64]
Measure = tuple[Array, Array]
"""Masses, and their errors; or masses and E[W; position]."""
Terms = tuple[NDArray[np.complex128], Array, Array]


class _Tilted(NamedTuple):
    """M(θ), n·log M(θ) and how wrong it may be, the tilted masses but for those at zero, and their errors."""

    moment: float
    log_moment: float
    wrong: float
    weights: Array
    loose: Array


class _Powers(NamedTuple):
    """Terms, bounds of their sizes and how wrong they may be: where no W is a jump, and where some are."""

    none: Terms
    some: Terms


class LatticeSum:
    """The sum of n copies of a value on a lattice, at one tilt; the same nodes serve all distributions nearby.

    Parameters
    ----------
    step : float
        a, with so few digits that all positions times it are doubles.
    positions : numpy.ndarray
        Ascending whole numbers, with zero among them.
    tilt : float
        θ > 0.
    copies : int
        n.
    period : float
        How far aliases are apart at least, in units of the values.
    masses : numpy.ndarray
        A distribution on these positions like those that will be asked about; what is missing from one is at zero.
    """

    def __init__(
        self, step: float, positions: NDArray[np.int64], *, tilt: float, copies: int, period: float, masses: Array
    ) -> None:
        self.step, self.positions, self.tilt, self.copies = step, positions, tilt, copies
        self.values = np.asarray(step * positions, dtype=np.float64)
        self.distances = np.abs(self.values)
        self.usable = tilt * float(self.values[-1]) < _STEEPEST and step * tilt < 1
        if not self.usable:
            return
        self.growths, self.excesses = np.exp(tilt * self.values), np.expm1(tilt * self.values)
        self.nodes = math.ceil(period / step)
        moment = 1 + self._excess(masses)
        self.usable = moment > _LEAST
        if not self.usable:
            return
        weights = self._weights(masses, moment)
        last = self._last(weights)
        self.fast = (
            last * len(positions) > min(_MOST_TERMS, 6 * self.nodes) or copies * self._beyond(weights, last) > -_HIDDEN
        )
        if self.fast:
            self.nodes = 1 << max(6, math.ceil(math.log2(self.nodes)))
            last = self.nodes // 2
            self.usable = self.nodes <= _MOST_NODES
            if not self.usable:
                return
        numbers = np.arange(last + 1)
        self.heights = 2 * math.pi / (self.nodes * step) * numbers
        points = 0.5 * step * tilt + 1j * math.pi / self.nodes * numbers
        twice = np.where((numbers > 0) & (2 * numbers < self.nodes), 2.0, 1.0) / self.nodes  # a node and its conjugate
        self.ramps = step / (2 * np.sinh(points)) ** 2 * twice
        self.jumps = twice * np.exp(-points) / (2 * np.sinh(points))
        if not self.fast:
            turns = np.multiply.outer(positions % self.nodes, numbers) + self.nodes // 2
            halves = math.pi / self.nodes * (turns % self.nodes - self.nodes // 2)  # small where the angle is
            sines = np.sin(halves)
            self._turned = np.concatenate((-2 * sines * sines, 2 * sines * np.cos(halves)), axis=1)

    def upper(self, masses: Array, errors: Array, *, jumps: Measure | None = None, missing: float = 0.0) -> float:
        """Return an upper bound of E[(S)₊] for masses that may be wrong by these errors.

        With `missing`, of E[(S)₊; no W is a jump], where a jump has this probability, rounded down; with `jumps`, their
        masses and errors, of E[(S)₊; some W is a jump].
        """
        if not 1 + self._excess(masses) - missing > _LEAST:
            return math.inf
        known = self._tilted(masses, errors, missing)
        leaps = None if jumps is None else self._lifted(*jumps, known.moment)
        if leaps and self.copies * float(leaps[0].sum()) > _WILDEST:
            return math.inf
        powers = self._powers(known, self.copies, leaps)
        terms, bounds, rough = powers.some if leaps else powers.none
        margin = float((np.abs(self.ramps) * (rough + slack(64) * bounds)).sum())
        if not self.fast:  # (2/N)·Σ |κ| over the rest, with |2·sinh| ≥ 4k/N: at most a·N/(8·last)
            last = len(self.heights) - 1
            margin += self._left_out(known, self.copies, leaps) * self.step * self.nodes / (8 * last) * 1.01
        total = float((terms * self.ramps).real.sum()) + 1.001 * margin
        return max(total, 0.0) * math.exp(min(known.log_moment + known.wrong, 700.0)) * (1 + 1e-12)

    def lower(
        self,
        masses: Array,
        gains: Array,
        errors: Measure,
        *,
        jumps: tuple[Measure, Measure] | None = None,
        missing: float = 0.0,
    ) -> float:
        """Return a lower bound of E[(S)₊]/n, given the masses of G, E[W; G] of each position, and their errors.

        With `missing`, of E[(S)₊; no W is a jump]/n, where a jump has this probability, rounded up; with `jumps`, their
        masses and gains, and the errors of both, of E[(S)₊; some W is a jump]/n.
        """
        if not 1 + self._excess(masses) - missing > _LEAST:
            return 0.0
        copies = self.copies - 1
        known = self._tilted(masses, errors[0], missing)
        size, fuzzy, means = self._means(gains, errors[1])
        # Where ΣG is if ΣW is about 0: at n times the tilted mean of G − W.
        bias = float((known.weights * self.values).sum()) - float((gains * self.growths).sum()) / known.moment
        threshold = round(self.copies * bias / self.step)
        shift = threshold * self.step
        leaps = None if jumps is None else self._lifted(jumps[0][0], jumps[1][0], known.moment)
        if leaps and self.copies * float(leaps[0].sum()) > _WILDEST:
            return 0.0
        powers = self._powers(known, copies, leaps)
        twist = slack(64) * (1 + self.heights * abs(shift))
        terms, bounds, rough = powers.some if leaps else powers.none
        sums = terms * means
        margins = (rough + bounds * twist) * (np.abs(means) + fuzzy) + bounds * fuzzy
        left_out = self._left_out(known, copies, leaps) * size if not self.fast else 0.0
        if jumps is not None:  # the first W is a jump, and the others are anything
            large, vague, others = self._means(jumps[0][1], jumps[1][1])
            whole = powers.none[0] + terms
            most = powers.none[1] + bounds
            sums = sums + whole * others
            margins = margins + (powers.none[2] + rough + most * twist) * (np.abs(others) + vague) + most * vague
            if not self.fast:
                left_out += (self._left_out(known, copies, leaps) + self._left_out(known, copies, None)) * large
        margin = float((np.abs(self.jumps) * margins).sum())
        if not self.fast:  # |e^{sa} − 1| ≥ 4k/N, and Σ 1/k over the rest is at most log(N/(2·last)) + 1
            rest = 0.5 * (math.log(max(self.nodes / (2 * (len(self.heights) - 1)), 1.0)) + 1)
            margin += left_out * rest * 1.01
        phases = np.exp(-1j * self.heights * shift)
        total = float((sums * self.jumps * phases).real.sum()) - 1.001 * margin
        if not 0 < total < math.inf:
            return 0.0
        exponent = known.log_moment * (copies / self.copies) - known.wrong
        exponent -= self.tilt * shift + slack(8) * abs(self.tilt * shift)
        if exponent > _WILDEST:
            return 0.0
        value = total * math.exp(exponent) * (1 - 1e-12)
        sizes = np.abs(gains) + errors[1]
        return max(0.0, value - self._aliases(masses, sizes, shift, jumps, missing))

    def _means(self, gains: Array, errors: Array) -> tuple[float, float, NDArray[np.complex128]]:
        """Return E[|W|·e^{θG}], how wrong the means may be, and E[W·e^{sG}] at every node."""
        sizes = np.abs(gains) + errors
        doubts = errors + slack(16) * (4 + self.tilt * self.distances) * sizes
        size, doubt = float((sizes * self.growths).sum()), float((doubts * self.growths).sum())
        fuzzy = doubt + slack(64 + len(gains)) * size
        if self.fast:
            fuzzy += 16 * UNIT * (math.log2(self.nodes) + 2) * size
        lifted = gains * self.growths
        return size + doubt, fuzzy, self._transform(lifted) + float(lifted.sum())

    def _aliases(
        self, masses: Array, sizes: Array, shift: float, jumps: tuple[Measure, Measure] | None, missing: float
    ) -> float:
        """Return a bound of the terms l ≠ 0 from below: E|W| on one side, Chernoff's bound on the other."""
        period = self.nodes * self.step
        leaping, large = np.zeros(len(masses)), np.zeros(len(masses))
        if jumps is not None:
            leaping, large = jumps[0][0] + jumps[1][0], np.abs(jumps[0][1]) + jumps[1][1]
        below = float(sizes.sum() + large.sum()) / math.expm1(min(self.tilt * period, _STEEPEST))
        above = math.inf
        for leap in _LEAPS:
            tilt = self.tilt * leap
            if tilt * float(self.values[-1]) > _STEEPEST:
                break
            growths = np.exp(tilt * self.values)
            excess = float((masses * np.expm1(tilt * self.values)).sum()) - missing
            more, size, least = (float((part * growths).sum()) for part in (leaping, sizes, large))
            if not excess > -1:
                continue
            # E[|W|; G + … is large, some jump]: the first is one, or another is.
            whole = (self.copies - 1) * math.log1p(excess + more)
            others = size * -math.expm1(-(self.copies - 1) * math.log1p(more / (1 + excess))) if jumps else size
            if not others + least > 0:
                continue
            exponent = whole + math.log(others + least) - tilt * shift
            exponent -= math.log(math.expm1(min((tilt - self.tilt) * period, _STEEPEST)))
            above = min(above, math.exp(min(exponent, 700.0)))
        return 1.01 * (below + above)

    def _excess(self, masses: Array) -> float:
        """Return M(θ) − 1, which is tiny where n is large."""
        return float((masses * self.excesses).sum())

    def _weights(self, masses: Array, moment: float) -> Array:
        return np.where(self.positions == 0, 0.0, masses * self.growths / moment)

    def _tilted(self, masses: Array, errors: Array, missing: float) -> "_Tilted":
        excess = self._excess(masses) - missing
        moment = 1 + excess
        own = slack(16) * (4 + self.tilt * self.distances) * masses
        doubts = np.where(self.positions == 0, 0.0, errors + own)
        doubt = float((doubts * np.abs(self.excesses)).sum()) + slack(4) * missing
        doubt += slack(8 + len(masses)) * float((masses * np.abs(self.excesses)).sum())
        log_moment = self.copies * math.log1p(excess)
        wrong = 1.01 * self.copies * doubt / moment + slack(8) * abs(log_moment)
        loose = 1.01 * self.growths * doubts / moment
        return _Tilted(moment, log_moment, wrong, self._weights(masses, moment), loose)

    def _lifted(self, masses: Array, errors: Array, moment: float) -> Measure:
        """Return the masses of jumps over M(θ), tilted, and their errors."""
        own = slack(32) * (4 + self.tilt * self.distances) * masses
        return masses * self.growths / moment, 1.01 * (errors + own) * self.growths / moment

    def _powers(self, known: "_Tilted", copies: int, leaps: Measure | None) -> "_Powers":
        """Return (M(s)/M(θ))ⁿ at the nodes, and by how much jumps change it."""
        weights, loose = known.weights, known.loose
        excess = self._transform(weights)
        logs = log1p(excess)
        sizes, angles = np.maximum(logs.real, -700.0), logs.imag
        counted = slack(16 + len(weights))
        linear = float((loose * self.distances).sum()) + counted * float((weights * self.distances).sum())
        errors = np.minimum(self.heights * linear, 2 * float(loose.sum()) + 2 * counted * float(weights.sum()))
        fast = 16 * UNIT * (math.log2(self.nodes) + 2) if self.fast else 0.0
        errors = errors + fast
        log_bounds = copies * np.log1p(np.expm1(sizes) + errors)
        bounds = np.exp(log_bounds)
        own = slack(64) * (8 + copies * (np.abs(sizes) + np.abs(angles)))
        # An error of e in M(s)/M(θ) moves the n-th power by no more than (|·| + e)ⁿ − |·|ⁿ.
        rough = bounds * (-np.expm1(np.minimum(copies * sizes - log_bounds, 0.0)) + own)
        terms = np.exp(copies * (sizes + 1j * angles))
        if leaps is None:
            return _Powers((terms, bounds, rough), (terms, bounds, rough))
        # (φ + ρ)ⁿ − φⁿ, a series in φ and ρ with positive coefficients.
        jumping, vague = leaps
        size = float(jumping.sum())
        leap = self._transform(jumping) + size
        doubt = float(vague.sum()) + (counted + fast) * size
        base = np.exp(sizes + 1j * angles)
        ratios = leap / base
        near = np.abs(ratios) < 0.5
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            changes = np.where(
                near,
                terms * expm1(copies * log1p(np.where(near, ratios, 0.0))),
                np.exp(copies * np.log(base + leap)) - terms,
            )
        lost = ~np.isfinite(changes)
        changes[lost] = 0.0
        inner, outer = np.exp(sizes), np.abs(leap)
        most = _grown(inner + errors, outer + doubt, copies)
        leapt = np.log1p(np.minimum(outer / inner, 1e300))
        wrong = (
            most
            - _grown(inner, outer, copies) * (1 - 1e-13)
            + most * slack(128) * (8 + copies * (np.abs(sizes) + np.abs(angles) + np.minimum(leapt, 700.0)))
        )
        return _Powers((terms, bounds, rough), (changes, most, np.where(lost, most, np.maximum(wrong, 0.0))))

    def _transform(self, weights: Array) -> NDArray[np.complex128]:
        """Return Σ weights·(e^{iyx} − 1) at every height y."""
        if self.fast:
            folded = np.bincount(self.positions % self.nodes, weights, self.nodes)
            return np.asarray(np.conj(np.fft.rfft(folded)) - weights.sum())
        parts = weights @ self._turned
        count = len(self.heights)
        return np.asarray(parts[:count] + 1j * parts[count:])

    def _last(self, weights: Array) -> int:
        """Return the last node that counts."""
        variance, _ = self._centred(weights)
        height = math.sqrt(4 * _DROPPED / (self.copies * max(variance, 1e-300)))
        bounds, distance = self._guard(weights)
        heavy = np.flatnonzero(self.copies * np.log(np.minimum(bounds, 1.0)) > -_DROPPED)
        if len(heavy) and heavy[-1]:  # the first interval has the real axis
            height = max(height, min((int(heavy[-1]) + 1) * distance, 64 * height))
        return min(max(8, math.ceil(height * self.nodes * self.step / (2 * math.pi))), self.nodes // 2)

    def _guard(self, weights: Array, error: float = 0.0) -> tuple[Array, float]:
        """Return upper bounds of |M(s)/M(θ)| between the nodes of a transform, and their distance."""
        inner = np.abs(self.positions) <= _GUARDED
        farthest = 1 + int(np.abs(self.positions[inner]).max())
        count = 1 << math.ceil(math.log2(max(_FINE * farthest, min(_FINER * farthest, _PROOF))))
        rest = max(0.0, 1 - float(weights.sum()))
        folded = np.bincount(self.positions[inner] % count, weights[inner], count)
        sizes = np.abs(np.fft.rfft(folded) + rest)
        distance = 2 * math.pi / (count * self.step)
        second = float((weights[inner] * self.values[inner] ** 2).sum())
        outer = float(weights[~inner].sum())
        between = np.maximum(sizes[1:], sizes[:-1]) + 1.001 * distance**2 / 8 * second + outer + error + 2048 * UNIT
        return np.asarray(between, dtype=np.float64), distance

    def _centred(self, weights: Array) -> tuple[float, float]:
        """Return V and 2F + 6V²/P of the values near zero and of what is at zero.

        P is their mass, and V and F their second and fourth central moments, times P.
        """
        inner = np.abs(self.positions) <= _GUARDED
        near, values = weights[inner], self.values[inner]
        rest = max(0.0, 1 - float(weights.sum()))
        mass = rest + float(near.sum())
        mean = float((near * values).sum()) / mass
        squares = (values - mean) ** 2
        variance = float((near * squares).sum()) + rest * mean**2
        fourth = float((near * squares**2).sum()) + rest * mean**4
        return variance, 2 * fourth + 6 * variance**2 / mass

    def _left_out(self, known: "_Tilted", copies: int, leaps: Measure | None) -> float:
        """Return an upper bound of |M(s)/M(θ)|ⁿ, or of what jumps change of it, at all nodes beyond the last."""
        if 2 * (len(self.heights) - 1) >= self.nodes - 1:
            return 0.0
        highest = self._beyond(known.weights, len(self.heights) - 1, 2 * float(known.loose.sum()))
        if leaps is None:
            return math.exp(copies * highest)
        return float(
            _grown(np.array([math.exp(highest)]), np.array([float(leaps[0].sum() + leaps[1].sum())]), copies)[0]
        )

    def _beyond(self, weights: Array, last: int, error: float = 0.0) -> float:
        """Return an upper bound of log |M(s)/M(θ)| from the last node on."""
        variance, fourth = self._centred(weights)
        # |M/M(θ)| ≤ 1 − y²V/4 up to y² = 12V/(2F + 6V²/P); from there on, that of the values near zero at some nodes.
        first = 2 * math.pi * last / (self.nodes * self.step)
        near = math.sqrt(12 * variance / fourth) if variance else 0.0
        gentle = -(first**2) * variance / 4 * 0.999 if first < near else -math.inf
        bounds, distance = self._guard(weights, error)
        between = bounds[int(max(first, near * 0.999) / distance) :]
        return max(gentle, math.log(min(float(between.max()), 1.0))) if len(between) else gentle


def _grown(inner: Array, outer: Array, copies: int) -> Array:
    """Return (inner + outer)ⁿ − innerⁿ, rounded up, for positive numbers."""
    whole = np.exp(copies * np.log(inner + outer))
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(whole * -np.expm1(-copies * np.log1p(outer / inner)) * (1 + 1e-13))
