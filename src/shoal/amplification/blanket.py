"""The privacy blanket of a given randomizer: what the distributions of all inputs have in common, others report too."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.setting import Setting, ShufflingBound
from shoal.assumptions import BLANKET, DESCRIBED, FIXED
from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.errors import ParameterError
from shoal.numerics.profile_grid import DeltaGrid, Mesh, grid_of
from shoal.numerics.renyi import BracketIntegral, divergences
from shoal.pairs import ClonePair, LikelihoodPair
from shoal.pairs.directed_pairs import DirectedPairs, InputPairs
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.randomizer import ability, check_worst_pair, registration_of
from shoal.privacy_profile import Profile
from shoal.rounding import UNIT
from shoal.searches import bracketed, greatest_unsafe, smallest_safe

_ROUGH = 1e-3
"""What smoothing may add to δ where only those of several pairs are sought that may be the largest."""
_ROUNDED = 1e-9
"""What rounding may have done to likelihoods."""
_COUNTED = 64
"""Roundings of each probability of a blanket; n reports multiply what is wrong with their sum by n."""
_FEW = 2
"""So many pairs of inputs of a table are evaluated one by one; of more, most are proved to be no worse."""
_ONE_BY_ONE = 8
_MOST_ONE_BY_ONE = 64
_STEEP = 500.0
"""The Rényi divergences of so many pairs take less time than a grid of the largest δ of them all; of more, where
(α − 1)ε₀ is larger than this, and the grid would have to be very deep."""
_TILTS = 2.0 ** (np.arange(-2, 5) / 2)
"""Around the tilt that is best for a normal distribution, those that Chernoff's bound is tried with."""


@dataclass(frozen=True)
class BlanketProfile:
    """The largest δ(ε) over `pairs`, one for each pair of inputs and direction; zero from ε₀ on."""

    pairs: Sequence[LikelihoodPair]
    local_epsilon: float

    @property
    def costly(self) -> bool:
        """Whether one ε takes long, since many pairs of inputs may be the worst."""
        return isinstance(self.pairs, DirectedPairs)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        return self._largest(self.pairs, epsilon, 1)

    def _largest(self, pairs: Sequence[LikelihoodPair], epsilon: float, end: int) -> float:
        """Return the largest lower (0) or upper (1) end; pairs whose ceiling is below one before them are left out."""
        if epsilon >= self.local_epsilon:
            return 0.0
        if isinstance(pairs, DirectedPairs):
            return pairs.ends(epsilon)[end]
        ceilings = [ceiling(pair, epsilon) if len(pairs) > 1 else math.inf for pair in pairs]
        best = 0.0
        for index in sorted(range(len(pairs)), key=ceilings.__getitem__, reverse=True):
            if ceilings[index] > best:
                best = max(best, pairs[index].delta_bracket(epsilon)[end])
        return best

    def _lower(self, epsilon: float) -> float:
        return self._largest(self.pairs, epsilon, 0)

    def delta_bracket(self, epsilon: float) -> tuple[float, float]:
        """Return a lower and an upper bound of δ(ε)."""
        if isinstance(self.pairs, DirectedPairs):
            return self.pairs.ends(epsilon) if epsilon < self.local_epsilon else (0.0, 0.0)
        return (self._lower(epsilon), self.delta(epsilon)) if epsilon < self.local_epsilon else (0.0, 0.0)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up: the upper bound of δ of each pair was at most δ at the answer, or before it."""
        if delta < SMALLEST_DELTA:
            return self.local_epsilon
        if isinstance(self.pairs, DirectedPairs):
            return self.pairs.epsilon(delta, self.local_epsilon)
        best = 0.0
        guesses = [(pair.guess(delta), pair) for pair in self.pairs]
        for _, pair in sorted(guesses, key=lambda each: each[0], reverse=True):
            value = partial(self._largest, (pair,), end=1)
            if best == 0 or (ceiling(pair, best) > delta and value(best) > delta):  # else not above one before it
                most = self.local_epsilon
                start, slope = pair.better_guess(delta)
                best = max(best, smallest_safe(value, delta, most, min(start, most), slope, past=1e-11))
        return best

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) of the blanket, rounded down and up."""
        return bracketed(self.epsilon, partial(greatest_unsafe, self._lower), delta)

    def brackets(
        self, epsilons: NDArray[np.float64], tolerance: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lower and upper bounds of δ at each of these ε, ascending: the largest over all pairs."""
        if isinstance(self.pairs, DirectedPairs):
            lower, upper = np.zeros((2, len(epsilons)))
            asked = epsilons < self.local_epsilon
            lower[asked], upper[asked] = self.pairs.brackets(epsilons[asked], tolerance)
            return lower, upper
        if len(self.pairs) == 1:
            return self.pairs[0].brackets(epsilons, tolerance)
        # Roughly for all pairs, and again for those that may be the largest.
        roughly = [pair.brackets(epsilons, max(tolerance, _ROUGH)) for pair in self.pairs]
        lower = np.max([low for low, _ in roughly], axis=0)
        upper = np.zeros(len(epsilons))
        for pair, (_, high) in zip(self.pairs, roughly, strict=True):
            asked = high > lower
            if tolerance < _ROUGH and np.any(asked):
                least, most = pair.brackets(epsilons[asked], tolerance)
                lower[asked] = np.maximum(lower[asked], least)
                high[asked] = np.minimum(high[asked], most)
            upper = np.maximum(upper, high)
        return lower, upper

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at points of the grid."""
        return grid_of(lambda epsilons: self.brackets(epsilons, mesh.tolerance), mesh)

    def provable(self) -> None:
        """Return nothing: the proof is of the randomizer, which this does not know."""

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence: the largest over all pairs, or of the strong clones if less."""
        if isinstance(self.pairs, DirectedPairs) and self.pairs.reports > 1:
            known = [self.pairs.renyi(order, self.local_epsilon) for order in orders.tolist()]
            result = np.array([math.nan if each is None else each for each in known])
            result[np.isnan(result)] = self._renyi(orders[np.isnan(result)])
            return result
        return self._renyi(orders)

    def _renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return them from every pair, where these are few or the order is large, or from the largest δ of all."""
        steep = (orders - 1) * self.local_epsilon > _STEEP
        apart = steep & (len(self.pairs) <= _MOST_ONE_BY_ONE) | (len(self.pairs) <= _ONE_BY_ONE)
        result = np.empty_like(orders)
        if apart.any():
            result[apart] = np.max([pair.one_way(orders[apart]) for pair in self.pairs], axis=0)
        if not apart.all():
            others = orders[~apart]
            general = ClonePair(self.pairs[0].reports, self.local_epsilon, "strong-clones").renyi(others)
            integral = BracketIntegral(self.brackets, self.local_epsilon, (others - 1, -others))
            result[~apart] = np.minimum(general, divergences([integral], others))
        return result


def ceiling(pair: LikelihoodPair, epsilon: float) -> float:
    """Return an upper bound of δ(ε) that is quick, and several times too large: Chernoff's, the least of a few tilts.

    With S the sum of n copies of W and M their moment generating function, E[(S)₊] ≤ M(θ)ⁿ/(eθ) for every θ > 0.
    """
    distribution = pair.distribution(epsilon)
    n = distribution.reports
    mean = distribution.mean
    spread = max(distribution.spread, 0.5)
    start = -n * mean / spread**2
    tilts = 0.5 * (start + math.sqrt(start**2 + 8 / spread**2)) * _TILTS
    powers = np.multiply.outer(tilts, distribution.values)
    with np.errstate(over="ignore", invalid="ignore"):
        growth = np.expm1(powers)
        probabilities = np.array(distribution.probabilities)
        excess = tilts * mean + (growth - powers) @ probabilities
        size = tilts * abs(mean) + (np.abs(growth) + np.abs(powers)) @ probabilities
        rounding = 2 * UNIT * (8 + len(probabilities)) * size
        logs = n * (np.log1p(excess) + rounding / np.minimum(1, 1 + excess)) - np.log(tilts)
    least = float(np.where(np.isnan(logs), math.inf, logs).min())
    return math.exp(min(least - 1 + math.log(distribution.scale) + 1e-9, 0.0))


def blanket(setting: Setting) -> BlanketProfile:
    """Return the profile of Lemma 5.3, arXiv 1903.02837, for a randomizer, in both directions where they differ."""
    if isinstance(setting.blanket, InputPairs) and len(setting.blanket) > _FEW:
        many = DirectedPairs(setting.reports, setting.blanket)
        return BlanketProfile(many, setting.local_epsilon)
    apart = [_checked(likelihoods, setting.local_epsilon) for likelihoods in setting.blanket]
    if setting.randomizer is not None and registration_of(setting.randomizer) is None:
        check_worst_pair(setting.randomizer)
    pairs = _both_ways(setting.blanket, setting.reports)
    return BlanketProfile(pairs, max(setting.local_epsilon, *apart))


def _both_ways(blanket: Sequence[Likelihoods], reports: int) -> tuple[LikelihoodPair, ...]:
    return tuple(
        LikelihoodPair(reports, direction)
        for likelihoods in blanket
        for direction in ((likelihoods,) if likelihoods.symmetric else (likelihoods, likelihoods.swapped))
    )


def _checked(likelihoods: Likelihoods, local_epsilon: float) -> float:
    """Return how far apart the likelihoods of a blanket are; refuse what cannot be that of an ε₀-DP randomizer."""
    rows = likelihoods.rows
    least = min((min(first, second) for first, second, _ in rows), default=0.0)
    apart = max((abs(first - second) for first, second, _ in rows), default=0.0)
    if least < -_ROUNDED or not apart <= local_epsilon + _ROUNDED * max(1.0, local_epsilon):
        raise ParameterError(
            "the logarithms of the likelihoods on a blanket are at least 0, and differ by at most local_epsilon="
            f"{local_epsilon:g}; got {least:g}, and a difference of {apart:g}"
        )
    for side in (0, 1):
        total = math.fsum(row[2] * math.exp(row[side]) for row in rows)
        if not abs(total - 1) <= _ROUNDED:
            raise ParameterError(
                f"the likelihoods of an input times the probabilities of the blanket must add up to 1, got {total:g}; "
                "each report that an input may have needs a row"
            )
    whole = math.fsum((*likelihoods.probabilities, likelihoods.missing))
    if not (likelihoods.missing >= 0 and abs(whole - 1) <= _COUNTED * UNIT * (1 + len(rows))):
        raise ParameterError(
            f"the probabilities of a blanket and its rest must add up to 1, got {whole!r}; leave out complete and "
            "rest, and the rest is what the probabilities leave of 1"
        )
    return apart


def _of_setting(setting: Setting) -> Profile:
    profile = ability(setting.randomizer, "profile")
    own: Profile = blanket(setting) if profile is None else profile(setting.reports)
    return own


register(
    ShufflingBound(
        name="blanket",
        statement=(
            "With ω(y) = min R_x(y) over all inputs x, δ(ε) = E[(W₁ + … + Wₙ)₊]/n for independent copies of "
            "W = (R₀(Y) − e^ε·R₁(Y))/ω(Y), Y drawn from ω, and W = 0 with the probability that ω lacks; the largest "
            "over all pairs of inputs, in both directions. The likelihoods are those of the randomizer given: k-ary "
            "randomized response, Hadamard response, RAPPOR, unary encoding and subset selection, exactly; Laplace and "
            "Gaussian noise on [0, 1], discretised upwards (Theorem B: 0 and 1 are the worst pair)."
        ),
        citation=BLANKET,
        assumptions=(DESCRIBED, *FIXED),
        make=_of_setting,
        needs="a randomizer whose likelihoods are known, with local_epsilon <= 700",
        applies=lambda setting: setting.known and setting.theorem == "blanket",
        adaptive=False,
        preference=1,  # never above another one: it knows most
        proof="docs/theory/blanket.md",
    ),
)
