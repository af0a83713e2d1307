"""A randomizer that is nothing but what the accountant knows of it: it can be written down, whoever it belongs to."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.checks import non_negative, probability
from shoal.errors import ParameterError
from shoal.pairs.likelihoods import Likelihoods
from shoal.randomizers.randomizer import Randomizer, ability, check_likelihoods, check_worst_pair
from shoal.randomizers.registry import register

__all__ = ["PlainRandomizer"]


@register("plain-randomizer", "known only by its likelihoods")
@dataclass(frozen=True, kw_only=True)
class PlainRandomizer:
    """A randomizer known by ε₀, δ₀ and its likelihoods alone: what a ledger keeps of one that is not registered.

    Parameters
    ----------
    local_epsilon, local_delta : float
        ε₀ and δ₀.
    blanket, homogeneous : tuple of Likelihoods
        As `shoal.Randomizer` has them; or each as a mapping of rows, complete and rest.

    Examples
    --------
    >>> from shoal.randomizers import RandomizedResponse, mechanism, schema_of
    >>> plain = PlainRandomizer.of(RandomizedResponse(categories=10, local_epsilon=1))
    >>> mechanism(schema_of(plain)) == plain
    True
    """

    local_epsilon: float
    local_delta: float = 0.0
    blanket: tuple[Likelihoods, ...]
    homogeneous: tuple[Likelihoods, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "local_epsilon", non_negative(local_epsilon=self.local_epsilon))
        object.__setattr__(self, "local_delta", probability(local_delta=self.local_delta, zero=True))
        for name in ("blanket", "homogeneous"):
            object.__setattr__(self, name, _likelihoods(name, getattr(self, name)))
        check_likelihoods(self)
        if self.blanket:
            check_worst_pair(self)

    @classmethod
    def of(cls, randomizer: Randomizer) -> "PlainRandomizer":
        """Return what the accountant knows of a randomizer."""
        return cls(
            local_epsilon=randomizer.local_epsilon,
            local_delta=ability(randomizer, "local_delta"),
            blanket=tuple(randomizer.blanket),
            homogeneous=tuple(randomizer.homogeneous),
        )


def _likelihoods(name: str, values: Iterable[Any]) -> tuple[Likelihoods, ...]:
    try:
        return tuple(value if isinstance(value, Likelihoods) else _read(**value) for value in values)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name} must be likelihoods, each with rows of three numbers, complete and rest", parameter=name
        ) from None


def _read(*, rows: Iterable[Iterable[float]], complete: bool, rest: float | None) -> Likelihoods:
    read = tuple((float(first), float(second), float(each)) for first, second, each in rows)
    return Likelihoods(read, bool(complete), None if rest is None else float(rest))
