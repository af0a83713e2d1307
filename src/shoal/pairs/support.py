"""Randomizers that prefer some outputs: each output supports some inputs, which report it e^ε₀ times as often.

    R_x(y) = B(y)·c·e^ε₀  if y supports x,  else  B(y)·c,

for some distribution B of the outputs. Randomized response (an output supports itself), Hadamard response, subset
selection and the unary encodings (an output supports the bits that are set) are all of this kind. Whether an output
supports two or three given inputs is all that matters for shuffling, and in these mechanisms it is the same whichever
they are.
"""

import math
from dataclasses import dataclass
from itertools import product

from shoal.pairs.likelihoods import Likelihoods, Row

__all__ = ["Support", "response"]


@dataclass(frozen=True)
class Support:
    """How often an output, drawn from B, supports two or three different inputs.

    Parameters
    ----------
    local_epsilon : float
        ε₀.
    neither, one : float
        The probability that it supports neither of two inputs; the first, but not the second.
    both : float
        The probability that it supports both, but not all inputs there are.
    everybody : float
        The probability that it supports all inputs.
    triples : tuple of tuple of float
        For each kind of three different inputs, the probabilities that it supports the first m and not the others, for
        m = 0, 1, 2, 3, the same for every order of the three; none with fewer than three inputs.
    """

    local_epsilon: float
    neither: float
    one: float
    both: float = 0.0
    everybody: float = 0.0
    triples: tuple[tuple[float, float, float, float], ...] = ()

    @property
    def _weights(self) -> tuple[float, float]:
        """The factors c and c·e^ε₀ of outputs that do not support the input, and that do."""
        small = math.exp(-self.local_epsilon)
        high = 1 / (small * (self.neither + self.one) + (self.one + self.both + self.everybody))
        return small * high, high

    @property
    def blanket(self) -> tuple[Likelihoods, ...]:
        """The likelihoods relative to the blanket min_x R_x, exactly: c·B, but c·e^ε₀·B where all inputs are supported.

        An output of the latter kind tells the inputs apart no better than one that supports neither of the two.
        """
        local, (low, high) = self.local_epsilon, self._weights
        rows: tuple[Row, ...] = (
            (local, 0.0, low * self.one),
            (0.0, local, low * self.one),
            (local, local, low * self.both),
            (0.0, 0.0, low * self.neither + high * self.everybody),
        )
        # Of every distribution, what is above the blanket: the inputs that an output supports, unless it supports all
        # of them.
        rest = -high * math.expm1(-local) * (self.one + self.both)
        return (Likelihoods(rows, rest=rest),)

    @property
    def homogeneous(self) -> tuple[Likelihoods, ...]:
        """The likelihoods where all others hold a third input (of each kind), the second one, the first one.

        Exchanging the two inputs gives nothing new: the last two turn into one another.
        """
        local, (low, high) = self.local_epsilon, self._weights
        result = []
        for probabilities in self.triples:
            merged: dict[tuple[float, float], float] = {}
            for first, second, third in product((0, 1), repeat=3):
                ratios = (local * (first - third), local * (second - third))
                probability = (high if third else low) * probabilities[first + second + third]
                merged[ratios] = merged.get(ratios, 0.0) + probability
            result.append(
                Likelihoods(tuple((*ratios, probability) for ratios, probability in merged.items()), complete=True)
            )
        alike = (0.0, 0.0, low * self.neither + high * (self.both + self.everybody))
        result.append(Likelihoods(((local, 0.0, low * self.one), (-local, 0.0, high * self.one), alike), complete=True))
        result.append(Likelihoods(((0.0, -local, high * self.one), (0.0, local, low * self.one), alike), complete=True))
        return tuple(result)


def response(categories: int, local_epsilon: float) -> Support:
    """Return k-ary randomized response, with any ε₀ at all: each output supports the input of the same name."""
    share = 1 / categories
    triples = (((categories - 3) * share, share, 0.0, 0.0),) if categories >= 3 else ()
    return Support(local_epsilon, (categories - 2) * share, share, triples=triples)
