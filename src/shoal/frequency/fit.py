"""The fit of a mechanism to a guarantee: its best design, and the largest ε₀ that this design may have."""

import math
from dataclasses import dataclass, replace

from shoal.amplification.amplify import amplify
from shoal.calibration.guess import gaussian_spread, telling
from shoal.calibration.largest import largest_local_epsilon, likely_private, varied
from shoal.calibration.target import Target
from shoal.checks import MOST_REPORTS
from shoal.composition.budget import Budget
from shoal.digits import rounded_up
from shoal.errors import UnreachableError
from shoal.frequency.message_fit import likely_covers, likely_dummies
from shoal.randomizers import Bundled, Categorical, Covered, Dummies
from shoal.randomizers.design import Design
from shoal.randomizers.registry import REGISTRY
from shoal.searches import bisect_safe

__all__ = ["Question", "planned"]

_TRIED = 3
"""How many designs of a mechanism have their ε₀ guessed, after all were compared by a formula."""


@dataclass(frozen=True)
class Question:
    """What is asked of each mechanism.

    Attributes
    ----------
    categories, reports, times : int
        k, n, and how many rounds there are.
    target : Target
        What all rounds together must keep.
    local_epsilon : float
        The most that a report by itself may have; infinite if there is no limit.
    messages : int
        How many messages a person may send.
    dummies : bool
        Whether the shuffler may add dummies.
    """

    categories: int
    reports: int
    times: int
    target: Target
    local_epsilon: float
    messages: int = 1
    dummies: bool = False

    @property
    def kinds(self) -> list[type[Categorical]]:
        """The mechanisms to try, the simpler ones first."""
        several: list[type[Categorical]] = [Covered] if self.messages > 1 else []
        return [*planned(), *several, *([Dummies] if self.dummies else [])]

    def likely(self, kind: type[Categorical]) -> Categorical | None:
        """Return a mechanism with about its largest ε₀ and its best design, or nothing where it can't be decoded fast.

        A single round is guessed within about 0.1 % of ε₀, and many within 2 %.
        """
        if issubclass(kind, Bundled):
            return likely_covers(self, self.messages - 1) if kind is Covered else likely_dummies(self)
        options = [
            likely_private(given, self.target, reports=self.reports, times=self.times, most=self.local_epsilon)
            for given in self._candidates(kind)
        ]
        return min(options, key=self.error, default=None)

    def largest(self, guess: Categorical, *, tolerance: float) -> Categorical:
        """Return the mechanism with the largest ε₀ that keeps the target, within the tolerance; covers as they are."""
        if not guess.private_alone:
            return guess
        other = varied(guess)
        local = largest_local_epsilon(
            lambda value: amplify(other(value), reports=self.reports),
            lambda value: telling(other(value)),
            self.target,
            reports=self.reports,
            times=self.times,
            tolerance=tolerance,
            start=guess.local_epsilon,
            most=self.local_epsilon,
        )
        if local is None:
            raise UnreachableError(
                f"the ledger has spent epsilon={rounded_up(self.target.spent)} of {self.target.epsilon!r}: the rest "
                f"allows no {'round' if self.times == 1 else f'{self.times:,} rounds'} of {self.reports:,} reports"
            )
        return other(local)

    def error(self, mechanism: Categorical) -> float:
        """Return the expected ℓ₂ error of all frequencies together in one round, where all are equal."""
        return math.sqrt(float(mechanism.variance(reports=self.reports).sum()))

    def at(self, epsilon: float) -> "Question":
        """Return the same question about another ε, with nothing spent before."""
        return replace(self, target=Target(Budget(epsilon, self.target.delta, planned=True)))

    def enough(self, mechanism: Categorical) -> int | None:
        """Return about how many reports make the average error of a rare category that of a uniform one, 1/k."""
        if not mechanism.private_alone:
            return None

        def wide(logarithm: float) -> float:
            count = max(2, round(math.exp(logarithm)))
            made = likely_private(mechanism, self.target, reports=count, times=self.times, most=self.local_epsilon)
            return math.sqrt(made.rare_variance / count / self.times) * self.categories - 1

        most = math.log(MOST_REPORTS)
        if wide(most) > 0:
            return None
        enough = bisect_safe(lambda value: wide(value) <= 0, unsafe=math.log(self.reports), good=most, within=0.01)
        return int(float(rounded_up(math.exp(enough), 2)))

    def _candidates(self, kind: type[Categorical]) -> list[Categorical]:
        """Return a mechanism with the designs that are likely the best, the first of them first."""
        room = gaussian_spread(self.target.epsilon, self.target.delta) ** 2 - self.target.spent_shift**2
        spread = self.reports * max(room, 1e-300) / self.times / 2

        def error(pair: tuple[dict[str, int], Design | None]) -> float:
            return 0.0 if pair[1] is None else _screened(pair[1], self.categories, spread, self.local_epsilon)

        ranked = sorted(kind.designs(self.categories), key=error)
        chosen = ranked[:_TRIED]
        return [kind(categories=self.categories, local_epsilon=1.0, **parameters) for parameters, _ in chosen]


def planned() -> list[type[Categorical]]:
    """Return the mechanisms to try, the simpler ones first."""
    rows = [(row.planned, row.name, row.kind) for row in REGISTRY.values() if row.planned is not None]
    return [kind for _, _, kind in sorted(rows, key=lambda row: row[:2])]


def _screened(design: Design, categories: int, spread: float, local_epsilon: float) -> float:
    """Return n times the expected squared error of a design, where W has twice this variance.

    That is λ²(1 − κ)/((1 − λ)ρ) = `spread`, and so a normal distribution would have the guarantee.
    """
    overlap = design.common / design.supporting if design.blocks == 1 else 0.0
    share = spread * design.supporting / design.outputs / (1 - overlap)
    truth = min(2 / (1 + math.sqrt(1 + 4 / share)), design.truth(min(local_epsilon, 30.0)))
    return design.error_at(truth, categories)
