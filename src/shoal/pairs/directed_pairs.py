"""All pairs of inputs of a table, in both directions, among n reports: the largest δ(ε) of them, and its ε(δ).

The probabilities of a table are integers, and each pair is built when it is asked for. Few pairs are ever evaluated,
because the others are proved to be no worse (docs/theory/matrix.md, section 3):

* `Screen` has upper bounds of δ of all pairs at one ε, and sharper ones for the pairs that the ones before leave: that
  of a report alone, that of a normal sum with the error of the central limit theorem, and Bennett's, from moments of
  W; Chernoff's; and the sum along a contour with few nodes. The likelihoods are floats, rounded so that W is never too
  small.
* `PairCells` has upper bounds on whole intervals of ε, from few of them. Between two of these ε each δ is at most its
  chord, since it is convex in λ = e^ε. And with W = a − λb, Chernoff's bound is log δ(ε) ≤ n·K(θ, θλ) − log(neθ),
  where K(θ, μ) = log E[exp(θa − μb)] is convex in both together, and so at most its chord, too. The first is sharp for
  small ε, the second for large ones.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.contour import positive_parts
from shoal.numerics.profile_grid import Brackets, each, remembered
from shoal.numerics.renyi_tables import LikelihoodTable, renyi_ceilings
from shoal.numerics.summand import Tilted
from shoal.pairs.integer_likelihoods import IntegerLikelihoods
from shoal.pairs.likelihoods import LikelihoodPair
from shoal.pairs.pair import GUESSED
from shoal.rounding import LARGEST_POWER, slack
from shoal.searches import smallest_safe

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_ROUNDS = 3
"""Of Newton's method, for the tilts of Chernoff's bound: more of them cost time, and leave fewer pairs for sums."""
_FAR = 1e-2
_NEAR = 0.6
"""As parts of the largest δ: which bounds are worth Chernoff's, and which of those a sum along a contour."""
LIKELY = 400
"""The likeliest pair is sought among this number of pairs with the largest quick bounds: more take longer."""
_SUMS = ((0.1, 256), (5e-3, 32))
"""How much a sum along a contour may be too large, and of how many pairs at once."""
_ALIKE = 8.0
"""Pairs whose tilts, after all, differ by a larger factor than this do not share nodes."""
_UP = 1 + slack(256)
_LEAST = 1e-10
_MORE = 1 + 1e-6
"""A variance that rounding of the mean changes by less than this factor."""
_KNOT_STEP = 0.4
_KNOT_GROWTH = 0.1
"""How far apart knots are: in standard deviations of the loss, or as a part of ε, whichever is more."""
_STEP = 1e-12
"""By how much ε grows, relatively, where a search for a worse pair ends no farther."""
_LOOSE = 3e-4
_TRIED = 6
"""How much of a bound from moments may be too much, for an answer; and how many pairs may be evaluated instead."""


class InputPairs(Sequence[IntegerLikelihoods]):
    """The likelihoods of every two inputs relative to the blanket, in one direction of two.

    Pairs with the same numbers under other names are there once. The one with the largest E[W²] at
    ε = 0, which decides for many reports, is first. `table` says how often each input (row) has
    each output, out of `total`; no column has a zero.
    """

    def __init__(self, table: Sequence[tuple[int, ...]], total: int) -> None:
        self._table = tuple(dict.fromkeys(table))
        self._total = total
        self._least = tuple(map(min, zip(*self._table, strict=True)))
        self._built: dict[int, IntegerLikelihoods] = {}

    @cached_property
    def ratios(self) -> Array:
        """R/ω of each input (row) and output, rounded once."""

        def relative(row: tuple[int, ...]) -> list[float]:
            return [part / least for part, least in zip(row, self._least, strict=True)]

        return np.array([relative(row) for row in self._table])

    @cached_property
    def probabilities(self) -> Array:
        """ω of each output, rounded once."""
        return np.array([least / self._total for least in self._least])

    @cached_property
    def missing(self) -> float:
        """What the blanket lacks of one, rounded once."""
        return float((self._total - sum(self._least)) / self._total)

    @cached_property
    def indices(self) -> NDArray[np.int64]:
        """The two inputs of each pair, one row a pair."""
        first, second = np.triu_indices(len(self._table), 1)
        # Equal numbers have equal codes, and a pair is the sorted codes of its outputs, in one direction or the other.
        names: dict[int, int] = {}
        codes, least = (
            np.array([[names.setdefault(part, len(names)) for part in row] for row in rows])
            for rows in (self._table, [self._least])
        )
        size = len(names) + 1
        ways = [
            np.sort((codes[one] * size + codes[other]) * size + least, axis=1)
            for one, other in ((first, second), (second, first))
        ]
        known: set[bytes] = set()
        kept = []
        for index, (one, other) in enumerate(zip(*ways, strict=True)):
            if one.tobytes() not in known:
                known.update((one.tobytes(), other.tobytes()))
                kept.append(index)
        first = first[kept]
        second = second[kept]
        spreads = ((self.ratios[first] - self.ratios[second]) ** 2) @ self.probabilities
        order = np.argsort(-spreads, kind="stable")
        return np.stack((first[order], second[order]), axis=1)

    def __len__(self) -> int:
        """Return how many pairs there are, in one direction."""
        return len(self.indices)

    @overload
    def __getitem__(self, index: int) -> IntegerLikelihoods: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[IntegerLikelihoods, ...]: ...
    def __getitem__(self, index: int | slice) -> IntegerLikelihoods | tuple[IntegerLikelihoods, ...]:
        """Return the likelihoods of a pair."""
        if isinstance(index, slice):
            return tuple(self[each] for each in range(*index.indices(len(self))))
        first, second = self.indices[index]
        key = range(len(self))[index]
        if key not in self._built:
            outcomes = zip(self._table[first], self._table[second], self._least, strict=True)
            self._built[key] = IntegerLikelihoods.of(outcomes, self._total)
        return self._built[key]

    def __eq__(self, other: object) -> bool:
        """Tell whether all pairs are the same."""
        if not isinstance(other, InputPairs):
            return NotImplemented
        if (self._table, self._total) == (other._table, other._total):
            return True
        if len(self) != len(other):
            return False
        return all(one == each for one, each in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Return a hash of the first pair."""
        return hash((len(self), self[0]))


class Screen:
    """Pairs of inputs of a table, each in both directions, among n reports: all at one ε, or each at one of its own.

    Pair 2i is `pairs[i]`, and pair 2i + 1 the same with its inputs exchanged. `chosen` are the
    pairs that are looked at; all of them, if not given.
    """

    def __init__(self, reports: int, pairs: InputPairs, epsilons: float | Array, chosen: Indices | None = None) -> None:
        """Compute W of every pair, and quick bounds."""
        self._n = reports
        self._pairs = pairs
        self._weights = pairs.probabilities * _UP
        chosen = np.arange(2 * len(pairs)) if chosen is None else chosen
        inputs = pairs.indices[chosen // 2].T
        one, other = np.where(chosen % 2, inputs[::-1], inputs)
        self._epsilons = np.broadcast_to(epsilons, chosen.shape)
        ratios = np.exp(self._epsilons)
        # 2⁻⁴⁶ of the second term is more than its rounding; where the first is twice as large, W has its own digits.
        factors = ratios * (1 - slack(128))
        self._values = pairs.ratios[one] - factors[:, None] * pairs.ratios[other]
        self._values += slack(16) * np.abs(self._values)
        self._means = -np.expm1(self._epsilons) + slack(256) * (1 + ratios)
        self._largest = self._values.max(axis=1)
        self._smallest = self._values.min(axis=1)
        self._ceilings = np.maximum(self._values, 0.0) @ self._weights
        if reports > 1:
            seconds = (self._values**2) @ self._weights
            self._tilts, self._powers = self._bennett(seconds)
            bounds = self._bounds(self._tilts, self._powers)
            quick = np.fmin(bounds, self._normal(seconds))
            self._ceilings = np.fmin(self._ceilings, quick)

    def _normal(self, seconds: Array) -> Array:
        """Return that of a normal S, plus E|X|³/(2n·Var X) + E|X|/n with X = W − EW, by the central limit theorem."""
        n = self._n
        mean = self._means
        sizes = np.abs(self._values - mean[:, None])
        cubes = sizes * sizes * sizes
        firsts = sizes @ self._weights + self._pairs.missing * np.abs(mean) * _UP
        thirds = cubes @ self._weights + self._pairs.missing * np.abs(mean) ** 3 * _UP
        with np.errstate(all="ignore"):
            variances = seconds / _UP**2 - mean**2  # from below, for the second term; from above in the first
            deviations = np.sqrt(n * seconds)
            steep = -n * mean / deviations
            ends = np.minimum(steep, 50.0) / math.sqrt(2)
            tails = np.array([math.erfc(each) for each in ends.tolist()]) / 2
            densities = np.exp(-0.5 * steep**2) / math.sqrt(2 * math.pi)
            normal = deviations * (densities - steep * tails)
            # The difference cancels where `steep` is large; there the second term is far larger than what is lost.
            charge = _MORE * (0.5 * thirds / variances + firsts)
            bounds = (normal * _UP + slack(64) * deviations + charge) / n
        return np.where((variances > _LEAST) & np.isfinite(bounds), bounds, 1.0)

    def _bennett(self, seconds: Array) -> tuple[Array, Array]:
        """Return tilts, and Bennett's bound of n·log M there.

        exp(x) − 1 − x is at most x²/z² of what it is at the largest x, which is z.
        """
        n = self._n
        mean = self._means
        largest = self._largest
        with np.errstate(all="ignore"):
            start = -mean / seconds
            tilts = 0.5 * (start + np.sqrt(start**2 + 8 / (n * seconds)))
            tilts = np.minimum(np.log1p(largest * tilts) / largest, LARGEST_POWER / largest)
            powers = tilts * largest
            more = powers * (1 / 3 + powers * (1 / 12 + powers / 50))
            series = 0.5 * powers**2 * (1 + more)  # enough up to 0.1
            growth = np.where(powers < 0.1, series, np.expm1(powers) - powers)
            added = seconds * growth * _UP / largest**2
            exponents = self._exponents(tilts * mean + added, tilts * np.abs(mean) + added)
        usable = (tilts > 0) & (tilts < math.inf)  # where no value is positive, M(θ) ≤ 1 for every θ
        unusable = np.where(largest <= 0, 0.0, math.inf)
        return np.where(usable, tilts, 1.0), np.where(usable, exponents, unusable)

    def _exponents(self, excess: Array, size: Array) -> Array:
        """Return an upper bound of n·log M(θ), given M(θ) − 1 and the size of what it was added up from."""
        rounding = slack(4) * (16 + len(self._weights)) * size
        errors = rounding / np.minimum(1, 1 + excess)
        logs = self._n * (np.log1p(excess) + errors) + 1e-9
        return np.where(np.isnan(logs), math.inf, logs)

    def _bounds(self, tilts: Array, exponents: Array) -> Array:
        """Return M(θ)ⁿ/(neθ), an upper bound of δ."""
        with np.errstate(all="ignore"):
            logs = exponents - np.log(self._n * tilts) - 1
            return np.where(np.isnan(logs), 1.0, np.exp(np.minimum(logs, 0.0)))

    def _tilted(self, indices: Indices, tilts: Array) -> tuple[Array, Array, Array]:
        """Return bounds of n·log M(θ) of some pairs, the tilts that they are of, and better tilts."""
        values = self._values[indices]
        weights = self._weights
        largest = np.maximum(self._largest[indices], 1e-300)
        with np.errstate(all="ignore"):
            tilts = np.minimum(tilts, LARGEST_POWER / largest)
            powers = tilts[:, None] * values
            growth = np.expm1(powers)
            added = (growth - powers) @ weights
            means = self._means[indices]
            excess = tilts * means + added
            # |exp(x) − 1| + |x|·(2 + exp(x)) is at most |x|·(4 + 2·exp(x)).
            sizes = np.maximum(np.abs(self._largest), np.abs(self._smallest))
            longest = tilts * sizes[indices]
            added_up = tilts * np.abs(means) + longest * (6 + 2 * np.abs(excess))
            exponents = self._exponents(excess, added_up)
            growth += 1
            growth *= values
            first = growth @ weights / (1 + excess)
            squares = np.einsum("ij,ij,j->i", growth, values, weights)
            second = squares / (1 + excess) - first**2
            slope = self._n * first - 1 / tilts
            following = tilts - slope / (self._n * second + 1 / tilts**2)
            following = np.where(np.isfinite(following), following, tilts)
            return exponents, tilts, np.clip(following, tilts / 4, 4 * tilts)

    def _chernoff(self, indices: Indices, tilts: Array) -> tuple[Array, Array]:
        """Return Chernoff's bound of some pairs, and better tilts."""
        exponents, tilts, better = self._tilted(indices, tilts)
        return self._bounds(tilts, exponents), better

    def rough(self, large: float) -> tuple[Array, Array, Array]:
        """Return upper bounds of δ(ε) of all pairs, tilts, and upper bounds of n·log M there.

        Those that are not far below a number are within a few percent; Bennett's bound has to do for the others.
        """
        ceilings = self._ceilings
        indices = np.flatnonzero(self._ceilings > _FAR * large)
        if len(indices):
            tilts = np.full(len(indices), self._tilt(int(ceilings.argmax())))
            for _ in range(_ROUNDS):
                bounds, tilts = self._improved(indices, tilts)
                ceilings[indices] = np.minimum(ceilings[indices], bounds)
            kept = ceilings[indices] > _NEAR * large
            self._sharpened(indices[kept], tilts[kept], np.full(len(ceilings), math.inf))
        return ceilings, self._tilts, self._powers

    def _improved(self, indices: Indices, tilts: Array) -> tuple[Array, Array]:
        """Return what `_chernoff` does, and keep the tilts and what n·log M is there."""
        exponents, tilts, better = self._tilted(indices, tilts)
        self._tilts[indices] = tilts
        self._powers[indices] = exponents
        return self._bounds(tilts, exponents), better

    def _tilt(self, index: int) -> float:
        """Return a tilt that is about the best one for a pair."""
        tilts = np.array([min(1.0, 1 / max(self._largest[index], 1e-300))])
        for _ in range(40):
            before = tilts
            _, tilts = self._chernoff(np.array([index]), before)
            if abs(tilts - before) <= 0.05 * before:
                break
        return float(tilts[0])

    def likeliest(self) -> int:
        """Return a pair whose δ(ε) is among the largest, as far as Chernoff's bound tells."""
        best = int(self._ceilings.argmax())
        if self._n == 1:
            return best
        near = np.argsort(-self._ceilings, kind="stable")[:LIKELY]
        bounds = self._ceilings[near]
        tilts = np.full(len(near), self._tilt(best))
        for _ in range(_ROUNDS):
            sharper, tilts = self._chernoff(near, tilts)
            bounds = np.minimum(bounds, sharper)
        self._ceilings[near] = bounds
        return int(near[bounds.argmax()])

    def contenders(self, above: float, known: int) -> list[int]:
        """Return the pairs, but one that is known, whose δ(ε) may exceed a number, the likeliest first."""
        ceilings = self._ceilings
        indices = np.flatnonzero(ceilings > above)
        indices = indices[indices != known]
        if self._n == 1 or not len(indices):
            return [int(index) for index in indices]
        tilts = np.full(len(indices), self._tilt(known))
        for _ in range(_ROUNDS):
            bounds, tilts = self._chernoff(indices, tilts)
            ceilings[indices] = np.minimum(ceilings[indices], bounds)
            kept = ceilings[indices] > above
            indices = indices[kept]
            tilts = tilts[kept]
        indices = self._sharpened(indices, tilts, np.full(len(ceilings), above))
        order = np.argsort(-ceilings[indices], kind="stable")
        return [int(index) for index in indices[order]]

    def larger(self, above: Array, tilts: Array) -> Indices:
        """Return those whose δ(ε) may exceed the number that belongs to each, given tilts that are about the best."""
        indices = np.flatnonzero(self._ceilings > above)
        if len(indices):
            return self._sharpened(indices, tilts[indices], above)
        return indices

    def _sharpened(self, indices: Indices, tilts: Array, above: Array) -> Indices:
        """Return those of some pairs whose bounds by coarse sums along a contour are above the numbers."""
        ceilings = self._ceilings
        # Those with similar tilts share their nodes: first very few nodes, and more for those that are left.
        units = self._largest - self._smallest
        for tolerance, at_once in _SUMS:
            order = np.argsort(tilts * units[indices])
            indices = indices[order]
            tilts = tilts[order]
            steep = tilts * units[indices]
            start = 0
            while start < len(indices):
                length = int(np.searchsorted(steep[start : start + at_once], 2 * steep[start], side="right"))
                part = indices[start : start + max(length, 1)]
                ceilings[part] = np.fmin(ceilings[part], self._inverted(part, tolerance))
                start += len(part)
            kept = ceilings[indices] > above[indices]
            indices = indices[kept]
            tilts = tilts[kept]
        return indices

    def _inverted(self, indices: Indices, tolerance: float) -> Array:
        """Return the bound of a coarse sum along a contour."""
        pairs = self._pairs
        values = self._values[indices].T
        epsilons = self._epsilons[indices]
        columns = np.arange(len(indices))
        units = (self._largest - self._smallest)[indices]
        ranks = np.zeros_like(values)
        ranks[values.argmax(axis=0), columns] = -2.0
        ranks[values.argmin(axis=0), columns] = -1.0
        order = np.argsort(ranks, axis=0, kind="stable")  # the two outer values come first
        rows = Tilted(
            self._n,
            np.take_along_axis(values, order, axis=0) / units,
            pairs.probabilities[order],
            missing=np.full(len(indices), pairs.missing),
            means=-np.expm1(epsilons) / units,
            scales=units / self._n,
            mean_error=float((slack(512) * (1 + np.exp(epsilons)) / units).max()),
        )
        steeper = rows.tilts > _ALIKE * rows.tilts.min()
        if not steeper.any():
            return positive_parts(rows, tolerance=tolerance)[1] * _UP
        ceilings = np.empty(len(indices))
        for part in (steeper, ~steeper):
            ceilings[part] = self._inverted(indices[part], tolerance)
        return ceilings


class _Knot(NamedTuple):
    """What is known of all pairs at one ε: e^ε, bounds of δ, tilts, and bounds of n·log M there."""

    ratio: float
    bounds: Array
    tilts: Array
    exponents: Array


class PairCells:
    """All pairs of inputs of a table, each in both directions, among n > 1 reports; knots are added as needed."""

    def __init__(self, reports: int, pairs: InputPairs, lower: Callable[[int, float], float]) -> None:
        """Build the first knot; `lower` says roughly what δ(ε) of a pair is."""
        self._n = reports
        self._pairs = pairs
        self._lower = lower
        first, second = pairs.indices.T
        seconds = (pairs.ratios[first] - pairs.ratios[second]) ** 2 @ pairs.probabilities
        self._spread = math.sqrt(float(seconds.max()) / reports)
        self._points = [0.0]
        self._knots = [self._knot(0.0)]

    def _knot(self, epsilon: float) -> _Knot:
        screen = Screen(self._n, self._pairs, epsilon)
        large = self._lower(screen.likeliest(), epsilon)
        return _Knot(math.exp(epsilon), *screen.rough(large))

    def ceilings(self, epsilon: float) -> tuple[Array, Array]:
        """Return upper bounds of log δ(ε) of all pairs, and the tilts that they belong to."""
        while self._points[-1] <= epsilon:
            last = self._points[-1]
            self._points.append(last + max(_KNOT_STEP * self._spread, _KNOT_GROWTH * last))
            self._knots.append(self._knot(self._points[-1]))
        index = int(np.searchsorted(self._points, epsilon, side="right"))
        one = self._knots[index - 1]
        other = self._knots[index]
        ratio = math.exp(epsilon)
        n = self._n
        near = one.tilts * (ratio - one.ratio)
        far = other.tilts * (other.ratio - ratio)
        with np.errstate(all="ignore"):
            share = np.clip(near / (near + far), 0.0, 1.0)
            tilts = (1 - share) * one.tilts + share * other.tilts
            exponents = (1 - share) * one.exponents + share * other.exponents
            sizes = np.abs(one.exponents) + np.abs(other.exponents) + n * tilts * (1 + ratio)
            rounding = slack(64) * sizes
            logs = exponents + rounding - np.log(n * tilts) - 1 + 1e-9
            along = (ratio - one.ratio) / (other.ratio - one.ratio)
            chords = np.log((1 - along) * one.bounds + along * other.bounds) + 1e-9
            logs = np.fmin(logs, chords)
        return np.where(np.isnan(logs), 0.0, np.minimum(logs, 0.0)), tilts


class DirectedPairs(Sequence[LikelihoodPair]):
    """The pairs of inputs of a table among n reports; pair 2i + 1 is pair 2i with its inputs exchanged."""

    def __init__(self, reports: int, pairs: InputPairs) -> None:
        self.reports = reports
        self.pairs = pairs
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
            lower = max(lower, least)
            upper = max(upper, most)
        return lower, upper

    def brackets(self, epsilons: Array, tolerance: float) -> tuple[Array, Array]:
        """Return lower and upper bounds of the largest δ(ε) at each of these ε, ascending; they are kept."""
        if tolerance not in self._remembered:
            single = each(self.ends)
            many = partial(self._brackets, tolerance=tolerance)
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
        parts = [tilts[indices] for (_, tilts), indices in zip(ceilings, kept, strict=True)]
        tilts = np.concatenate([np.zeros(0), *parts])
        others = rows != best[at]
        at = at[others]
        rows = rows[others]
        tilts = tilts[others]
        screen = Screen(self.reports, self.pairs, epsilons[at], rows)
        left = screen.larger(upper[at], tilts)
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
        index = 0
        tried = set[int]()
        while index not in tried:  # a likely one first
            tried.add(index)
            start = min(self[index].rough_guess(delta)[0], most * (1 - 1e-9))
            first = np.arange(min(LIKELY, len(self)))
            index = Screen(self.reports, self.pairs, start, first).likeliest()
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
        one = np.stack((first, second), axis=1).ravel()
        other = np.stack((second, first), axis=1).ravel()
        ratios = self.pairs.ratios
        weights = self.pairs.probabilities
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
            (exact,) = self[index].one_way(np.array([order])).tolist()
            best = max(best, exact)
        return best

    def _upper(self, index: int, most: float, epsilon: float) -> float:
        """Return δ(ε) of a pair, rounded up; zero from ε₀ of the table on, and not from what its own is rounded to."""
        return self[index].delta_bracket(epsilon)[1] if epsilon < most else 0.0
