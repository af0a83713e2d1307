"""The guarantee of a training with Opacus, and what it rests on."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from shoal.assumptions import Assumption
from shoal.digits import rounded_up
from shoal.documentation import linked
from shoal.sgd.training_bound import THEOREMS

__all__ = ["EngineGuarantee"]


@dataclass(frozen=True, kw_only=True)
class EngineGuarantee:
    """An (ε, δ) that holds for all steps that an engine of Opacus counted.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee.
    lower_bound : float
        No ε below this is true of the run, for all data; 0 where nothing is known.
    bound : str
        Which theorem proves it.
    sampling : str
        What the loader did: "poisson", "permutation" or "fixed-order".
    reason : str
        Why this theorem, and no stronger one.
    adjacency : str
        What may happen to one example.
    examples, batch_size, steps : int
        n, b, and the steps that were made.
    epochs : int
        How many were begun; 0 for Poisson sampling, where only steps count.
    noise_multiplier : float
        σ, the least of all steps.
    """

    epsilon: float
    delta: float
    lower_bound: float
    bound: str
    sampling: str
    reason: str
    adjacency: str
    examples: int
    batch_size: int
    steps: int
    epochs: int
    noise_multiplier: float

    @property
    def theorem(self) -> str:
        """Where the bound is proved."""
        return linked(THEOREMS[self.bound].citation)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true, and cannot be read from Opacus's objects."""
        what = "replaced by another" if self.adjacency == "replace" else "left out of its batch, its slot empty"
        lines = [
            f"neighbours: one of {self.examples:,} examples {what}; not added or removed, as Opacus computes the "
            "number of steps, and what sums are divided by, from the number of examples",
            "every step had one batch of this loader, none was used twice while another was left out, and empty ones "
            "made their step too; no gradients were accumulated, which Opacus's ghost clipping does not count",
            "every step called the hook that make_private attached, none was made with another one or with none, and "
            "no checkpoint replaced the count of an accountant of Opacus after account",
            "no example touches another's gradient: neither the model nor collate_fn mixes them",
            "the number of steps and their noise were fixed beforehand, and not by what was seen",
            "Opacus's floating-point norms, sums and noise count as exact, and torch's random numbers as perfect; no "
            "generator was seeded again",
        ]
        if self.bound != "plain":
            lines.append("nobody sees which examples a batch has, nor what tells that: its loss, time or size")
        return tuple(map(Assumption, lines))

    def explain(self) -> str:
        """Return the guarantee, why it is this one, and what it rests on, as text."""
        lines = [repr(self), f"  {self.bound}: {self.theorem}", f"  why: {self.reason}", "  assumed:"]
        return "\n".join([*lines, *(f"    {line}" for line in self.assumptions)])

    def to_dict(self) -> dict[str, Any]:
        """Return everything, for JSON; an infinite ε is None."""
        fields = asdict(self) | {"theorem": self.theorem, "assumptions": [str(each) for each in self.assumptions]}
        return fields | {"epsilon": self.epsilon if math.isfinite(self.epsilon) else None}

    def __repr__(self) -> str:
        """Show the guarantee in one line."""
        least = f"; no ε below {math.floor(self.lower_bound * 1000) / 1000:g} is true" if self.lower_bound else ""
        epochs = f" in {self.epochs:,} epoch{'' if self.epochs == 1 else 's'}" if self.epochs else ""
        return (
            f"EngineGuarantee(ε={rounded_up(self.epsilon, 4)} at δ={self.delta:g}, {self.bound}, {self.sampling}, "
            f"{self.steps:,} steps{epochs}, σ={self.noise_multiplier:g}, {self.adjacency}{least})"
        )
