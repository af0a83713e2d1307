"""What rounds cost as they go by: ε against their number, and the day on which a budget is spent."""

import math
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from shoal.calibration.largest import most_rounds
from shoal.calibration.target import Target, anybody, telling
from shoal.checks import known
from shoal.composition.budget import Budget
from shoal.composition.composition_method import MOST_TIMES
from shoal.composition.entry import Rounds
from shoal.curve import PrivacyCurve
from shoal.digits import exactly, rounded_up
from shoal.errors import ParameterError
from shoal.pairs.randomizer import registration_of
from shoal.progress import progress
from shoal.searches import bisect_count
from shoal.shown import Shown

EVERY = ("day", "week", "month")
"""The intervals between rounds that `Spending.every` takes."""

_POINTS = 25
_OF_KINDS = 9
"""How many points of the curve are computed: if all rounds are alike, and if they are of several kinds."""


@dataclass(frozen=True)
class Stretch:
    """Rounds of one kind that follow each other.

    Attributes
    ----------
    curve : PrivacyCurve
        The guarantee of one of them.
    rounds : int
        How many there are.
    day : date, optional
        The day of the first of them, where it is known.
    """

    curve: PrivacyCurve
    rounds: int = 1
    day: date | None = None


@dataclass(frozen=True)
class Spending(Shown):
    """The ε of the first rounds of a sequence, which goes on with more of its last kind.

    Attributes
    ----------
    stretches : tuple of Stretch
        What was released or is planned, in order.
    delta : float
        δ of all answers.
    budget : Budget, optional
        What all rounds together may cost.
    every : str, optional
        How often there is a round of a stretch: every "day", "week" or "month". If it is not given, only the day of
        the first round of a stretch is known.

    Examples
    --------
    >>> import shoal
    >>> daily = shoal.amplify(local_epsilon=2, reports=1_000_000)
    >>> spending = Spending((Stretch(daily, 30, date(2026, 1, 1)),), 1e-6, Budget(0.2, 1e-6, True), "day")
    >>> spending.affordable, str(spending.day(spending.affordable))
    (301, '2026-10-28')
    """

    stretches: tuple[Stretch, ...]
    delta: float
    budget: Budget | None = None
    every: str | None = None

    def __post_init__(self) -> None:
        """Refuse nothing at all, and days that go backwards."""
        if not self.stretches:
            raise ParameterError("there are no rounds to add up")
        if self.every is not None:
            known(EVERY, every=self.every)
        days = [stretch.day for stretch in self.stretches if stretch.day is not None]
        for before, after in pairwise(days):
            if after < before:
                raise ParameterError(f"the days of rounds must not go backwards, and {after} comes after {before}")

    @property
    def total(self) -> int:
        """How many rounds were released or are planned."""
        return sum(stretch.rounds for stretch in self.stretches)

    def rounds(self, count: int) -> Rounds:
        """Return the first rounds; beyond the last one, more of its kind."""
        left = count
        result = []
        for position, stretch in enumerate(self.stretches):
            rounds = min(left, stretch.rounds) if position < len(self.stretches) - 1 else left
            if rounds:
                result.append((stretch.curve, rounds))
            left -= rounds
        return tuple(result)

    def epsilon(self, count: int) -> float:
        """Return the ε of the first rounds together: what they cost towards the budget, if there is one."""
        budget = Budget(0.0, self.delta, planned=True) if self.budget is None else self.budget
        return budget.reached(self.rounds(count))

    @cached_property
    def affordable(self) -> int | None:
        """How many rounds the budget allows, one more being too many; nothing without a budget."""
        if self.budget is None:
            return None
        ends = [0, *accumulate(stretch.rounds for stretch in self.stretches)]
        limit = self.budget.epsilon
        kept = len(self.stretches)
        if self.epsilon(self.total) > limit:  # it breaks in the first stretch whose end it does not allow
            kept = bisect_count(lambda end: self.epsilon(ends[end]) <= limit, unsafe=kept, good=0)
        curve = self.stretches[min(kept, len(self.stretches) - 1)].curve
        if curve.randomizer is None or not curve.randomizer.blanket:
            like = anybody(min(curve.local_epsilon, 10.0))
        else:
            like = telling(curve.randomizer)
        target = Target(self.budget, self.rounds(ends[kept]))
        return ends[kept] + most_rounds(curve, like, target)

    def day(self, count: int) -> date | None:
        """Return the day of a round, counted from 1, where it is known or follows from how often there was one."""
        first = 0
        for stretch in self.stretches:
            if stretch.day is None:
                return None
            if count <= first + stretch.rounds:
                return _later(stretch.day, count - first - 1, self.every)
            first += stretch.rounds
        last = self.stretches[-1]
        start = self.stretches[0].day
        if last.day is None or start is None:
            return None
        if self.every is not None:
            return _later(last.day, count - self.total + last.rounds - 1, self.every)
        before = self.total - last.rounds
        if not before or last.day == start:
            return None
        try:
            return last.day + (count - self.total) * (last.day - start) / before
        except OverflowError:
            return None

    @property
    def sentence(self) -> str | None:
        """How long the budget lasts, in words; nothing without a budget."""
        if self.budget is None or self.affordable is None:
            return None
        limit = f"ε = {exactly(self.budget.epsilon)} at δ = {self.delta!r}"
        if self.affordable == 0:
            return f"{limit} is less than the first round costs"
        if self.affordable >= MOST_TIMES:
            return f"{limit} is never spent: {MOST_TIMES:,} such rounds keep it"
        day = self.day(self.affordable)
        exact = self.affordable <= self.total or self.every is not None
        often = f"one per {self.every}, " if self.every else ""
        until = f", {often}{'until' if exact else 'at this pace until about'} {day}" if day else ""
        rounds = f"{self.affordable:,} round{'' if self.affordable == 1 else 's'}"
        return f"{limit} lasts for {rounds} in all{until}; one more breaks it"

    def to_dict(self) -> dict[str, Any]:
        """Return how long the budget lasts as plain values."""
        day = self.day(self.affordable) if self.affordable else None
        return {
            "budget": None if self.budget is None else self.budget.to_dict(),
            "affordable_rounds": self.affordable,
            "last_day": None if day is None else day.isoformat(),
        }

    def counts(self) -> list[int]:
        """Return the numbers of rounds to draw, evenly spaced for a curve that grows like a square root."""
        several = len({stretch.curve for stretch in self.stretches}) > 1
        most = self.total
        if self.affordable is not None and self.affordable < MOST_TIMES:
            most = max(most, math.ceil(1.08 * self.affordable) + 1)
        points = _OF_KINDS if several else _POINTS
        spaced = {max(1, round(most * (index / points) ** 2)) for index in range(1, points + 1)}
        ends = list(accumulate(stretch.rounds for stretch in self.stretches))
        turns = {*ends[-1:], *(ends if len(ends) <= _OF_KINDS else ())}
        return sorted(spaced | turns | ({self.affordable} if self.affordable else set()) - {MOST_TIMES})

    def _heights(self) -> dict[int, float]:
        """Return the ε of the numbers of rounds that are drawn."""
        counts = self.counts()
        points = (self.epsilon(count) for count in counts)
        return dict(zip(counts, progress(points, total=len(counts), label="rounds"), strict=True))

    def _columns(self) -> dict[str, list[Any]]:
        heights = self._heights()
        return {"rounds": list(heights), "epsilon": list(heights.values())}

    def _cells(self) -> dict[str, list[str]]:
        reached = self.epsilon(self.total)
        return {"rounds": [f"{self.total:,}"], f"ε at δ = {self.delta:g}": [rounded_up(reached)]}

    def _caption(self) -> str:
        return self.sentence or self._kinds

    @property
    def _kinds(self) -> str:
        """What the rounds are: mechanism, ε₀ and n."""
        curves = [stretch.curve for stretch in self.stretches]
        first, *others = dict.fromkeys(_name(curve) for curve in curves)
        locals_ = _range([curve.local_epsilon for curve in curves if math.isfinite(curve.local_epsilon)], "ε₀", ".4g")
        reports = _range([curve.reports for curve in curves], "n", ",")
        more = f" and {len(others)} more kinds" if len(others) > 1 else f" and {others[0]}" if others else ""
        return ", ".join(text for text in (first + more, locals_, reports, f"δ = {self.delta:g}") if text)


def _later(day: date, rounds: int, every: str | None) -> date | None:
    """Return the day of a round that comes this many rounds later; nothing where it is not known."""
    if rounds == 0:
        return day
    try:
        if every == "month":
            year, month = divmod(12 * day.year + day.month - 1 + rounds, 12)
            return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
        return None if every is None else day + rounds * timedelta(days=7 if every == "week" else 1)
    except (OverflowError, ValueError):  # beyond the calendar
        return None


def _name(curve: PrivacyCurve) -> str:
    """Return what each person runs, in words."""
    if curve.randomizer is None:
        return "any randomizer"
    row = registration_of(curve.randomizer)
    name = type(curve.randomizer).__name__ if row is None else row.name.replace("-", " ")
    categories = getattr(curve.randomizer, "categories", None)
    return name if categories is None else f"{name} over {categories:,} categories"


def _range(values: Sequence[float], name: str, form: str) -> str:
    """Return the least and the greatest value in words; nothing of none."""
    if not values:
        return ""
    least = min(values)
    greatest = max(values)
    return f"{name} = {least:{form}}" + ("" if least == greatest else f" to {greatest:{form}}")
