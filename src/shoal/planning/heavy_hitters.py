"""Heavy hitters: the strings that many people hold, found round by round from messages that were shuffled."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.arrays import Array, IntArray, WordArray
from shoal.checks import Number, whole
from shoal.curve import PrivacyCurve
from shoal.errors import ParameterError
from shoal.estimation.estimate import Estimate
from shoal.mechanisms import Simulation
from shoal.planning.coded_strings import CodedStrings, Strings
from shoal.planning.heavy_hitter_plan import CITATION, HeavyHitterPlan, plan_heavy_hitters
from shoal.progress import progress
from shoal.searches import bisect_safe
from shoal.shown import Shown

if TYPE_CHECKING:
    from shoal.charts import Chart

_MOST_LISTED = 1 << 26
"""Prefixes in a list, beyond which memory would not do; 2 · 10⁵ are usual."""
_CLEAR = 7.0
"""An interval that begins so many deviations above the threshold is not changed by it, to twelve digits."""


@dataclass(frozen=True)
class PrefixRound:
    """What one round did."""

    bits: int  # of its prefixes
    listed: int  # how many prefixes were counted
    dimension: int  # how many coordinates its geometry has
    # error, threshold: The standard deviation of the count of a prefix that nobody holds, and
    # above which estimate a prefix is kept
    error: float
    threshold: float
    none: float  # how many people held no listed prefix, estimated
    kept: int  # how many prefixes had a larger estimate


@dataclass(frozen=True, eq=False)
class HeavyHitters(Shown):
    """The strings whose estimates are above the threshold, the largest first, with how many people hold them.

    A string is listed because its own estimate passed the threshold, and so estimates near it are too large on average.
    The lower ends of the intervals allow for that: they fail as often as they say among strings that are listed, too.

    Attributes
    ----------
    plan : HeavyHitterPlan
        The plan.
    people : int
        How many took part.
    items : list of str
        The strings.
    numbers : numpy.ndarray
        The same as whole numbers.
    counts, standard_errors, lower, upper : numpy.ndarray
        How many people hold each, estimated, with its error and interval.
    confidence : float
        Of each interval by itself, for a string that was settled beforehand and for one that is listed.
    rounds : tuple of PrefixRound
        What each round did.
    false_items : float
        At most so many of the items are expected to be held by nobody.
    """

    plan: HeavyHitterPlan
    people: int
    items: list[str]
    numbers: WordArray
    counts: Array
    standard_errors: Array
    lower: Array
    upper: Array
    confidence: float
    rounds: tuple[PrefixRound, ...]
    false_items: float

    @property
    def curve(self) -> PrivacyCurve:
        """The guarantee of all rounds together, whether or not the last of them were needed."""
        return self.plan.curve

    @property
    def remains(self) -> str:
        """What is left if shuffler and analyst collude."""
        return self.plan.remains

    def columns(self) -> dict[str, Any]:
        """Return the strings, their counts, errors and intervals, as columns."""
        columns = {"count": self.counts, "standard_error": self.standard_errors}
        columns |= {"lower": self.lower, "upper": self.upper}
        return {"item": list(self.items)} | {name: column.tolist() for name, column in columns.items()}

    def _columns(self) -> dict[str, Any]:
        return self.columns()

    def to_dict(self, *, delta: float = 1e-6) -> dict[str, Any]:
        """Return everything as plain values, with the guarantee at this δ."""
        return {
            "people": self.people,
            "plan": self.plan.to_dict(),
            "rounds": [asdict(each) for each in self.rounds],
            "found": len(self.items),
            "false_items": self.false_items,
            "confidence": self.confidence,
            **self.columns(),
            "central": self.curve.to_dict(delta=delta) | {"theorem": f"{CITATION}; {self.curve.theorem}"},
            "remains_if_colluding": self.remains,
        }

    def chart(self, *, most: int = 40) -> "Chart":
        """Return the most frequent strings as bars with their intervals."""
        return self._drawn(most=most)

    def _small_chart(self) -> "Chart":
        return self._drawn(most=20)

    def __repr__(self) -> str:
        """Show how many were found, and what can be found."""
        found = f"{len(self.items):,} string{'' if len(self.items) == 1 else 's'}"
        return f"HeavyHitters({found} estimated above {self.plan.threshold:.0f} of {self.people:,} people)"


def heavy_hitters(
    values: Strings,
    *,
    epsilon: Number | None = None,
    delta: Number = 1e-6,
    bits: Number = 48,
    covers: Number = 1.0,
    code: str = "bytes",
    names: Iterable[str] = (),
    confidence: float = 0.95,
    plan: HeavyHitterPlan | None = None,
    simulation: Simulation | None = None,
) -> HeavyHitters:
    """Find the strings that many people hold, message by message, as an analyst of shuffled messages would.

    Parameters
    ----------
    values : sequence of str, bytes or int
        One of each person.
    epsilon, delta : float
        What all rounds together keep.
    bits : int
        How many bits of a string count: with code="bytes", a multiple of 8 up to 64.
    covers : float
        How many covers a person sends in a round, on average: more of them find rarer strings.
    code : {"bytes", "hash", "numbers"}
        "bytes" finds the first bits/8 bytes of strings in UTF-8; "hash" finds hashes of so many bits, which come back
        as strings if they are among `names`; "numbers" are whole numbers of so many bits.
    names : iterable of str
        Strings that a hash may come from, from a public source.
    confidence : float
        Of each interval by itself. Strings are listed because their estimates passed the threshold, and lower ends
        allow for that; the estimates themselves of strings near it are too large on average.
    plan : HeavyHitterPlan, optional
        From `shoal.plan_heavy_hitters`, for other numbers of people and rounds, instead of epsilon, delta, bits and
        covers.
    simulation : Simulation, optional
        Coins that can be tossed again, for simulations only.

    Examples
    --------
    >>> import shoal
    >>> people = ["red"] * 6000 + ["green"] * 3000 + ["blue"] * 990 + [f"#{number}" for number in range(10)]
    >>> found = heavy_hitters(people, epsilon=1, bits=40, simulation=shoal.Simulation(seed=1))
    >>> found
    HeavyHitters(3 strings estimated above 87 of 10,000 people)
    >>> found.items
    ['red', 'green', 'blue']
    """
    if (plan is None) == (epsilon is None):
        raise ParameterError("give either epsilon, such as epsilon=1, or a plan from shoal.plan_heavy_hitters")
    coded = CodedStrings(whole(bits=bits) if plan is None else plan.bits, code, names)
    numbers = coded.numbers(values)
    people = len(numbers)
    if plan is None:
        assert epsilon is not None
        plan = plan_heavy_hitters(people=people, epsilon=epsilon, delta=delta, bits=bits, covers=covers)
    return search_heavy_hitters(numbers, plan, coded, confidence=confidence, simulation=simulation)


def search_heavy_hitters(
    numbers: WordArray,
    plan: HeavyHitterPlan,
    coded: CodedStrings,
    *,
    confidence: float = 0.95,
    simulation: Simulation | None = None,
) -> HeavyHitters:
    """Run a search on people whose strings are numbers already, as `coded` has made them."""
    people = len(numbers)
    if people < plan.people:
        raise ParameterError(
            f"this search was planned for {plan.people:,} people or more, and there are {people:,}: covers of people "
            "who are absent hide nobody"
        )
    listed = np.arange(1 << plan.first, dtype=np.uint64)
    rounds: list[PrefixRound] = []
    kept = np.empty(0, np.int64)
    estimate: Estimate | None = None
    for depth in progress(plan.depths, total=plan.rounds, label="heavy_hitters", patience=0):
        if rounds:
            listed = _children(listed[kept], plan.step)
        if len(listed) == 0:
            break
        estimate = _counted(plan, numbers >> np.uint64(plan.bits - depth), listed, confidence, simulation)
        counts, error = people * estimate.frequencies, plan.error(people, len(listed))
        kept = np.flatnonzero(counts[1:] > plan.deviations * error)
        rounds.append(_record(estimate, depth, plan, kept))
    assert estimate is not None
    chosen = kept[np.argsort(-estimate.frequencies[1 + kept], kind="stable")] if len(listed) else kept[:0]
    found, places = listed[chosen], 1 + chosen
    return HeavyHitters(
        plan=plan,
        people=people,
        items=coded.labels(found),
        numbers=found,
        counts=people * estimate.frequencies[places],
        standard_errors=people * estimate.standard_errors[places],
        lower=_selected_lower(
            *(people * part[places] for part in (estimate.frequencies, estimate.standard_errors, estimate.lower)),
            threshold=rounds[-1].threshold,
            level=(1 - confidence) / 2,
        ),
        upper=people * estimate.upper[places],
        confidence=confidence,
        rounds=tuple(rounds),
        false_items=len(listed) * plan.false_alarm(people, len(listed)) if len(listed) else 0.0,
    )


def _selected_lower(
    counts: Array,
    errors: Array,
    lower: Array,
    *,
    threshold: float,
    level: float,
) -> Array:
    """Return lower ends that hold also for strings that are listed because their estimates are above a threshold.

    With c people, the estimate is normal about c; given that it is above T, one of at least x has the probability
    Pr(X ≥ x)/Pr(X > T), which grows with c. The lower end is the c at which it is the level. Upper ends need nothing:
    above T, an estimate is less often too small. Earlier rounds have coins of their own, and do not matter.
    """
    result = lower.copy()
    for index in np.flatnonzero(lower < threshold + _CLEAR * errors):
        result[index] = _least(float(counts[index]), float(errors[index]), float(lower[index]), threshold, level)
    return result


def _least(count: float, error: float, most: float, threshold: float, level: float) -> float:
    def rare(people: float) -> bool:
        at_least, passed = (math.erfc((end - people) / (error * math.sqrt(2))) for end in (count, threshold))
        return at_least < level * passed

    if most <= 0 or not rare(0.0):
        return 0.0
    return bisect_safe(rare, unsafe=most, good=0.0, within=1e-3)


def _children(prefixes: WordArray, step: int) -> WordArray:
    """Return all prefixes that are longer by so many bits, in order."""
    if len(prefixes) << step > _MOST_LISTED:
        raise ParameterError(
            f"{len(prefixes):,} prefixes are left, and their list would be too long; raise deviations, or lower epsilon"
        )
    return ((prefixes[:, None] << np.uint64(step)) | np.arange(1 << step, dtype=np.uint64)).ravel()


def _counted(
    plan: HeavyHitterPlan,
    prefixes: WordArray,
    listed: WordArray,
    confidence: float,
    simulation: Simulation | None,
) -> Estimate:
    """Run a round: each person sends a bundle, and the messages of all are counted for the list alone.

    The order of the messages is of no use to what counts them, and so nothing permutes them here.
    """
    mechanism = plan.of_list(len(listed))
    places = np.searchsorted(listed, prefixes)
    places[places == len(listed)] = 0
    held = np.where(listed[places] == prefixes, places + 1, 0)  # 0 is "none of these"
    return mechanism.estimate_messages(mechanism.randomize(held, simulation=simulation), confidence=confidence)


def _record(estimate: Estimate, depth: int, plan: HeavyHitterPlan, kept: IntArray) -> PrefixRound:
    listed, people = len(estimate.frequencies) - 1, estimate.reports
    error = plan.error(people, listed)
    none = float(people * estimate.frequencies[0])
    dimension: int = estimate.mechanism.response.dimension  # type: ignore[attr-defined]
    return PrefixRound(depth, listed, dimension, error, plan.deviations * error, none, len(kept))


def compared(found: HeavyHitters, numbers: WordArray) -> dict[str, int]:
    """Return how a simulation fares beside the truth: of what should be found, how much was, and what was false."""
    held, counts = np.unique(numbers, return_counts=True)
    expected = held[counts > found.plan.threshold + 2 * found.plan.error()]
    return {
        "expected": len(expected),
        "expected_found": int(np.isin(expected, found.numbers).sum()),
        "false": int((~np.isin(found.numbers, held)).sum()),
    }
