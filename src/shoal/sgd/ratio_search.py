"""The search for the q at which a theorem on approximate DP gives the least ε: every q gives a true bound."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from shoal.amplification.gaussian_clones import FARTHEST, GaussianClonesProfile
from shoal.composition.composition_method import Round
from shoal.composition.loss_accountant import LossProfile
from shoal.pairs import ClonePair, RatioPair, gaussian_guess
from shoal.rounding import slack
from shoal.searches import lowest, smallest_safe
from shoal.sgd.training_bound import Bound, Elements

__all__ = ["Charged", "Search"]

_UP = 1 + slack(32)
"""It outweighs the rounding of about thirty operations."""
_FARTHEST_APART = 24.0
"""Beyond this many standard deviations between elements, nobody hides anybody."""
_RATIOS = 64
"""At this many values of ln q, evenly spaced, the rough formula is asked first."""
_OUTER = 14.0
"""The largest ln q that is tried is that of a report this many deviations out, where hardly any δ₀ is left."""
_HOPELESS = 1.2
"""A theorem that roughly gives more than this times the plain ε is not computed."""
_FARTHER = (0.03, 0.06, 0.12, 0.25)
"""Where there is no ε at the rough best ln q, because with few clones the rough formula hopes for too much, ln q is
raised by each of these in turn."""
_POLISH = 0.5
"""For one epoch, the exact δ is searched for the best ln q within this distance of the rough one."""


class Charged(NamedTuple):
    """What a theorem gives at one ln q: δ of an epoch is factor·(that of the profile) + fixed + growing·e^ε.

    Attributes
    ----------
    profile : ClonePair or RatioPair or GaussianClonesProfile
        The δ(ε) of the shuffled elements.
    ceiling : float
        No loss of the profile is greater, or nobody asks.
    spread : float
        Roughly the standard deviation of its loss.
    fixed, growing : float
        What an epoch is charged next to the profile.
    local_epsilon, local_delta : float
        The (ε₀, δ₀) of an element.
    factor : float
        What the profile's δ is multiplied by.
    """

    profile: ClonePair | RatioPair | GaussianClonesProfile
    ceiling: float
    spread: float
    fixed: float
    growing: float
    local_epsilon: float
    local_delta: float
    factor: float = 1.0

    def charge(self, epochs: int, epsilon: float) -> float:
        """Return what is charged at ε, rounded up."""
        return epochs * (self.fixed + self.growing * math.exp(min(epsilon, 700.0))) * _UP

    def left(self, epochs: int, delta: float, epsilon: float) -> float:
        """Return what of δ the charge at ε leaves for the profile, rounded down."""
        return (delta - self.charge(epochs, epsilon)) / (self.factor**epochs * _UP)

    def roughly(self, epochs: int, delta: float) -> float:
        """Return roughly the ε, or infinity."""
        guess = 0.0
        for _ in range(3):
            left = self.left(epochs, delta, guess)
            if left <= 0:
                return math.inf
            if epochs == 1:
                guess = self.profile.guess(left)[0]
            else:
                guess = gaussian_guess(self.spread * math.sqrt(epochs), left)[0]
        return guess

    def total(self, epsilon: float) -> float:
        """Return the δ of one epoch at ε, rounded up."""
        return (self.factor * self.profile.delta(epsilon) + self.charge(1, epsilon)) * _UP

    def epsilon(self, epochs: int, delta: float) -> float:
        """Return an ε at which δ and the charges are at most `delta` together; or infinity."""
        guess = self.roughly(epochs, delta)
        return self._once(delta, guess) if epochs == 1 else self._often(epochs, delta, guess)

    def _once(self, delta: float, guess: float) -> float:
        """Return the ε of one epoch, near the guess."""
        if math.isinf(guess):
            return guess
        ceiling = 1.1 * guess
        if self.total(ceiling) > delta:  # the total falls and then rises
            ceiling = lowest(self.total, guess, max(4 * guess, 4.0), within=0.02 * guess)
            if self.total(ceiling) > delta:
                return math.inf
        slope = gaussian_guess(self.spread, delta)[1]
        return smallest_safe(self.total, delta, ceiling, min(guess, 0.99 * ceiling), slope, past=1e-7)

    def _often(self, epochs: int, delta: float, guess: float) -> float:
        """Return the ε of several epochs, composed: what is charged at ε and the ε that leaves are made to agree."""
        together = LossProfile((Round(self.profile, self.ceiling, epochs),))
        best = math.inf
        for _ in range(8):
            left = self.left(epochs, delta, guess)
            if left <= 0:
                break
            reached = together.epsilon(left)
            if reached <= guess:  # then the charge at what was reached is at most the one that was taken off
                best = min(best, reached)
                if reached > 0.9999 * guess:
                    break
            guess = reached * (1 + 1e-5)
        return best


@dataclass(frozen=True)
class Search:
    """The search for the q that makes one theorem's ε the least.

    Attributes
    ----------
    name : str
        The theorem.
    at : callable
        What it gives at a value of ln q.
    elements : Elements
        What is shuffled.
    epochs : int
        How often.
    delta : float
        δ of all epochs together.
    """

    name: str
    at: Callable[[float], Charged]
    elements: Elements
    epochs: int
    delta: float

    def _roughly(self, log_ratio: float) -> float:
        return self.at(log_ratio).roughly(self.epochs, self.delta)

    def _epsilon(self, log_ratio: float) -> float:
        return self.at(log_ratio).epsilon(self.epochs, self.delta)

    def estimate(self) -> tuple[float, float]:
        """Return roughly the least ε of all q, and ln q there; it is no guarantee."""
        far = self.elements.far
        if self.elements.around > _FARTHEST_APART or self.elements.number < 2:
            return math.inf, 0.0
        width = min(far * (far / 2 + _OUTER), FARTHEST / 2) / _RATIOS
        points = [width * index for index in range(1, _RATIOS + 1)]
        guesses = [self._roughly(point) for point in points]
        if math.isinf(min(guesses)):
            return math.inf, 0.0
        start = points[guesses.index(min(guesses))]
        start = lowest(self._roughly, max(start - width, 1e-3 * width), start + width, within=1e-3 * start)
        return self._roughly(start), start

    def best(self, *, limit: float) -> Bound:
        """Return the bound for about the best q; infinite where that is hopeless next to the limit."""
        nothing = Bound(math.inf, self.name, self.elements.kind)
        guess, start = self.estimate()
        if guess > _HOPELESS * limit:
            return nothing
        least = self._epsilon(start)
        if math.isinf(least):
            raised = ((self._epsilon(start + farther), start + farther) for farther in _FARTHER)
            least, start = next((each for each in raised if each[0] < math.inf), (least, start))
        if self.epochs == 1 and least < math.inf:
            polished = self._polished(least, start)
            if polished[0] < least:
                least, start = polished
        if least >= FARTHEST:
            return nothing
        local_delta = self.at(start).local_delta
        return Bound(least, self.name, self.elements.kind, start, local_delta, self.elements.number)

    def _polished(self, epsilon: float, log_ratio: float) -> tuple[float, float]:
        """Return the ε at the ln q nearby that has the least δ at this ε, and ln q."""
        reach = min(_POLISH, log_ratio / 4)
        better = lowest(
            lambda point: self.at(point).total(epsilon), log_ratio - reach, log_ratio + reach, within=reach / 8
        )
        return self._epsilon(better), better
