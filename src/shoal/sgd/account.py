"""What a training has spent: the passes that were begun, each charged before its first noised sum."""

from dataclasses import replace
from typing import Any

from shoal.checks import probability, whole
from shoal.sgd.bounds import quick
from shoal.sgd.guarantees import Guarantee, guarantee
from shoal.sgd.run import Run

__all__ = ["Account"]


class Account:
    """The account of one training.

    A pass is charged as a whole when it begins: all that is seen of a part of it could be computed from all of it.

    Parameters
    ----------
    run : what one pass does; its `epochs` are only a plan.
    delta : δ of the guarantee.
    passes : how many have begun.

    Examples
    --------
    >>> account = Account(Run(examples=10_000, noise_multiplier=4), delta=1e-6)
    >>> account.epsilon
    0.0
    >>> account.charge()
    >>> account.passes, round(account.epsilon, 3)
    (1, 0.031)
    """

    def __init__(self, run: Run, *, delta: float, passes: int = 0) -> None:
        self.run = run
        self.delta = probability(delta=delta)
        self.passes = whole(passes=passes, least=0)
        self._spent: dict[int, float] = {}

    def charge(self) -> None:
        """Charge one more pass."""
        self.passes += 1

    def guarantee(self) -> Guarantee | None:
        """Return the guarantee of the passes that were begun; nothing before the first."""
        if self.passes == 0:
            return None
        return guarantee(**replace(self.run, epochs=self.passes).to_dict(), delta=self.delta)

    @property
    def epsilon(self) -> float:
        """ε of the passes that were begun, without asking every theorem."""
        return self.spent(self.passes)

    def spent(self, passes: int) -> float:
        """Return a proven ε of so many passes, by the two theorems of which one always wins; 0 for none."""
        if passes not in self._spent:
            self._spent[passes] = quick(replace(self.run, epochs=passes), self.delta) if passes else 0.0
        return self._spent[passes]

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` takes."""
        return {"run": self.run.to_dict(), "delta": self.delta, "passes": self.passes}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Account":
        """Return the account that was written down."""
        return cls(Run.from_dict(fields["run"]), delta=fields["delta"], passes=fields["passes"])
