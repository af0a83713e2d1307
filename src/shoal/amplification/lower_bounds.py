"""Pairs that real inputs reach: how tight can any bound be.

A randomizer that is only (ε₀, δ₀)-DP may reveal a value with probability δ₀, and else run a pure randomizer. So δ(ε) is
at least δ₀ + (1 − δ₀) times what pure randomizers reach (docs/theory/approximate.md, section 6).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from shoal.amplification.one_bit import OneBitProfile
from shoal.amplification.setting import LARGEST_LOCAL_EPSILON
from shoal.checks import Number, positive, probability, whole
from shoal.errors import ParameterError
from shoal.lower_limit import LowerBound, LowerProfile
from shoal.pairs import BitRows, LikelihoodPair
from shoal.pairs.likelihoods import Likelihoods, response
from shoal.pairs.randomizer import Randomizer, ability, check_randomizer, with_local_epsilon
from shoal.pairs.registry import registration
from shoal.rounding import slack
from shoal.searches import greatest_unsafe, smallest_safe

_DOWN = 1 - slack(8)
_UP = 1 + slack(8)
_MOST_TRIES = 15
"""Where even a lower bound of δ is hard to have, the search ends early: its last ε is reached all the same."""
_COARSE = 1e-7
"""How much smoothing may cost a lower limit, which nobody quotes to many digits."""


@dataclass(frozen=True)
class RevealingProfile:
    """What is reached if a pure part, whose own lower limit is `pure`, reveals all with probability `local_delta`."""

    pure: LowerProfile
    local_delta: float

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""
        return max(self.local_delta, (self.local_delta + (1 - self.local_delta) * self.pure.delta(epsilon)) * _DOWN)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down; below δ₀, where no ε suffices, what the pure part has at δ = 0."""
        if delta <= self.local_delta:
            return self.pure.epsilon(0.0)
        # One part of δ₀ is for rounding δ − δ₀, which cancels.
        asked = ((delta - self.local_delta) + slack(8) * delta) / (1 - self.local_delta) * _UP
        return self.pure.epsilon(min(asked, 1.0))


@dataclass(frozen=True)
class ReachedProfile:
    """The largest of several lower bounds, less what their likelihoods may be wrong by.

    `pairs` are what real inputs reach, and `bits` what reports of one bit reach, exactly. The
    likelihoods may add `margin` to δ, and each may be off by a factor of 1 + `factor`: δ of theirs
    is at most 1 + 2·factor times the true one at ε − 2·factor.
    """

    pairs: tuple[LikelihoodPair, ...]
    margin: float = 0.0
    factor: float = 0.0
    bits: OneBitProfile | None = None

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""
        later = epsilon + 2 * self.factor
        value = max((_lower(pair, later) for pair in self.pairs), default=0.0) * (1 - 2 * self.factor)
        return max(0.0, value - self.margin, self.bits.ends(epsilon)[0] if self.bits else 0.0)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down: the lower bound of δ at the answer is at least δ."""
        asked = min(delta * (1 + 3 * self.factor) + self.margin, 1.0) if delta else 0.0
        least = _reached_bits(self.bits, delta) if self.bits else 0.0
        return max(least, _reached(self.pairs, asked, least) - 2 * self.factor)


def _lower(pair: LikelihoodPair, epsilon: float) -> float:
    return pair.delta_bracket(epsilon, tolerance=_COARSE)[0]


@lru_cache(maxsize=256)
def _reached_bits(bits: OneBitProfile, delta: float) -> float:
    """Return ε(δ) of one-bit reports, rounded down; kept, since every bound of a comparison asks for it."""
    return bits.bracket(delta)[0]


@lru_cache(maxsize=256)
def _reached(pairs: tuple[LikelihoodPair, ...], delta: float, least: float) -> float:
    """Return the largest ε(δ) of the pairs, rounded down, or `least`."""
    best = least
    for pair in pairs:
        if delta == 0:
            best = max(best, pair.local_epsilon)
        elif best == 0 or _lower(pair, best * (1 + 1e-9)) > delta:  # else it is no larger than one before it
            best = max(best, _searched(pair, delta))
    return best


def _searched(pair: LikelihoodPair, delta: float) -> float:
    """Return ε(δ) of one pair, rounded down."""
    reach = pair.local_epsilon
    tries = 0

    def value(epsilon: float) -> float:
        nonlocal tries
        tries += 1
        return _lower(pair, epsilon) if tries <= _MOST_TRIES else 0.0

    start, slope = pair.better_guess(delta)
    safe = smallest_safe(value, delta, reach, min(start, reach), slope)
    return greatest_unsafe(lambda epsilon: _lower(pair, epsilon), delta, safe)


def lower_bound(
    randomizer: Randomizer | None = None,
    *,
    reports: Number,
    local_epsilon: Number | None = None,
    local_delta: Number = 0.0,
    categories: int | None = None,
) -> LowerBound:
    """Return what no bound can beat, because real inputs reach it.

    For a randomizer: all others on one category, the worst one; if it reports one bit, the worst of all datasets. For
    any randomizer with this `local_epsilon`: the larger of binary randomized response with the worst of all datasets,
    and ternary randomized response with all others on the third value; with a `local_delta`, each of them reveals all
    with this probability. With `local_epsilon` and `categories`: k-ary randomized response.

    Parameters
    ----------
    randomizer : Randomizer, optional
        What each person runs.
    reports : int or float
        n.
    local_epsilon : float, optional
        ε₀, with no randomizer.
    local_delta : float
        δ₀, with `local_epsilon`.
    categories : int, optional
        k, with `local_epsilon`.

    Examples
    --------
    >>> round(lower_bound(local_epsilon=4, reports=100_000).epsilon(1e-6), 6)
    0.117025
    """
    reports = whole(reports=reports)
    if (randomizer is None) == (local_epsilon is None) or (randomizer is not None and categories is not None):
        raise ParameterError("give either a randomizer, or local_epsilon (and categories)")
    revealed = probability(local_delta=local_delta, zero=True)
    if revealed and (randomizer is not None or categories is not None):
        raise ParameterError(
            f"local_delta={revealed!r} goes with local_epsilon alone; leave out what else is given", "local_delta"
        )
    if randomizer is None:
        local_epsilon = positive(local_epsilon=local_epsilon)
    else:
        local_epsilon = check_randomizer(randomizer).local_epsilon
    # Adding noise to each report makes ε₀ smaller, so that what is reached with a smaller ε₀ is reached with a larger.
    used = min(local_epsilon, LARGEST_LOCAL_EPSILON)
    bits = None
    if randomizer is None and categories is None:
        known = response(3, used).homogeneous[:1]
        error = (0.0, 0.0)
        bits = OneBitProfile(reports, BitRows.response(used), used)
        described = (
            "binary randomized response, the worst of all datasets; "
            "ternary randomized response, all others on the third value"
        )
    else:
        if randomizer is None:
            kind = registration("randomized-response").kind
            randomizer = kind(categories=categories, local_epsilon=used)
        rows: BitRows | None = ability(randomizer, "bit") if local_epsilon == used else None
        if rows is not None and not ability(randomizer, "local_delta"):
            exact = ReachedProfile((), bits=OneBitProfile(reports, rows, max(used, rows.reach)))
            return LowerBound(f"{randomizer}, the worst of all datasets", reports, local_epsilon, exact)
        described = f"{randomizer}, all others on one value"
        own = ability(randomizer, "reached")
        if own is not None and not LARGEST_LOCAL_EPSILON < randomizer.local_epsilon < math.inf:
            return LowerBound(described, reports, local_epsilon, own(reports))
        known, error = _reached_by(randomizer)
    pairs = tuple(LikelihoodPair(reports, likelihoods) for likelihoods in known)
    profile: LowerProfile = ReachedProfile(pairs, *error, bits)
    if revealed:
        described = f"with probability {revealed:g} all is revealed, else {described}"
        profile = RevealingProfile(profile, revealed)
    return LowerBound(described, reports, local_epsilon, profile)


def _reached_by(randomizer: Randomizer) -> tuple[tuple[Likelihoods, ...], tuple[float, float]]:
    """Return the likelihoods of the datasets to try, none that would overflow, and what they may be wrong by."""
    if LARGEST_LOCAL_EPSILON < randomizer.local_epsilon < math.inf:
        other = with_local_epsilon(randomizer)
        if other is None:
            return (), (0.0, 0.0)
        randomizer = other(LARGEST_LOCAL_EPSILON)
    elif not randomizer.homogeneous and not randomizer.blanket:
        raise ParameterError(f"what {randomizer!r} reaches is not known: it says nothing of its likelihoods")
    return tuple(randomizer.homogeneous), ability(randomizer, "homogeneous_error")
