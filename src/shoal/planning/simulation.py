"""Trial runs of a mechanism: what it does to given people, on coins that can be tossed again."""

import math
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np

from shoal.arrays import Array, IntArray
from shoal.checks import Number, whole
from shoal.errors import ParameterError
from shoal.files.memory_limits import records_at_once
from shoal.mechanisms import Categorical, Estimate, Simulation
from shoal.progress import progress
from shoal.shown import Shown

_MOST_TRIALS = 10**6


def zipf_people(people: Number, categories: int) -> IntArray:
    """Return how many people hold each category, if the i-th is 1/i as frequent as the first."""
    total = whole(people=people)
    shares = 1 / np.arange(1, categories + 1)
    shares *= total / shares.sum()
    counts = np.floor(shares).astype(np.int64)
    rest = total - int(counts.sum())
    largest_remainders = np.argsort(counts - shares, kind="stable")[:rest]
    counts[largest_remainders] += 1
    return counts


@dataclass(frozen=True, eq=False)
class Trials(Shown):
    """What some trials have measured, and what the formula predicts."""

    truth: Array  # the true frequencies
    estimate: Estimate  # that of the first trial
    squared_errors: Array  # of all categories together, one a trial
    predicted: float  # the expected squared error, in closed form
    coverage: float  # the share of all intervals, over categories and trials, that hold the truth

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the estimate as plain values."""
        count = len(self.squared_errors)
        measured = float(self.squared_errors.mean())
        spread = float(self.squared_errors.std(ddof=1)) / math.sqrt(count) if count > 1 else None
        return {
            "trials": count,
            "squared_error": measured,
            "squared_error_standard_error": spread,
            "squared_error_closed_form": self.predicted,
            "ratio": measured / self.predicted if self.predicted > 0 else None,
            "coverage": self.coverage,
            "confidence": self.estimate.confidence,
        }

    def _columns(self) -> dict[str, list[Any]]:
        return {name: [value] for name, value in self.to_dict().items()}

    def _caption(self) -> str:
        return f"{len(self.squared_errors):,} trials of {self.estimate.reports:,} reports"


def run_trials(
    mechanism: Categorical, people: IntArray, *, trials: Number, seed: Number, confidence: float = 0.95
) -> Trials:
    """Run the mechanism on these people a few times, in memory."""
    count = whole(trials=trials, most=_MOST_TRIALS)
    n = int(people.sum())
    if n == 0:
        raise ParameterError("there are no people to simulate")
    coins = Simulation(seed=whole(seed=seed, least=0))
    truth = people / n
    ends = np.cumsum(people)
    parts = range(0, n, records_at_once(mechanism.bytes_per_report))
    starts = chain.from_iterable(repeat(parts, count))
    estimates: list[Estimate] = []
    errors = np.empty(count)
    covered = 0
    nothing = mechanism.aggregate(np.empty(0, np.int64))
    total = nothing
    for done, start in enumerate(progress(starts, total=count * len(parts), label="simulate"), start=1):
        people_now = np.arange(start, min(start + parts.step, n))
        values = np.searchsorted(ends, people_now, side="right")
        total += mechanism.aggregate(mechanism.randomize(values, simulation=coins))
        if done % len(parts) == 0:
            released = mechanism.released(total, simulation=coins)
            estimate = mechanism.estimate(released, confidence=confidence)
            errors[done // len(parts) - 1] = np.square(estimate.frequencies - truth).sum()
            inside = (estimate.lower <= truth) & (truth <= estimate.upper)
            covered += int(np.count_nonzero(inside))
            estimates = estimates or [estimate]
            total = nothing
    predicted = float(mechanism.variance(truth, reports=n).sum())
    return Trials(truth, estimates[0], errors, predicted, covered / (count * len(truth)))
