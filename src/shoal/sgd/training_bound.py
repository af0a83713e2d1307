"""A bound of the catalogue for a run of noisy SGD, and what such a bound knows of an epoch."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from shoal.assumptions import CLIPPED, ONE_EXAMPLE, PERMUTED, Assumption
from shoal.catalogue import Theorem, rows_of
from shoal.documentation import linked

__all__ = [
    "THEOREMS",
    "Bound",
    "Elements",
    "TrainingBound",
]


class Elements(NamedTuple):
    """What an epoch shuffles.

    Attributes
    ----------
    kind : str
        "examples", "representatives" or "batches".
    number : int
        How many.
    near : float
        How far one example moves an element, in standard deviations of its noise.
    far : float
        How far two elements may be apart.
    above, below, around : float
        How far the victim's two elements, and any other one, may be from a point between the two.
    """

    kind: str
    number: int
    near: float
    far: float
    above: float
    below: float
    around: float


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainingBound(Theorem):
    """A theorem about runs of noisy SGD.

    Attributes
    ----------
    splits : callable, optional
        The ways to charge one epoch, from its elements, the number of epochs and δ; the best of them is taken. Each is
        a function of ln q. Without it, the bound does not need the shuffle.
    """

    kind: ClassVar[str] = "training"

    splits: Callable[[Elements, int, float], Iterable[Callable[[float], Any]]] | None = None
    assumptions: tuple[Assumption, ...] = (CLIPPED, PERMUTED, ONE_EXAMPLE)
    needs: str = "a run of noisy SGD, as `shoal sgd` and `shoal train` do it"
    range: str = "noise enough for elements to hide one another"


THEOREMS = rows_of(TrainingBound)
"""All of them by name."""


class Bound(NamedTuple):
    """What one theorem says about a run.

    Attributes
    ----------
    epsilon : float
        ε; infinite where the theorem says nothing.
    name, theorem : str
        Which.
    elements : str
        What was taken as shuffled: "examples", "representatives", "batches", or "" where nothing was.
    local_epsilon, local_delta : float
        The (ε₀, δ₀) of an element that was used.
    number : int
        How many elements were shuffled; 0 where nothing was.
    """

    epsilon: float
    name: str
    elements: str = ""
    local_epsilon: float = math.inf
    local_delta: float = 0.0
    number: int = 0

    @property
    def theorem(self) -> str:
        """The theorem, with its source."""
        return linked(THEOREMS[self.name].citation)
