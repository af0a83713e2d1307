"""Discrete Laplace noise on counts and on sums: the pair of dummies, and the guarantee of split and mix.

A shuffler or a helper adds t + Z dummies for each category, Pr(Z = z) ∝ a^|z| for |z| ≤ t. The privacy loss of one
person has four atoms: ε₁ = 2·ln(1/a), 0, −ε₁ and ∞ (docs/theory/several-messages.md, Theorem D). They are computed
exactly, from a that is an integer number of 2⁻⁶⁴. With split and mix, people add shares of such noise to a sum, and
messages tell a little more than this sum (Theorem M).
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shoal.errors import NoPairError, ParameterError
from shoal.numerics.profile_grid import DeltaGrid, Mesh, each, grid_of
from shoal.numerics.summand import Summand
from shoal.pairs.pair import Pair
from shoal.privacy_profile import UpperProfile
from shoal.proofs.balls import above, ball, precision
from shoal.proofs.several_messages_claim import excess_above
from shoal.rounding import slack, up
from shoal.searches import bisect_safe

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim
    from shoal.proofs.several_messages_claim import MixClaim

DECAYS = 1 << 64
"""The decay a is a whole number of parts of one in so many."""
MOST_LIMIT = 1 << 16
_BITS = 192
_LARGEST = 700.0
"""From here on e^ε is not formed in doubles."""


@dataclass(frozen=True)
class DummyPair(Pair):
    """Two neighbouring histograms with dummies, exactly and whatever all other people do.

    With e = Pr(Z = t) and v = Pr(0 ≤ Z < t), δ(ε) = 1 − (1 − e)² + v²·(1 − e^(ε − ε₁))₊ for every ε ≥ 0. The first part
    is an infinite loss: ε(δ) is infinite for every smaller δ, and so is every Rényi divergence.

    Parameters
    ----------
    decay : int
        2⁶⁴·a.
    limit : int
        t.
    """

    decay: int
    limit: int
    reports: int = field(init=False, repr=False, compare=False)
    local_epsilon: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the fields; the number of reports does not matter."""
        if not (isinstance(self.decay, int) and 0 < self.decay < DECAYS):
            raise ParameterError(
                f"decay must be a whole number of parts of 2**64, more than none and less than all, got {self.decay!r}",
                "decay",
            )
        if not (isinstance(self.limit, int) and 1 <= self.limit <= MOST_LIMIT):
            raise ParameterError(f"limit must be a whole number from 1 to {MOST_LIMIT:,}, got {self.limit!r}", "limit")
        object.__setattr__(self, "reports", 1)
        object.__setattr__(self, "local_epsilon", math.inf)

    @cached_property
    def _exactly(self) -> tuple[int, int, int]:
        """Whole numbers: Pr(Z = t), Pr(0 ≤ Z < t) and one, in parts of the third."""
        power = self.decay**self.limit
        every = DECAYS**self.limit
        whole = every * (DECAYS + self.decay) - 2 * power * self.decay
        return power * (DECAYS - self.decay), (every - power) * DECAYS, whole

    @cached_property
    def infinite(self) -> float:
        """The probability 1 − (1 − e)² of an infinite loss, to the nearest double."""
        end, _, whole = self._exactly
        return end * (2 * whole - end) / whole**2

    @cached_property
    def largest(self) -> float:
        """The probability v² of the loss ε₁, to the nearest double."""
        _, upper, whole = self._exactly
        return upper**2 / whole**2

    @cached_property
    def _loss(self) -> float:
        """ε₁ = −2·ln a, to a few units of the last digit: by way of 1 − a where a is close to one, and only there."""
        if 2 * self.decay > DECAYS:
            return -2 * math.log1p((self.decay - DECAYS) / DECAYS)
        return -2 * math.log(self.decay / DECAYS)

    @cached_property
    def largest_loss(self) -> float:
        """The ε₁ that no finite loss exceeds, rounded up."""
        return self._loss * (1 + slack(4))

    @cached_property
    def unhidden_bracket(self) -> tuple[float, float]:
        """The probability of an infinite loss, 1 − (1 − e)², from both sides: no δ is less."""
        return math.nextafter(self.infinite, 0.0), math.nextafter(self.infinite, 1.0)

    def advantage(self, epsilon: float) -> float:
        """Return δ(ε), to a few units of the last digit."""
        falling = -math.expm1(epsilon - self._loss)
        return self.infinite + self.largest * max(0.0, falling)

    def delta_bracket(self, epsilon: float, *, tolerance: float | None = None) -> tuple[float, float]:
        """Return a lower and an upper bound of δ(ε), for ε ≥ 0."""
        least, most = self.unhidden_bracket
        if epsilon >= self.largest_loss:
            return least, most
        # Both ε and ε₁ carry a rounding, which their difference may not hide.
        value = self.advantage(epsilon)
        wrong = slack(8) * (value + self.largest * (1 + epsilon + self.largest_loss))
        return max(least, value - wrong), min(1.0, max(most, value + wrong))

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        return self.delta_bracket(epsilon)[1]

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up: infinite where an infinite loss is likelier than δ, and at most ε₁ else."""
        most = self.unhidden_bracket[1]
        if delta < most:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        share = (delta - most) / self.largest
        guess = max(0.0, self.largest_loss + math.log1p(-share)) if share < 1 else 0.0
        step = slack(8)
        while self.delta(guess) > delta:  # at ε₁ it is not
            guess = min(self.largest_loss, guess + step * (1 + self.largest_loss))
            step *= 2
        return guess

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) rounded down and up."""
        least, most = self.unhidden_bracket
        upper = self.epsilon(delta)
        if delta < most or upper == 0:
            return (upper if delta < least or upper == 0 else 0.0), upper
        width = slack(16) * (1 + self.largest_loss)
        while upper > width and self.delta_bracket(upper - width)[0] <= delta:
            width *= 2
        return max(0.0, upper - width), upper

    def guess(self, delta: float) -> tuple[float, float]:
        """Return the ε at which δ(ε) = delta, and about d log δ/dε there."""
        return min(self.epsilon(delta), self.largest_loss), -1 / max(delta, 1e-300)

    def distribution(self, epsilon: float) -> Summand:
        """Return W of a single outcome at ε, relative to the mean of both distributions."""
        growth = math.exp(epsilon)
        decay = self.decay / DECAYS
        alone = self.infinite
        more = self.largest
        less = self.largest * decay**2
        same = 2 * self.largest * decay
        middle = (more + less) / 2
        rows = [
            (2.0, alone / 2),
            (-2 * growth, alone / 2),
            (1 - growth, same),
            ((more - growth * less) / middle, middle),
            ((less - growth * more) / middle, middle),
        ]
        scale = 2 * (1 + growth)
        values = tuple(value / scale for value, _ in rows)
        probabilities = tuple(probability for _, probability in rows)
        return Summand(1, scale, values, probabilities, (1 - growth) / scale)

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Refuse: it is infinite."""
        raise NoPairError(
            "the Rényi divergence of dummies is infinite at every order: their noise is truncated, and with "
            f"probability {self.unhidden_bracket[1]:.3g} a count is one that only one of the two datasets has; use "
            "epsilon and delta"
        )

    def provable(self) -> "Claim | None":
        """Return the claim of these dummies."""
        from shoal.proofs.several_messages_claim import DummyClaim

        return DummyClaim(self.decay, self.limit) if type(self) is DummyPair else None


@dataclass(frozen=True)
class MixProfile(UpperProfile):
    """The δ(ε) of discrete Laplace noise on a sum that one person moves by Δ, and (1 + e^ε)·η.

    `honest` is H, how many people are certainly honest; `messages` and `modulus` are m and q, and
    `steps` is Δ. `decay` is 2⁶⁴·a of the noise of the sum of H people.
    """

    honest: int
    messages: int
    modulus: int
    decay: int
    steps: int

    no_bracket = "of split and mix nothing but an upper bound is known, and hence not an exact value to bracket"
    no_renyi = (
        "the Rényi divergence of split and mix may be infinite: with a small probability, messages tell more than the "
        "sum; use epsilon and delta"
    )

    @cached_property
    def limit(self) -> float:
        """The largest loss of the noise, Δ·ln(1/a), rounded up: from there on nothing but the failure is left."""
        with precision(_BITS):
            return above(-self.steps * (ball(self.decay) / DECAYS).log())

    @cached_property
    def distance(self) -> float:
        """The η that what is seen of H people is from their sum alone, in total variation, rounded up."""
        return distance_above(self.honest, self.messages, self.modulus)

    @cached_property
    def failure(self) -> float:
        """The δ that remains at every ε, (1 + e^limit)·η, rounded up."""
        return min(1.0, self._told(self.limit))

    def _told(self, epsilon: float) -> float:
        """Return (1 + e^ε)·η, rounded up; infinite where e^ε is no double: η is above 10⁻¹⁶³, and it is above 1."""
        if epsilon < _LARGEST:
            return up((1 + math.exp(epsilon)) * self.distance, roundings=16)
        return math.inf

    def _of_noise(self, epsilon: float) -> float:
        """Return δ(ε) of the noise: 1 − (a^(m + 1) + e^ε·a^(Δ − m))/(1 + a) at the m where it is largest."""
        rate = self.limit / self.steps
        middle = math.floor((self.steps - 1 - epsilon / rate) / 2)
        decay = self.decay / DECAYS

        def height(m: int) -> float:
            first = -math.expm1(-(m + 1) * rate)
            second = decay * math.expm1(epsilon - (self.steps - m - 1) * rate)
            return (first - second) / (1 + decay)

        least = max(-1, middle - 1)
        most = min(self.steps, middle + 2)
        return max(height(m) for m in range(least, most + 1))

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        if epsilon >= self.limit:
            return self.failure
        total = up(max(0.0, self._of_noise(epsilon)) + self._told(epsilon), roundings=8)
        return min(1.0, total + slack(16) * (1 + self.limit))

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up: infinite where the failure is likelier than δ."""
        if delta < self.failure:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        return bisect_safe(lambda point: self.delta(point) <= delta, unsafe=0.0, good=self.limit, relative=1e-13)

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ on the grid; nothing is known from below."""
        nearer = mesh._replace(ceiling=min(mesh.ceiling, max(self.limit, mesh.step)))
        return grid_of(each(lambda epsilon: (0.0, self.delta(epsilon))), nearer)

    def provable(self) -> "MixClaim | None":
        """Return what a certificate claims; a subclass has other numbers, and no claim."""
        from shoal.proofs.several_messages_claim import MixClaim

        if type(self) is not MixProfile:
            return None
        return MixClaim(self.honest, self.messages, self.modulus, self.decay, self.steps)


def distance_above(people: int, messages: int, modulus: int) -> float:
    """Return ½·√(e − 1), rounded up: how far messages of so many people are from telling their sum alone."""
    return min(1.0, up(math.sqrt(excess_above(people, messages, modulus)) / 2, roundings=8))
