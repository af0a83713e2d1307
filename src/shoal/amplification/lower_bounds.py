"""Pairs that real inputs reach: how tight can any bound be."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shoal.checks import positive, whole
from shoal.curve import LowerBound
from shoal.divergence.hockey_stick import delta_bracket
from shoal.divergence.inversion import greatest_unsafe, smallest_safe
from shoal.divergence.pair import ResponsePair

__all__ = ["lower_bound"]


@dataclass(frozen=True)
class ResponseProfile:
    """The largest of several lower bounds."""

    pairs: tuple[ResponsePair, ...]

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""
        return max(delta_bracket(pair, epsilon)[0] for pair in self.pairs)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down: the lower bound of δ at the answer is at least δ."""
        return max(_reached(pair, delta) for pair in self.pairs)


@lru_cache(maxsize=256)
def _reached(pair: ResponsePair, delta: float) -> float:
    """Return ε(δ) of one pair, rounded down; kept, since every bound of a comparison asks for it."""

    def lower(epsilon: float) -> float:
        return delta_bracket(pair, epsilon)[0] if epsilon < pair.local_epsilon else 0.0

    if delta == 0:
        return pair.local_epsilon
    start, slope = pair.guess(delta)
    return greatest_unsafe(lower, delta, smallest_safe(lower, delta, pair.local_epsilon, start, slope))


def lower_bound(*, local_epsilon: Any, reports: Any, categories: int | None = None) -> LowerBound:
    """Return what no bound can beat for ε₀-DP randomizers, because shuffled randomized response reaches it.

    The larger of binary randomized response with all others on one value, in both directions, and ternary randomized
    response with all others on the third value. With `categories`, that of k-ary randomized response itself.

    Examples
    --------
    >>> round(lower_bound(local_epsilon=4, reports=100_000).epsilon(1e-6), 6)
    0.117025
    """
    local_epsilon, reports = positive(local_epsilon=local_epsilon), whole(reports=reports)
    pairs = {
        size: tuple(
            ResponsePair(reports, local_epsilon, size, others)
            for others in (("same", "other") if size == 2 else ("third",))
        )
        for size in ((2, 3) if categories is None else (whole(categories=categories, least=2),))
    }
    names = {2: "binary randomized response, all others on one value"}
    described = [names.get(size, f"{size}-ary randomized response, all others on a third value") for size in pairs]
    return LowerBound("; ".join(described), reports, local_epsilon, ResponseProfile(sum(pairs.values(), ())))
