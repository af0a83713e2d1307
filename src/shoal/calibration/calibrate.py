"""Calibration: the largest local ε₀, the fewest reports, or the most rounds, for a central (ε, δ).

Fed back, all answers meet the target. They leave a thousandth of its ε to a certificate, so that
what `Calibration.total.certify` proves is at most the target, too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.amplification.amplify import amplify, proven_bounds
from shoal.assumptions import CHOSEN, Topic
from shoal.calibration.largest import fewest_reports, largest_local_epsilon, most_rounds, varied
from shoal.calibration.spending import Spending, Stretch
from shoal.calibration.target import Target, anybody, target_of, telling
from shoal.checks import MOST_REPORTS, Number, known, positive, whole
from shoal.composition.budget import FILTER
from shoal.composition.compose import compose
from shoal.composition.composition_method import MOST_TIMES
from shoal.composition.ledger import Ledger
from shoal.curve import PrivacyCurve
from shoal.digits import exactly, input_down, rounded_up
from shoal.documentation import linked
from shoal.errors import NoPairError, ParameterError, UnreachableError
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.randomizer import Randomizer, check_randomizer, with_local_epsilon
from shoal.shown import Shown

_TOLERANCE = 1e-9
_OF_ROUNDS = 1e-7
"""The relative tolerance of ε₀ for one round, and for several, each value of which takes longer."""

_NEEDED = {"local_epsilon": ("reports",), "reports": ("local_epsilon",), "rounds": ("reports", "local_epsilon")}
"""What `calibrate` can solve for, and what each question needs."""


@dataclass(frozen=True)
class Calibration(Shown):
    """The answer of `calibrate`: a setting that meets the target.

    Attributes
    ----------
    local_epsilon, reports, rounds : float, int, int
        ε₀, n and the number of rounds, one of which was asked for.
    epsilon, delta : float
        The guarantee that all rounds reach together, with those of the ledger; epsilon is at most the target.
    curve : PrivacyCurve
        Everything else about one round.
    total : PrivacyCurve
        Everything else about all of them, those of the ledger included; the same if there is only one.
    target : Target
        What was asked for. If it is the budget of a ledger for rounds that are chosen adaptively, ε is what all rounds
        cost towards it.
    """

    local_epsilon: float
    reports: int
    rounds: int
    epsilon: float
    delta: float
    curve: PrivacyCurve
    total: PrivacyCurve
    target: Target

    @property
    def spent(self) -> float:
        """What the ledger had spent before."""
        return self.target.spent

    @property
    def spending(self) -> Spending:
        """How ε grows with the number of rounds, and how many of them the target allows."""
        rounds = (*self.target.before, (self.curve, self.rounds))
        return Spending(tuple(Stretch(*each) for each in rounds), self.delta, self.target.budget)

    @property
    def randomizer(self) -> Randomizer | None:
        """What each person runs, where it is known."""
        return self.curve.randomizer

    @property
    def error(self) -> float | None:
        """The expected ℓ₂ error of what one round estimates, where the mechanism is known and estimates something."""
        variance = getattr(self.randomizer, "variance", None)
        return None if variance is None else math.sqrt(float(np.sum(variance(reports=self.reports))))

    @property
    def average_error(self) -> float | None:
        """The same of the average over all rounds: their noise is independent."""
        return None if self.error is None else self.error / math.sqrt(self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee reached as plain values: the keys of `PrivacyCurve.to_dict`, and those of one round."""
        one = {"local_epsilon": self.local_epsilon, "reports": self.reports, "epsilon": self.curve.epsilon(self.delta)}
        facts = self.total.to_dict(delta=self.delta)
        return {
            **facts,
            "cost": facts["epsilon"],
            "counted": self.epsilon,
            **({} if self.target.budget.planned else self._charged()),
            "rounds": self.rounds,
            "total_rounds": self.total.rounds,
            "randomizer": None if self.randomizer is None else repr(self.randomizer),
            "one_round": one,
            "target": self.target.epsilon,
            "spent": self.spent,
            "error": self.error,
            "average_error": self.average_error,
        }

    def _charged(self) -> dict[str, Any]:
        """Return the guarantee of a budget for rounds chosen adaptively.

        Its ε is the whole budget: a filter guarantees that, and nothing smaller where less was counted in the end.
        """
        each = "; ".join(dict.fromkeys(part.citation for part, _ in self.total.parts))
        others = (line for line in self.total.assumptions if line.topic is not Topic.ROUNDS)
        return {
            "epsilon": self.target.epsilon,
            "epsilon_bracket": None,
            "bound": "renyi",
            "theorem": linked(f"{FILTER}; each round: {each}"),
            "assumptions": [str(line) for line in (CHOSEN, *others)],
            "amplified": self.total.amplified_at(self.delta, epsilon=self.target.epsilon),
        }

    def _columns(self) -> dict[str, list[Any]]:
        names = ("local_epsilon", "reports", "rounds", "epsilon", "delta")
        return {name: [getattr(self, name)] for name in names} | {"bound": [self.curve.bound]}

    def _cells(self) -> dict[str, list[str]]:
        facts = {"ε₀": input_down(self.local_epsilon), "n": f"{self.reports:,}", "rounds": f"{self.rounds:,}"}
        facts |= {f"ε at δ = {self.delta:g}": rounded_up(self.epsilon), "bound": self.curve.bound}
        return {name: [text] for name, text in facts.items()}

    def __repr__(self) -> str:
        """Show the setting and the guarantee."""
        rounds = "" if self.rounds == 1 else f"rounds={self.rounds}, "
        return (
            f"Calibration(local_epsilon={self.local_epsilon!r}, reports={self.reports}, {rounds}"
            f"epsilon={rounded_up(self.epsilon)}, delta={self.delta:g}, bound={self.curve.bound!r})"
        )


def calibrate(
    randomizer: Randomizer | None = None,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    reports: Number | None = None,
    local_epsilon: Number | None = None,
    rounds: Number | None = None,
    solve_for: str | None = None,
    bound: str = "tightest",
    ledger: Ledger | None = None,
) -> Calibration:
    """Return the largest local_epsilon, the fewest reports or the most rounds that keep a central (ε, δ).

    Parameters
    ----------
    randomizer : Randomizer, optional
        What each person runs, a dataclass with a field local_epsilon, for a better answer under its own bound. All its
        other parameters are kept. It gives the ε₀, except where the largest ε₀ is asked for.
    epsilon, delta : float
        The central guarantee that must hold for all rounds together.
    reports, local_epsilon : int or float, float
        n and ε₀ of each round.
    rounds : int
        How many rounds there are, fixed in advance; 1 if not given.
    solve_for : str, optional
        "local_epsilon", "reports" or "rounds": the one of the three that is asked for, and not given. If `solve_for` is
        not given, it is "reports" where there are no reports, "rounds" where there are reports and a local_epsilon, and
        "local_epsilon" otherwise.
    bound : str
        As in `amplify`.
    ledger : Ledger, optional
        What was released about the same people before. What is left of its budget is the target, and so epsilon and
        delta may be left out.

    Examples
    --------
    >>> calibrate(epsilon=1, delta=1e-6, reports=10_000).local_epsilon
    5.46850374...
    >>> calibrate(epsilon=0.1, delta=1e-6, local_epsilon=2).reports
    12875
    >>> calibrate(epsilon=1, delta=1e-6, reports=1e6, rounds=365).local_epsilon
    4.376...
    >>> calibrate(epsilon=1, delta=1e-6, reports=1e6, local_epsilon=2, solve_for="rounds").rounds
    6086
    >>> from shoal.mechanisms import RandomizedResponse
    >>> survey = RandomizedResponse(categories=100, local_epsilon=1)
    >>> calibrate(survey, epsilon=1, delta=1e-6, reports=10_000, solve_for="local_epsilon").randomizer
    RandomizedResponse(categories=100, local_epsilon=5.78985...)
    """
    target = target_of(epsilon, delta, ledger)
    bound = known(proven_bounds(), bound=bound)
    if randomizer is not None:
        _check_variable(randomizer, local_epsilon)
    wanted = _wanted(solve_for, reports, local_epsilon)
    if randomizer is not None and wanted != "local_epsilon":
        local_epsilon = randomizer.local_epsilon
    _check_given(wanted, {"reports": reports, "local_epsilon": local_epsilon, "rounds": rounds})
    each = _Round(randomizer, bound)
    if wanted == "rounds":
        return _most_rounds(each, target, positive(local_epsilon=local_epsilon), whole(reports=reports))
    count = 1 if rounds is None else whole(rounds=rounds, most=MOST_TIMES)
    if wanted == "reports":
        return _fewest_reports(each, target, positive(local_epsilon=local_epsilon), count)
    return _largest_local_epsilon(each, target, whole(reports=reports), count)


def _check_variable(randomizer: Randomizer, local_epsilon: Number | None) -> None:
    """Refuse a randomizer without a parameter ε₀, and a second ε₀ next to that of the randomizer."""
    other = with_local_epsilon(check_randomizer(randomizer))
    if other is None or local_epsilon is not None or not other(min(randomizer.local_epsilon, 1.0)).blanket:
        raise ParameterError(
            "calibrate a mechanism with an ε₀, and no other local_epsilon: "
            "calibrate(RandomizedResponse(categories=10, local_epsilon=1), epsilon=1, delta=1e-6, reports=10_000)"
        )


def _wanted(solve_for: str | None, reports: Number | None, local_epsilon: Number | None) -> str:
    """Return what is asked for: `solve_for`, or what is missing."""
    if solve_for is not None:
        return known(tuple(_NEEDED), solve_for=solve_for)
    if reports is None:
        return "reports"
    return "local_epsilon" if local_epsilon is None else "rounds"


def _check_given(wanted: str, given: Mapping[str, Number | None]) -> None:
    """Refuse a question that lacks a number, or gives the one that it asks for."""
    if given[wanted] is None and all(given[name] is not None for name in _NEEDED[wanted]):
        return
    raise ParameterError(
        "give reports (to get the largest local_epsilon), local_epsilon or a randomizer (to get the fewest reports), "
        'or both without rounds (to get the most rounds). With solve_for="'
        f'{wanted}" leave {wanted} out, and give {" and ".join(_NEEDED[wanted])}: '
        "calibrate(epsilon=1, delta=1e-6, reports=10_000)"
    )


@dataclass(frozen=True)
class _Round:
    """What each person runs, and the bound of one round."""

    randomizer: Randomizer | None
    bound: str

    def curve(self, local: float, reports: int) -> PrivacyCurve:
        """Return the guarantee of one round with this ε₀."""
        if self.randomizer is None:
            return amplify(local_epsilon=local, reports=reports, bound=self.bound)
        return amplify(varied(self.randomizer)(local), reports=reports, bound=self.bound)

    def like(self, local: float) -> Likelihoods:
        """Return what a report with this ε₀ tells, or something like it, to guess with."""
        return anybody(local) if self.randomizer is None else telling(varied(self.randomizer)(local))


def _largest_local_epsilon(each: _Round, target: Target, reports: int, rounds: int) -> Calibration:
    local = largest_local_epsilon(
        lambda value: each.curve(value, reports),
        each.like,
        target,
        reports=reports,
        rounds=rounds,
        tolerance=_TOLERANCE if rounds == 1 else _OF_ROUNDS,
    )
    if local is None:
        advice = "more reports" if each.bound == "tightest" else 'bound="tightest", or more reports'
        raise UnreachableError(
            f"{each.bound} gives no guarantee of epsilon={target.epsilon:g} at reports={reports}, "
            f"delta={target.delta:g}{_rounds(rounds)}, however small local_epsilon is{_before(target)}; use {advice}"
        )
    return _answer(each.curve(local, reports), target, rounds)


def _most_rounds(each: _Round, target: Target, local: float, reports: int) -> Calibration:
    curve = each.curve(local, reports)
    rounds = most_rounds(curve, each.like(local), target)
    if not rounds:
        raise UnreachableError(
            f"a single round of {reports} reports with local_epsilon={local:g} has more than "
            f"epsilon={target.epsilon:g} at delta={target.delta:g}{_before(target)}; use a smaller local_epsilon, "
            "or more reports"
        )
    return _answer(curve, target, rounds)


def _fewest_reports(each: _Round, target: Target, local: float, rounds: int) -> Calibration:
    fewest = fewest_reports(lambda count: each.curve(local, count), each.like(local), target, rounds)
    if fewest is None:
        raise UnreachableError(
            f"no number of reports up to {MOST_REPORTS:.0e} gives epsilon={target.epsilon:g} at delta={target.delta:g} "
            f"with local_epsilon={local:g}{_rounds(rounds)}{_before(target)}; use a smaller local_epsilon, or a larger "
            "epsilon or delta"
        )
    return _answer(each.curve(local, fewest), target, rounds)


def _rounds(rounds: int) -> str:
    return "" if rounds == 1 else f" for {rounds:,} rounds"


def _before(target: Target) -> str:
    """Return the part of the budget that a ledger has counted before, as a clause of an error."""
    if not target.spent:
        return ""
    return f", because the ledger has already counted {rounded_up(target.spent)} of {exactly(target.epsilon)}"


def _answer(curve: PrivacyCurve, target: Target, rounds: int) -> Calibration:
    """Return what was looked for, with the guarantee that it has: at most the target, as was checked."""
    together = (*target.before, (curve, rounds))
    try:
        total = compose(together)
    except NoPairError:  # a closed form among them: looser, and as true
        total = compose(together, method="advanced")
    return Calibration(
        local_epsilon=curve.local_epsilon,
        reports=curve.reports,
        rounds=rounds,
        epsilon=min(target.reached(curve, rounds), target.epsilon),
        delta=target.delta,
        curve=curve,
        total=total,
        target=target,
    )
