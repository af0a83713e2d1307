"""What a certificate claims: a theorem with its numbers, which proves δ(ε) ≤ δ in ball arithmetic by itself.

A claim is one class, a frozen dataclass with a name. It knows its theorem, its assumptions, and `upper`, a ball that is
at least δ(ε). How `upper` goes about it is told by a *witness*, some plain numbers: every witness gives a valid bound,
and a bad one only fails to prove. Floating point chooses it, in `attempts`.

Claims are made of pairs of distributions that dominate a round, which are steps of a proof without a name
(docs/theory/certificates.md, sections 2 and 9).
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, final

from shoal.assumptions import Assumption
from shoal.errors import FormatError, ParameterError
from shoal.proofs.balls import ZERO, Ball, Summand, ball, precision, total
from shoal.proofs.inversion import chernoff, effort, gaussian, inverted, tilt_of
from shoal.proofs.listing import MOST_TERMS, counted, listed
from shoal.proofs.transforms import least_at
from shoal.proofs.work import MOST_ALONE, MOST_WORK, spend

Witness = Mapping[str, Any]
"""Plain values: whole numbers, doubles, and lists of them."""

LADDER = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3)
"""By how much more than the printed ε is tried, relatively; at 0 counts are listed, else sums are smoothed."""
# With at most this many values of a W, the least part of ε more that is tried: less takes longer.
_STARTS = ((8, 1e-9), (64, 1e-7), (200, 1e-6), (600, 1e-5), (math.inf, 3e-4))
# With fewer reports than this of a W with more values than this, only the last: their transform falls slowly.
_FEW, _CELLS = 100, 64
# Less than this part of ε more is only tried where the sum takes fewer sines than this, and than a part of it where
# there are many.
_ENOUGH, _EFFORT = 1e-6, 1_000_000
_FINER = 3e-3, 6e-4  # what is smoothed in the last attempts, for sums with a long tail
_AT_ZERO = 0.03, 3e-3, 3e-4, 3e-5  # where ε is 0 there is no more of it to prove: ever less is smoothed
_SMOOTH = 0.7  # smoothing with this times √x of the deviation costs less of δ than a part x of ε more gains
MOST_REPORTS = 10**15  # more reports than there are people, so that no integer of a file is unbounded
_SEARCHES = 20  # steps of the search for an ε′: the last interval is a 10,000th of ε
_DECIDING = 512  # bits that tell a ratio of integers from e^ε₀
_SHORT_LIST = 3_000  # lists of this many counts are faster than any inversion, and exact
_NOTHING = 1e-304  # a smaller δ is not asked for, and need not be known better
_LONG_LIST = 60_000  # where W has two values, this many counts take less than half a second
_ROUGH = 0.3, 0.05  # this much is smoothed to tell which of many W have a δ that is far from the largest

_CLAIMS: "dict[str, type[Claim]]" = {}


class Claim(ABC):
    """A theorem about shuffled reports, in which every number is a double, a whole number or a name."""

    name: ClassVar[str | None] = None
    most_work: ClassVar[int] = MOST_WORK
    sentence: ClassVar[str]
    """The subject, with fields of the claim as {0.field}; a claim may have a `subject` of its own."""

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
    def subject(self) -> str:
        """What the claim is about, in a few words with all its numbers."""
        return self.sentence.format(self)

    def fitted(self, delta: float, *, coarse: bool = False) -> "Claim":
        """Return the same claim, discretised as this δ asks for; more coarsely as one of many rounds."""
        return self

    @abstractmethod
    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield values from a printed ε upwards, each with a witness that may prove δ(ε) ≤ delta."""

    @abstractmethod
    def upper(self, epsilon: float, witness: Witness) -> Ball:
        """Return a ball whose upper end is at least δ(ε), or raise `ParameterError` if the witness has other fields."""

    def to_dict(self) -> dict[str, Any]:
        """Return the name of the claim and its numbers as plain values, ready for JSON."""
        return {"name": self.name, **{name: getattr(self, name) for name in self._stated()}}

    @classmethod
    def _stated(cls) -> tuple[str, ...]:
        """Return the fields that are part of the claim: those by which claims are compared."""
        return tuple(each.name for each in fields(cls) if each.compare)  # type: ignore[arg-type]

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> "Claim":
        """Return the claim with these numbers, and no others."""
        expect(content, cls._stated(), what="claim")
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


def digest(text: str) -> str:
    """Return half of the SHA-256 digest of a text, for a sentence that has no room for the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def least_local_epsilon(local_epsilon: float, ratios: Iterable[tuple[int, int]]) -> None:
    """Refuse an ε₀ that is not the least double with first ≤ e^ε₀·second for all pairs of integers."""
    with precision(_DECIDING):
        local, less = (ball(value).exp() for value in (local_epsilon, math.nextafter(local_epsilon, 0.0)))
        needed = local_epsilon == 0
        for first, second in ratios:
            if not ball(first) <= local * second:
                raise ParameterError(f"two probabilities of an output differ by more than e^{local_epsilon!r}")
            needed = needed or not ball(first) <= less * second
    if not needed:
        raise ParameterError(
            f"local_epsilon={local_epsilon!r} is larger than the least double that no ratio of two probabilities "
            "exceeds; state that one"
        )


def expect(content: Any, names: tuple[str, ...], *, what: str = "witness of this claim") -> None:
    """Refuse a witness, or other named values, that has other fields than these."""
    if not isinstance(content, Mapping) or set(content) != set(names):
        raise ParameterError(f"the {what} has the fields {', '.join(names) or 'of nothing'}")


def choice(names: Iterable[str], **argument: Any) -> str:
    """Return the argument if it is one of these names."""
    ((name, value),) = argument.items()
    allowed = tuple(names)
    if value not in allowed:
        raise ParameterError(f"{name} must be one of {', '.join(allowed)}; got {value!r:.40}")
    return value  # type: ignore[no-any-return]


def hidden(summand: Summand, copies: int, *, fineness: float, most_terms: int = MOST_TERMS) -> Ball:
    """Return a ball whose upper end is at least δ of n reports: listed, if that is short or fineness 0, or inverted."""
    spend(50 + len(summand.values))
    best = _alone(summand)  # one report alone is a bound for any number of them, and where the sum says nothing
    if copies > 1 and any(not value <= 0 for value in summand.values):
        # The size of the answer says how deep lists and counts must go.
        about = copies * best
        least = chernoff(summand, copies)
        if least.is_finite() and float(least.upper()) < float(about.upper()):
            about = least
        size = math.log(max(float(about.upper()), 1e-300))
        if about < _NOTHING:
            return min(best, about / copies) + summand.cost
        value = counted(summand, copies, size, most=_SHORT_LIST if fineness else _LONG_LIST)
        if fineness and not value.is_finite():
            value = listed(summand, copies, size, most_terms=_SHORT_LIST)
        if fineness and not value.is_finite():
            value = inverted(summand, copies, fineness=fineness)
        if not value.is_finite():
            value = listed(summand, copies, size, most_terms=most_terms)
        value = value / copies  # (2.1)
        best = min(best, value)
    return best + summand.cost


def _alone(summand: Summand) -> Ball:
    """Return E[W₊]."""
    return total([p * value.max(ZERO) for value, p in zip(summand.values, summand.probabilities, strict=True)])


def mean_square(summand: Summand) -> float:
    """Return E[W²], about."""
    rows = zip(summand.values, summand.probabilities, strict=True)
    return sum(float(p) * min(abs(float(value)), 1e150) ** 2 for value, p in rows)


class DominatingPair(ABC):
    """Two distributions that dominate a round: δ(ε) ≤ E[(W₁ + … + Wₙ)₊]/n for each of some W, plus a charge.

    A pair is a step of a proof: it may be one direction of a round, or lack what its theorem charges besides. So it has
    no name, and no certificate can be of it: what is claimed is a `Claim`, which accounts for the rest.
    """

    reports: int  # n
    local_epsilon: float
    apart: float = 1.05
    """The ratio of a loss far out to the one before, where δ is slow to bound."""

    @property
    def ceiling(self) -> float:
        """ε₀, from which on δ(ε) is at most δ₀; infinite if there is none."""
        return self.local_epsilon

    @property
    def floor(self) -> float:
        """δ₀."""
        return 0.0

    @property
    def reverse(self) -> "DominatingPair | None":
        """The exchanged pair, where δ(ε) is that of one direction; none where it is that of both."""
        return None

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W at e^ε for every pair of inputs and direction; none if `at` computes δ otherwise."""
        return []

    def charge(self, growth: Ball) -> Ball:
        """Return what δ₀ costs at e^ε."""
        return ZERO

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε), from this ε alone."""
        if epsilon >= self.ceiling:
            return ball(self.floor)
        growth = ball(epsilon).exp()
        choices = self.summands(growth)
        if len(choices) == 1:
            return hidden(choices[0], self.reports, fineness=fineness) + self.charge(growth)
        spend(4 * sum(len(each.values) for each in choices))
        # One tilt for all of them: that of the widest, whose δ is about the largest.
        tilt = tilt_of(max(choices, key=mean_square), self.reports)
        rough = [
            min(chernoff(each, self.reports, tilt=tilt), gaussian(each, self.reports), _alone(each) * self.reports)
            / self.reports
            + each.cost
            for each in choices
        ]
        worst = ZERO
        for index in sorted(range(len(choices)), key=lambda index: -float(rough[index].upper())):
            bound, each = rough[index], choices[index]
            # Ever better bounds, until one is at most the largest δ so far.
            for fine in (fineness,) if worst.is_zero() else (*(fine for fine in _ROUGH if fine > fineness), fineness):
                if bound <= worst:
                    break
                value = hidden(each, self.reports, fineness=fine, most_terms=MOST_TERMS // len(choices))
                bound = value if value < bound else bound
            worst = worst.max(bound)
        return worst + self.charge(growth)


def _gain(summand: Summand, copies: int, epsilon: float) -> float:
    """Return how much more of ε takes off δ, compared with a sum that is many deviations below zero: at most 1."""
    # A normal sum t deviations below zero has t·Pr(X > t)/φ(t), which is about 1.25·t next to 0.
    t = math.expm1(min(epsilon, 700.0)) * math.sqrt(copies / max(mean_square(summand), 1e-300))
    if not t <= 20:
        return 1.0
    return t * math.sqrt(math.pi / 2) * math.erfc(t / math.sqrt(2)) * math.exp(t * t / 2)


class RoundClaim(DominatingPair, Claim):
    """A claim about one round: a pair that dominates it in both directions, with all that is charged."""

    most_work: ClassVar[int] = MOST_ALONE

    def __post_init__(self) -> None:
        """Check the number of reports, then the other fields."""
        count(reports=self.reports)
        self._check()

    def _check(self) -> None:
        """Refuse numbers that state nothing."""

    @property
    @final
    def reverse(self) -> None:
        """None, because a claim is about both directions."""
        return None

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
        if not choices:  # `at` computes δ otherwise, and has nothing to choose
            for more in LADDER:
                larger = max(epsilon, min(epsilon * (1 + more), self.ceiling))
                yield larger, {"fineness": 0.0, "from": larger}
            return
        values = max(len(each.values) for each in choices)
        least = next(least for most, least in _STARTS if values <= most)
        if values > _CELLS and self.reports < _FEW:
            least = LADDER[-1]
        widest = max(choices, key=mean_square)
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

        def value(start: float) -> float:
            return float(self.upper(epsilon, {"fineness": 0.01, "from": start}).upper())

        inside = least_at(value, 0.0, epsilon, _SEARCHES)
        return min((0.0, inside, epsilon), key=value)
