"""Binomial probabilities that do not cancel, and δ(ε) of clones as the sum over their binomial number.

The probabilities are in the saddle-point form of C. Loader, "Fast and accurate computation of binomial probabilities"
(2000): log Pr(Bin(m, p) = x) is a difference of Stirling remainders, minus two non-negative deviances, plus half a
logarithm. Nothing large is subtracted from anything large, so the error stays near 1e-15 times (1 + the deviances).

The sum over the number of clones has every term, in one pass. Given C = c clones, and with k = ⌈β(c + 1)⌉ − 1 the
largest number of wrong ones at which the likelihood ratio still exceeds e^ε, the divergence is

    D_c = up · b_c(k) − (e^ε − 1) · F_c(k − 1),      up = (e^ε₀ − e^ε)/(e^ε₀ + 1),

b_c and F_c being the probability and the distribution function of Bin(c, 1/2). As c grows by one, k stays or grows by
one, so b_c(k) is a running product and F_c(k − 1) a running sum. D_c decreases with c, so what matters is not the
bulk of Bin(n − 1, p) but its tilted version; the window is centred there, and what is outside is bounded by Chernoff
and charged.
"""

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.distribution import Distribution
from shoal.rounding import UNIT, slack

__all__ = [
    "EXPONENT_ERROR", "Clones", "Window", "clone_sum", "clone_window", "deviance", "log_probability",
    "relative_entropy", "running_product",
]  # fmt: skip

EXPONENT_ERROR = slack(16)
"""The error of `log_probability` is at most this times (8 + |result| + |x − m·p|)."""

_LONGEST = 16_384
_MOST_CLONES = 10**9
_DROPPED = 42.0
"""The window ends where Chernoff's bound of the rest falls below exp(−42) of the whole."""

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_FIRST_REMAINDERS = (
    0.0,
    *(math.lgamma(m + 1) - ((m + 0.5) * math.log(m) - m + _HALF_LOG_2PI) for m in range(1, 16)),
)


def _stirling_remainder(count: float) -> float:
    """Return log(count!) minus Stirling's formula √(2π·count)·(count/e)^count, and zero for zero."""
    if count < 16:
        return _FIRST_REMAINDERS[int(count)]
    square = count * count
    tail = 1 / 1188 - 691 / (360360 * square)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - tail / square) / square) / square) / square) / count


def deviance(value: float, mean: float) -> float:
    """Return value·log(value/mean) + mean − value, which is never negative, without cancellation."""
    if value == 0:
        return mean
    gap = value - mean
    ratio = gap / (value + mean)
    if abs(ratio) >= 0.1:
        return value * math.log(value / mean) - gap
    # log(value/mean) = 2·artanh(ratio): sum its odd powers, the first taken together with −gap.
    total, power, square = gap * ratio, 2 * value * ratio, ratio * ratio
    for odd in range(3, 40, 2):
        power *= square
        following = total + power / odd
        if following == total:
            break
        total = following
    return total


def log_probability(trials: float, successes: float, probability: float, complement: float) -> float:
    """Return log Pr(Bin(trials, probability) = successes), for complement = 1 − probability."""
    failures = trials - successes
    if successes == 0 or failures == 0:
        if trials == 0:
            return 0.0
        kept, lost = (complement, probability) if successes == 0 else (probability, complement)
        if kept == 0:
            return -math.inf
        return trials * (math.log1p(-lost) if lost < 0.5 else math.log(kept))
    return (
        _stirling_remainder(trials)
        - _stirling_remainder(successes)
        - _stirling_remainder(failures)
        - deviance(successes, trials * probability)
        - deviance(failures, trials * complement)
        + 0.5 * (math.log(trials) - math.log(successes) - math.log(failures))
        - _HALF_LOG_2PI
    )


def relative_entropy(share: float, probability: float, complement: float) -> float:
    """Return the divergence of Bernoulli(share) from Bernoulli(probability), the exponent of Chernoff's bound."""
    return deviance(share, probability) + deviance(1 - share, complement)


def running_product(ratios: NDArray[np.float64], centre: int) -> NDArray[np.float64]:
    """Return the sequence with the given successive ratios that is one at `centre`."""
    left = np.cumprod(1 / ratios[:centre][::-1])[::-1]
    return np.concatenate((left, [1.0], np.cumprod(ratios[centre:])))


class Clones(Protocol):
    """What is asked of reports some of which look like the victim's, at random; the notation is that of `ClonePair`."""

    @property
    def reports(self) -> int:
        """The number of reports, n."""

    @property
    def local_epsilon(self) -> float:
        """ε₀, the largest loss."""

    @property
    def clone_probability(self) -> float:
        """The probability p that one person is a clone."""

    @property
    def other_probability(self) -> float:
        """1 − p, accurate also where p is close to one."""

    @property
    def hides(self) -> bool:
        """Whether anybody can be expected to hide the victim at all."""

    def advantage(self, epsilon: float) -> float:
        """Return δ(ε) of a single report."""

    def threshold(self, epsilon: float) -> float:
        """Return the share β of wrong clones below which the likelihood ratio exceeds e^ε."""

    def scale(self, epsilon: float) -> float:
        """Return the distance of the outer values of W, over n."""

    def distribution(self, epsilon: float) -> Distribution:
        """Return the distribution of W at ε."""


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


def clone_window(pair: Clones, epsilon: float) -> Window:
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


def clone_sum(pair: Clones, epsilon: float, window: Window) -> tuple[float, float]:
    """Return a lower and an upper bound of δ(ε) for 0 ≤ ε < ε₀, from the sum over the window."""
    trials = pair.reports - 1
    probability, complement = pair.clone_probability, pair.other_probability
    share, up, down = pair.threshold(epsilon), pair.advantage(epsilon), math.expm1(epsilon)

    clones = np.arange(window.first, window.last + 1, dtype=np.float64)
    wrong = np.maximum(np.ceil(share * (clones + 1)) - 1, 0.0)
    before, grows = clones[:-1], np.diff(wrong) > 0
    stay = before + 1 - wrong[:-1]
    half_ratios = 0.5 * (before + 1) / np.where(grows, wrong[1:], stay)
    weight_ratios = (trials - before) / (before + 1) * (probability / complement)

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
    steps = 8 * UNIT * (np.abs(np.arange(len(clones)) - centre) + 8)
    strays = np.append(np.cumsum((np.abs(moves) * steps[:-1])[::-1])[::-1], 0.0) + top * (
        steps[-1] + (64 + 40 * math.sqrt(clones[-1])) * UNIT
    )
    offsets = abs(trials * probability - middle) + abs(float(wrong[centre]) - middle / 2)
    log_error = EXPONENT_ERROR * (16 + abs(log_weight) + abs(log_half) + offsets)
    error = (
        2 * float((weights * steps * (up * halves + down * np.abs(tails))).sum())
        + down * float((weights * strays).sum())
        + (log_error + len(clones) * UNIT) * (gain + loss)
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
