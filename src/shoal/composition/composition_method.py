"""A method of composition: how several rounds, settled in advance, become one curve."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple

from shoal.assumptions import FRESH, OF_EACH, Assumption
from shoal.catalogue import Theorem, rows_of
from shoal.checks import whole
from shoal.composition.central_curve import CentralCurve
from shoal.curve import PrivacyCurve
from shoal.errors import NoPairError, ParameterError
from shoal.privacy_profile import Gridded, Profile

MOST_TIMES = 10**9


class Round(NamedTuple):
    """A kind of round: its profile, its local ε₀, and how many there are."""

    profile: Profile
    local_epsilon: float
    times: int


@dataclass(frozen=True, kw_only=True, repr=False)
class CompositionMethod(Theorem):
    """A theorem that makes one guarantee of many: `make` returns the profile of all rounds together.

    `adds_losses` says that every round must have privacy losses, as formulas have not.
    """

    kind: ClassVar[str] = "composition"

    make: Callable[[tuple[Round, ...]], Profile]
    adds_losses: bool = False
    assumptions: tuple[Assumption, ...] = (FRESH, OF_EACH)
    needs: str = "rounds that are settled in advance"
    range: str = "all rounds and δ"

    def compose(self, curves: Iterable[PrivacyCurve | tuple[PrivacyCurve, int]]) -> PrivacyCurve:
        """Return the guarantee of several rounds together; one curve for each, or pairs (curve, times)."""
        if not self.proven:
            raise ParameterError(f"{self.name} is for comparison only, and no guarantee; use another method")
        parts = _merged(curves)
        if len(parts) == 1 and parts[0][1] == 1:
            return parts[0][0]
        for curve, _ in parts:
            if self.adds_losses and not isinstance(curve.profile, Gridded):
                raise NoPairError(
                    f'{curve.bound} is a formula, with no privacy losses to add up; use method="advanced", or a '
                    "numerical bound such as strong-clones"
                )
        rounds = tuple(Round(curve.profile, curve.local_epsilon, times) for curve, times in parts)
        own = (line for line in self.assumptions if line != OF_EACH)
        assumptions = dict.fromkeys((*own, *(line for curve, _ in parts for line in curve.assumptions)))
        each = "; ".join(dict.fromkeys(curve.citation for curve, _ in parts))
        return PrivacyCurve(
            bound=self.name,
            citation=f"{self.citation}; each round: {each}",
            assumptions=tuple(assumptions),
            reports=min((curve.reports for curve, _ in parts if not isinstance(curve, CentralCurve)), default=1),
            local_epsilon=total_local_epsilon(rounds),
            local_delta=min(1.0, sum(times * curve.local_delta for curve, times in parts)),
            profile=self.make(rounds),
            parts=tuple(parts),
        )


METHODS = rows_of(CompositionMethod)
"""All of them by name."""


@lru_cache(maxsize=64)
def total_local_epsilon(rounds: tuple[Round, ...]) -> float:
    """Return the sum of all ε₀, rounded up only if it has to be."""
    if any(math.isinf(part.local_epsilon) for part in rounds):
        return math.inf
    exact = sum((part.times * Fraction(part.local_epsilon) for part in rounds), Fraction())
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def _merged(curves: Iterable[PrivacyCurve | tuple[PrivacyCurve, int]]) -> list[tuple[PrivacyCurve, int]]:
    """Return every different curve once, with how often it is there; what was composed before is taken apart."""
    counts: dict[PrivacyCurve, int] = {}
    for item in curves:
        curve, times = item if isinstance(item, tuple) else (item, 1)
        if not isinstance(curve, PrivacyCurve):
            raise ParameterError(f"compose takes privacy curves, or pairs (curve, times); got {item!r}")
        times = whole(times=times, most=MOST_TIMES)
        for part, count in curve.parts or ((curve, 1),):
            counts[part] = counts.get(part, 0) + count * times
    if not counts:
        raise ParameterError("compose needs at least one round")
    whole(rounds=sum(counts.values()), most=MOST_TIMES)
    return list(counts.items())
