"""How fast a linear model learns, and how often its loss is noted."""

import math

__all__ = ["MARKS", "falling_rate"]

MARKS = 100
"""How often the loss is noted."""
_DECAY = 20.0


def falling_rate(rate: float, done: int, steps: int) -> float:
    """Return the learning rate after some of the steps: it falls with 1/√(1 + 20·(part that is done))."""
    return rate / math.sqrt(1 + _DECAY * done / steps)
