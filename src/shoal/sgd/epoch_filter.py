"""A privacy filter for epochs: how many there are, and how much noise each has, may be chosen as one goes.

The guarantee of some epochs holds if their number was fixed beforehand. Who looks at the model, and then goes on,
stops or changes the noise, needs a filter. For Gaussian noise nothing is lost: squares of μ = sensitivity/deviation
may be added up, whatever each was chosen by, as long as the sum stays below a number that was fixed before the first
epoch (docs/theory/sgd.md, section 9). Shuffling is not counted.
"""

import math
from typing import Any

from shoal.checks import known, non_negative, positive, probability
from shoal.digits import rounded_up
from shoal.errors import BudgetError, ParameterError
from shoal.numerics.normal import gaussian_delta
from shoal.rounding import slack
from shoal.searches import bisect_safe, doubled
from shoal.sgd.run import Run
from shoal.sgd.sampler import Sampler

__all__ = ["Filter"]

_UP = 1 + slack(32)


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
        self.epsilon, self.delta = positive(epsilon=epsilon), probability(delta=delta)
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
