"""The Rényi divergence of any ε₀-DP randomizers: Theorem N where it is below the strong clones, and these elsewhere."""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.profile_integral import divergence
from shoal.numerics.renyi_integral import Kinds, KindsIntegral
from shoal.numerics.swap_chain import swap_chain_deltas

__all__ = ["clone_floor", "swap_chain_renyi"]

Array = NDArray[np.float64]

_BETTER = 0.01
"""By how much log δ of the chains is below that of normal losses as wide as those of the clones, where it is better."""
_CHORDS = 4e-4, 8e-4
"""What chords may add to the divergence, at small and at large orders."""
_NORMAL = 6.0
"""Up to so many deviations losses of clones are about normal."""


class _SwapChainIntegral(KindsIntegral):
    """The integral for a profile that is the lesser of the two: quick bounds are those of the clones."""

    smoothed, left_out = 5e-5, 5e-5

    def __init__(self, kinds: Kinds, local_epsilon: float, order: float) -> None:
        super().__init__(kinds, local_epsilon, (order - 1, -order))
        # Where both sides of the bell of tilted losses are above zero, as good a polygon takes twice as many knots.
        self.chorded = _CHORDS[int(order * self.chain_spread > 1)]

    @property
    def chain_spread(self) -> float:
        """The standard deviation of the loss that chains have in the limit."""
        ratio = math.exp(self.ceiling)
        variance = max(2 / (ratio + 2), 1 / ratio)
        return math.expm1(self.ceiling) * math.sqrt(variance / self.kinds.reports)

    def looked_at(self, points: Array) -> tuple[Array, Array]:
        """Return good tilts for the clones, and roughly the logarithm of δ of the chains, if less."""
        known, logs = super().looked_at(points)
        near = points < _NORMAL * self.chain_spread
        logs[near] = np.minimum(logs[near], _log_normal(points[near], self.chain_spread))
        return known, logs

    def close(self, knots: Array, smoothing: float) -> Array:
        """Return logarithms of bounds of δ: of the chains, and where these are no better, of the clones."""
        with np.errstate(divide="ignore"):
            result = np.log(swap_chain_deltas(self.kinds.reports, self.ceiling, knots))
        worse = ~self._better(knots, result)
        if worse.any():
            result[worse] = np.minimum(result[worse], super().close(knots[worse], smoothing))
        return result

    def _better(self, points: Array, logs: Array) -> NDArray[np.bool_]:
        """Tell where this log δ is clearly below that of the clones."""
        near = points < _NORMAL * self.spread
        others = np.empty(len(points))
        others[near] = _log_normal(points[near], self.spread) - _BETTER
        if not near.all():
            others[~near] = super().looked_at(points[~near])[1] - 0.5
        return np.asarray(logs < others)

    @property
    def hopeful(self) -> bool:
        """Whether chains are better where the tilted losses are, if those are about normal."""
        usual = self.exponents[0] * self.chain_spread**2
        points = np.clip(usual + self.chain_spread * np.array([-1.0, 0.0, 1.0]), 0.0, self.ceiling)
        with np.errstate(divide="ignore"):
            logs = np.log(swap_chain_deltas(self.kinds.reports, self.ceiling, points))
        return bool(self._better(points, logs).any())


def _log_normal(points: Array, spread: float) -> Array:
    """Return roughly the logarithm of δ for normal losses, not far beyond `_NORMAL` deviations."""
    steps = points / spread
    tails = 0.5 * np.array([math.erfc(step) for step in (steps / math.sqrt(2)).tolist()])
    densities = np.exp(-0.5 * steps**2) / math.sqrt(2 * math.pi)
    return np.asarray(np.log(np.maximum(densities - steps * tails, 1e-300)) + math.log(spread))


def swap_chain_renyi(kinds: Kinds, local_epsilon: float, order: float) -> float:
    """Return an upper bound of D_α, about 1e-3 above that of the profile at most; infinity if chains do not help.

    Parameters
    ----------
    kinds : Kinds
        Those of the strong clones.
    local_epsilon, order : float
        ε₀ and α > 1.
    """
    integral = _SwapChainIntegral(kinds, local_epsilon, order)
    return divergence([integral], order) if integral.hopeful else math.inf


def clone_floor(reports: int, clone_probability: float, local_epsilon: float, order: float) -> float:
    """Return roughly a number that D_α of clones is not below.

    For every function g, α/(α − 1)·ln E_P[e^((α − 1)g)] − ln E_Q[e^(αg)] ≤ D_α(P‖Q), by Hölder's inequality. Here g is
    the difference of the two counts, times what is best for normal losses.
    """
    lean = math.tanh(local_epsilon / 2)
    factor = 2 * lean / max(reports * clone_probability, 1.0)

    def log_moment(tilt: float, sign: int) -> float:
        half = 2 * math.sinh(tilt / 2) ** 2
        others = (reports - 1) * math.log1p(clone_probability * half)
        return others + math.log1p(half + sign * lean * math.sinh(tilt))

    if order * factor > 1:
        return 0.0
    return order / (order - 1) * log_moment((order - 1) * factor, 1) - log_moment(order * factor, -1)
