"""Mechanisms whose report is the number of an output."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ParameterError
from shoal.pairs.bit_rows import BitRows
from shoal.pairs.likelihoods import Support
from shoal.randomizers.categorical import Categorical
from shoal.randomizers.coins import WHOLE, Coins, logarithm_above, share_below
from shoal.randomizers.design import Design, Moments
from shoal.randomizers.mechanism import Numbered, Reports

if TYPE_CHECKING:
    from shoal.proofs.blanket_claim import SupportClaim

__all__ = ["Indexed", "Selection"]

_MOST_COMPARED = 1 << 22
"""Outputs of all categories together that are looked at to compare a design with what supports what."""


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

    @classmethod
    def _best(cls, categories: int, local_epsilon: float) -> dict[str, int]:
        """Return the parameters with the smallest error where all categories are equally frequent."""
        least, best = math.inf, None
        for parameters, design in cls.designs(categories):
            error = design.error(local_epsilon, categories)
            if error < least * (1 - 5e-3):  # of about equal ones, the first and smallest
                least, best = error, parameters
        if best is None:
            raise ParameterError(
                f"{cls.__name__} can't be decoded fast with {categories:,} categories; "
                "use HadamardResponse or RecursiveHadamardResponse"
            )
        return best

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
        return logarithm_above(1 + Fraction(self.truth, WHOLE - self.truth) / self.design.share) if self.truth else 0.0

    @cached_property
    def moments(self) -> Moments:
        """How often reports support a category, from the threshold."""
        return self.design.moments(self.truth / WHOLE)

    @property
    def support(self) -> tuple[Support, ...]:
        """How the outputs support two inputs and three, from the design."""
        neither, one, both = self.design.probabilities()
        everybody = self._everybody
        kinds = self._triples
        return (Support(self.local_epsilon, neither, one, both - everybody, everybody, kinds),)

    def claim(self, reports: int) -> "SupportClaim":
        """Return what a certificate of n reports claims: the mechanism by its name, or else its design in numbers."""
        from shoal.proofs.blanket_claim import support_claim

        return support_claim(self, reports)

    @property
    def bit(self) -> BitRows | None:
        """With two categories and two outputs it is binary randomized response."""
        if not self.categories == self.design.outputs == 2 or not self.support:  # which is checked when it is asked for
            return None
        return BitRows.response(self.local_epsilon)

    @property
    def _everybody(self) -> float:
        """The probability that a uniform output supports all categories; 0 is always safe."""
        return 0.0

    @property
    def _triples(self) -> tuple[tuple[float, float, float, float], ...]:
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

    def _truthful(self, count: int, coins: Coins) -> NDArray[np.bool_]:
        return coins.words(count) < np.uint64(self.truth)

    def _block_frequencies(self, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
        """Category x is in block x mod B."""
        block = np.arange(self.categories) % self.design.blocks
        return np.asarray(np.bincount(block, frequencies, self.design.blocks)[block], np.float64)


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
            _ = self._design_is_right
        return super().support

    @cached_property
    def _design_is_right(self) -> bool:
        """Refuse a design that `supports` contradicts: a wrong one would make δ too small.

        All categories are compared where that is quick, and otherwise the first few.
        """
        design = self.design
        examined = np.arange(min(self.categories, _MOST_COMPARED // design.outputs))
        if not len(examined):  # then there is nothing to compare, and the outputs would fill the memory
            return True
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
        return True

    @abstractmethod
    def own(self, values: Reports, uniform: Reports, coins: Coins) -> Reports:
        """Return for each value an output that supports it, all equally likely.

        It may be computed from the uniform output at the same index: only one of the two is used. All have the same
        type, and the values may be overwritten.
        """

    def supported(self, cells: NDArray[np.int64], reports: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how many reports support each category: by default, all outputs are tried with all categories."""
        if self.design.blocks > 1:
            raise NotImplementedError(f"{type(self).__name__} has several blocks, and needs `supported`")
        outputs = np.arange(self.outputs)
        counts = [cells[self.supports(outputs, np.full(self.outputs, value))].sum() for value in range(self.categories)]
        return np.array(counts, np.float64), np.full(1, float(reports))

    def supported_by(self, reports: Reports) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the same from the reports themselves; by default they are counted first."""
        return self.supported(self.tally(reports), len(reports))

    def report(self, values: NDArray[np.int64], coins: Coins) -> Reports:
        """Return for each value one of its outputs with probability λ, and else any output."""
        reports = coins.below(self.outputs, len(values))
        own = self.own(values.astype(reports.dtype), reports, coins)
        own ^= reports  # a choice without a branch: none to guess wrong, and none that takes longer for some coins
        own *= self._truthful(len(values), coins)
        reports ^= own
        return reports
