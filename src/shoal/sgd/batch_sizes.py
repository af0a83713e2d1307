"""How many examples a batch of varying size has at most, but for a probability that is charged.

Sums of floats are rounded by an amount that grows with the number of terms, and more noise pays for that. How many
terms there were is a secret, so the payment is for a number that is known beforehand.
"""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.sgd.run import Run

__all__ = ["OVERFULL", "largest_batch"]

OVERFULL = 2.0**-40
"""The share of δ that pays for batches with more examples than that."""
_MOST_EPOCHS = 10**6


def largest_batch(run: "Run", joining: Fraction, delta: float) -> int:
    """Return a size that no batch of a million epochs exceeds, but for a probability of at most `OVERFULL`·δ.

    Of N examples that join a step independently, M or more do with a probability of at most exp(−N·D), where D is the
    divergence of two coins, with M/N and with the probability of joining (Chernoff). N is `run.most_examples`: the size
    is a function of numbers that are public.

    Parameters
    ----------
    run : Run
        What is done.
    joining : Fraction
        The probability with which each example joins a step.
    delta : float
        δ of the guarantee.

    Examples
    --------
    >>> from shoal.sgd.run import Run
    >>> largest_batch(Run(examples=60_000, batch_size=256), Fraction(1, 235), 1e-6)
    452
    """
    examples, rate = run.most_examples, float(joining)
    if rate == 1:
        return examples
    allowed = math.log(OVERFULL / 2) + math.log(delta) - math.log(run.steps * _MOST_EPOCHS)

    def unlikely(size: int) -> bool:
        share = size / examples
        divergence = share * math.log(share / rate)
        if share < 1:
            divergence += (1 - share) * math.log1p((rate - share) / (1 - rate))
        return -examples * divergence * (1 - 1e-9) <= allowed

    low, high = math.ceil(examples * rate), examples
    if low >= high or not unlikely(high):
        return examples
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if unlikely(middle) else (middle, high)
    return high
