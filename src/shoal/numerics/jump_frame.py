"""δ(ε) of n shuffled reports with noise whose likelihood ratio has a heavy tail: with and without jumps.

One tilt does not serve both the many small W and a single large one. So E[(W₁ + … + Wₙ)₊] is taken apart: no W is a
jump, that is, larger than a level; or some W is (docs/theory/blanket.md, section 8). Each part has its own tilt, step
and nodes. A jump that is larger than a cap makes the sum positive all but surely, and is capped at what that costs.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.noise_delta import NoiseFrame, Saddle, cap_of
from shoal.numerics.noise_ratio import NoiseRatio

__all__ = ["JumpFrame", "Outline"]

_STEEP = 8.0
"""A jump is a W of more than this over the tilt,"""
_RARELY = 1e-2
"""and one that so seldom happens among n."""
_FACTOR = 100.0
"""Jumps up to so many times the level have the same nodes."""
_TRIED, _STEEPEST = 48, 200.0
"""How many tilts are tried for the part with jumps, and the largest one times the cap."""

Array = NDArray[np.float64]


class Outline(NamedTuple):
    """What the sum is like, roughly.

    Attributes
    ----------
    values, masses, scale : numpy.ndarray, float
        Some W, in units of a power of two near e^ε.
    calm : Saddle or None
        Of the part without jumps.
    level : float
        A larger W is a jump.
    bulk, mean : float
        What the sum of all but the rarest W varies by, and minus its mean.
    often : float
        How often W is neither zero nor one of the rarest.
    log_delta : float
        Roughly log δ(ε).
    """

    values: Array
    masses: Array
    scale: float
    calm: Saddle | None
    level: float
    bulk: float
    mean: float
    often: float
    log_delta: float

    @classmethod
    def sloped(cls, ratio: NoiseRatio, reports: int, epsilon: float) -> "tuple[Outline, float]":
        """Look at the sum at ε, and return roughly d log δ/dε as well."""
        own = cls.of(ratio, reports, epsilon)
        move = max(1e-3 * epsilon, 1e-2 * math.exp(own.log_delta))
        return own, min((cls.of(ratio, reports, epsilon + move).log_delta - own.log_delta) / move, -1e-3)

    @classmethod
    def of(cls, ratio: NoiseRatio, reports: int, epsilon: float) -> "Outline":
        """Look at the sum at ε."""
        growth, less = math.exp(epsilon), math.expm1(epsilon)
        scale = 2.0 ** math.floor(epsilon / math.log(2))
        spots, masses = ratio.spots()
        values = np.concatenate((spots - less, -less - growth * spots)) / scale
        losses = np.concatenate((np.ones(len(spots)), 1 + spots)) * (growth / scale)
        masses = np.concatenate((masses, masses))
        order = np.argsort(np.abs(values))
        values, masses, losses = values[order], masses[order], losses[order]
        rarer = reports * np.cumsum(masses[::-1])[::-1]
        usual = max(int(np.searchsorted(-rarer, -1.0)), 1)  # all but about one of the values that n copies have
        bulk = math.sqrt(max(1.0, reports * float(masses[:usual].sum())) / float(masses[:usual].sum()))
        bulk *= math.sqrt(float((masses[:usual] * values[:usual] ** 2).sum()))
        mean = -reports * float((masses[:usual] * values[:usual]).sum())
        positive = values > 0
        rising = np.argsort(values[positive])
        jumping = reports * np.cumsum(masses[positive][rising][::-1])[::-1]
        rare = np.append(values[positive][rising][jumping <= _RARELY], math.inf)[0]
        level = max(_STEEP * bulk / (max(mean, 0.0) / bulk + 2), min(float(rare), float(values.max())))
        under = values <= level
        calm, log_delta = None, -math.inf
        if (values[under] > 0).any():
            calm = Saddle.at(reports, values[under], masses[under], losses[under], cap=level, scale=scale, spare=0.0)
            log_delta = calm.log_delta
        needed = max(mean, level) * scale
        wild = ratio.beyond(needed + less)[1]
        log_delta = np.logaddexp(log_delta, math.log(max(wild, 1e-320)))
        often = float(masses[:usual].sum())
        return cls(values, masses, scale, calm, level, bulk, mean, often, min(float(log_delta), 0.0))


class JumpFrame:
    """Positions, tilts and nodes for δ(ε) near one ε: of the part without jumps, and of the part with some.

    Parameters
    ----------
    ratio : NoiseRatio
        Of one report.
    reports : int
        n.
    epsilon, outline, slope : float, Outline
        ε, what the sum is like there, and roughly d log δ/dε.
    precision : float
        What discretising may change of δ, relatively.
    """

    def __init__(
        self, ratio: NoiseRatio, reports: int, epsilon: float, *, outline: Outline, slope: float, precision: float
    ) -> None:
        self.epsilon, self.slope, self.expected = epsilon, slope, math.exp(outline.log_delta)
        self.parts: list[NoiseFrame] = []
        if outline.calm is not None:
            calm = outline.calm._replace(slope=slope)
            self.parts.append(NoiseFrame(ratio, reports, epsilon, calm, precision, level=outline.level))
        delta = math.exp(outline.log_delta)
        # E[(S)₊; some jump]/n ≤ E[W; W is a jump] + n·Pr(jump).
        probability, excess = ratio.beyond(outline.level * outline.scale + math.expm1(epsilon))
        most = excess + (outline.level * outline.scale + reports) * probability
        self.rarely = 0.0
        if most <= 1e-2 * precision * delta and self.parts:
            self.rarely = most * (1 + 1e-6)
            return
        cap = max(cap_of(reports, outline.values, outline.masses, precision * delta / 4), 2 * outline.level)
        # Jumps of ever larger sizes, each with steps in proportion.
        level, grain = outline.level, outline.bulk
        while True:
            until = math.inf if 2 * _FACTOR * level >= cap else _FACTOR * level
            highest = min(until, cap)
            tilt = _tilt(outline, reports, (level, highest), grain)
            spread = max(outline.bulk, level)
            saddle = Saddle(outline.log_delta, slope, tilt, outline.often, spread, highest, outline.scale, grain, 0.0)
            self.parts.append(NoiseFrame(ratio, reports, epsilon, saddle, precision, level=level, until=until))
            if math.isinf(until):
                break
            level, grain = until, max(outline.bulk, until / 4)

    def serves(self, epsilon: float) -> bool:
        """Tell whether bounds at a larger ε are about as good as at the ε that the frame is for."""
        return self.parts[0].serves(epsilon)

    def upper(self, epsilon: float) -> float:
        """Return an upper bound of δ(ε)."""
        if epsilon < self.epsilon:
            return math.inf if self.rarely else sum(part.upper(epsilon) for part in self.parts)
        return sum(part.upper(epsilon) for part in self.parts) + self.rarely

    def lower(self, epsilon: float) -> float:
        """Return a lower bound of δ(ε)."""
        return sum(part.lower(epsilon) for part in self.parts)


def _tilt(outline: Outline, reports: int, jumps: tuple[float, float], grain: float) -> float:
    """Return about the θ at which E[e^{θS}; some jump]/θ² is least, for jumps from a level on, capped."""
    level, cap = jumps
    values = np.minimum(outline.values, cap)
    tilts = np.geomspace(0.3 / cap, max(30 / grain, 3 / cap), _TRIED)
    tilts = tilts[tilts * cap < _STEEPEST]
    jumping = outline.values > level
    powers = outline.masses * np.exp(np.multiply.outer(tilts, values))
    leaps = powers[:, jumping].sum(axis=1) + 1e-300
    calm = 1 + (powers - outline.masses)[:, ~jumping].sum(axis=1) - float(outline.masses[jumping].sum())
    calm = np.maximum(calm, 1e-300)
    with np.errstate(over="ignore", divide="ignore"):
        logs = reports * np.log(calm + leaps) + np.log(-np.expm1(-reports * np.log1p(leaps / calm)))
    return float(tilts[np.argmin(logs - 2 * np.log(tilts))])
