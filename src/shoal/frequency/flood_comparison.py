"""Signed messages with a flood: what they would cost, as a row of a plan that is for comparison only."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from shoal.errors import ParameterError
from shoal.evaluators.flood import Flood
from shoal.searches import bisect_safe

__all__ = ["MORE_ERROR", "FloodComparison", "least_flood"]

MORE_ERROR = 1.1
"""The error that is allowed, over that of a trusted curator with discrete Laplace noise: with less, pairs are more."""
_RISK = 0.1
"""Of δ, the part with which a share is longer than a bundle has room for."""
_WITHIN = 1e-3
"""How close to the fewest pairs, relatively."""
_LEAST, _MOST = 1e-6, 700.0
"""Of ε: a category needs more than 1/ε pairs, and e^ε must be a double."""
_SHAPES = (2, 3, 4, 6, 8, 11, 14, 18, 23, 30, 40, 55, 75, 100)


@dataclass(frozen=True)
class FloodComparison:
    """What signed messages with a flood would cost under the same guarantee: for comparison, and not to be run.

    Attributes
    ----------
    flood : Flood
        The noise of each category, with about the fewest messages.
    categories, reports : int
        k, and n who certainly take part.
    epsilon, delta : float
        What was asked for: δ(ε) of the flood is at most this δ, exactly.
    """

    flood: Flood
    categories: int
    reports: int
    epsilon: float
    delta: float

    name = "signed-messages-with-a-flood"
    citation = "Theorem F of shoal; the protocol is due to Ghazi, Kumar, Manurangsi, Pagh and Sinha (2021)"

    @property
    def category_error(self) -> float:
        """The standard error of the frequency of any category."""
        return math.sqrt(self.flood.variance) / self.reports

    @property
    def error(self) -> float:
        """The expected ℓ₂ error of all frequencies together."""
        return self.category_error * math.sqrt(self.categories)

    @property
    def messages(self) -> float:
        """How many messages there are for each person, of which one is their own."""
        return 1 + self.flood.messages * self.categories / self.reports

    @cached_property
    def burst(self) -> int:
        """How many messages of one category a person may have to send, so that no share is ever cut."""
        return self.flood.burst(self.reports, _RISK * self.delta / self.categories)

    @property
    def influence(self) -> float:
        """By how many people one malicious person can move the estimate of a category: a bundle has room for bursts."""
        return float(1 + self.burst)

    @property
    def reason(self) -> str:
        """Why it is not among the choices."""
        return (
            f"{self.flood.messages:,.0f} messages a category; shares come in bursts of up to {self.burst:,} messages, "
            "so that one malicious person can move a category by as many; and if people for whom the noise was made "
            "are missing, nothing is guaranteed. Dummies have less error, fewer messages and none of this"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "mechanism": self.name,
            "comparison_only": True,
            "reason": self.reason,
            "theorem": self.citation,
            "epsilon": self.epsilon,
            "delta": self.flood.delta(self.epsilon),
            "error": self.error,
            "category_error": self.category_error,
            "frequent_error": self.category_error,
            "messages": self.messages,
            "influence": self.influence,
            "decay": self.flood.decay,
            "shape": self.flood.shape,
            "pairs": self.flood.pairs,
        }


@lru_cache(maxsize=64)
def least_flood(epsilon: float, delta: float, more_error: float = MORE_ERROR) -> Flood:
    """Return the flood with about the fewest pairs that keeps (ε, δ), at so many times the error of a curator.

    The curator adds discrete Laplace noise with ε/2 to each of two counts.

    Raises
    ------
    ParameterError
        If there is none, or it is too large to be listed.

    Examples
    --------
    >>> round(least_flood(0.5, 1e-6).pairs / 10)
    54
    """
    if not epsilon > _LEAST:
        raise ParameterError(f"a flood that keeps epsilon={epsilon:g} is too large to be listed")
    if epsilon > _MOST:
        raise ParameterError(f"a flood is listed for epsilon up to {_MOST:g}, got {epsilon:g}")
    decay = math.exp(-epsilon / 2)
    variance = more_error**2 * 2 * decay / (1 - decay) ** 2
    larger = variance / (variance + 1 + math.sqrt(2 * variance + 1))  # of which 2a/(1 − a)² is this variance
    tried: dict[int, float] = {}

    def pairs(index: int) -> float:
        if index not in tried:
            tried[index] = _fewest(larger, float(_SHAPES[index]), epsilon, delta)
        return tried[index]

    low, high = 0, len(_SHAPES) - 1
    while high - low > 2:  # the number of pairs falls with the shape, and then rises
        middle = (low + high) // 2
        low, high = (low, middle + 1) if pairs(middle) <= pairs(middle + 1) else (middle, high)
    best = min(range(low, high + 1), key=pairs)
    if not math.isfinite(pairs(best)):
        raise ParameterError(f"no flood keeps epsilon={epsilon:g} and delta={delta:g}")
    more = 1.0
    while True:  # what was found was a guess
        flood = Flood.of_mean(decay=larger, shape=float(_SHAPES[best]), pairs=pairs(best) * more)
        if flood.delta(epsilon) <= delta:
            return flood
        more *= 1 + _WITHIN


def _fewest(decay: float, shape: float, epsilon: float, delta: float) -> float:
    """Return about the fewest pairs with which this shape keeps (ε, δ); infinite where there are none."""

    def kept(logarithm: float) -> bool:
        try:
            return Flood.of_mean(decay=decay, shape=shape, pairs=math.exp(logarithm)).guess(epsilon) <= delta
        except ParameterError:
            return False

    good = math.log(30 / epsilon)
    while not kept(good):
        good += 0.7
        if good > math.log(1e5):
            return math.inf
    unsafe = good - 0.7
    while kept(unsafe):
        good, unsafe = unsafe, unsafe - 0.7
    return math.exp(bisect_safe(kept, unsafe=unsafe, good=good, within=_WITHIN))
