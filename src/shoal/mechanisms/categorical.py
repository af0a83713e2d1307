"""Frequency oracles: what the mechanisms for one of k categories have in common, from the report to the estimate.

The reports of `Indexed` are the numbers of outputs.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.arrays import Array, BoolArray, IntArray
from shoal.checks import Number, check_fields, positive, probability, store, whole
from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.estimation.design import Design, Moments
from shoal.estimation.estimate import Estimate
from shoal.estimation.interval import holders
from shoal.mechanisms.coins import CHUNK, WHOLE, Coins, Simulation, coins_for, logarithm_above, share_below
from shoal.mechanisms.mechanism import Counts, Mechanism, Numbered, Reports, check_counts, first_outside
from shoal.pairs.integer_likelihoods import BitRows
from shoal.pairs.likelihoods import Likelihoods, Support
from shoal.proofs.blanket_claim import SupportClaim, support_claim

Supported = tuple[Array, Array]
"""How many reports support each category, and how many fall into its block."""
Triples = tuple[tuple[float, float, float, float], ...]
"""The probabilities for three categories, as `Support` has them, each of a kind that occurs."""

_MOST_COMPARED = 1 << 22
"""Outputs of all categories together that are looked at to compare a design with what supports what."""


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
    asks for. If its reports are numbered, derive it from `shoal.mechanisms.Indexed`: then three members are enough.
    """

    bundle: ClassVar[int] = 1
    """How many messages a person sends."""
    messages_per_person: ClassVar[float] = 1.0
    """How many of them say anything, on average."""

    categories: int
    local_epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_fields(self, whole, "categories", least=2)
        check_fields(self, positive, "local_epsilon")
        self.settle()
        if self.exact_epsilon > 0:  # an ε₀ too small for any coin is kept as it is, and `randomize` refuses
            store(self, local_epsilon=min(self.exact_epsilon, self.local_epsilon))

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
    def report(self, values: IntArray, coins: Coins) -> Reports:
        """Return a report for each of these values; there are at most `CHUNK` of them, all checked."""

    def supported(self, cells: IntArray, reports: int) -> Supported:
        """Return how many reports support each category, and how many fall into its block.

        By default the count state says just this, and there is one block.
        """
        return cells.astype(np.float64), np.full(1, float(reports))

    @classmethod
    def designs(cls, categories: int) -> Iterator[tuple[dict[str, int], Design | None]]:
        """Yield the parameters that `plan` may choose from, each with its design; by default there are none."""
        yield {}, None

    @abstractmethod
    def supports(self, reports: Reports, values: ArrayLike) -> BoolArray:
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
        moments = self.moments
        n = counts.reports
        if not moments.scale > 0:
            raise ParameterError(
                f"local_epsilon={self.local_epsilon:g} is too small to estimate from: "
                "reports of different categories differ by less than a double can tell"
            )
        support, block = self.supported(counts.values, n)
        if self._parted:
            share = moments.block_share(block / n)
            fewest, most = holders(support, block, n, moments, confidence=confidence)
        else:
            share = np.ones(1)
            fewest, most = holders(support, None, n, moments, confidence=confidence)
        frequencies = moments.frequencies((support - moments.overlap * block) / n)
        constant, slope = moments.line(share)
        of_one = constant + slope * np.clip(frequencies, 0, 1)
        variance = np.maximum(of_one, 0) / n
        errors = np.sqrt(variance)
        limits = (fewest / n, most / n)
        return Estimate.within(self, n, frequencies, errors, limits, confidence=confidence)

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

    def variance(self, frequencies: ArrayLike | None = None, *, reports: Number) -> Array:
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
        return np.asarray((constant + slope * given) / n)

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

    def _block_frequencies(self, frequencies: Array) -> Array:
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
    index = first_outside(numbers, categories)
    if index is not None:
        raise ParameterError(
            f"values[{index}] is none of the categories, which are numbered from 0 to {categories - 1}"
        )
    return numbers


def checked_frequencies(frequencies: ArrayLike | None, categories: int) -> Array:
    """Return the frequencies of the categories, equal ones if none are given."""
    if frequencies is None:
        return np.full(categories, 1 / categories)
    given = np.asarray(frequencies, dtype=np.float64)
    fine = given.shape == (categories,) and np.all(given >= 0) and abs(given.sum() - 1) < 1e-6
    if not fine:
        raise ParameterError(f"frequencies must be {categories} numbers of at least 0 with sum 1", "frequencies")
    return given


@dataclass(frozen=True, kw_only=True)
class Selection(Categorical):
    """A mechanism that prefers the outputs that support the truth, all by the same factor.

    With probability λ the report is one of the outputs that support the value, else it is any output. λ is a whole
    number of 2⁻⁶⁴, the largest that keeps ε₀ (docs/theory/frequency.md, statement 1).
    """

    @classmethod
    def designs(cls, categories: int) -> Iterator[tuple[dict[str, int], Design]]:
        """Yield the designs to choose from for this number of categories, each with its parameters.

        By default there is the one of a mechanism without parameters of its own.
        """
        yield {}, cls(categories=categories, local_epsilon=1.0).design

    def _choose(self, *names: str) -> None:
        """Choose the best parameters if no field of these is given; refuse some of them without the others.

        The best have the smallest error where all categories are equally frequent.
        """
        given = [name for name in names if getattr(self, name) is not None]
        if given and len(given) < len(names):
            raise ParameterError(f"give all of {', '.join(names)}, or none of them")
        if given:
            return
        least = math.inf
        for parameters, design in self.designs(self.categories):
            error = design.error(self.local_epsilon, self.categories)
            if error < least * (1 - 5e-3):  # of about equal ones, the first and smallest
                least = error
                store(self, **parameters)
        if least == math.inf:
            raise ParameterError(
                f"{type(self).__name__} can't be decoded fast with {self.categories:,} categories; "
                "use HadamardResponse or RecursiveHadamardResponse"
            )

    @cached_property
    @abstractmethod
    def design(self) -> Design:
        """How many outputs there are, and how many of them support one category, or two."""

    @cached_property
    def truth(self) -> int:
        """How many of 2⁶⁴ coins make the report one of those that support the value."""
        return share_below(self.local_epsilon, self.design.share)

    @cached_property
    def exact_epsilon(self) -> float:
        """The ε₀ of the threshold, rounded up; 0 if it is too small for any coin."""
        if not self.truth:
            return 0.0
        odds = Fraction(self.truth, WHOLE - self.truth)
        return logarithm_above(1 + odds / self.design.share)

    @cached_property
    def moments(self) -> Moments:
        """How often reports support a category, from the threshold."""
        return self.design.moments(self.truth / WHOLE)

    @property
    def support(self) -> tuple[Support, ...]:
        """How the outputs support two inputs and three, from the design."""
        neither, one, both = self.design.probabilities()
        some = both - self._everybody
        return (Support(self.local_epsilon, neither, one, some, self._everybody, self._triples),)

    def claim(self, reports: int) -> SupportClaim:
        """Return what a certificate of n reports claims: the mechanism by its name, or else its design in numbers."""
        return support_claim(self, reports)

    @property
    def bit(self) -> BitRows | None:
        """With two categories and two outputs it is binary randomized response."""
        if not self.categories == self.design.outputs == 2:
            return None
        _ = self.support  # which checks the design
        return BitRows.response(self.local_epsilon)

    @property
    def _everybody(self) -> float:
        """The probability that a uniform output supports all categories; 0 is always safe."""
        return 0.0

    @property
    def _triples(self) -> Triples:
        """The probabilities for three categories, as `Support` has them, each of a kind that occurs."""
        if min(self.design.blocks, self.categories) < 3:
            return ()
        share = self.design.supporting / self.design.outputs
        return ((1 - 3 * share, share, 0.0, 0.0),)

    @property
    def _parted(self) -> bool:
        return self.design.blocks > 1

    @property
    def _block_share(self) -> float:
        return 1 / self.design.blocks

    def _truthful(self, count: int, coins: Coins) -> BoolArray:
        return coins.words(count) < np.uint64(self.truth)

    def _block_frequencies(self, frequencies: Array) -> Array:
        """Category x is in block x mod B."""
        block = np.arange(self.categories) % self.design.blocks
        of_block = np.bincount(block, frequencies, self.design.blocks)
        return np.asarray(of_block[block], np.float64)


@dataclass(frozen=True, kw_only=True)
class Indexed(Numbered, Selection):
    """A selection whose outputs are numbered from 0 to M − 1.

    A mechanism of your own fills `design`, `own` and `supports`; with several blocks, `supported` too.
    """

    @property
    def outputs(self) -> int:
        """How many different reports there are, M."""
        return self.design.outputs

    @property
    def support(self) -> tuple[Support, ...]:
        """How the outputs support two inputs and three, from the design, which must be that of `supports`."""
        if not type(self).__module__.startswith("shoal."):  # those of shoal are held to theirs by its tests
            _ = self._checked_design
        return super().support

    @cached_property
    def _checked_design(self) -> None:
        """Refuse a design that `supports` contradicts: a wrong one would make δ too small.

        All categories are compared where that is quick, and otherwise the first few.
        """
        design = self.design
        examined = np.arange(min(self.categories, _MOST_COMPARED // design.outputs))
        if not len(examined):  # then there is nothing to compare, and the outputs would fill the memory
            return
        outputs = np.arange(design.outputs)
        rows = [self.supports(outputs, np.full(design.outputs, x)) for x in examined]
        table = np.array(rows, np.float64).reshape(len(examined), design.outputs)
        alike = (examined[:, None] - examined) % design.blocks == 0
        common = np.where(alike, float(design.common), 0.0)
        np.fill_diagonal(common, design.supporting)
        counted = table @ table.T
        for x, y in np.argwhere(counted != common)[:1].tolist():
            raise ParameterError(
                f"{type(self).__name__}: {counted[x, y]:.0f} outputs support categories {x} and {y}, and its design "
                f"says {common[x, y]:.0f}; a guarantee from a wrong design is false: correct `design` or `supports`"
            )

    @abstractmethod
    def own(self, values: Reports, uniform: Reports, coins: Coins) -> Reports:
        """Return for each value an output that supports it, all equally likely.

        It may be computed from the uniform output at the same index: only one of the two is used. All have the same
        type, and the values may be overwritten.
        """

    def supported(self, cells: IntArray, reports: int) -> Supported:
        """Return how many reports support each category: by default, all outputs are tried with all categories."""
        if self.design.blocks > 1:
            raise NotImplementedError(f"{type(self).__name__} has several blocks, and needs `supported`")
        outputs = np.arange(self.outputs)
        counts = np.zeros(self.categories)
        for value in range(self.categories):
            supporting = self.supports(outputs, np.full(self.outputs, value))
            counts[value] = cells[supporting].sum()
        return counts, np.full(1, float(reports))

    def supported_by(self, reports: Reports) -> Supported:
        """Return the same from the reports themselves; by default they are counted first."""
        return self.supported(self.tally(reports), len(reports))

    def report(self, values: IntArray, coins: Coins) -> Reports:
        """Return for each value one of its outputs with probability λ, and else any output."""
        reports = coins.below(self.outputs, len(values))
        own = self.own(values.astype(reports.dtype), reports, coins)
        own ^= reports  # a choice without a branch: none to guess wrong, and none that takes longer for some coins
        own *= self._truthful(len(values), coins)
        reports ^= own
        return reports
