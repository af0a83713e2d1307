"""What one report tells about two inputs: likelihoods of the outcomes, relative to a third distribution."""

import math
from dataclasses import dataclass

__all__ = ["Likelihoods"]

Row = tuple[float, float, float]


@dataclass(frozen=True)
class Likelihoods:
    """The likelihoods of a report from either of two inputs, relative to a reference distribution.

    The reference is what everybody else is known to report: their distribution, where all of them hold one input, or
    else the *blanket*, the part that the distributions of all inputs have in common. Outcomes with equal likelihoods
    are one row.

    Parameters
    ----------
    rows : tuple of Row
        (ln R₀/ω, ln R₁/ω, probability under the reference ω) of each outcome; rows of no probability are left out.
    complete : bool
        Whether the probabilities sum to one by construction, whatever rounding does to them.
    rest : float, optional
        What the probabilities leave of one, for an outcome that neither R₀ nor R₁ has, where it is known better than by
        subtraction: it may be tiny.

    Examples
    --------
    >>> coin = Likelihoods(((1.0, 0.0, 0.25), (0.0, 1.0, 0.25), (0.0, 0.0, 0.1)), rest=0.4)
    >>> coin.symmetric, coin.reach
    (True, 1.0)
    >>> coin.values(0.0)
    (1.718281828459045, -1.718281828459045, -0.0)
    """

    rows: tuple[Row, ...]
    complete: bool = False
    rest: float | None = None

    def __post_init__(self) -> None:
        """Leave out what never happens; rows may be given as lists."""
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows if row[2] > 0))

    @property
    def swapped(self) -> "Likelihoods":
        """The same with R₀ and R₁ exchanged."""
        rows = tuple((second, first, probability) for first, second, probability in self.rows)
        return Likelihoods(rows, self.complete, self.rest)

    @property
    def symmetric(self) -> bool:
        """Whether exchanging R₀ and R₁ changes nothing."""
        return sorted(self.rows) == sorted(self.swapped.rows)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The probability of each row under the reference distribution."""
        return tuple(probability for _, _, probability in self.rows)

    @property
    def missing(self) -> float:
        """What the probabilities leave of one."""
        if self.complete:
            return 0.0
        return max(0.0, -math.fsum((*self.probabilities, -1.0))) if self.rest is None else self.rest

    @property
    def reach(self) -> float:
        """The largest ln R₀/R₁: from this ε on, δ is zero."""
        return max((first - second for first, second, _ in self.rows), default=0.0)

    def values(self, epsilon: float) -> tuple[float, ...]:
        """Return W = (R₀ − e^ε·R₁)/ω of each row, without cancellation."""
        return tuple(-math.exp(first) * math.expm1(epsilon + second - first) for first, second, _ in self.rows)

    def signs(self, epsilon: float) -> tuple[float, ...]:
        """Return numbers with the signs of W of each row, which do not overflow as W may."""
        return tuple(first - (epsilon + second) for first, second, _ in self.rows)

    def advantage(self, epsilon: float) -> float:
        """Return the sum of (R₀ − e^ε·R₁)₊, which is δ(ε) of a report alone."""
        return math.fsum(
            -probability * math.exp(first) * math.expm1(epsilon + second - first)
            for first, second, probability in self.rows
            if first - second > epsilon
        )
