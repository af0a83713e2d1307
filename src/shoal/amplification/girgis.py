"""The first Rényi bound of shuffling, and the shuffled binary randomized response that no bound can beat.

Girgis, Data, Diggavi, Suresh and Kairouz, "On the Rényi differential privacy of the shuffle model", arXiv 2105.05180
(CCS 2021): Theorem 1 is the upper bound; the lower bound there, for binary randomized response, is an exact divergence
written as a sum of moments.

Theorem 1 is short to prove. Each other person is, with probability e^−ε₀, a clone of the victim in the second world.
Among m clones and the victim, the likelihood ratio is 1 + X, X the mean of m + 1 independent terms of mean zero that
lie between e^−ε₀ − 1 and e^ε₀ − 1. Their variance is at most (e^ε₀ − 1)²/e^ε₀, and by Hoeffding's lemma E|X|ⁱ ≤
i·Γ(i/2)·((e^ε₀ − e^−ε₀)²/(2(m + 1)))^(i/2). Expand (1 + X)^α. By Chernoff's bound there are fewer than (n − 1)/(2e^ε₀)
clones with probability at most exp(−(n − 1)/(8e^ε₀)), and even then the moment is at most e^(αε₀).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.setting import ShufflingBound
from shoal.assumptions import FIXED, PURE
from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack

Array = NDArray[np.float64]

_LARGEST_ORDER = 65_536
_ORDERS = tuple(sorted({round(2 * 1.09**step) for step in range(121)}))
_NODES = 1 << 16
_LEFT_OUT = 45.0
"""Terms smaller than the largest one by this exponent are left out of a lower bound."""


@dataclass(frozen=True)
class GirgisForm(UpperProfile):
    """The Rényi bound of Girgis et al., and what it says of ε and δ; for one randomizer, the same for all.

    For a whole order α ≥ 2, with E = e^ε₀ and m = ⌊(n − 1)/(2E)⌋ + 1,

        exp((α − 1)·D_α)  ≤  1 + C(α, 2)·(E − 1)²/(mE) + Σ C(α, i)·i·Γ(i/2)·((E² − 1)²/(2mE²))^(i/2)
                               + exp(αε₀ − (n − 1)/(8E)),        the sum over i = 3, …, α.

    (α − 1)·D_α is convex in α and zero at one, so that orders in between are bounded by the chord. ε and δ come from
    the best of many whole orders, by Proposition 12 of Canonne, Kamath and Steinke, arXiv 2004.00010.

    Theorem 1, arXiv 2105.05180 (CCS 2021). Proven: see the head of this file. The constants are those of
    github.com/yixuanLL/HPS too, which starts its sum at i = 2 and so counts that term twice.
    """

    reports: int
    local_epsilon: float

    no_bracket = 'a Rényi bound has no pair, and hence no exact value to bracket; use bound="strong-clones"'

    def renyi(self, orders: Array) -> Array:
        """Return upper bounds of the Rényi divergence at each order α > 1."""
        return np.array([self._divergence(float(order)) for order in orders], dtype=np.float64)

    def epsilon(self, delta: float) -> float:
        """Return the best ε over many orders, rounded up, or ε₀."""
        if delta < SMALLEST_DELTA or self.local_epsilon == 0:
            return self.local_epsilon
        least = self._best(lambda order, moment: (moment - math.log(delta) + _conversion(order)) / (order - 1))
        return max(0.0, min(self.local_epsilon, least + 1e-12 * abs(least)))

    def delta(self, epsilon: float) -> float:
        """Return the best δ over many orders, rounded up."""
        if epsilon >= self.local_epsilon:
            return 0.0

        def logarithm(order: int, moment: float) -> float:
            spent = (order - 1) * epsilon
            return moment - spent + _conversion(order) + slack(64) * (16 + moment + spent)

        return max(SMALLEST_DELTA, math.exp(min(0.0, self._best(logarithm))))

    def _divergence(self, order: float) -> float:
        if order > _LARGEST_ORDER or self.local_epsilon == 0:
            return self.local_epsilon
        below = math.floor(order)
        share = order - below
        moment = (1 - share) * self._moment(below) + (share * self._moment(below + 1) if share else 0.0)
        return min(self.local_epsilon, moment / (order - 1) * (1 + 1e-13))

    def _moment(self, order: int) -> float:
        """Return the theorem's bound of (α − 1)·D_α, or (α − 1)·ε₀ where that is smaller."""
        return min(_log_moment(self.reports, self.local_epsilon, order), (order - 1) * self.local_epsilon)

    def _best(self, value: Callable[[int, float], float]) -> float:
        """Return the least value over a ladder of orders, refined around the best rung."""
        values = [value(order, self._moment(order)) for order in _ORDERS]
        best = int(np.argmin(values))
        first = _ORDERS[max(best - 1, 0)]
        last = _ORDERS[min(best + 1, len(_ORDERS) - 1)]
        step = max(1, (last - first) // 24)
        return min(*values, *(value(order, self._moment(order)) for order in range(first, last + 1, step)))


def response_renyi(orders: Array, *, reports: int, local_epsilon: float) -> Array:
    """Return what no bound of the Rényi divergence can beat, because shuffled binary randomized response reaches it.

    All n people hold one value, or one of them the other: the number of ones is K ~ Bin(n, p), p = 1/(e^ε₀ + 1), or 1 +
    X of that, X = (e^ε₀ − e^−ε₀)·(K − np)/n. The larger of the two directions, E[(1 + X)^α] and E[(1 + X)^(1 − α)], is
    rounded down. For whole orders the first is, term by term, the lower bound of arXiv 2105.05180; the second is often
    larger.

    E[(1 + X)^s] − 1 = E[g(X)] with g(x) = (1 + x)^s − 1 − s·x ≥ 0, as E[X] = 0: leaving terms out errs downward. Where
    more than 65,536 would be left, blocks take the least of their terms: the probabilities rise and fall once, g falls
    and rises once.
    """
    if local_epsilon == 0:
        return np.zeros_like(orders)
    counts = _Counts(reports, local_epsilon)
    nodes = counts.overview()
    weights = counts.log_probabilities(nodes)
    shift = counts.shifts(nodes)
    result = np.empty_like(orders)
    for index, order in enumerate(orders):
        excess = max(
            _log_excess(counts, nodes, weights + _log_growth(shift, power), power)
            for power in (float(order), 1 - float(order))
        )
        moment = excess if excess > 30 else math.log1p(math.exp(excess))
        result[index] = min(local_epsilon, moment / (order - 1)) * (1 - 1e-12)
    return result


@dataclass(frozen=True)
class _Counts:
    """The number of ones among n people who all hold the other value."""

    reports: int
    local_epsilon: float

    @property
    def probability(self) -> float:
        return math.exp(-self.local_epsilon) / (1 + math.exp(-self.local_epsilon))

    @property
    def complement(self) -> float:
        return 1 / (1 + math.exp(-self.local_epsilon))

    def overview(self) -> Array:
        """Return counts spread over the whole range, dense around the mean and at zero."""
        mean = self.reports * self.probability
        near = math.sqrt(mean * self.complement + 1) * np.linspace(-40, 40, 1601)
        far = np.geomspace(1, self.reports + 1, 600) - 1
        spread = np.concatenate((mean + near, far, np.linspace(0, self.reports, 1601)))
        return np.unique(np.clip(np.floor(spread), 0, self.reports))

    def shifts(self, counts: Array) -> Array:
        """Return X at each count, between e^−ε₀ − 1 and e^ε₀ − 1."""
        scale = 2 * math.sinh(self.local_epsilon) / self.reports
        shifts = (counts - self.reports * self.probability) * scale
        return np.clip(shifts, math.expm1(-self.local_epsilon), math.expm1(self.local_epsilon))

    def log_probabilities(self, counts: Array) -> Array:
        """Return lower bounds of the logarithms of the probabilities."""
        reports = self.reports
        rest = self.reports - counts
        if reports <= 1024:
            table = _log_factorials()
            logs = table[reports] - table[counts.astype(np.int64)] - table[rest.astype(np.int64)]
            result = logs + counts * math.log(self.probability) + rest * math.log(self.complement)
            return np.asarray(result - 1e-14 * (1 + np.abs(result) + abs(table[reports])))
        # Stirling's formula, whose remainder lies between 1/(12m) − 1/(360m³) and 1/(12m).
        low = np.maximum(counts, 1.0)
        high = np.maximum(rest, 1.0)
        distance = _deviance(low, reports * self.probability) + _deviance(high, reports * self.complement)
        half = 0.5 * (math.log(reports) - np.log(low) - np.log(high) - math.log(2 * math.pi))
        remainder = 1 / (12 * reports) - 1 / (360 * float(reports) ** 3) - (1 / low + 1 / high) / 12
        inside = (
            half + remainder - distance - 2e-15 * (8 + np.abs(distance) + np.abs(counts - reports * self.probability))
        )
        none = reports * math.log1p(-self.probability) * (1 + 1e-15)
        every = reports * math.log(self.probability) * (1 + 1e-15)
        return np.where(counts == 0, none, np.where(rest == 0, every, inside))


def _log_excess(counts: _Counts, nodes: Array, heights: Array, power: float) -> float:
    """Return a lower bound of ln E[g(X)], from the counts that matter; `heights` are ln(probability·g) at the nodes."""
    matter = np.flatnonzero(heights >= heights.max() - _LEFT_OUT)
    first = nodes[max(matter[0] - 1, 0)]
    last = nodes[min(matter[-1] + 1, len(nodes) - 1)]
    if last - first < _NODES:
        ends = np.arange(first, last + 1)
        logs = counts.log_probabilities(ends) + _log_growth(counts.shifts(ends), power)
    else:
        ends = np.unique(np.floor(np.linspace(first, last, _NODES)))
        probabilities = counts.log_probabilities(ends)
        shifts = counts.shifts(ends)
        growth = _log_growth(shifts, power)
        logs = (
            np.minimum(probabilities[1:], probabilities[:-1])
            + np.minimum(growth[1:], growth[:-1])
            + np.log(np.diff(ends))
        )
        logs[(shifts[1:] >= 0) & (shifts[:-1] <= 0)] = -np.inf
    peak = float(logs.max())
    return peak + math.log(float(np.exp(logs - peak).sum()) * (1 - 1e-12))


def _log_growth(shifts: Array, power: float) -> Array:
    """Return lower bounds of ln g(x), g(x) = (1 + x)^s − 1 − s·x, for s > 1 or s < 0."""
    exponent = power * np.log1p(shifts)
    line = power * shifts
    exponent -= 1e-15 * np.abs(exponent)
    grown = np.expm1(np.minimum(exponent, 30.0))
    # The last digit of x is uncertain too: g has the derivative s·((1 + x)^(s − 1) − 1), and ln(1 + x) has 1/(1 + x).
    plain = grown - line - 1e-15 * (np.abs(grown) + (2 + abs(power)) * np.abs(line))
    exponent -= np.where(exponent < 29, 0.0, 1e-15 * abs(power) / (1 + shifts))
    with np.errstate(divide="ignore"):
        near = np.log(np.maximum(plain, 0.0))
        far = exponent + np.log(np.maximum(1 - (1 + np.abs(line)) * np.exp(-np.maximum(exponent, 29.0)), 0.0))
    return np.asarray(np.where(exponent < 29, near, far))


def _deviance(value: Array, mean: float) -> Array:
    """Return value·ln(value/mean) + mean − value."""
    gap = (value - mean) / mean
    return np.asarray(mean * ((1 + gap) * np.log1p(gap) - gap))


def _conversion(order: int) -> float:
    """Return what turns (α − 1)·(D_α − ε) into ln δ."""
    return (order - 1) * math.log1p(-1 / order) - math.log(order)


@lru_cache(maxsize=4096)
def _log_moment(reports: int, local_epsilon: float, order: int) -> float:
    """Return the theorem's upper bound of (α − 1)·D_α."""
    if order < 2:
        return 0.0
    clones = math.floor((reports - 1) / 2 * math.exp(-local_epsilon) * (1 - slack(8))) + 1
    log_scale = 2 * (local_epsilon + math.log(-math.expm1(-2 * local_epsilon))) - math.log(2 * clones)
    log_variance = local_epsilon + 2 * math.log(-math.expm1(-local_epsilon)) - math.log(clones)
    factorials = _log_factorials(_LARGEST_ORDER + 1)
    halves = _log_halves()
    powers = np.arange(3, order + 1)
    logs = factorials[order] - factorials[order - powers] - factorials[powers - 1] + halves[powers]
    few = order * local_epsilon - (reports - 1) / 8 * math.exp(-local_epsilon)
    terms = np.concatenate(
        ([math.log(order * (order - 1) / 2) + log_variance, few], logs + powers / 2 * log_scale),
    )
    peak = float(terms.max())
    excess = peak + math.log(float(np.exp(terms - peak).sum()))
    excess += slack(32) * (8 + abs(excess) + factorials[order] + order * (1 + local_epsilon + abs(log_scale)))
    excess += slack(8) * abs(reports * math.exp(-local_epsilon)) if few > peak - 50 else 0.0
    return (excess + 1e-13 if excess > 30 else math.log1p(math.exp(excess))) * (1 + 1e-13)


@lru_cache(maxsize=2)
def _log_factorials(size: int = 1025) -> Array:
    return np.array([math.lgamma(count + 1) for count in range(size)])


@lru_cache(maxsize=1)
def _log_halves() -> Array:
    """Return ln Γ(i/2), with a zero for i = 0."""
    return np.array([0.0, *(math.lgamma(count / 2) for count in range(1, _LARGEST_ORDER + 1))])


register(
    ShufflingBound(
        name="girgis",
        statement=(
            "The Rényi divergence of integer order α, with m = ⌊(n − 1)/(2e^ε₀)⌋ + 1, is at most "
            "ln(1 + C(α,2)(e^ε₀ − 1)²/(me^ε₀) + Σ_{i≥3} C(α,i)·i·Γ(i/2)·((e^{2ε₀} − 1)²/(2me^{2ε₀}))^{i/2} "
            "+ e^{ε₀α − (n−1)/(8e^ε₀)})/(α − 1); between integers (α − 1)·D_α is convex; ε by Proposition 12 of "
            "arXiv 2004.00010."
        ),
        citation="Theorem 1, Girgis, Data, Diggavi, Suresh and Kairouz, arXiv 2105.05180 (CCS 2021)",
        assumptions=(PURE, *FIXED),
        numerical=False,
        make=lambda setting: GirgisForm(setting.reports, setting.local_epsilon),
        adaptive=False,
        proof="the paper, and again in shoal.amplification.girgis",
    ),
)
