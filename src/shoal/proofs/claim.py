"""What a certificate claims: a theorem with its numbers, which proves δ(ε) ≤ δ in ball arithmetic by itself.

A claim is one class in one file, a frozen dataclass with a name. It knows its theorem, its assumptions, and `upper`,
a ball that is at least δ(ε). How `upper` goes about it is told by a *witness*, some plain numbers: every witness gives
a valid bound, and a bad one only fails to prove. Floating point chooses it, in `attempts`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar

from shoal.assumptions import Assumption
from shoal.errors import FormatError, ParameterError
from shoal.proofs.balls import Ball, Summand, ball, total, zero
from shoal.proofs.inversion import chernoff, effort, gaussian, tilt_of
from shoal.proofs.jumps import split
from shoal.proofs.listing import MOST_TERMS, listed
from shoal.proofs.two_values import counted
from shoal.proofs.work import MOST_ALONE, MOST_WORK

__all__ = ["LADDER", "Claim", "RoundClaim", "Witness", "claim_from", "hidden"]

Witness = Mapping[str, Any]
"""Plain values: whole numbers, doubles, and lists of them."""

LADDER = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3)
"""By how much more than the printed ε is tried, relatively; at 0 counts are listed, else sums are smoothed."""
_STARTS = ((8, 1e-9), (64, 1e-7), (200, 1e-6), (600, 1e-5), (math.inf, 3e-4))
"""With so many values of a W, the least of these that is tried."""
_FEW, _CELLS = 100, 64
"""With fewer reports than this of a W with more values than this, only the last: their transform falls slowly."""
_ENOUGH, _EFFORT = 1e-6, 1_000_000
"""Less than this part of ε more is only tried where the sum takes fewer sines than this, and than a part of it where
there are many."""
_SHORT_LIST = 3_000
"""Lists of so many counts are faster than any inversion, and exact."""
_NOTHING = 1e-304
"""A smaller δ is not asked for, and need not be known better."""
_LONG_LIST = 60_000
"""Where W has two values, so many counts take less than half a second."""
_FINER = 3e-3, 6e-4
_AT_ZERO = 0.03, 3e-3, 3e-4, 3e-5
"""Where ε is 0 there is no more of it to prove: ever less is smoothed."""
_ROUGH = 0.3, 0.05
"""This much is smoothed to tell which of many W have a δ that is far from the largest."""
_SMOOTH = 0.7
"""Smoothing with this times √x of the deviation costs less of δ than a part x of ε more gains."""
MOST_REPORTS = 10**15

_CLAIMS: "dict[str, type[Claim]]" = {}


class Claim(ABC):
    """A theorem about shuffled reports, in which every number is a double, a whole number or a name."""

    name: ClassVar[str | None] = None
    most_work: ClassVar[int] = MOST_WORK

    def __init_subclass__(cls, *, name: str | None = None) -> None:
        """Register the class under its name, which is not inherited: neither is a proof."""
        super().__init_subclass__()
        cls.name = name
        if name is None:
            return
        other = _CLAIMS.get(name)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ParameterError(f"the name {name!r} of {cls.__qualname__} belongs to {other.__qualname__} already")
        _CLAIMS[name] = cls

    @property
    @abstractmethod
    def theorem(self) -> str:
        """Where it is proved that the claim holds if the sum is what it is."""

    @property
    @abstractmethod
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true of the people and the shuffler."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """What the claim is about, in a few words with all its numbers."""

    def fitted(self, delta: float, *, coarse: bool = False) -> "Claim":
        """Return the same claim, discretised as this δ asks for; more coarsely as one of many rounds."""
        return self

    @abstractmethod
    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield values from a printed ε upwards, each with a witness that may prove δ(ε) ≤ delta."""

    @abstractmethod
    def upper(self, epsilon: float, witness: Witness) -> Ball:
        """Return a ball whose upper end is at least δ(ε), in the precision that is set.

        Raises
        ------
        ParameterError
            If the witness is none of this claim.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return the name of the claim and its numbers as plain values, ready for JSON."""
        return {"name": self.name, **{field.name: getattr(self, field.name) for field in fields(self)}}  # type: ignore[arg-type]

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> "Claim":
        """Return the claim with these numbers."""
        return cls(**content)


def claim_from(content: Any) -> Claim:
    """Return the claim that `to_dict` has written; the module that defines it must have been imported."""
    if not isinstance(content, Mapping):
        raise FormatError("a claim is an object with a name")
    parameters = dict(content)
    name = parameters.pop("name", None)
    if not isinstance(name, str) or name not in _CLAIMS:
        raise FormatError(f"no claim is called {name!r}, only {', '.join(sorted(_CLAIMS))}")
    return _CLAIMS[name].of_dict(parameters)


def double(least: float = 0.0, most: float = math.inf, **argument: Any) -> float:
    """Return the argument if it is a double in this range, finite and of the type float."""
    ((name, value),) = argument.items()
    if type(value) is not float or not (math.isfinite(value) and least <= value <= most):
        raise ParameterError(f"{name} must be a double, at least {least:g} and at most {most:g}; got {value!r:.40}")
    return value


def count(least: int = 1, most: int = MOST_REPORTS, **argument: Any) -> int:
    """Return the argument if it is a whole number in this range, of the type int."""
    ((name, value),) = argument.items()
    if type(value) is not int or not least <= value <= most:
        shown = repr(value) if not isinstance(value, int) or abs(value) < 10**20 else "a larger one"
        raise ParameterError(f"{name} must be a whole number, at least {least} and at most {most:,}; got {shown:.40}")
    return value


def expect(witness: Any, names: tuple[str, ...]) -> None:
    """Refuse a witness that has other fields than these."""
    if not isinstance(witness, Mapping) or set(witness) != set(names):
        raise ParameterError(f"the witness of this claim has the fields {', '.join(names) or 'of nothing'}")


def hidden(summand: Summand, copies: int, *, fineness: float, most_terms: int = MOST_TERMS) -> Ball:
    """Return a ball whose upper end is at least δ of n reports: listed, if that is short or fineness 0, or inverted.

    A report alone has no smaller δ, and where the sum says nothing, that is the answer.
    """
    best = _alone(summand)
    if copies > 1 and any(not value <= 0 for value in summand.values):
        about, least = copies * best, chernoff(summand, copies)
        if least.is_finite() and float(least.upper()) < float(about.upper()):
            about = least
        size = math.log(max(float(about.upper()), 1e-300))
        if about < _NOTHING:
            return min(best, about / copies) + summand.cost
        value = counted(summand, copies, size, most=_SHORT_LIST if fineness else _LONG_LIST)
        if fineness and not value.is_finite():
            value = listed(summand, copies, size, most_terms=_SHORT_LIST)
        if fineness and not value.is_finite():
            value = split(summand, copies, fineness=fineness)
        if not value.is_finite():
            value = listed(summand, copies, size, most_terms=most_terms)
        value = value / copies
        best = min(best, value)
    return best + summand.cost


def _alone(summand: Summand) -> Ball:
    """Return E[W₊]."""
    return total([p * value.max(zero()) for value, p in zip(summand.values, summand.probabilities, strict=True)])


def _width(summand: Summand) -> float:
    """Return E[W²], about."""
    rows = zip(summand.values, summand.probabilities, strict=True)
    return sum(float(p) * min(abs(float(value)), 1e150) ** 2 for value, p in rows)


def _gain(summand: Summand, copies: int, epsilon: float) -> float:
    """Return how much more of ε takes off δ, compared with a sum that is many deviations below zero: at most 1.

    A normal sum t deviations below zero has t·Pr(X > t)/φ(t), which is about 1.25·t next to 0.
    """
    t = math.expm1(min(epsilon, 700.0)) * math.sqrt(copies / max(_width(summand), 1e-300))
    if not t <= 20:
        return 1.0
    return t * math.sqrt(math.pi / 2) * math.erfc(t / math.sqrt(2)) * math.exp(t * t / 2)


class RoundClaim(Claim):
    """A claim about one round: δ(ε) ≤ E[(W₁ + … + Wₙ)₊]/n for each of some W, plus a charge for δ₀ if there is one.

    Attributes
    ----------
    reports : int
        n.
    """

    most_work: ClassVar[int] = MOST_ALONE
    reports: int
    local_epsilon: float

    @property
    def ceiling(self) -> float:
        """ε₀, from which on δ(ε) is at most δ₀; infinite if there is none."""
        return self.local_epsilon

    @property
    def floor(self) -> float:
        """δ₀."""
        return 0.0

    @property
    def apart(self) -> float:
        """Of a loss far out to the one before, where δ is slow to bound."""
        return 1.05

    @property
    def reverse(self) -> "RoundClaim | None":
        """The claim of the exchanged pair, where δ(ε) is that of one direction; none where it is that of both."""
        return None

    @abstractmethod
    def summands(self, growth: Ball) -> list[Summand]:
        """Return W at e^ε for every pair of inputs and direction; the largest δ of them is the claim's."""

    def charge(self, growth: Ball) -> Ball:
        """Return what δ₀ costs at e^ε."""
        return zero()

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε), from this ε alone."""
        if epsilon >= self.ceiling:
            return ball(self.floor)
        growth = ball(epsilon).exp()
        choices = self.summands(growth)
        if len(choices) == 1:
            return hidden(choices[0], self.reports, fineness=fineness) + self.charge(growth)
        # One tilt for all of them: that of the widest, whose δ is about the largest.
        tilt = tilt_of(max(choices, key=_width), self.reports)
        rough = [
            min(chernoff(each, self.reports, tilt=tilt), gaussian(each, self.reports), _alone(each) * self.reports)
            / self.reports
            + each.cost
            for each in choices
        ]
        worst = zero()
        for index in sorted(range(len(choices)), key=lambda index: -float(rough[index].upper())):
            bound, each = rough[index], choices[index]
            for fine in (fineness,) if worst.is_zero() else (*(fine for fine in _ROUGH if fine > fineness), fineness):
                if bound <= worst:
                    break
                value = hidden(each, self.reports, fineness=fine, most_terms=MOST_TERMS // len(choices))
                bound = value if value < bound else bound
            worst = worst.max(bound)
        return worst + self.charge(growth)

    def upper(self, epsilon: float, witness: Witness) -> Ball:
        """Return a ball whose upper end is at least δ(ε): at ε, at a smaller ε′, or on the chord from there to ε₀."""
        expect(witness, ("fineness", "from"))
        fineness = double(0.0, 1.0, fineness=witness["fineness"])
        start = double(0.0, epsilon, **{"from": witness["from"]})
        value = self.at(start, fineness=fineness)
        if epsilon < self.ceiling and start < epsilon and math.isfinite(self.ceiling):
            # δ(ε) is convex in e^ε, and at most δ₀ at ε₀.
            growth, origin, end = ball(epsilon).exp(), ball(start).exp(), ball(self.ceiling).exp()
            chord = ((end - growth) * value + (growth - origin) * ball(self.floor)) / (end - origin)
            return chord if chord < value else value
        return value

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield ever more of ε, with ever less effort; first the list of counts, which loses nothing."""
        choices = self.summands(ball(epsilon).exp())
        values = max(len(each.values) for each in choices)
        least = next(least for most, least in _STARTS if values <= most)
        if values > _CELLS and self.reports < _FEW:
            least = LADDER[-1]
        widest = max(choices, key=_width)
        gain = _gain(widest, self.reports, epsilon)
        for more in LADDER if epsilon else (0.0,):
            fineness = _SMOOTH * math.sqrt(more * gain)
            if 0 < more < least:
                continue
            if 0 < more < _ENOUGH and effort(widest, self.reports, fineness=fineness) > _EFFORT / len(choices) ** 0.5:
                continue
            larger = min(epsilon * (1 + more), self.ceiling)
            start = self._best_start(larger) if self.floor else larger
            yield larger, {"fineness": fineness, "from": start}
        for fineness in _FINER if epsilon else _AT_ZERO:  # a long tail makes the sum wider than what decides
            yield larger, {"fineness": fineness, "from": start}

    def _best_start(self, epsilon: float) -> float:
        """Return about the ε′ ≤ ε whose bound, or chord to ε₀, is least at ε."""
        low, high = 0.0, epsilon

        def value(start: float) -> float:
            return float(self.upper(epsilon, {"fineness": 0.01, "from": start}).upper())

        best = min((value(start), start) for start in (low, high))
        for _ in range(40):
            first, second = low + 0.382 * (high - low), low + 0.618 * (high - low)
            one, two = value(first), value(second)
            best = min(best, (one, first), (two, second))
            low, high = (low, second) if one < two else (first, high)
            if high - low < 1e-4 * epsilon:
                break
        return best[1]
