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

import numpy as np
from numpy.typing import NDArray

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
_LEAPS = (1.05, 1.15, 1.4, 2.0, 4.0)
"""Of the tilt: others, at which Chernoff's bound of the aliases is tried."""

Array = NDArray[np.float64]


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
        weights = self._weights(masses, 1 + self._excess(masses))
        last = self._last(weights)
        self.fast = last * len(positions) > _MOST_TERMS or self._beyond(weights, last, copies) > math.exp(-_HIDDEN)
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

    def upper(self, masses: Array, errors: Array) -> float:
        """Return an upper bound of E[(S)₊] for masses that may be wrong by these errors."""
        log_moment, wrong, weights, loose = self._tilted(masses, errors)
        terms, bounds, rough = self._powers(weights, loose, self.copies)
        margin = float((np.abs(self.ramps) * (rough + slack(64) * bounds)).sum())
        if not self.fast:  # (2/N)·Σ |κ| over the rest, with |2·sinh| ≥ 4k/N: at most a·N/(8·last)
            last = len(self.heights) - 1
            margin += self._left_out(weights, loose, self.copies) * self.step * self.nodes / (8 * last) * 1.01
        total = float((terms * self.ramps).real.sum()) + 1.001 * margin
        return max(total, 0.0) * math.exp(min(log_moment + wrong, 700.0)) * (1 + 1e-12)

    def lower(self, masses: Array, gains: Array, errors: tuple[Array, Array]) -> float:
        """Return a lower bound of E[(S)₊]/n, given the masses of G, E[W; G] of each position, and their errors."""
        copies = self.copies - 1
        log_moment, wrong, weights, loose = self._tilted(masses, errors[0])
        sizes = np.abs(gains) + errors[1]
        doubts = errors[1] + slack(16) * (4 + self.tilt * self.distances) * sizes
        size, doubt = float((sizes * self.growths).sum()), float((doubts * self.growths).sum())
        # Where ΣG is if ΣW is about 0: at n times the tilted mean of G − W.
        lifted = gains * self.growths
        bias = float((weights * self.values).sum()) - float(lifted.sum()) / (1 + self._excess(masses))
        threshold = round(self.copies * bias / self.step)
        shift = threshold * self.step
        terms, bounds, rough = self._powers(weights, loose, copies)
        rough += bounds * slack(64) * (1 + self.heights * abs(shift))
        fuzzy = doubt + slack(64 + len(masses)) * size
        if self.fast:
            fuzzy += 16 * UNIT * (math.log2(self.nodes) + 2) * size
        means = self._transform(lifted) + float(lifted.sum())
        margin = float((np.abs(self.jumps) * (rough * (np.abs(means) + fuzzy) + bounds * fuzzy)).sum())
        if not self.fast:  # |e^{sa} − 1| ≥ 4k/N, and Σ 1/k over the rest is at most log(N/(2·last)) + 1
            rest = 0.5 * (math.log(max(self.nodes / (2 * (len(self.heights) - 1)), 1.0)) + 1)
            margin += self._left_out(weights, loose, copies) * (size + doubt) * rest * 1.01
        phases = np.exp(-1j * self.heights * shift)
        total = float((terms * means * self.jumps * phases).real.sum()) - 1.001 * margin
        exponent = log_moment * (copies / self.copies) - wrong - self.tilt * shift - slack(8) * abs(self.tilt * shift)
        if not total > 0:
            return 0.0
        value = total * math.exp(min(exponent, 700.0)) * (1 - 1e-12)
        return max(0.0, value - self._aliases(masses, sizes, shift))

    def _aliases(self, masses: Array, sizes: Array, shift: float) -> float:
        """Return a bound of the terms l ≠ 0 from below: E|W| on one side, Chernoff's bound on the other."""
        period = self.nodes * self.step
        below = float(sizes.sum()) / math.expm1(min(self.tilt * period, _STEEPEST))
        above = math.inf
        for leap in _LEAPS:
            tilt = self.tilt * leap
            if tilt * float(self.values[-1]) > _STEEPEST:
                break
            excess = float((masses * np.expm1(tilt * self.values)).sum())
            size = float((sizes * np.exp(tilt * self.values)).sum())
            if not (excess > -1 and size > 0):
                continue
            exponent = (self.copies - 1) * math.log1p(excess) + math.log(size) - tilt * shift
            exponent -= math.log(math.expm1(min((tilt - self.tilt) * period, _STEEPEST)))
            above = min(above, math.exp(min(exponent, 700.0)))
        return 1.01 * (below + above)

    def _excess(self, masses: Array) -> float:
        """Return M(θ) − 1, which is tiny where n is large."""
        return float((masses * self.excesses).sum())

    def _weights(self, masses: Array, moment: float) -> Array:
        return np.where(self.positions == 0, 0.0, masses * self.growths / moment)

    def _tilted(self, masses: Array, errors: Array) -> tuple[float, float, Array, Array]:
        """Return n·log M(θ), how wrong it may be, the tilted masses but for those at zero, and their errors."""
        excess = self._excess(masses)
        moment = 1 + excess
        own = slack(16) * (4 + self.tilt * self.distances) * masses
        doubts = np.where(self.positions == 0, 0.0, errors + own)
        doubt = float((doubts * np.abs(self.excesses)).sum())
        doubt += slack(8 + len(masses)) * float((masses * np.abs(self.excesses)).sum())
        log_moment = self.copies * math.log1p(excess)
        wrong = 1.01 * self.copies * doubt / moment + slack(8) * abs(log_moment)
        return log_moment, wrong, self._weights(masses, moment), 1.01 * self.growths * doubts / moment

    def _powers(self, weights: Array, loose: Array, copies: int) -> tuple[NDArray[np.complex128], Array, Array]:
        """Return (M(s)/M(θ))ⁿ at the nodes, bounds of their sizes, and how wrong they may be."""
        excess = self._transform(weights)
        real, imaginary = excess.real, excess.imag
        moduli = 2 * real + real**2 + imaginary**2
        with np.errstate(divide="ignore"):
            far = np.log(np.hypot(1 + real, imaginary))
        sizes = np.maximum(np.where(np.abs(moduli) < 0.5, 0.5 * np.log1p(np.maximum(moduli, -0.6)), far), -700.0)
        angles = np.arctan2(imaginary, 1 + real)
        counted = slack(16 + len(weights))
        linear = float((loose * self.distances).sum()) + counted * float((weights * self.distances).sum())
        errors = np.minimum(self.heights * linear, 2 * float(loose.sum()) + 2 * counted * float(weights.sum()))
        if self.fast:
            errors += 16 * UNIT * (math.log2(self.nodes) + 2)
        log_bounds = copies * np.log1p(np.expm1(sizes) + errors)
        bounds = np.exp(log_bounds)
        own = slack(64) * (8 + copies * (np.abs(sizes) + np.abs(angles)))
        rough = bounds * (-np.expm1(np.minimum(copies * sizes - log_bounds, 0.0)) + own)
        # An error of e in M(s)/M(θ) moves the n-th power by no more than (|·| + e)ⁿ − |·|ⁿ.
        return np.exp(copies * (sizes + 1j * angles)), bounds, rough

    def _transform(self, weights: Array) -> NDArray[np.complex128]:
        """Return Σ weights·(e^{iyx} − 1) at every height y."""
        if self.fast:
            folded = np.bincount(self.positions % self.nodes, weights, self.nodes)
            return np.asarray(np.conj(np.fft.rfft(folded)) - weights.sum())
        parts = weights @ self._turned
        count = len(self.heights)
        return np.asarray(parts[:count] + 1j * parts[count:])

    def _last(self, weights: Array) -> int:
        """Return the last node that counts if |M| falls as fast as near the real axis."""
        variance, _, _ = self._centred(weights)
        height = math.sqrt(4 * _DROPPED / (self.copies * max(variance, 1e-300)))
        return min(max(8, math.ceil(height * self.nodes * self.step / (2 * math.pi))), self.nodes // 2)

    def _centred(self, weights: Array) -> tuple[float, float, NDArray[np.bool_]]:
        """Return V and 2F + 6V²/P of the values near zero and of what is at zero, and which values they are.

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
        return variance, 2 * fourth + 6 * variance**2 / mass, inner

    def _left_out(self, weights: Array, loose: Array, copies: int) -> float:
        """Return an upper bound of |M(s)/M(θ)|ⁿ at all nodes beyond the last."""
        return self._beyond(weights, len(self.heights) - 1, copies, 2 * float(loose.sum()))

    def _beyond(self, weights: Array, last: int, copies: int, error: float = 0.0) -> float:
        variance, fourth, inner = self._centred(weights)
        # |M/M(θ)| ≤ 1 − y²V/4 up to y² = 12V/(2F + 6V²/P); from there on, that of the values near zero at some nodes.
        first = 2 * math.pi * last / (self.nodes * self.step)
        near = math.sqrt(12 * variance / fourth) if variance else 0.0
        gentle = math.exp(-copies * first**2 * variance / 4 * 0.999) if first < near else 0.0
        farthest = 1 + int(np.abs(self.positions[inner]).max())
        count = 1 << math.ceil(math.log2(max(_FINE * farthest, min(_FINER * farthest, _PROOF))))
        rest = max(0.0, 1 - float(weights.sum()))
        folded = np.bincount(self.positions[inner] % count, weights[inner], count)
        sizes = np.abs(np.fft.rfft(folded) + rest)
        distance = 2 * math.pi / (count * self.step)
        between = np.maximum(sizes[1:], sizes[:-1])[int(max(first, near * 0.999) / distance) :]
        if not len(between):
            return gentle
        second = float((weights * self.values**2)[inner].sum())
        outer = float(weights[~inner].sum())
        highest = float(between.max()) + 1.001 * distance**2 / 8 * second + outer + error + 64 * UNIT * 32
        return max(gentle, math.exp(copies * math.log(min(highest, 1.0))))
