"""What no bound for a run can beat: two neighbouring datasets, and events that tell them apart.

All examples but one pull the same way, and the one pulls the other way: its batch stands out by twice the clip norm,
or by once that if the example is zeroed. Two statistics of a pass see it: whether any sum exceeds a level (Chua et
al., arXiv 2403.17673), and what all sums add up to.
"""

import math

import numpy as np

from shoal.amplification.gaussian import GaussianProfile
from shoal.checks import probability
from shoal.sgd.run import Run

__all__ = ["lower_bound"]

_LEVELS = 240
_FEW = 60
"""With more passes than this, only the event that some pass has such a sum is tried."""
_DOWN = 1 - 1e-9


def lower_bound(run: Run, *, delta: float) -> float:
    """Return an ε below which no (ε, δ) holds for this run, with fresh permutations.

    Examples
    --------
    >>> run = Run(examples=60_000, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
    >>> round(lower_bound(run, delta=1e-6), 2)
    6.06
    """
    delta = probability(delta=delta)
    multiplier = run.sum_multiplier if run.sums_only else run.noise_multiplier
    count = run.steps if run.sums_only else run.examples
    summed = run.sensitivity * math.sqrt(run.epochs / count) / multiplier
    best = GaussianProfile(1, 1 / summed).alone(delta * (1 + 1e-6)) * _DOWN
    here, there = 2 / multiplier, (0.0 if run.adjacency == "replace" else 1.0) / multiplier
    for level in np.linspace(0.0, here + 9.0, _LEVELS).tolist():
        unseen = (count - 1) * _log_below(level)  # the logarithm of the chance that no other sum exceeds the level
        logs = [unseen + _log_below(level - mean) for mean in (here, there)]
        best = max(best, _told_apart(logs[0], logs[1], run.epochs, delta))
    return best


def _log_below(point: float) -> float:
    """Return the logarithm of the probability that a standard normal variable is below the point."""
    if point > 0:
        return math.log1p(-0.5 * math.erfc(point / math.sqrt(2)))
    return math.log(max(0.5 * math.erfc(-point / math.sqrt(2)), 1e-300))


def _told_apart(first: float, second: float, passes: int, delta: float) -> float:
    """Return an ε that an event contradicts: that in k of the passes, or more, any sum exceeds the level.

    The arguments are the logarithms of the chances that no sum does in a pass, in both worlds.
    """
    best = 0.0
    for times in range(1, passes + 1) if passes <= _FEW else (1,):
        seen, unseen = (_at_least(times, passes, -math.expm1(log)) for log in (first, second))
        best = max(best, _ratio(seen, unseen, delta))
    # And that none does, in any pass.
    return max(best, _ratio(math.exp(passes * second), math.exp(passes * first), delta))


def _ratio(first: float, second: float, delta: float) -> float:
    """Return ln((first − δ)/second), rounded down, if that is positive."""
    if first * _DOWN <= delta or second <= 0:
        return 0.0
    return max(0.0, math.log((first * _DOWN - delta) / (second / _DOWN + 1e-300)) - 1e-9)


def _at_least(times: int, trials: int, chance: float) -> float:
    """Return the probability of so many successes or more."""
    if times == 1:
        return -math.expm1(trials * math.log1p(-chance)) if chance < 1 else 1.0
    if times == trials:
        return chance**trials
    log_odds = math.log(max(chance, 1e-300)) - math.log1p(-min(chance, 1 - 1e-16))
    base = trials * math.log1p(-min(chance, 1 - 1e-16))
    terms = [
        math.exp(base + k * log_odds + math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1))
        for k in range(times, trials + 1)
    ]
    return min(1.0, math.fsum(terms))
