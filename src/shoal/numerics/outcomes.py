"""δ(ε) of a given randomizer at many ε at once, from one list of everything that n reports can be.

An outcome of n reports is how often each kind of report is there: its counts. Among n reports of the reference
distribution they are multinomial; with the likelihoods a and b of either input, relative to the reference, P has
A/n = Σ aᵢNᵢ/n times that probability, and Q has B/n = Σ bᵢNᵢ/n times. None of this depends on ε. So with the outcomes
sorted by A/B, and the sums of P and Q over those before each of them,

    δ(ε) = Σ (A − e^ε·B)₊/n = P(A > e^ε·B) − e^ε·Q(A > e^ε·B)

is one look-up for each ε. Counts that are hardly ever as large or as small are left out, and charged.

Kinds of reports that hardly matter are not listed: given all other counts, theirs are binomial, and E[(m + Y)₊] is at
least (m)₊ where Y has mean zero, by Jensen's inequality, and not much more. docs/theory/numerics.md has the proofs.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.binomial import EXPONENT_ERROR, log_probability, relative_entropy
from shoal.rounding import slack

__all__ = ["OutcomeList", "Unlisted", "Window", "blurred", "log_probabilities", "outcome_list", "window"]

Array = NDArray[np.float64]

_DEPTH = 64.0
"""What is left out has probability exp(−64), about."""
_MOST, _LARGEST = 400_000, 10**8
"""How many outcomes are listed, and of how many reports, at most."""
_NEGLIGIBLE = 1e-5
"""What kinds that are not listed may have of the variance of the sum."""


class Unlisted(NamedTuple):
    """A kind of report that is not listed; given each outcome of the others, its count is binomial.

    Attributes
    ----------
    means : numpy.ndarray
        A and B of each outcome, on average, in two rows.
    weights : numpy.ndarray
        Its probability among n reports of the reference distribution, over n.
    deviations : numpy.ndarray
        The standard deviation of the count, given the outcome.
    tells : tuple of float
        a and b of this kind, less those of the usual one, which takes its place.
    """

    means: Array
    weights: Array
    deviations: Array
    tells: tuple[float, ...]

    def excess(self, central: float) -> float:
        """Return a bound of Σ E[(m + Y)₊] − (m)₊, by Scarf's bound, or Chernoff's where m is far from zero."""
        sizes = np.abs(self.means[0] - central * self.means[1])
        step = abs(self.tells[0] - central * self.tells[1]) * (1 + 1e-9) + slack(16) * max(map(abs, self.tells))
        if step < 1e-100:  # both inputs report it alike, and ε = 0
            return 1e-90
        widest = step * float(self.deviations.max(initial=0.0))
        near = sizes < 14 * widest + 120 * step
        sizes, spreads = sizes[near], step * np.maximum(self.deviations[near], 1e-9)
        total = float((self.weights[near] * blurred(sizes, spreads, step)).sum())
        # Elsewhere the second is below exp(−60) of this.
        return (total + math.exp(-60.0) * (step + widest) * float(self.weights.sum())) * (1 + 1e-9)


def blurred(sizes: Array, spreads: Array | float, step: float) -> Array:
    """Return a bound of E[(m + Y)₊] − (m)₊ for each |m|: Scarf's, or Chernoff's where m is far from zero.

    Parameters
    ----------
    sizes : numpy.ndarray
        |m|.
    spreads : numpy.ndarray or float
        At least the standard deviation of Y, a sum of independent terms with mean zero; positive.
    step : float
        What no term exceeds, in absolute value.
    """
    scarf = 0.5 * spreads**2 / (np.hypot(sizes, spreads) + sizes)
    tilts = np.clip(sizes / (1.44 * spreads**2), 1e-3 / spreads, 1 / step)
    chernoff = np.exp(np.minimum(0.72 * (spreads * tilts) ** 2 - tilts * sizes, 0.0)) / (math.e * tilts)
    return np.asarray(np.minimum(scarf, chernoff))


class OutcomeList(NamedTuple):
    """All outcomes that matter, those that speak most for P first.

    Attributes
    ----------
    ratios : numpy.ndarray
        A/B of each, falling.
    first, second : numpy.ndarray
        The sums of P and Q over all outcomes up to each.
    error : float
        How wrong these may be, relatively.
    neglected : float
        A bound of P of everything that is not listed.
    rest : Unlisted, optional
        What is not listed.
    """

    ratios: Array
    first: Array
    second: Array
    error: float
    neglected: float
    rest: Unlisted | None = None

    def brackets(self, epsilons: Array) -> tuple[Array, Array]:
        """Return lower and upper bounds of δ at each ε."""
        central = np.exp(epsilons)
        counts = np.searchsorted(-self.ratios, -central)
        first, second = (np.concatenate(([0.0], sums))[counts] for sums in (self.first, self.second))
        wrong = 4 * self.error * first
        value = np.maximum(first - central * second, 0.0)
        upper = value + wrong + self.neglected
        if self.rest is not None:
            upper += np.array([self.rest.excess(ratio) for ratio in central.tolist()])
        return np.maximum(value - wrong, 0.0), upper


def outcome_list(
    firsts: Sequence[float], seconds: Sequence[float], probabilities: Sequence[float], reports: int
) -> OutcomeList | None:
    """Return the list for n > 1 reports; nothing where it would be too long.

    Parameters
    ----------
    firsts, seconds : sequence of float
        a and b of every kind of report.
    probabilities : sequence of float
        Theirs, summing to one.
    reports : int
        n.
    """
    likelihoods, shares = np.array([firsts, seconds]), np.array(probabilities)
    usual = int(np.argmax(shares))
    others = [kind for kind in range(len(shares)) if kind != usual and shares[kind] > 0]
    unlisted = _unlisted(likelihoods, shares, reports, usual, others)
    listed = [kind for kind in others if kind != unlisted]
    windows = [window(reports, float(shares[kind])) for kind in listed]
    if reports > _LARGEST or math.prod(each.high - each.low + 1.0 for each in windows) > _MOST:
        return None
    ranges = [np.arange(each.low, each.high + 1) for each in windows]
    columns = [grid.ravel() for grid in np.meshgrid(*ranges, indexing="ij")] if ranges else []
    together = np.sum(columns, axis=0) if columns else np.zeros(1, dtype=np.int64)
    inside = together <= reports
    columns, together = [column[inside] for column in columns], together[inside]
    # Everybody who is not listed is of the usual kind, or of the one other.
    rest = float(shares[usual]) if unlisted is None else float(shares[usual] + shares[unlisted])
    logs, wrong = log_probabilities(shares[listed].tolist(), rest, columns, together, reports)
    weights, left = np.exp(logs) / reports, reports - together
    base, share = likelihoods[:, usual], 0.0
    if unlisted is not None:
        share = float(shares[unlisted]) / rest
        base = (float(shares[usual]) * base + float(shares[unlisted]) * likelihoods[:, unlisted]) / rest
    means = np.multiply.outer(base, left)
    for kind, column in zip(listed, columns, strict=True):
        means += np.multiply.outer(likelihoods[:, kind], column)
    kept = (means[1] > 0) & (weights > 0)
    means, weights, left = means[:, kept], weights[kept], left[kept]
    ratios = means[0] / means[1]
    order = np.argsort(-ratios)
    first, second = (np.cumsum((weights * mean)[order]) for mean in means)
    error = wrong + slack(4) * (len(weights) + 16 + 4 * len(shares))
    neglected = math.fsum(each.beyond for each in windows) * (1 + 1e-9)
    everything = OutcomeList(ratios[order], first, second, error, neglected)
    if unlisted is None:
        return everything
    tells = tuple((likelihoods[:, unlisted] - likelihoods[:, usual]).tolist())
    deviations = np.sqrt(left * share * (1 - share)) * (1 + 1e-9)
    return everything._replace(rest=Unlisted(means, weights, deviations, tells))


def _unlisted(likelihoods: Array, shares: Array, reports: int, usual: int, others: list[int]) -> int | None:
    """Return a kind of report that tells so little that its count need not be listed, if there is one."""
    variance = float((shares * (likelihoods[0] - likelihoods[1]) ** 2).sum())
    central = math.exp(min(math.sqrt(variance / reports), 50.0))  # the loss has about this standard deviation
    tells = likelihoods[0] - central * likelihoods[1]
    of_each = shares * (tells - tells[usual]) ** 2
    little = [kind for kind in others if of_each[kind] <= _NEGLIGIBLE * variance]
    return max(little, key=lambda kind: float(shares[kind]), default=None)


class Window(NamedTuple):
    """The counts of one kind that are listed, and a bound of the probability of all others under P."""

    low: int
    high: int
    beyond: float


def window(reports: int, probability: float, depth: float = _DEPTH) -> Window:
    """Return the window for a kind of this probability, by Chernoff's bound for the other n − 1 reports.

    The count is below `low` only if theirs is, and above `high` only if theirs is `high` at least.
    """
    trials, complement = reports - 1, 1 - probability
    mean = trials * probability
    ends, beyond = [], 0.0
    for sign in (-1, 1):
        width = math.sqrt(2 * depth * mean * complement) + 1
        while True:
            end = math.floor(mean - width) if sign < 0 else math.ceil(mean + width)
            if not 0 < end < trials:
                break
            exponent = trials * relative_entropy(end / trials, probability, complement)
            if exponent >= depth:
                beyond += math.exp(-exponent)
                break
            width *= 1.1
        ends.append(end)
    return Window(max(ends[0], 0), ends[1] if ends[1] < trials else reports, beyond)


def log_probabilities(
    probabilities: list[float],
    rest: float,
    columns: list[NDArray[np.int64]],
    together: NDArray[np.int64],
    reports: int,
) -> tuple[Array, float]:
    """Return the logarithms of the multinomial probabilities of these counts, and how wrong they may be.

    They are that of one outcome near the most likely one, plus running sums of logarithms of ratios close to one.
    """
    centres = [math.floor(reports * probability) for probability in probabilities]
    log_start, wrong = 0.0, slack(64) * reports  # of probabilities that do not quite sum to one
    trials, share = reports, math.fsum((*probabilities, rest))
    for index, centre in enumerate(centres):
        following = math.fsum((*probabilities[index + 1 :], rest))
        value = log_probability(trials, centre, probabilities[index] / share, following / share)
        wrong += EXPONENT_ERROR * (8 + abs(value) + abs(centre - trials * probabilities[index] / share))
        log_start, trials, share = log_start + value, trials - centre, following
    left = max(trials, 1)
    logs = np.full(len(together), log_start)
    # (odds)^(c − centre)·centre!/c! for each kind, with odds = left·p/rest; and for the rest, with its count r,
    # r₀!/r!/left^(r₀ − r).
    parts = [
        (column, centre, left * probability / rest)
        for column, centre, probability in zip(columns, centres, probabilities, strict=True)
    ]
    for counts, centre, odds in (*parts, (reports - together, trials, float(left))):
        low, high = min(int(counts.min()), centre), max(int(counts.max()), centre)
        steps = np.log(odds / np.arange(low + 1, high + 1))
        sums = np.concatenate((-np.cumsum(steps[: centre - low][::-1])[::-1], [0.0], np.cumsum(steps[centre - low :])))
        logs += sums[counts - low]
        wrong += slack(4) * (len(sums) + 8) * float(np.abs(sums).max())
    return logs, wrong
