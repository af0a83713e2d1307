"""Frequency oracles: what the mechanisms for one of k categories have in common, from the report to the estimate."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.checks import positive, probability, whole
from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.pairs.likelihoods import Likelihoods, Support
from shoal.randomizers.coins import CHUNK, Coins, Simulation, coins_for
from shoal.randomizers.counts import Counts
from shoal.randomizers.design import Design, Moments
from shoal.randomizers.estimate import Estimate
from shoal.randomizers.interval import holders
from shoal.randomizers.mechanism import Mechanism, Reports

__all__ = ["Categorical", "check_counts", "checked_frequencies", "randomized"]


@dataclass(frozen=True, kw_only=True)
class Categorical(Mechanism):
    """A randomizer of one of k categories, with every likelihood known.

    Parameters
    ----------
    categories : int
        k ≥ 2.
    local_epsilon : float
        ε₀ > 0. What is reported afterwards is the ε₀ of the integers that the coins are compared with, rounded up to a
        double: at most what was asked for.

    Notes
    -----
    A mechanism of your own fills `exact_epsilon`, `support`, `moments`, `report` and `supports`, and what `Mechanism`
    asks for. If its reports are numbered, derive it from `shoal.randomizers.Indexed`: then three members are enough.
    """

    bundle: ClassVar[int] = 1
    """How many messages a person sends."""
    messages_per_person: ClassVar[float] = 1.0
    """How many of them say anything, on average."""

    categories: int
    local_epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "categories", whole(categories=self.categories, least=2))
        object.__setattr__(self, "local_epsilon", positive(local_epsilon=self.local_epsilon))
        self.settle()
        if self.exact_epsilon > 0:  # an ε₀ too small for any coin is kept as it is, and `randomize` refuses
            object.__setattr__(self, "local_epsilon", min(self.exact_epsilon, self.local_epsilon))

    def settle(self) -> None:
        """Check the other parameters, and choose those that were not given."""

    @property
    @abstractmethod
    def exact_epsilon(self) -> float:
        """The ε₀ of the thresholds, rounded up."""

    @property
    @abstractmethod
    def support(self) -> tuple[Support, ...]:
        """How its outputs support its inputs, for each kind of two inputs, the easiest to tell apart first.

        The guarantee comes from it.
        """

    @property
    @abstractmethod
    def moments(self) -> Moments:
        """How often reports support a category."""

    @abstractmethod
    def report(self, values: NDArray[np.int64], coins: Coins) -> Reports:
        """Return a report for each of these values; there are at most `CHUNK` of them, all checked."""

    def supported(self, cells: NDArray[np.int64], reports: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how many reports support each category, and how many fall into its block.

        By default the count state says just this, and there is one block.
        """
        return cells.astype(np.float64), np.full(1, float(reports))

    @classmethod
    def designs(cls, categories: int) -> Iterator[tuple[dict[str, int], Design | None]]:
        """Yield the parameters that `plan` may choose from, each with its design; by default there are none."""
        yield {}, None

    @abstractmethod
    def supports(self, reports: Reports, values: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each report supports the category next to it."""

    @property
    def blanket(self) -> tuple[Likelihoods, ...]:
        """What one report tells about two categories, relative to what the reports of all categories have in common.

        It is for the two that are the easiest to tell apart: what holds for them, holds for all
        (docs/theory/frequency.md).
        """
        return self.support[0].blanket

    @property
    def homogeneous(self) -> tuple[Likelihoods, ...]:
        """What one report tells about two categories, where all others hold one and the same.

        Others on a third category come first, where there is one. Each of them is a dataset that may occur.
        """
        return tuple(likelihoods for support in self.support for likelihoods in support.homogeneous)

    def randomize(self, values: ArrayLike, *, simulation: Simulation | None = None) -> Reports:
        """Return one report for each value.

        Parameters
        ----------
        values : array_like
            Whole numbers from 0 to k − 1.
        simulation : Simulation, optional
            Coins that can be tossed again, for simulations only; by default they come from a cipher keyed by the
            operating system.
        """
        self._running()
        return randomized(values, self.categories, self.blank, self.report, simulation)

    def _running(self) -> None:
        if not self.exact_epsilon > 0:
            raise ParameterError(f"local_epsilon={self.local_epsilon:g} is too small for 64-bit coins")

    def estimate(self, counts: Counts[Any], *, confidence: float = 0.95) -> Estimate:
        """Return unbiased estimates of all frequencies, with standard errors and confidence intervals.

        Parameters
        ----------
        counts : Counts
            From `aggregate`, or a sum of such.
        confidence : float
            Of each interval by itself.
        """
        check_counts(self, counts)
        self._running()
        confidence = probability(confidence=confidence, usual="0.9 to 0.99")
        moments, n = self.moments, counts.reports
        if not moments.scale > 0:
            raise ParameterError(
                f"local_epsilon={self.local_epsilon:g} is too small to estimate from: "
                "reports of different categories differ by less than a double can tell"
            )
        support, block = self.supported(counts.values, n)
        frequencies = ((support - moments.overlap * block) / n - moments.base) / moments.scale
        share = np.clip((block / n - moments.other[1]) / moments.inside, 0, 1) if self._parted else np.ones(1)
        constant, slope = moments.line(share)
        variance = np.maximum(constant + slope * np.clip(frequencies, 0, 1), 0) / n
        fewest, most = holders(support, block if self._parted else None, n, moments, confidence=confidence)
        return Estimate.within(self, n, frequencies, np.sqrt(variance), (fewest / n, most / n), confidence=confidence)

    @property
    def influence(self) -> float:
        """By how many people one malicious person can move the estimate of a category."""
        return 1 / self.moments.scale

    @property
    def remains(self) -> str:
        """What is left if shuffler and analyst collude, in words."""
        return f"ε₀ = {rounded_up(self.local_epsilon)} of each report"

    def additions(self, *, simulation: Simulation | None = None) -> list[Reports]:
        """Return the messages that the shuffler adds to those of people, drawn once for the same messages: none."""
        return []

    def of_people(self, counts: Counts[Any], people: int) -> Counts[Any]:
        """Return counts of all messages of a round, additions included, as those of so many people."""
        if people != counts.reports:
            raise ParameterError(f"these are the messages of {counts.reports:,} people, and not of {people:,}")
        return counts

    def released(self, counts: Counts[Any], *, simulation: Simulation | None = None) -> Counts[Any]:
        """Return what the analyst sees of these counts: the same, if the shuffler adds nothing."""
        return counts

    @property
    def _parted(self) -> bool:
        """Whether there are several blocks."""
        return False

    def variance(self, frequencies: ArrayLike | None = None, *, reports: Any) -> NDArray[np.float64]:
        """Return the variance of each estimated frequency, given the people, in closed form.

        Parameters
        ----------
        frequencies : array_like, optional
            Of the k categories among these people; equal ones if not given.
        reports : int or float
            n.
        """
        self._running()
        n = whole(reports=reports)
        given = checked_frequencies(frequencies, self.categories)
        constant, slope = self.moments.line(self._block_frequencies(given))
        variance: NDArray[np.float64] = (constant + slope * given) / n
        return variance

    @property
    def rare_variance(self) -> float:
        """The variance, times n, of the estimate for a category that nobody holds, where the others are all equal."""
        constant, _ = self.moments.line(self._block_share)
        return float(constant)

    def rare_error(self, reports: int) -> float:
        """Return the standard error of the frequency of a category that nobody holds, where the others are equal."""
        return math.sqrt(self.rare_variance / reports)

    @property
    def _block_share(self) -> float:
        """How many of all categories are in one block."""
        return 1.0

    def _block_frequencies(self, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.ones(1)


def randomized(
    values: ArrayLike,
    categories: int,
    blank: Reports,
    report: Callable[[NDArray[Any], Coins], Reports],
    simulation: Simulation | None,
) -> Reports:
    """Return a report for each value, made in chunks by `report`, in an array like `blank`."""
    numbers = _numbers(values, categories)
    coins = coins_for(simulation)
    reports = np.empty((len(numbers), *blank.shape[1:]), blank.dtype)
    for start in range(0, len(numbers), CHUNK):
        part = numbers[start : start + CHUNK]
        reports[start : start + len(part)] = report(part, coins)
    return reports


def _numbers(values: ArrayLike, categories: int) -> NDArray[Any]:
    try:
        numbers = np.asarray(values)
    except ValueError:
        raise ParameterError("values must be a list of whole numbers, all in one row", "values") from None
    if numbers.size == 0:
        return np.empty(0, np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iub":
        raise ParameterError(
            f"values must be a list of whole numbers from 0 to {categories - 1}, "
            f"got {numbers.ndim} dimensions of {numbers.dtype}",
            "values",
        )
    if numbers.min() < 0 or numbers.max() >= categories:
        index = int(np.flatnonzero((numbers < 0) | (numbers >= categories))[0])
        raise ParameterError(
            f"values[{index}] is none of the categories, which are numbered from 0 to {categories - 1}"
        )
    return numbers


def check_counts(mechanism: object, counts: object) -> None:
    """Refuse counts of another mechanism, and those of no reports."""
    if not isinstance(counts, Counts) or counts.mechanism != mechanism:
        other = counts.mechanism if isinstance(counts, Counts) else counts
        raise ParameterError(f"these counts are not of {mechanism!r}, but of {other!r}")
    if counts.reports == 0:
        raise ParameterError("there are no reports to estimate from")


def checked_frequencies(frequencies: ArrayLike | None, categories: int) -> NDArray[np.float64]:
    """Return the frequencies of the categories, equal ones if none are given."""
    if frequencies is None:
        return np.full(categories, 1 / categories)
    given = np.asarray(frequencies, dtype=np.float64)
    if given.shape != (categories,) or not (np.all(given >= 0) and abs(given.sum() - 1) < 1e-6):
        raise ParameterError(f"frequencies must be {categories} numbers of at least 0 with sum 1", "frequencies")
    return given
