"""Mechanisms in which several messages a person, or messages that somebody adds, hide what people say.

What such a mechanism promises, besides what every `Categorical` does:

* `randomize(values)` returns a *bundle* of messages for each person, a row of `bundle` numbers; `aggregate` takes
  bundles, or the same messages shuffled one by one, in any order. A message is a number from 0 to `outputs` − 1, of
  `bytes_per_report` bytes.
* Every bundle has the same number of messages, whatever the value. An empty slot holds the message `null`, which is
  sealed and sent like any other, and says nothing.
* Counts are of *people*: `Counts.reports` is n, and never the number of messages.
* `released(counts)` adds what the shuffler adds. Only what it returns may be looked at or estimated from; it is called
  once a round, since two draws over the same messages would disclose them.
* The guarantee is that of `theorem` in the catalogue, for the people who certainly take part: minimum − m of them.
* `remains` says in a line what is left if shuffler and analyst collude, wherever an ε is printed.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import Array, IntArray
from shoal.mechanisms.categorical import Categorical
from shoal.mechanisms.mechanism import Counts, Numbered
from shoal.numerics.binomial import log_probability
from shoal.pairs.likelihoods import Likelihoods, Support
from shoal.pairs.pair import Pair
from shoal.proofs.claim import RoundClaim

NOTHING = "nothing: whoever sees messages before they are shuffled sees what each person said"


@dataclass(frozen=True)
class ReachedByPair:
    """What real inputs reach, where the pair is what every dataset has: the same from below."""

    pair: Pair  # its lower ends count

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""
        return self.pair.delta_bracket(epsilon)[0]

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down."""
        return self.pair.bracket(delta)[0]


@dataclass(frozen=True, kw_only=True)
class Bundled(Numbered, Categorical):
    """A mechanism whose messages are hidden by others, which people, the shuffler or helpers add; see the module."""

    private_alone: ClassVar[bool] = False
    theorem: ClassVar[str]
    """The bound of the catalogue that the guarantee comes from."""
    blanket: ClassVar[tuple[Likelihoods, ...]] = ()
    homogeneous: ClassVar[tuple[Likelihoods, ...]] = ()
    support: ClassVar[tuple[Support, ...]] = ()

    local_epsilon: float = field(init=False, default=math.inf, repr=False)

    @abstractmethod
    def profile(self, reports: int) -> Pair:
        """Return the pair of n people."""

    @abstractmethod
    def claim(self, reports: int) -> RoundClaim:
        """Return what a certificate of n people claims."""

    @property
    @abstractmethod
    def remains(self) -> str:
        """What is left if shuffler and analyst collude."""

    @abstractmethod
    def collected(self, values: IntArray, people: int, invalid: int) -> Counts[Any]:
        """Return the counts of a round of so many people, of whose messages these were valid and so many were not."""

    @property
    def exact_epsilon(self) -> float:
        """The ε₀ of a bundle by itself; infinite where the truth is in it."""
        return self.local_epsilon

    def noise_limits(self, counts: Counts[Any], level: float, categories: int = 1) -> tuple[int, int]:
        """Return quantiles of the noise in what `supported` says of some categories together, people apart.

        They are the largest q with Pr(X < q) ≤ level, and the smallest with Pr(X > q) ≤ level. Messages must be
        categories themselves.
        """
        first, masses = self.noise_masses(counts, categories)
        fewest, most = quantiles(masses, level)
        return first + fewest, first + most

    @abstractmethod
    def noise_masses(self, counts: Counts[Any], categories: int = 1) -> tuple[int, Array]:
        """Return the least value of this noise, and the probabilities of it and of those that follow."""

    @abstractmethod
    def weighted_cumulants(self, counts: Counts[Any], weights: Array) -> tuple[float, float]:
        """Return the second and the fourth cumulant of the sum, over categories, of this noise times a weight."""

    def _running(self) -> None:
        """Whatever has been settled runs."""


def binomial_masses(trials: int, probability: float) -> tuple[int, Array]:
    """Return the least value of a binomial number that matters, and the probabilities from there on."""
    if trials == 0 or probability in (0, 1):
        return trials * int(probability), np.ones(1)
    mean = trials * probability
    width = 12 * math.sqrt(mean * (1 - probability)) + 40
    first = max(0, math.floor(mean - width))
    last = min(trials, math.ceil(mean + width))
    steps = np.arange(first, last, dtype=np.float64)
    ratios = (trials - steps) / (steps + 1) * (probability / (1 - probability))
    centre = min(max(round(mean), first), last)
    downward = 1 / ratios[: centre - first][::-1]
    below = np.cumprod(downward)[::-1]
    above = np.cumprod(ratios[centre - first :])
    masses = np.concatenate((below, [1.0], above))
    masses *= math.exp(log_probability(trials, centre, probability, 1 - probability))
    return first, masses


def quantiles(masses: Array, level: float) -> tuple[int, int]:
    """Return the largest q with Pr(X < q) ≤ level and the smallest with Pr(X > q) ≤ level, as positions in `masses`."""
    below = np.cumsum(masses)
    above = np.cumsum(masses[::-1])
    most = level * (1 + 1e-12)
    low = int(np.searchsorted(below, most, side="right"))
    beyond = int(np.searchsorted(above, most, side="right"))
    high = len(above) - 1 - beyond
    return min(low, len(below) - 1), max(high, 0)
