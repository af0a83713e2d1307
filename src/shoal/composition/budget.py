"""A privacy budget (ε, δ) for many rounds: what they cost towards it, and the error where it does not suffice.

The privacy losses of rounds add up as `pld` says if the parameters of the rounds (n, ε₀, the randomizer) are fixed in
advance. If they are chosen from the outcomes so far, that is no longer so: a chooser may take, after each outcome, the
round that harms most after just this outcome, although each fixed sequence stays within the budget
(docs/theory/errata.md, item 27). Rényi divergences of one order, fixed in advance, add up even then
(Feldman and Zrnic, arXiv 2008.11193, NeurIPS 2021): as long as the sum so far is held below a number, so is the whole.
The order may depend on the budget alone, and for Gaussian losses the best one does.
"""

import math
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from shoal.checks import SMALLEST_DELTA, non_negative, probability
from shoal.composition.compose import compose
from shoal.composition.composition_method import Round
from shoal.composition.entry import Rounds
from shoal.composition.journal import Record
from shoal.composition.loss_accountant import LossProfile
from shoal.composition.renyi_accountant import converted
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.errors import LedgerDamagedError, NoPairError, ParameterError, RangeError, UnreachableError
from shoal.searches import bisect_count

FILTER = (
    "Rényi divergences of one order, which the budget fixes, add up even if rounds are chosen by earlier results: the "
    "privacy filter of Feldman and Zrnic, arXiv 2008.11193 (docs/theory/composition.md), or the sum of all ε₀ where "
    "that is less"
)
"""The rule by which `filtered` counts, as answers cite it."""
_LARGEST = 3_000.0
"""Of α − 1: higher orders take long, and matter to budgets below ε = 0.01 only."""


def filter_order(epsilon: float, delta: float) -> float:
    """Return the order at which a Gaussian loss that just meets (ε, δ) is converted best.

    With variance V its divergence is αV/2, and ε ≈ V/2 + √(2V·ln(1/δ)) is reached at α = 1 +
    √(2·ln(1/δ)/V).
    """
    logarithm = -math.log(delta)
    deviation = 2 * epsilon / (math.sqrt(2 * logarithm + 2 * epsilon) + math.sqrt(2 * logarithm))  # √V
    return 1 + max(1e-3, min(math.sqrt(2 * logarithm) / max(deviation, 1e-300), _LARGEST))


def filtered(rounds: tuple[Round, ...], *, epsilon: float, delta: float) -> float:
    """Return the cost of the rounds towards the budget (ε, δ), for parameters that were chosen adaptively.

    Where the local ε₀ of all rounds add up to less, that is what they cost: no loss is greater.
    """
    order = filter_order(epsilon, delta)
    divergence = float(LossProfile(rounds).renyi(np.array([order]))[0])
    return min(max(0.0, converted(divergence, order, delta)), LossProfile(rounds).ceiling)


@dataclass(frozen=True)
class Budget:
    """What all rounds together may cost, and how what is spent of it is measured.

    `planned` says that all parameters of all rounds were fixed in advance; otherwise they may be
    chosen adaptively.
    """

    epsilon: float
    delta: float
    planned: bool = False

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "epsilon", non_negative(epsilon=self.epsilon))
        object.__setattr__(self, "delta", probability(delta=self.delta, zero=True))
        # Pure DP adds up however it is chosen.
        object.__setattr__(self, "planned", bool(self.planned) or self.delta < SMALLEST_DELTA)

    def to_dict(self) -> Record:
        """Return it as the file has it."""
        return asdict(self)

    def __str__(self) -> str:
        """Return it in words."""
        how = "fixed in advance" if self.planned else "chosen adaptively"
        return f"epsilon={self.epsilon!r} at delta={self.delta!r} for rounds {how}"

    def reached(self, rounds: Rounds) -> float:
        """Return what the rounds cost; infinite where nothing is proven at this δ."""
        if self.planned or not rounds:
            return _reached(rounds, self.delta)
        parts = tuple(Round(curve.profile, curve.local_epsilon, times) for curve, times in _merged(rounds))
        try:
            return filtered(parts, epsilon=self.epsilon, delta=self.delta)
        except NoPairError:
            total = LossProfile(parts).ceiling if not any(curve.local_delta for curve, _ in rounds) else math.inf
            if total <= self.epsilon:
                return total
            raise NoPairError(
                "a budget for rounds chosen as you go is kept in Rényi divergences, which one of these rounds does not "
                'have; use a numerical bound such as "strong-clones", or planned=True if all was settled in advance'
            ) from None

    def refusal(self, before: Rounds, one: Rounds, times: int) -> str:
        """Say what these rounds would cost, and how many would not cost too much."""

        def rounds(count: int) -> Rounds:
            return before + tuple((curve, count * each) for curve, each in one if count)

        def fitting(budget: Budget) -> int:
            if budget.reached(rounds(times)) <= budget.epsilon:
                return times
            return bisect_count(lambda count: budget.reached(rounds(count)) <= budget.epsilon, unsafe=times, good=0)

        counted = planned = ""
        if not self.planned:
            counted = " (counted for rounds that may be chosen by earlier results, which is more than they cost)"
            if more := fitting(replace(self, planned=True)):
                planned = (
                    " If all rounds are fixed in advance, begin a ledger with planned=True, --planned on the command "
                    f"line: then {more:,} of these {times:,} fit."
                )
        start, end = (rounded_up(self.reached(rounds(count))) for count in (0, times))
        return (
            f"this would bring epsilon from {start} to {end} at delta={self.delta:g}, over the budget of "
            f"{self.epsilon!r}{counted}; such rounds that still fit: {fitting(self):,}. Nothing was recorded.{planned} "
            "Use more reports or a smaller local_epsilon, or stop here"
        )


def budget_of(record: Any, where: str) -> Budget | None:
    """Return the budget of a file, or nothing if it has none yet, or say what is wrong with it."""
    if record is None:
        return None
    try:
        if not isinstance(record, dict) or record.keys() != {"epsilon", "delta", "planned"}:
            raise ParameterError("a budget has epsilon, delta and planned, and nothing else")
        budget = Budget(**record)
        if budget.to_dict() != record or type(record["planned"]) is not bool:
            raise ParameterError(
                f"planned must be true or false, and true if delta is 0; got {record['planned']!r}", "planned"
            )
    except ValueError as error:
        raise LedgerDamagedError(f"{where}: {error}; the file was left as it is") from None
    return budget


def epsilon_of(rounds: Rounds, delta: float) -> float:
    """Return ε of all rounds, if their parameters were settled in advance."""
    return float(composed(rounds).epsilon(delta)) if rounds else 0.0


def composed(rounds: Rounds) -> PrivacyCurve:
    """Return the guarantee of all rounds, if their parameters were settled in advance."""
    try:
        return compose(_merged(rounds))
    except NoPairError:  # a closed form among them: looser, and as true
        return compose(_merged(rounds), method="advanced")


def _merged(rounds: Rounds) -> Rounds:
    """Put equal rounds together, so that a thousand equal days cost one."""
    merged: Counter[PrivacyCurve] = Counter()
    for curve, times in rounds:
        merged[curve] += times
    return tuple(merged.items())


def _reached(rounds: Rounds, delta: float) -> float:
    """Return ε of all rounds, infinite where no ε is proven at this δ."""
    try:
        return epsilon_of(rounds, delta)
    except (RangeError, UnreachableError):
        return math.inf
