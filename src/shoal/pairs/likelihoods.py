"""The likelihoods of one report from two inputs, and the pair that n such reports make.

Likelihoods are relative to a reference distribution that everybody else is known to report. With the blanket as the
reference, `LikelihoodPair` is an upper bound for every dataset (Lemma 5.3 of Balle, Bell, Gascón and Nissim, arXiv
1903.02837); with the distribution of an input that all others hold, it is exactly their guarantee.

`Support` describes randomizers that prefer some outputs: each output supports some inputs, which report it e^ε₀ times
as often,

    R_x(y) = B(y)·c·e^ε₀  if y supports x,  otherwise  B(y)·c,

for some distribution B of the outputs. Randomized response (an output supports itself), Hadamard response, subset
selection and the unary encodings (an output supports the bits that are set) are of this kind. Only whether an output
supports two or three given inputs matters for shuffling, and in these mechanisms it is the same for all of them.
"""

import math
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from shoal.errors import NoPairError
from shoal.numerics.renyi import one_report, renyi_upper
from shoal.numerics.summand import Summand
from shoal.pairs.pair import Pair
from shoal.rounding import up
from shoal.searches import gaussian_guess

Row = tuple[float, float, float]
"""ln R₀/ω, ln R₁/ω and the probability ω of an outcome."""

_STEEPEST = 300.0
"""With a larger likelihood ratio than exp(this), nobody hides anybody: 10¹⁵ reports are far too few."""


@dataclass(frozen=True)
class Likelihoods:
    """The likelihoods of a report from either of two inputs, relative to a reference distribution.

    The reference is what everybody else is known to report: their distribution, where all of them hold one input, or
    else the *blanket*, the part that the distributions of all inputs have in common. Outcomes with equal likelihoods
    are one row.

    Parameters
    ----------
    rows : tuple of Row
        (ln R₀/ω, ln R₁/ω, probability under the reference ω) of each outcome; rows of no probability are left out.
    complete : bool
        Whether the probabilities sum to one by construction, whatever rounding does to them.
    rest : float, optional
        What the probabilities leave of one, for an outcome that neither R₀ nor R₁ has, where it is known better than by
        subtraction: it may be tiny.

    Examples
    --------
    >>> coin = Likelihoods(((1.0, 0.0, 0.25), (0.0, 1.0, 0.25), (0.0, 0.0, 0.1)), rest=0.4)
    >>> coin.symmetric, coin.reach
    (True, 1.0)
    >>> coin.values(0.0)
    (1.718281828459045, -1.718281828459045, -0.0)
    """

    rows: tuple[Row, ...]
    complete: bool = False
    rest: float | None = None

    def __post_init__(self) -> None:
        """Leave out what never happens; rows may be given as lists."""
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows if row[2] > 0))

    @property
    def swapped(self) -> "Likelihoods":
        """The same with R₀ and R₁ exchanged."""
        rows = tuple((second, first, probability) for first, second, probability in self.rows)
        return Likelihoods(rows, self.complete, self.rest)

    @property
    def symmetric(self) -> bool:
        """Whether exchanging R₀ and R₁ changes nothing."""
        return sorted(self.rows) == sorted(self.swapped.rows)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The probability of each row under the reference distribution."""
        return tuple(probability for _, _, probability in self.rows)

    @property
    def missing(self) -> float:
        """What the probabilities leave of one."""
        if self.complete:
            return 0.0
        if self.rest is None:
            return max(0.0, -math.fsum((*self.probabilities, -1.0)))
        return self.rest

    @property
    def reach(self) -> float:
        """The largest ln R₀/R₁: from this ε on, δ is zero."""
        return max((first - second for first, second, _ in self.rows), default=0.0)

    @property
    def ceiling(self) -> float:
        """The same rounded up."""
        reach = self.reach
        # The difference of two float64 numbers has an error of half a unit, unless one of them is 0.
        if any(first and second for first, second, _ in self.rows):
            return math.nextafter(reach, math.inf)
        return reach

    def values(self, epsilon: float) -> tuple[float, ...]:
        """Return W = (R₀ − e^ε·R₁)/ω of each row, without cancellation."""
        return tuple(-math.exp(first) * math.expm1(epsilon + (second - first)) for first, second, _ in self.rows)

    def signs(self, epsilon: float) -> tuple[float, ...]:
        """Return numbers with the signs of W of each row, which do not overflow as W may."""
        return tuple(first - (epsilon + second) for first, second, _ in self.rows)

    def advantage(self, epsilon: float) -> float:
        """Return the sum of (R₀ − e^ε·R₁)₊, which is δ(ε) of a report alone."""
        return math.fsum(
            -probability * math.exp(first) * math.expm1(epsilon + (second - first))
            for first, second, probability in self.rows
            if first - second > epsilon
        )


@dataclass(frozen=True)
class Support:
    """How often an output, drawn from B, supports two or three different inputs.

    The probabilities that it supports `neither` of two inputs, the first but not the second
    (`one`), `both` but not all inputs there are, and all inputs (`everybody`). `triples` has, for
    each kind of three different inputs, the probabilities that it supports the first m and not the
    others, for m = 0, 1, 2, 3, the same for every order of the three; it is empty with fewer than
    three inputs.
    """

    local_epsilon: float
    neither: float
    one: float
    both: float = 0.0
    everybody: float = 0.0
    triples: tuple[tuple[float, float, float, float], ...] = ()

    @property
    def _weights(self) -> tuple[float, float]:
        """The factors c and c·e^ε₀ of outputs that do not support the input, and that do."""
        small = math.exp(-self.local_epsilon)
        not_supported = self.neither + self.one
        supported = self.one + self.both + self.everybody
        high = 1 / (small * not_supported + supported)
        return small * high, high

    @property
    def blanket(self) -> tuple[Likelihoods, ...]:
        """The likelihoods relative to the blanket min_x R_x, exactly: c·B, but c·e^ε₀·B where all inputs are supported.

        An output of the latter kind tells the inputs apart no better than one that supports neither of the two.
        """
        local = self.local_epsilon
        low, high = self._weights
        rows: tuple[Row, ...] = (
            (local, 0.0, low * self.one),
            (0.0, local, low * self.one),
            (local, local, low * self.both),
            (0.0, 0.0, low * self.neither + high * self.everybody),
        )
        # Of every distribution, what is above the blanket: the inputs that an output supports, unless it supports all
        # of them.
        rest = -high * math.expm1(-local) * (self.one + self.both)
        return (Likelihoods(rows, rest=rest),)

    @property
    def homogeneous(self) -> tuple[Likelihoods, ...]:
        """The likelihoods where all others hold a third input (of each kind), the second one, the first one.

        Exchanging the two inputs gives nothing new: the last two turn into one another.
        """
        local = self.local_epsilon
        low, high = self._weights
        result = []
        for probabilities in self.triples:
            merged: dict[tuple[float, float], float] = {}
            for first, second, third in product((0, 1), repeat=3):
                ratios = (local * (first - third), local * (second - third))
                probability = (high if third else low) * probabilities[first + second + third]
                merged[ratios] = merged.get(ratios, 0.0) + probability
            result.append(
                Likelihoods(tuple((*ratios, probability) for ratios, probability in merged.items()), complete=True)
            )
        alike = (0.0, 0.0, low * self.neither + high * (self.both + self.everybody))
        one = low * self.one
        other = high * self.one
        with_second = ((local, 0.0, one), (-local, 0.0, other), alike)
        with_first = ((0.0, -local, other), (0.0, local, one), alike)
        result.append(Likelihoods(with_second, complete=True))
        result.append(Likelihoods(with_first, complete=True))
        return tuple(result)


def response(categories: int, local_epsilon: float) -> Support:
    """Return k-ary randomized response, with any ε₀ at all: each output supports the input of the same name."""
    share = 1 / categories
    triples = (((categories - 3) * share, share, 0.0, 0.0),) if categories >= 3 else ()
    return Support(local_epsilon, (categories - 2) * share, share, triples=triples)


@dataclass(frozen=True)
class LikelihoodPair(Pair):
    """The victim's report, from R₀ or R₁, among n − 1 reports from the reference distribution; in this direction."""

    reports: int
    likelihoods: Likelihoods
    local_epsilon: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Keep the largest ln R₀/R₁, rounded up."""
        object.__setattr__(self, "local_epsilon", self.likelihoods.ceiling)

    @property
    def hides(self) -> bool:
        """Whether the likelihood ratios are such that anybody can hide anybody."""
        return self.local_epsilon <= _STEEPEST

    def advantage(self, epsilon: float) -> float:
        """Return δ(ε) of a single report, which no number of reports exceeds."""
        return self.likelihoods.advantage(epsilon)

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there.

        The larger of two limits, as for clones: many reports, where the profile is Gaussian; and few that matter, where
        δ(ε) is that of a report alone, times the probability that nobody reports anything else than what speaks for the
        first input.
        """
        reach = self.local_epsilon
        many = 0.0
        slope = -1.0
        if reach < 300:
            distribution = self.distribution(0.0)
            many, slope = gaussian_guess(distribution.scale * distribution.spread, delta)
        kept = [probability for first, second, probability in self.likelihoods.rows if first > second]
        alone = self.advantage(0.0)
        if alone == 0:
            return many, slope
        log_kept = math.log(math.fsum((*kept, self.likelihoods.missing)))
        log_left = math.log(delta) - math.log(alone) - (self.reports - 1) * log_kept
        if log_left >= 0:
            return many, slope
        few = reach + math.log1p(math.exp(log_left) * math.expm1(-reach))
        if many > few:
            return many, slope
        return few, -1 / max(math.expm1(reach - few), 1e-300)

    def distribution(self, epsilon: float) -> Summand:
        """Return the distribution of W at ε, its largest value first and its smallest one second."""
        values = self.likelihoods.values(epsilon)
        probabilities = self.likelihoods.probabilities
        order = sorted(range(len(values)), key=values.__getitem__)
        order = [order[-1], order[0], *order[1:-1]]
        unit = values[order[0]] - values[order[1]]
        return Summand(
            self.reports,
            unit / self.reports,
            tuple(values[index] / unit for index in order),
            tuple(probabilities[index] for index in order),
            -math.expm1(epsilon) / unit,
            zero=self.likelihoods.missing,
        )

    def unhidden(self, epsilon: float) -> float:
        """Return a lower bound of δ(ε) that is good where hardly anybody can hide the victim.

        E[(ΣW)₊] is at least the mean of ΣW on any event. Two events: exactly one W is positive; none is negative. With
        p = Pr(W > 0), a = E[W₊] and hence E[W₋] = a + e^ε − 1, the first gives
        δ ≥ (1 − p)ⁿ⁻²·((1 − p)·a − (n − 1)·p·E[W₋]), and with p = Pr(W < 0) the second gives δ ≥ (1 − p)ⁿ⁻¹·a.
        """
        alone = self.advantage(epsilon)
        others = self.reports - 1
        signs = self.likelihoods.signs(epsilon)
        probabilities = self.likelihoods.probabilities
        above = math.fsum(each for sign, each in zip(signs, probabilities, strict=True) if sign > 0)
        below = math.fsum(each for sign, each in zip(signs, probabilities, strict=True) if sign < 0)
        one = alone * (1 - self.reports * above) - others * above * (alone + math.expm1(epsilon))
        none = alone * max(0.0, 1 - others * below)
        return max(0.0, one, none) * (1 - 1e-13)

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence at each order, where exchanging R₀ and R₁ changes nothing."""
        if not self.likelihoods.symmetric:
            raise NoPairError("no Rényi divergence of one direction alone; use a pair that is the same in both")
        return self.one_way(orders)

    def one_way(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence D_α(P‖Q) at each order, in this direction."""
        known = self.likelihoods
        back = LikelihoodPair(self.reports, known.swapped)
        apart = max(self.local_epsilon, back.local_epsilon)
        if all(first == second for first, second, _ in known.rows):
            return np.zeros_like(orders)
        if not apart < math.inf:
            raise NoPairError("the Rényi divergence is infinite: some reports are impossible for one of the two inputs")
        firsts, seconds, probabilities = np.array(known.rows).T
        if self.reports == 1 or not self.hides or max(firsts.max(), seconds.max()) > _STEEPEST:
            return np.minimum(one_report(firsts, seconds, probabilities, orders), apart)
        if known.symmetric:
            return renyi_upper([(self.distribution, apart)], orders)
        # Each direction has its own largest loss, from which on δ is zero.
        ways = [(way.distribution, up(way.local_epsilon, roundings=4)) for way in (self, back)]
        return renyi_upper(ways, orders)
