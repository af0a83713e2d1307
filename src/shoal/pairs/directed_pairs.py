"""All pairs of inputs of a table, in both directions, among n reports: the largest δ(ε) of them, and its ε(δ).

Few of them are ever evaluated: the others are proved to be no worse at the ε that is asked for (`screening`), or on
whole intervals, if many are asked for (`pair_cells`).
"""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import overload

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.profile_grid import Brackets, each, remembered
from shoal.numerics.renyi_tables import LikelihoodTable, renyi_ceilings
from shoal.pairs.input_pairs import InputPairs
from shoal.pairs.likelihoods import LikelihoodPair
from shoal.pairs.pair import GUESSED
from shoal.pairs.pair_cells import PairCells
from shoal.pairs.screening import LIKELY, Screen
from shoal.searches import smallest_safe

__all__ = ["DirectedPairs"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_STEP = 1e-12
"""By how much ε grows, relatively, where a search for a worse pair ends no farther."""

_LOOSE, _TRIED = 3e-4, 6
"""How much of a bound from moments may be too much, for an answer; and how many pairs may be evaluated instead."""


class DirectedPairs(Sequence[LikelihoodPair]):
    """The pairs of inputs of a table among n reports; pair 2i + 1 is pair 2i with its inputs exchanged."""

    def __init__(self, reports: int, pairs: InputPairs) -> None:
        self.reports, self.pairs = reports, pairs
        self._built: dict[int, LikelihoodPair] = {}
        self._remembered: dict[float, Brackets] = {}

    def __len__(self) -> int:
        """Return how many pairs there are."""
        return 2 * len(self.pairs)

    @overload
    def __getitem__(self, index: int) -> LikelihoodPair: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LikelihoodPair, ...]: ...
    def __getitem__(self, index: int | slice) -> LikelihoodPair | tuple[LikelihoodPair, ...]:
        """Return a pair, built once."""
        if isinstance(index, slice):
            return tuple(self[each] for each in range(*index.indices(len(self))))
        key = range(len(self))[index]
        if key not in self._built:
            likelihoods = self.pairs[key // 2]
            self._built[key] = LikelihoodPair(self.reports, likelihoods.swapped if key % 2 else likelihoods)
        return self._built[key]

    def __eq__(self, other: object) -> bool:
        """Tell whether all pairs are the same."""
        if not isinstance(other, DirectedPairs):
            return NotImplemented
        return self.reports == other.reports and self.pairs == other.pairs

    def __hash__(self) -> int:
        """Return a hash of the reports and the pairs."""
        return hash((self.reports, self.pairs))

    def ends(self, epsilon: float) -> tuple[float, float]:
        """Return a lower and an upper bound of the largest δ(ε)."""
        screen = Screen(self.reports, self.pairs, epsilon)
        best = screen.likeliest()
        lower, upper = self[best].delta_bracket(epsilon)
        for index in screen.contenders(upper, best):
            least, most = self[index].delta_bracket(epsilon)
            lower, upper = max(lower, least), max(upper, most)
        return lower, upper

    def brackets(self, epsilons: Array, tolerance: float) -> tuple[Array, Array]:
        """Return lower and upper bounds of the largest δ(ε) at each of these ε, ascending; they are kept."""
        if tolerance not in self._remembered:
            single, many = each(self.ends), partial(self._brackets, tolerance=tolerance)
            self._remembered[tolerance] = remembered(single if self.reports == 1 else many)
        return self._remembered[tolerance](epsilons)

    def _brackets(self, epsilons: Array, tolerance: float) -> tuple[Array, Array]:
        """Return them for more than one report, some of them from shared nodes."""
        ceilings = [self._cells.ceilings(epsilon) for epsilon in epsilons.tolist()]
        best = np.array([int(bounds.argmax()) for bounds, _ in ceilings], dtype=np.int64)
        lower, upper = self._ends_of(best, epsilons, tolerance)
        # Of the others, those that may be larger: by what is known of the knots, then by coarse sums, then evaluated.
        with np.errstate(divide="ignore"):
            logs = np.log(upper).tolist()
        kept = [np.flatnonzero(bounds > log) for (bounds, _), log in zip(ceilings, logs, strict=True)]
        at = np.repeat(np.arange(len(epsilons)), [len(indices) for indices in kept])
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *kept])
        tilts = np.concatenate(
            [np.zeros(0), *(tilts[indices] for (_, tilts), indices in zip(ceilings, kept, strict=True))]
        )
        others = rows != best[at]
        at, rows, tilts = at[others], rows[others], tilts[others]
        left = Screen(self.reports, self.pairs, epsilons[at], rows).larger(upper[at], tilts)
        least, most = self._ends_of(rows[left], epsilons[at[left]], tolerance)
        np.maximum.at(lower, at[left], least)
        np.maximum.at(upper, at[left], most)
        return lower, upper

    def _ends_of(self, rows: Indices, epsilons: Array, tolerance: float) -> tuple[Array, Array]:
        """Return both ends for each of these pairs at an ε of its own."""
        lower, upper = np.zeros((2, len(rows)))
        for row in np.unique(rows).tolist():
            where = np.flatnonzero(rows == row)
            where = where[np.argsort(epsilons[where], kind="stable")]
            lower[where], upper[where] = self[row].brackets(epsilons[where], tolerance)
        return lower, upper

    @cached_property
    def _cells(self) -> PairCells:
        return PairCells(
            self.reports,
            self.pairs,
            lambda index, epsilon: self[index].delta_bracket(epsilon, tolerance=GUESSED)[0],
        )

    def epsilon(self, delta: float, most: float) -> float:
        """Return an ε below `most` at which the upper bounds of all δ(ε) are at most δ, close to the least one."""
        index, tried = 0, set[int]()
        while index not in tried:  # a likely one first
            tried.add(index)
            start = min(self[index].rough_guess(delta)[0], most * (1 - 1e-9))
            index = Screen(self.reports, self.pairs, start, np.arange(min(LIKELY, len(self)))).likeliest()
        best = 0.0
        while True:
            start, slope = self[index].better_guess(delta)
            value = partial(self._upper, index, most)
            safe = smallest_safe(value, delta, most, min(max(start, best), most), slope)
            best = safe if safe > best else best * (1 + _STEP)
            if best >= most:
                return most
            contenders = Screen(self.reports, self.pairs, best).contenders(delta, index)
            worse = next((other for other in contenders if self._upper(other, most, best) > delta), None)
            if worse is None:
                return best
            index = worse

    def renyi(self, order: float, ceiling: float) -> float | None:
        """Return an upper bound of the largest Rényi divergence, or nothing where it would take long.

        All pairs have bounds from moments. From the largest on, each is taken as it is if it is close, and then all
        that follow are below; or else the pair is evaluated.
        """
        first, second = self.pairs.indices.T
        one, other = np.stack((first, second), axis=1).ravel(), np.stack((second, first), axis=1).ravel()
        ratios, weights = self.pairs.ratios, self.pairs.probabilities
        table = LikelihoodTable(ratios[one], ratios[other], weights, self.pairs.missing)
        bounds, loose = renyi_ceilings(self.reports, table, ceiling, order)
        if np.isinf(bounds).sum() > _TRIED:
            return None
        best = 0.0
        for tried, index in enumerate(np.argsort(-bounds, kind="stable").tolist()):
            if bounds[index] <= best:
                break
            if loose[index] <= _LOOSE:
                return max(best, float(bounds[index]))
            if tried == _TRIED:
                return None
            best = max(best, float(self[index].one_way(np.array([order]))[0]))
        return best

    def _upper(self, index: int, most: float, epsilon: float) -> float:
        """Return δ(ε) of a pair, rounded up; zero from ε₀ of the table on, and not from what its own is rounded to."""
        return self[index].delta_bracket(epsilon)[1] if epsilon < most else 0.0
