"""The Rényi divergence of a few reports that matter, from a list of everything that they can be.

The counts of n reports of the reference distribution are multinomial. With A and B the sums of the likelihoods of
either input over all reports, P = A/n and Q = B/n times their probability, and A and B have mean n. So

    exp((α − 1)·D_α) − 1  =  E[ B·g(A/B) ]/n,        g(r) = r^α − 1 − α(r − 1) ≥ 0,

and no term is negative. Outcomes that hardly ever happen are left out. They have a probability under P
and Q, and cost at most exp((α − 1)ε₀) + α − 1 times as much.

A term is convex in the number of reports that are as likely for both inputs, and falls as it grows. So few of these
numbers are enough: docs/theory/numerics.md has the proof.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.binomial import relative_entropy
from shoal.numerics.outcomes import Window, log_probabilities, window
from shoal.numerics.renyi_integral import Kinds
from shoal.rounding import slack

__all__ = ["listed_excess", "moment_excess"]

_STEEPEST = 300.0
"""Of (α − 1)ε₀: beyond, hardly any count may be left out."""
_LEFT_OUT = 13.0
"""What is left out is about exp(−13) of the whole."""
_ROWS, _TERMS, _LITTLE = 100_000, 270_000, 5e-6
"""Outcomes that are listed where common reports are apart, and terms with those; what may be added by all others."""
_CHORDS, _WIDEST, _NEAR, _FAR = 1e-3, 1.5, 8.0, 4
"""Of the distance of knots, squared; the largest; within how many deviations they are; and how many beyond."""
_NEARLY_ALL = 1 - 1e-9
"""A kind with this probability is the usual one."""
_RARE, _MOST_RARE = 1e-5, 32
"""The probability of more reports of another common kind than are looked at, and the most of those."""
_BLOCKS, _MOVED, _APART = 50, 0.02, 0.5
"""Outcomes in at most so many blocks share these; and how far the common counts in a block may be apart: as a share of
their mean, and in deviations."""


def listed_excess(kinds: Kinds, ceiling: float, order: float, most: int) -> float | None:
    """Return an upper bound of exp((α − 1)·D_α) − 1, or nothing where more than so many outcomes are to be listed."""
    reports, steep = kinds.reports, (order - 1) * ceiling
    if reports == 1 or steep > _STEEPEST:
        return None
    shares = np.append(kinds.probabilities, kinds.missing)
    least = min(order * kinds.spread**2 / 2, 1.0) * min(order - 1, 1.0)  # roughly what is sought
    depth = steep + _LEFT_OUT + math.log(len(shares)) - math.log(least)
    some = np.flatnonzero((shares > 0) & (shares < _NEARLY_ALL)).tolist()
    windows = {kind: window(reports, float(shares[kind]), depth) for kind in some}
    common = _Common.of(kinds, windows, steep=steep, order=order)
    caps = {} if common is None else _caps(kinds, windows, common.kind)
    windows |= {kind: Window(0, cap, 0.0) for kind, cap in caps.items()}
    usual = int(np.argmax(shares)) if common is None else len(shares) - 1
    others = [kind for kind in windows if kind not in (usual, common and common.kind)]
    listed = math.prod(windows[kind].high - windows[kind].low + 1.0 for kind in others)
    if listed > (most if common is None else _ROWS):
        return None
    if common is not None:  # roughly how many terms there will be
        usually = [min(windows[kind].high + 1.0, 10 * math.sqrt(reports * shares[kind] + 1)) for kind in others]
        if math.prod(usually) * len(common.knots) > _TERMS:
            return None
    ranges = [np.arange(windows[kind].low, windows[kind].high + 1) for kind in others]
    columns = [grid.ravel() for grid in np.meshgrid(*ranges, indexing="ij")] if ranges else [np.zeros(1, dtype=int)]
    together = np.sum(columns, axis=0)
    fits = together <= reports
    columns, together = [column[fits] for column in columns], together[fits]
    rest = float(shares[usual]) + (0.0 if common is None else float(shares[common.kind]))
    logs, wrong = log_probabilities(shares[others].tolist(), rest, columns[: len(others)], together, reports)
    for kind, cap in caps.items():
        ratio = reports * float(shares[kind]) / rest / (cap + 1)
        logs[columns[others.index(kind)] == cap] -= math.log1p(-ratio) - slack(64)
    # Outcomes in a corner of all windows are rare: n times the largest likelihood bounds A and B.
    largest = max(float(kinds.firsts.max()), float(kinds.seconds.max()))
    kept = logs > -depth - math.log(len(logs)) - largest
    columns, together, logs = [column[kept] for column in columns], together[kept], logs[kept]
    likelihoods = np.exp(np.array([np.append(kinds.firsts, -np.inf), np.append(kinds.seconds, -np.inf)]))
    sums = np.multiply.outer(likelihoods[:, usual], reports - together)
    for kind, column in zip(others, columns, strict=False):
        sums += np.multiply.outer(likelihoods[:, kind], column)
    if common is None:
        total, terms = float(_terms(sums, np.exp(logs), order).sum()), len(logs)
    else:
        total, terms = common.total(sums, np.exp(logs), together, order)
        if math.isinf(total):
            return None
        others.append(common.kind)
    error = wrong + slack(16) * (terms + 16 + 4 * len(shares))
    corners = math.exp(wrong - depth) if not kept.all() else 0.0
    beyond = (math.fsum(windows[kind].beyond for kind in others) + corners) * (math.exp(steep) + order - 1)
    return (total / reports * (1 + error) + beyond) * (1 + slack(64))


def _caps(kinds: Kinds, windows: dict[int, Window], common: int) -> dict[int, int]:
    """Return the counts from which on rare kinds that are as likely for both inputs are looked at as if they were that.

    This only adds to the sum. One more of them is less likely by the factor n·p/rest/(count + 1) at most.
    """
    caps, rest = {}, float(kinds.probabilities[common]) + kinds.missing
    for kind in np.flatnonzero(kinds.firsts == kinds.seconds).tolist():
        mean, cap = kinds.reports * float(kinds.probabilities[kind]) / rest, 0
        while cap < _MOST_RARE and (mean > (cap + 1) / 2 or mean ** (cap + 1) > _RARE * math.factorial(cap + 1)):
            cap += 1
        if kind != common and windows[kind].low == 0 and cap < min(windows[kind].high, _MOST_RARE):
            caps[kind] = cap
    return caps


class _Common(NamedTuple):
    """Reports that are as likely for both inputs and are many, of which only a few counts are looked at.

    Given t of all other kinds but the missing one, they are binomial among n − t. The sum is convex in their count, so
    that it lies below its chords between a few counts; and its mean is convex in t.
    """

    kind: int
    likelihood: float
    reports: int
    share: float
    complement: float
    knots: NDArray[np.int64]
    width: int

    @classmethod
    def of(cls, kinds: Kinds, windows: dict[int, Window], *, steep: float, order: float) -> "_Common | None":
        """Return the most frequent such kind, if it is worth it and t is small against n."""
        same = np.where(kinds.firsts == kinds.seconds, kinds.probabilities, 0.0)
        kind = int(np.argmax(same))
        if not (kind in windows and same[kind] > 0 and kinds.missing > 0):
            return None
        share, complement = (float(each / (same[kind] + kinds.missing)) for each in (same[kind], kinds.missing))
        low, high = windows[kind].low, windows[kind].high
        others = sum(window.high for each, window in windows.items() if each not in (kind, len(kinds.probabilities)))
        mean = kinds.reports * float(same[kind])
        deviation = math.sqrt(mean * complement)
        width = max(math.floor(min(_MOVED * mean, _APART * deviation) / share), 1)
        # A chord of width h adds about h²/12 of the second derivative, which is about α/mean², or α²/mean².
        gap = min(math.sqrt(_CHORDS * mean / max(order, order**2 / 4, 2.0)), _WIDEST)
        # The sum grows by exp((α − 1)ε₀) at most as the count falls to zero, and moves the counts that matter.
        start = max(mean - (_NEAR + 2 * steep / math.sqrt(mean)) * deviation, low)
        stop = min(mean + _NEAR * deviation, high)
        number = math.ceil((stop - start) / (gap * deviation)) + 1
        if high - low < 2 * number or others > _BLOCKS * width or others + width >= kinds.reports:
            return None
        ends = (np.linspace(low, start, _FAR), np.linspace(start, stop, number), np.linspace(stop, high, _FAR))
        knots = np.unique(np.clip(np.rint(np.concatenate(ends)), low, high).astype(np.int64))
        likelihood = math.exp(float(kinds.firsts[kind]))
        return cls(kind, likelihood, kinds.reports, share, complement, knots, width)

    def total(
        self, sums: NDArray[np.float64], weights: NDArray[np.float64], together: NDArray[np.int64], order: float
    ) -> tuple[float, int]:
        """Return the sum over outcomes of all other kinds, with these A, B, probabilities and t, and all counts.

        With the fewest common reports a term is largest; where even that hardly matters, it is all that is looked at.
        Returned with it is how many terms there are; if these are too many, infinity.
        """
        usual = self.likelihood * self.reports * self.share
        largest = _terms(sums + self.likelihood * self.knots[0], weights, order)
        matter = largest > _LITTLE / len(weights) * float(_terms(sums + usual, weights, order).sum())
        terms = len(weights) + int(matter.sum()) * len(self.knots)
        if terms > _TERMS:
            return math.inf, terms
        total = float(largest[~matter].sum())
        sums, weights, together = sums[:, matter], weights[matter], together[matter]
        blocks = together // self.width
        for block in np.unique(blocks).tolist():
            rows = blocks == block
            ends = [self._hats(self.reports - each * self.width) for each in (block, block + 1)]
            both = sums[:, rows, None] + self.likelihood * self.knots
            means = _terms(both, weights[rows, None], order) @ np.transpose(ends)
            share = together[rows] / self.width - block
            total += float(((1 - share) * means[:, 0] + share * means[:, 1]).sum())
        return total, terms

    def _hats(self, trials: int) -> NDArray[np.float64]:
        """Return the weight of each knot: of the binomial counts around it, and at the ends of all beyond.

        To the left of all knots the first chord goes on.
        """
        low, high = int(self.knots[0]), min(int(self.knots[-1]), trials)
        counts = np.arange(low, high + 1)
        if not len(counts):
            return np.append(self._below(trials, low), np.zeros(len(self.knots) - 1))
        logs, wrong = log_probabilities([self.share], self.complement, [counts], counts, trials)
        probabilities = np.exp(logs + wrong)
        left = np.minimum(np.searchsorted(self.knots, counts, side="right") - 1, len(self.knots) - 2)
        shares = (counts - self.knots[left]) / (self.knots[left + 1] - self.knots[left])
        hats = np.bincount(left, probabilities * (1 - shares), len(self.knots))
        hats += np.bincount(left + 1, probabilities * shares, len(self.knots))
        if low > 0:
            hats[0] += self._below(trials, low)
        if high < trials:
            hats[-1] += self._tail(trials, high + 1) if high + 1 > trials * self.share else 1.0
        return np.asarray(hats)

    def _below(self, trials: int, low: int) -> float:
        """Return a bound of E[1 + (low − N)/gap; N < low]: relative to the first knot, the first chord goes on so.

        (low − N)₊ ≤ exp(θ(low − N))/(eθ), with the tilt θ that is best for Chernoff's bound.
        """
        if low >= min(trials * self.share, trials):
            return 1.0 + low
        gap = float(self.knots[1] - self.knots[0])
        tilt = math.log(self.share * (trials - low)) - math.log(self.complement * low)
        return self._tail(trials, low) * (1 + 1 / (math.e * max(tilt, 1e-9) * gap)) * (1 + 1e-9)

    def _tail(self, trials: int, count: int) -> float:
        """Return Chernoff's bound of the probability of so many, or of anything still farther from the mean."""
        entropy = relative_entropy(count / trials, self.share, self.complement)
        return math.exp(-trials * entropy) * (1 + slack(64) * trials)


def _terms(sums: NDArray[np.float64], weights: NDArray[np.float64], order: float) -> NDArray[np.float64]:
    """Return weight·B·g(A/B) of each A and B, of which both are zero or none."""
    first, second = np.maximum(sums, 1e-300)
    return np.asarray(moment_excess(np.log(first / second), order) * (weights * second))


def moment_excess(logs: NDArray[np.float64], order: float) -> NDArray[np.float64]:
    """Return r^α − 1 − α(r − 1), given ln r with an error of a few units of r itself, rounded up."""
    power, excess = np.expm1(order * logs), np.expm1(logs)
    line = order * excess
    doubt = slack(64) * (np.abs(power) + np.abs(line) + order * np.abs(power - excess))
    return np.asarray(np.maximum(power - line, 0.0) + doubt)
