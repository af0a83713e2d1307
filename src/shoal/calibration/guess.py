"""Quick guesses of what a target asks for: they say where to look, and nothing that is printed rests on them."""

import math
from collections.abc import Callable

import numpy as np

from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.randomizer import Randomizer, ability
from shoal.pairs.registry import registration
from shoal.rounding import LARGEST_POWER
from shoal.searches import bisect_safe, doubled

__all__ = ["anybody", "gaussian_epsilon", "gaussian_spread", "likely_log_delta", "likely_spread", "root", "telling"]

_FIRST = 0.01
"""How far the first step of a search goes, relative; each further one without a slope goes eight times as far."""


def gaussian_spread(epsilon: float, delta: float) -> float:
    """Return the shift μ of a unit normal distribution that has this (ε, δ) (Balle and Wang, ICML 2018)."""
    good, unsafe = doubled(lambda shift: _gaussian_delta(shift, epsilon) >= delta)
    return bisect_safe(lambda shift: _gaussian_delta(shift, epsilon) < delta, unsafe=unsafe, good=good, steps=60)


def gaussian_epsilon(shift: float, delta: float) -> float:
    """Return the ε at this δ of a unit normal distribution that is shifted by μ.

    Examples
    --------
    >>> round(gaussian_spread(gaussian_epsilon(0.2, 1e-6), 1e-6), 9)
    0.2
    """
    if _gaussian_delta(shift, 0.0) <= delta:
        return 0.0
    unsafe, good = doubled(lambda epsilon: _gaussian_delta(shift, epsilon) <= delta, shift)
    return bisect_safe(lambda epsilon: _gaussian_delta(shift, epsilon) <= delta, unsafe=unsafe, good=good, steps=50)


def _gaussian_delta(shift: float, epsilon: float) -> float:
    upper, lower = (0.5 * math.erfc((epsilon / shift + sign * shift / 2) / math.sqrt(2)) for sign in (-1, 1))
    return upper - math.exp(min(epsilon, 700.0)) * lower


def anybody(local_epsilon: float) -> Likelihoods:
    """Return what the report of a randomizer tells of which only ε₀ is known: about what a coin tells at the worst."""
    coin = registration("randomized-response").kind(categories=2, local_epsilon=local_epsilon)
    likelihoods: Likelihoods = coin.blanket[0]
    return likelihoods


def telling(randomizer: Randomizer) -> Likelihoods:
    """Return what a report tells about two inputs: of one bit, among reports of one of them; else on the blanket."""
    bit = ability(randomizer, "bit")
    return randomizer.blanket[0] if bit is None else bit.likelihoods


def likely_spread(likelihoods: Likelihoods) -> float:
    """Return √n times the shift of the normal distribution that n shuffled reports are like: the deviation of W."""
    rows = likelihoods.rows
    return math.sqrt(math.fsum(each * (math.exp(one) - math.exp(two)) ** 2 for one, two, each in rows))


def likely_log_delta(likelihoods: Likelihoods, reports: float, epsilon: float) -> float:
    """Return roughly ln δ(ε), within a few per cent of δ for many reports: the saddle point of M(θ)ⁿ/θ².

    With M the moment generating function of W, δ = E[(W₁ + … + Wₙ)₊]/n is the integral of M(θ)ⁿ/(2πi·n·θ²) along a
    vertical line, and the integrand there is about a normal density around the θ at which it is least on the real line.
    """
    values = np.array(likelihoods.values(epsilon))
    unit = float(values.max(initial=0.0))
    if unit <= 0:
        return -math.inf
    values /= unit
    weights = np.array(likelihoods.probabilities)
    mean, square = float(weights @ values), float(weights @ values**2)
    tilt = min(0.5 * (-mean + math.sqrt(mean**2 + 8 * square / reports)) / square, LARGEST_POWER)
    for _ in range(30):
        powers = np.expm1(tilt * values) * weights
        growth = float(powers.sum())  # M − 1
        tilted = (powers + weights) * values / (1 + growth)
        first, second = float(tilted.sum()), float(tilted @ values)
        slope, curvature = reports * first - 2 / tilt, reports * (second - first**2) + 2 / tilt**2
        step = -slope / (curvature * tilt)
        if abs(step) < 1e-9 or (tilt == LARGEST_POWER and step > 0):
            break
        tilt = min(tilt * math.exp(min(max(step, -1.0), 1.0)), LARGEST_POWER)
    exponent = reports * math.log1p(growth) - 2 * math.log(tilt) - 0.5 * math.log(2 * math.pi * curvature)
    return exponent + math.log(unit / reports)


def root(value: Callable[[float], float], start: float, *, low: float, high: float, steps: int = 60) -> float:
    """Return roughly where a rising function is zero, between two ends of which the upper one may be infinite.

    Examples
    --------
    >>> round(root(lambda x: x * x - 2, 1.0, low=0.0, high=math.inf), 9)
    1.414213562
    """
    point, step = start, _FIRST * max(abs(start), _FIRST)
    before: tuple[float, float] | None = None
    for _ in range(steps):
        height = value(point)
        if height < 0:
            low = point
        else:
            high = point
        if height == 0 or high - low <= 1e-13 * abs(point):
            break
        guess = math.nan
        if before is not None and math.isfinite(height - before[1]) and height != before[1]:
            guess = point - height * (point - before[0]) / (height - before[1])
        if abs(guess - point) <= 1e-12 * abs(point):
            return min(max(guess, low), high)
        if not low < guess < high or abs(guess - point) > 8 * step:  # no slope to go by, or one that leads far away
            guess, step = point + math.copysign(step, -height), 8 * step
        if not low < guess < high:
            guess = 0.5 * (low + high)
        before, point = (point, height), guess
    return point
