"""The Rényi divergence of a few reports that matter, from a list of everything that they can be.

The counts of n reports of the reference distribution are multinomial. With A and B the sums of the likelihoods of
either input over all reports, P = A/n and Q = B/n times their probability, and A and B have mean n. So

    exp((α − 1)·D_α) − 1  =  E[ B·g(A/B) ]/n,        g(r) = r^α − 1 − α(r − 1) ≥ 0,

and no term is negative. Outcomes that hardly ever happen are left out. They have a probability under P
and Q, and cost at most exp((α − 1)ε₀) + α − 1 times as much.
"""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.evaluators.outcomes import log_probabilities, window
from shoal.evaluators.renyi_integral import Kinds
from shoal.rounding import slack

__all__ = ["listed_excess", "moment_excess"]

_STEEPEST = 300.0
"""Of (α − 1)ε₀: beyond, hardly any count may be left out."""
_LEFT_OUT = 13.0
"""What is left out is about exp(−13) of the whole."""


def listed_excess(kinds: Kinds, ceiling: float, order: float, most: int) -> float | None:
    """Return an upper bound of exp((α − 1)·D_α) − 1, or nothing where more than so many outcomes are to be listed."""
    reports, steep = kinds.reports, (order - 1) * ceiling
    if reports == 1 or steep > _STEEPEST:
        return None
    shares = np.append(kinds.probabilities, kinds.missing)
    likelihoods = np.exp(np.array([np.append(kinds.firsts, -np.inf), np.append(kinds.seconds, -np.inf)]))
    usual = int(np.argmax(shares))
    others = [kind for kind in range(len(shares)) if kind != usual and shares[kind] > 0]
    least = min(order * kinds.spread**2 / 2, 1.0) * min(order - 1, 1.0)  # roughly what is sought
    depth = steep + _LEFT_OUT + math.log(len(shares)) - math.log(least)
    windows = [window(reports, float(shares[kind]), depth) for kind in others]
    if math.prod(each.high - each.low + 1.0 for each in windows) > most:
        return None
    ranges = [np.arange(each.low, each.high + 1) for each in windows]
    columns = [grid.ravel() for grid in np.meshgrid(*ranges, indexing="ij")] if ranges else [np.zeros(0, dtype=int)]
    together = np.sum(columns, axis=0)
    inside = together <= reports
    columns, together = [column[inside] for column in columns], together[inside]
    logs, wrong = log_probabilities(shares[others].tolist(), float(shares[usual]), columns, together, reports)
    # Outcomes in a corner of all windows are rare: n times the largest likelihood bounds A and B.
    largest = max(float(kinds.firsts.max()), float(kinds.seconds.max()))
    least_log = -depth - math.log(len(logs)) - largest
    kept = logs > least_log
    columns, together, logs = [column[kept] for column in columns], together[kept], logs[kept]
    sums = np.multiply.outer(likelihoods[:, usual], reports - together)
    for kind, column in zip(others, columns, strict=True):
        sums += np.multiply.outer(likelihoods[:, kind], column)
    seen = sums[1] > 0
    first, second, weights = sums[0][seen], sums[1][seen], np.exp(logs[seen])
    total = moment_excess(np.log(first / second), order) @ (weights * second / reports)
    error = wrong + slack(16) * (len(weights) + 16 + 4 * len(shares))
    corners = math.exp(wrong - depth) if not kept.all() else 0.0
    beyond = (math.fsum(each.beyond for each in windows) + corners) * (math.exp(steep) + order - 1)
    return (float(total) * (1 + error) + beyond) * (1 + slack(64))


def moment_excess(logs: NDArray[np.float64], order: float) -> NDArray[np.float64]:
    """Return r^α − 1 − α(r − 1), given ln r with an error of a few units of r itself, rounded up."""
    power, line = np.expm1(order * logs), order * np.expm1(logs)
    doubt = slack(64) * (np.abs(power) + np.abs(line)) + slack(64) * order * np.abs(np.exp(order * logs) - np.exp(logs))
    return np.asarray(np.maximum(power - line, 0.0) + doubt)
