"""The accountants of a training: epochs that are charged before their first noised sum, and a filter for chosen epochs.

An `Account` counts the epochs of one run, whose number is planned, fixed in advance, or covered by a budget. A `Filter`
is for epochs whose number and noise are chosen as one goes: who looks at the model, and then goes on, stops or changes
the noise, needs it. For Gaussian noise nothing is lost: squares of μ = sensitivity/deviation may be added up, whatever
each was chosen by, as long as the sum stays below a number that was fixed before the first epoch (docs/theory/sgd.md,
section 9). Shuffling is not counted there.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shoal.checks import known, non_negative, positive, probability, whole
from shoal.digits import rounded_up
from shoal.errors import BudgetError, ParameterError, PrecisionWarning, UnreachableError
from shoal.numerics.normal import gaussian_delta
from shoal.rounding import slack
from shoal.searches import bisect_count, bisect_safe, doubled
from shoal.sgd.guarantees import FINEST, FIXED, Guarantee, guarantee
from shoal.sgd.run import Run
from shoal.sgd.sampler import Sampler

_MOST_EPOCHS = 10**6
_UP = 1 + slack(32)


class Account:
    """The accountant of one training.

    An epoch is charged as a whole when it begins: all that is seen of a part of it could be computed from all of it.

    From the first epoch on, ε is that of the plan, the epochs of the run: it also holds for a training that ends
    earlier, for whatever was seen. Beyond the plan, ε is that of the epochs made, and holds if their number was fixed
    in advance. With a budget the plan is the greatest number of epochs within it, and no more can be made.

    Parameters
    ----------
    run : Run
        What one epoch does; its `epochs` are the plan.
    delta : float
        δ of the guarantee.
    epochs : int
        How many have begun.
    budget : float, optional
        ε that may be spent in all; further epochs are refused.

    Examples
    --------
    >>> account = Account(Run(examples=10_000, noise_multiplier=4), delta=1e-6)
    >>> account.epsilon
    0.0
    >>> account.charge()
    >>> account.epochs, round(account.epsilon, 3)
    (1, 0.031)
    >>> account
    Account(ε=0.0312 at δ=1e-06 after 1 epoch; holds if the number of epochs was fixed beforehand)
    >>> planned = Run(examples=10_000, noise_multiplier=4, epochs=5)
    >>> Account(planned, delta=1e-6, epochs=2)  # doctest: +NORMALIZE_WHITESPACE
    Account(ε=0.0771 at δ=1e-06 after 2 epochs; holds for any number of epochs up to 5; ε=0.0461
    holds if exactly 2 epochs were fixed in advance)
    >>> chosen = Account(Run(examples=10_000, noise_multiplier=4), delta=1e-6, budget=0.1)
    >>> chosen.most
    7
    """

    def __init__(self, run: Run, *, delta: float, epochs: int = 0, budget: float | None = None) -> None:
        run.multiplier  # noqa: B018  (without noise there is nothing to account for)
        self.run = run
        self.delta = probability(delta=delta)
        self.epochs = whole(epochs=epochs, least=0)
        self.budget = None if budget is None else positive(budget=budget)
        self._spent: dict[int, float] = {}
        self.most = None if self.budget is None else self._most(self.budget)
        self._check_most()
        if self.delta < FINEST:
            warnings.warn(
                f"delta={self.delta:g} is below {FINEST:g}, and the guarantee is that of real-valued noise: normal "
                "numbers from 64 random bits end at 9.4 standard deviations, and no δ below about 1e-15 is reached; "
                f"use delta={FINEST:g} or more",
                PrecisionWarning,
                stacklevel=2,
            )

    def _most(self, budget: float) -> int:
        """Return about the greatest number of epochs whose ε is within the budget; it was evaluated there."""
        if self._fixed(1) > budget:
            raise UnreachableError(
                f"one epoch has ε = {rounded_up(self._fixed(1), 4)} at δ = {self.delta:g}, more than the budget of "
                f"{budget:g}; use more noise"
            )
        low = 1
        high = 2
        while high <= _MOST_EPOCHS and self._estimated(high) <= budget:
            low = high
            high = 2 * high
        low = bisect_count(lambda epochs: self._estimated(epochs) <= budget, unsafe=high, good=low)
        while low > 1 and self._fixed(low) > budget:
            low = max(1, low - max(1, low // 64))
        return low

    def _check_most(self) -> None:
        """Refuse what no account can have come to: more epochs than the budget covers."""
        if self.most is None or self.budget is None:
            return
        if self.epochs > self.most:
            raise BudgetError(
                f"{self.epochs:,} epochs have begun, and a budget of ε = {self.budget:g} at δ = {self.delta:g} covers "
                f"{self.most:,}; a budget has to be settled before the first epoch"
            )

    def plan(self, epochs: int) -> None:
        """Raise the plan to this many epochs in all, before they are made; or raise `BudgetError`."""
        if self.most is not None and epochs > self.most:
            raise BudgetError(
                f"{epochs:,} epochs were asked for, which would have ε = {rounded_up(self._estimated(epochs), 3)} at "
                f"δ = {self.delta:g}, and ε = {self.budget:g} covers {self.most:,} with this noise. Begin another "
                f"training, with a run of epochs={epochs} whose noise `calibrate` chooses for them, or with a larger "
                "budget="
            )
        self.run = replace(self.run, epochs=max(self.run.epochs, epochs))

    def charge(self) -> None:
        """Charge one more epoch, or raise `BudgetError` and charge nothing."""
        if self.most is not None and self.epochs >= self.most:
            raise BudgetError(
                f"{self.most:,} epochs are all that a budget of ε = {self.budget:g} at δ = {self.delta:g} covers, and "
                "they have begun; for more, begin another training with more epochs= or a larger budget="
            )
        self.epochs += 1

    def guarantee(self) -> Guarantee | None:
        """Return the guarantee of the plan, or of all epochs begun if there are more; nothing before the first."""
        if self.epochs == 0:
            return None
        result = guarantee(replace(self.run, epochs=self.covered), delta=self.delta)
        return replace(result, at_most=self.most is not None or self.epochs < self.covered)

    @property
    def covered(self) -> int:
        """The number of epochs that ε is for: the most that may be made, or the plan, or those begun beyond it."""
        return self.most or max(self.run.epochs, self.epochs)

    @property
    def epsilon(self) -> float:
        """ε of the plan from the first epoch on, without asking every theorem, under the `condition`; 0 before."""
        return self._fixed(self.covered) if self.epochs else 0.0

    def spent(self, epochs: int) -> float:
        """Return a proven ε of this many epochs, without asking every theorem; 0 for none.

        It holds if exactly this many were fixed in advance. With a budget it is that of all epochs that may be made.
        """
        return self._fixed(self.most or epochs) if epochs else 0.0

    def _fixed(self, epochs: int) -> float:
        if epochs not in self._spent:
            self._spent[epochs] = self.run.sampler.epsilon(replace(self.run, epochs=epochs), self.delta)
        return self._spent[epochs]

    def _estimated(self, epochs: int) -> float:
        return self.run.sampler.estimate(replace(self.run, epochs=epochs), self.delta)

    @property
    def condition(self) -> str:
        """What has to be true for ε, in a few words."""
        if self.most is None and self.epochs >= self.run.epochs:
            return f"holds if {FIXED}"
        condition = f"holds for any number of epochs up to {self.covered:,}"
        if self.most is not None or not self.epochs:
            return condition
        made = f"{self.epochs:,} epoch{' was' if self.epochs == 1 else 's were'}"
        return f"{condition}; ε={rounded_up(self.spent(self.epochs), 3)} holds if exactly {made} fixed in advance"

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` takes."""
        return {
            "run": self.run.to_dict(),
            "delta": self.delta,
            "epochs": self.epochs,
            "budget": self.budget,
            "most": self.most,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Account":
        """Return the account that was written down."""
        account = cls(Run.from_dict(fields["run"]), delta=fields["delta"], epochs=fields["epochs"])
        budget = fields.get("budget")
        most = fields.get("most")
        if budget is None and most is None:
            return account
        # the number that was fixed then
        limit = positive(budget=budget)
        covered = whole(most_epochs=most)
        if account._fixed(covered) > limit * (1 + 1e-9):
            raise BudgetError(f"{covered:,} epochs cost more than the budget of ε = {limit:g}; do not edit it")
        account.budget = limit
        account.most = covered
        account._check_most()
        return account

    def __repr__(self) -> str:
        """Show what was spent, and under which condition."""
        epochs = f"{self.epochs:,} epoch{'' if self.epochs == 1 else 's'}"
        return f"Account(ε={rounded_up(self.epsilon, 3)} at δ={self.delta:g} after {epochs}; {self.condition})"


class ProgressLabel:
    """A text that is composed when it is looked at: on a bar, which few trainings last long enough to show.

    The last entry of the last of `losses` is the loss. All epochs are planned, so ε is computed once.
    """

    def __init__(self, account: Account, losses: Sequence[tuple[float, ...]]) -> None:
        self._account = account
        self._losses = losses

    def __str__(self) -> str:
        """Return the text of this moment."""
        account = self._account
        if not account.epochs:
            return "training"
        planned = max(account.run.epochs, account.epochs)
        note = ""
        if account.epochs < account.covered:
            note = f" (up to {account.covered:,} epochs)"
        elif account.most is None:
            note = " (epochs fixed beforehand)"
        loss = f", loss {self._losses[-1][-1]:.4f} (not private)" if self._losses else ""
        return f"training, epoch {account.epochs} of {planned}: ε = {rounded_up(account.epsilon, 3)}{note}{loss}"


class Filter:
    """An (ε, δ) for epochs whose number and settings may depend on everything seen before.

    Charge a run before it is made. All runs have to be on the same examples.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee of everything together, fixed before the first epoch.
    adjacency : str
        "replace" or "zero-out", as for all runs.

    Examples
    --------
    >>> budget = Filter(epsilon=2, delta=1e-6)
    >>> careful = Run(examples=60_000, batch_size=256, noise_multiplier=40)
    >>> budget.charge(careful)
    >>> budget.left(careful)
    79
    >>> budget
    Filter(ε=2 at δ=1e-06, replace, 1.25% used)
    """

    def __init__(self, *, epsilon: float, delta: float, adjacency: str = "replace") -> None:
        self.epsilon = positive(epsilon=epsilon)
        self.delta = probability(delta=delta)
        self.adjacency = known(("replace", "zero-out"), adjacency=adjacency)
        self._most = _greatest_separation(self.epsilon, self.delta) ** 2 / _UP
        self._spent = 0.0

    @property
    def used(self) -> float:
        """The part of the budget that is used up."""
        return self._spent / self._most

    def cost(self, run: Run) -> float:
        """Return the sum of μ² over the epochs of a run, rounded up."""
        if run.adjacency != self.adjacency:
            raise ParameterError(
                f'the run has adjacency="{run.adjacency}", and the filter "{self.adjacency}"; use the same for both'
            )
        if run.usage != Sampler.usage:
            raise ParameterError(
                f'sampling="{run.sampling}" uses every example {run.usage}, and a filter counts one use an '
                "epoch; use Account, which asks the sampler"
            )
        return run.epochs * (run.sensitivity / run.seen_multiplier) ** 2 * _UP

    def affords(self, run: Run) -> bool:
        """Tell whether all epochs of the run are covered."""
        return (self._spent + self.cost(run)) * _UP <= self._most

    def left(self, run: Run) -> int:
        """Return how many more epochs like one of the run are covered."""
        each = self.cost(run) / run.epochs * _UP
        return max(0, math.floor((self._most / _UP - self._spent) / each))

    def charge(self, run: Run) -> None:
        """Charge all epochs of a run, before it is made; or raise `BudgetError`, and charge nothing."""
        if not self.affords(run):
            raise BudgetError(
                f"{run.epochs:,} more epochs of this run would exceed ε = {self.epsilon:g} at δ = {self.delta:g}, of "
                f"which {100 * self.used:.4g}% is used; there is room for {self.left(run):,}, or use more noise"
            )
        self._spent = (self._spent + self.cost(run)) * _UP

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` takes."""
        return {"epsilon": self.epsilon, "delta": self.delta, "adjacency": self.adjacency, "spent": self._spent}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Filter":
        """Return the filter that was written down."""
        restored = cls(**{name: fields[name] for name in ("epsilon", "delta", "adjacency")})
        restored._spent = non_negative(spent=fields["spent"])
        return restored

    def __repr__(self) -> str:
        """Show the guarantee, and how much of it is used."""
        used = rounded_up(100 * self.used, 3) if self._spent else "0"
        return f"Filter(ε={self.epsilon:g} at δ={self.delta:g}, {self.adjacency}, {used}% used)"


def _greatest_separation(epsilon: float, delta: float) -> float:
    """Return about the greatest μ for which a normal variable whose mean moves by μ deviations is (ε, δ)-DP."""
    good, unsafe = doubled(lambda shift: gaussian_delta(1 / shift, epsilon) > delta)
    return bisect_safe(
        lambda shift: gaussian_delta(1 / shift, epsilon) <= delta, unsafe=unsafe, good=good, relative=1e-12
    )
