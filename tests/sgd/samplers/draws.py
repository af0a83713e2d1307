"""What draws of a sampler look like: chi-square statistics, each as the probability of one as large."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from shoal.sgd.sampler import Indices

Counts = NDArray[np.int64]


def surprise(counts: Counts, expected: NDArray[np.float64]) -> float:
    """Return the probability that a chi-square statistic is as large as this one; rare kinds are put together."""
    order = np.argsort(-expected)
    counts, expected = counts[order], expected[order]
    often = int((expected >= 10).sum())
    counts = np.append(counts[:often], counts[often:].sum())
    expected = np.append(expected[:often], expected[often:].sum())
    if expected[-1] < 10:
        counts, expected = (np.append(each[:-2], each[-2:].sum()) for each in (counts, expected))
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def steps_of(batches: list[Indices], examples: int) -> Counts:
    """Return the step that each example is in, where each is in one."""
    steps = np.full(examples, -1)
    for step, batch in enumerate(batches):
        assert (steps[batch] == -1).all()
        steps[batch] = step
    assert (steps >= 0).all()
    return steps


def joint(first: Counts, second: Counts, steps: int) -> float:
    """Return how surprising pairs of steps are, if all pairs are equally likely."""
    counts = np.bincount(first * steps + second, minlength=steps * steps)
    return surprise(counts, np.full(steps * steps, len(first) / steps**2))


def sizes(counts: Counts, examples: int, joining: float) -> float:
    """Return how surprising sizes of independent batches are, if they are binomial."""
    return surprise(
        np.bincount(counts, minlength=examples + 1), binom(examples, joining).pmf(range(examples + 1)) * len(counts)
    )
