"""δ(ε) of a clone pair as the sum over the number of clones, every term of it, in one pass.

Given C = c clones, and with k = ⌈β(c + 1)⌉ − 1 the largest number of wrong ones at which the likelihood ratio still
exceeds e^ε, the divergence of the pair is

    D_c = up · b_c(k) − (e^ε − 1) · F_c(k − 1),      up = (e^ε₀ − e^ε)/(e^ε₀ + 1),

b_c and F_c being the probability and the distribution function of Bin(c, 1/2). As c grows by one, k stays or grows by
one, so b_c(k) is a running product and F_c(k − 1) a running sum. D_c decreases with c, so what matters is not the
bulk of Bin(n − 1, p) but its tilted version; the window is centred there, and what is outside is bounded by Chernoff
and charged.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.evaluators.binomial import EXPONENT_ERROR, log_probability, relative_entropy, running_product
from shoal.pairs.pair import ClonePair

__all__ = ["Window", "clone_window", "summed"]

_UNIT = 2.0**-53
_LONGEST = 16_384
_MOST_CLONES = 10**9
_DROPPED = 42.0
"""The window ends where Chernoff's bound of the rest falls below exp(−42) of the whole."""


class Window(NamedTuple):
    """The numbers of clones first, …, last that are summed.

    `log_whole` bounds log δ, and `neglected` what all others contribute to δ; both from (x)₊ ≤ exp(tilt·x)/(e·tilt),
    which holds for every tilt > 0.
    """

    first: int
    last: int
    neglected: float
    log_whole: float
    tilt: float

    @property
    def is_short(self) -> bool:
        """Tell whether the sum is faster than the integral; its tail at the last number of clones has 10·√c terms."""
        return self.last - self.first <= _LONGEST and self.last <= _MOST_CLONES


def clone_window(pair: ClonePair, epsilon: float) -> Window:
    """Return the window of the sum over the number of clones."""
    reports, probability, complement = float(pair.reports), pair.clone_probability, pair.other_probability
    share = pair.threshold(epsilon)
    odds = math.log1p(-share) - math.log(share)
    tilt = 0.5 * (odds + math.sqrt(odds**2 + 8 / max(reports * probability * share * (1 - share), 0.25)))
    growth = 0.5 * (math.expm1(tilt * share) + math.expm1(tilt * (share - 1)))
    survival, moment = 1 + growth, 1 + probability * growth
    tilted, tilted_complement = probability * survival / moment, complement / moment

    mean = reports * tilted
    width = math.sqrt(2 * _DROPPED * mean * tilted_complement)
    low = max(1, math.floor(mean - width - _DROPPED))
    high = min(pair.reports, math.ceil(mean + width + _DROPPED))
    rest = 0.0
    if low > 1:
        rest += math.exp(-reports * relative_entropy((low - 1) / reports, tilted, tilted_complement))
    if high < pair.reports:
        rest += math.exp(-reports * relative_entropy((high + 1) / reports, tilted, tilted_complement))
    log_whole = math.log(1.001 * pair.scale(epsilon) / tilt) - 1 + reports * math.log1p(probability * growth)
    neglected = rest * math.exp(min(log_whole, 700.0))
    return Window(low - 1, high - 1, neglected, log_whole, tilt)


def summed(pair: ClonePair, epsilon: float, window: Window) -> tuple[float, float]:
    """Return a lower and an upper bound of δ(ε) for 0 ≤ ε < ε₀, from the sum over the window."""
    trials = pair.reports - 1
    probability, complement = pair.clone_probability, pair.other_probability
    share, up, down = pair.threshold(epsilon), pair.advantage(epsilon), math.expm1(epsilon)

    clones = np.arange(window.first, window.last + 1, dtype=np.float64)
    wrong = np.maximum(np.ceil(share * (clones + 1)) - 1, 0.0)
    here, grows = clones[:-1], np.diff(wrong) > 0
    stay = here + 1 - wrong[:-1]
    half_ratios = 0.5 * (here + 1) / np.where(grows, wrong[1:], stay)
    weight_ratios = (trials - here) / (here + 1) * (probability / complement)

    centre = _centre(weight_ratios * half_ratios)
    weights = running_product(weight_ratios, centre)
    halves = running_product(half_ratios, centre)
    top = float(halves[-1]) * _tail_ratio(float(clones[-1]), float(wrong[-1]))
    moves = 0.5 * halves[:-1] * np.where(grows, 1.0, -wrong[:-1] / stay)
    tails = np.append(top - np.cumsum(moves[::-1])[::-1], top)

    middle = float(clones[centre])
    log_weight = log_probability(trials, middle, probability, complement)
    log_half = log_probability(middle, float(wrong[centre]), 0.5, 0.5)
    peaks, sums = float((weights * halves).sum()), float((weights * tails).sum())
    gain, loss = up * peaks, down * sums

    # Rounding. Each running product is off by a few units per step from the centre. Weights multiply gain and loss
    # alike; errors of b_c(k) enter F_c through a sum of terms of both signs, so there their absolute values are added.
    steps = 8 * _UNIT * (np.abs(np.arange(len(clones)) - centre) + 8)
    strays = np.append(np.cumsum((np.abs(moves) * steps[:-1])[::-1])[::-1], 0.0) + top * (
        steps[-1] + (64 + 40 * math.sqrt(clones[-1])) * _UNIT
    )
    offsets = abs(trials * probability - middle) + abs(float(wrong[centre]) - middle / 2)
    log_error = EXPONENT_ERROR * (16 + abs(log_weight) + abs(log_half) + offsets)
    error = (
        2 * float((weights * steps * (up * halves + down * np.abs(tails))).sum())
        + down * float((weights * strays).sum())
        + (log_error + len(clones) * _UNIT) * (gain + loss)
    )
    # One exponential for the whole: its parts may be too small for a double of full accuracy.
    log_size = log_weight + log_half
    upper = math.exp(log_size + math.log(gain - loss + error)) + window.neglected
    lower = math.exp(log_size + math.log(gain - loss - error)) if gain - loss > error else 0.0
    return lower, upper


def _centre(ratios: NDArray[np.float64]) -> int:
    """Return the position of the largest term, where the successive ratios fall through one."""
    return int(np.searchsorted(-ratios, -1.0)) if len(ratios) else 0


def _tail_ratio(clones: float, wrong: float) -> float:
    """Return F_c(k − 1)/b_c(k) for Bin(c, 1/2), as the sum of its terms from the largest down."""
    if wrong == 0:
        return 0.0
    first = wrong / (clones - wrong + 1)
    count = int(min(wrong, 45 / max(1 - first, 1e-300), 10 * math.sqrt(clones) + 64))
    steps = np.arange(count, dtype=np.float64)
    return float(np.cumprod((wrong - steps) / (clones - wrong + 1 + steps)).sum())
