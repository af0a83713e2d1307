"""Trial runs of a mechanism: what it does to given people, on coins that can be tossed again."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.checks import whole
from shoal.errors import ParameterError
from shoal.files.memory_limits import records_at_once
from shoal.mechanisms import Categorical, Estimate, Simulation
from shoal.progress import progress
from shoal.shown import Shown

__all__ = ["Trials", "run_trials", "zipf_people"]

_MOST_TRIALS = 10**6


def zipf_people(people: Any, categories: int) -> NDArray[np.int64]:
    """Return how many people hold each category, if the i-th is 1/i as frequent as the first.

    Examples
    --------
    >>> zipf_people(11, 3).tolist()
    [6, 3, 2]
    """
    people = whole(people=people)
    shares = 1 / np.arange(1, categories + 1)
    shares *= people / shares.sum()
    counts = np.floor(shares).astype(np.int64)
    rest = people - int(counts.sum())
    counts[np.argsort(counts - shares, kind="stable")[:rest]] += 1  # the largest remainders
    return counts


@dataclass(frozen=True, eq=False)
class Trials(Shown):
    """What some trials have measured, and what the formula predicts.

    Attributes
    ----------
    truth : numpy.ndarray
        The true frequencies.
    estimate : Estimate
        That of the first trial.
    squared_errors : numpy.ndarray
        Of all categories together, one a trial.
    predicted : float
        The expected squared error, in closed form.
    coverage : float
        The share of all intervals, over categories and trials, that hold the truth.
    """

    truth: NDArray[np.float64]
    estimate: Estimate
    squared_errors: NDArray[np.float64]
    predicted: float
    coverage: float

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the estimate as plain values."""
        measured, count = float(self.squared_errors.mean()), len(self.squared_errors)
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
    mechanism: Categorical, people: NDArray[np.int64], *, trials: Any, seed: Any, confidence: float = 0.95
) -> Trials:
    """Run the mechanism on these people a few times, in memory.

    Parameters
    ----------
    mechanism : Categorical
        What each person runs.
    people : numpy.ndarray
        How many of them hold each category.
    trials : object
        How often.
    seed : object
        Of the simulated coins; real reports never have one.
    confidence : float
        Of the intervals.
    """
    count = whole(trials=trials, most=_MOST_TRIALS)
    n = int(people.sum())
    if n == 0:
        raise ParameterError("there are no people to simulate")
    coins = Simulation(seed=whole(seed=seed, least=0))
    truth, ends = people / n, np.cumsum(people)
    parts = range(0, n, records_at_once(mechanism.bytes_per_report))
    estimates: list[Estimate] = []
    errors, covered = np.empty(count), 0
    total, steps = mechanism.aggregate(np.empty(0, np.int64)), count * len(parts)
    for done, start in enumerate(progress(_again(parts, count), total=steps, label="simulate"), start=1):
        values = np.searchsorted(ends, np.arange(start, min(start + parts.step, n)), side="right")
        total += mechanism.aggregate(mechanism.randomize(values, simulation=coins))
        if done % len(parts) == 0:
            estimate = mechanism.estimate(mechanism.released(total, simulation=coins), confidence=confidence)
            errors[done // len(parts) - 1] = np.square(estimate.frequencies - truth).sum()
            covered += int(np.count_nonzero((estimate.lower <= truth) & (truth <= estimate.upper)))
            estimates = estimates or [estimate]
            total = mechanism.aggregate(np.empty(0, np.int64))
    predicted = float(mechanism.variance(truth, reports=n).sum())
    return Trials(truth, estimates[0], errors, predicted, covered / (count * len(truth)))


def _again(parts: range, count: int) -> Iterator[int]:
    for _ in range(count):
        yield from parts
