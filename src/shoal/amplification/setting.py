"""A bound of the catalogue for one round, and its setting: n people, and the randomizer that each of them runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from shoal.catalogue import Theorem, rows_of
from shoal.checks import known
from shoal.pairs import BitRows
from shoal.pairs.decomposition import Decomposition
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.randomizer import Randomizer, ability
from shoal.privacy_profile import Profile

BlanketRow = Literal["generic", "response", "laplace"]
"""A row of the constants that the closed forms of the blanket have."""

_ROWS: tuple[BlanketRow, ...] = ("generic", "response", "laplace")
LARGEST_LOCAL_EPSILON = 700.0
"""Beyond it, likelihoods overflow."""


def computes(name: str, setting: "Setting") -> bool:
    """Return whether the randomizer has a profile of its own that computes the bound with this name."""
    return setting.theorem == name


def has_bit(setting: "Setting") -> bool:
    """Return whether a report is one bit whose probabilities are known."""
    return setting.bit is not None


@dataclass(frozen=True)
class Setting:
    """The checked arguments of `amplify`, and what bounds ask of them; ε₀ is infinite for Gaussian noise."""

    randomizer: Randomizer | None
    reports: int
    local_epsilon: float
    local_delta: float

    @cached_property
    def blanket(self) -> Sequence[Likelihoods]:
        """The likelihoods on the blanket, where they are known and do not overflow."""
        if self.randomizer is None or self.local_epsilon > LARGEST_LOCAL_EPSILON:
            return ()
        return self.randomizer.blanket

    @property
    def bit(self) -> BitRows | None:
        """The rows of a randomizer that reports one bit, where they are known and do not overflow."""
        if self.randomizer is None or self.local_delta or self.local_epsilon > LARGEST_LOCAL_EPSILON:
            return None
        rows: BitRows | None = ability(self.randomizer, "bit")
        return rows

    @property
    def described(self) -> bool:
        """Whether the randomizer says what one report tells."""
        return ability(self.randomizer, "profile") is not None or bool(self.blanket)

    @property
    def theorem(self) -> str:
        """The bound that the profile of the randomizer computes, if it has one of its own."""
        name: str = ability(self.randomizer, "theorem")
        return name

    @property
    def reaches(self) -> bool:
        """Whether it is known what real inputs reach."""
        return self.theorem == "blanket" or ability(self.randomizer, "reached") is not None

    @property
    def known(self) -> bool:
        """Whether all likelihoods of the randomizer are known."""
        return not self.local_delta and self.described

    @property
    def decomposition(self) -> Decomposition | None:
        """How the randomizer decomposes, where that is known."""
        return None if self.local_epsilon >= 600 else ability(self.randomizer, "decomposition")

    @property
    def blanket_row(self) -> tuple[BlanketRow, int]:
        """The constants that the closed forms of the blanket have for this randomizer: a row of them, and k."""
        name, categories = ability(self.randomizer, "blanket_row")
        return known(_ROWS, blanket_row=name), categories  # type: ignore[return-value]

    @property
    def binary(self) -> bool:
        """Whether it is randomized response over two categories."""
        return self.blanket_row == ("response", 2)


@dataclass(frozen=True, kw_only=True, repr=False)
class ShufflingBound(Theorem):
    """A bound of the privacy of shuffled reports: `make` returns its profile for a setting.

    `applies` says whether it can be used for a setting with a randomizer; without it the bound holds
    for any ε₀-DP randomizer. `improves` names a bound that this one is never above: the profile then
    has a method `improves(delta)`, which returns whether it is below.
    """

    kind: ClassVar[str] = "shuffling"

    make: Callable[[Setting], Profile]
    applies: Callable[[Setting], bool] | None = None
    improves: str | None = None
    needs: str = "any ε₀-DP randomizer"
    range: str = "all n, ε₀ and δ"
    proof: str = "the paper"
    certified_by: str | None = "strong-clones"


BOUNDS = rows_of(ShufflingBound)
"""All of them by name, those for comparison only included."""
