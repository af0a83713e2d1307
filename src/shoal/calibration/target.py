"""The target of a calibration: what all rounds together may cost, and what was released before them.

Quick guesses say where to look for what keeps a target. Nothing that is printed rests on them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from shoal.checks import SMALLEST_DELTA, Number, positive, probability
from shoal.composition.budget import Budget
from shoal.composition.entry import Rounds
from shoal.composition.ledger import Ledger
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.errors import BudgetError, ParameterError, RangeError
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.randomizer import Randomizer, ability
from shoal.pairs.registry import registration
from shoal.privacy_profile import Gridded, Profile
from shoal.rounding import LARGEST_POWER
from shoal.searches import bisect_safe, doubled

_FIRST = 0.01
"""How far the first step of a search goes, relative; each further one without a slope goes eight times as far."""
ROOM = 1e-3
"""The part of the target ε that `plan` and `calibrate` leave to a certificate, which may prove this much more than the
computed ε. With less room some proofs end above the target: one round of Laplace noise needs 3.2e-4, several rounds
need up to 3.2e-4, and no certificate is allowed more than 1e-3. It raises the error of an estimate by about 0.1 %."""
_SEARCHED = 1e-10


def gaussian_spread(epsilon: float, delta: float) -> float:
    """Return the shift μ of a unit normal distribution that has this (ε, δ) (Balle and Wang, ICML 2018)."""
    good, unsafe = doubled(lambda shift: _gaussian_delta(shift, epsilon) >= delta)
    return bisect_safe(lambda shift: _gaussian_delta(shift, epsilon) < delta, unsafe=unsafe, good=good, steps=60)


def gaussian_epsilon(shift: float, delta: float) -> float:
    """Return the ε at this δ of a unit normal distribution that is shifted by μ."""
    if _gaussian_delta(shift, 0.0) <= delta:
        return 0.0
    unsafe, good = doubled(lambda epsilon: _gaussian_delta(shift, epsilon) <= delta, shift)
    return bisect_safe(lambda epsilon: _gaussian_delta(shift, epsilon) <= delta, unsafe=unsafe, good=good, steps=50)


def _gaussian_delta(shift: float, epsilon: float) -> float:
    upper, lower = (0.5 * math.erfc((epsilon / shift + sign * shift / 2) / math.sqrt(2)) for sign in (-1, 1))
    return upper - math.exp(min(epsilon, 700.0)) * lower


def anybody(local_epsilon: float) -> Likelihoods:
    """Return what the report of a randomizer tells of which only ε₀ is known: about what a coin tells at the worst."""
    coin = registration("randomized-response").kind(categories=2, local_epsilon=local_epsilon)
    likelihoods: Likelihoods = coin.blanket[0]
    return likelihoods


def telling(randomizer: Randomizer) -> Likelihoods:
    """Return what a report tells about two inputs: of one bit, among reports of one of them; else on the blanket."""
    bit = ability(randomizer, "bit")
    return randomizer.blanket[0] if bit is None else bit.likelihoods


def likely_spread(likelihoods: Likelihoods) -> float:
    """Return √n times the shift of the normal distribution that n shuffled reports are like: the deviation of W."""
    rows = likelihoods.rows
    return math.sqrt(math.fsum(each * (math.exp(one) - math.exp(two)) ** 2 for one, two, each in rows))


def likely_log_delta(likelihoods: Likelihoods, reports: float, epsilon: float) -> float:
    """Return roughly ln δ(ε), within a few per cent of δ for many reports: the saddle point of M(θ)ⁿ/θ².

    With M the moment generating function of W, δ = E[(W₁ + … + Wₙ)₊]/n is the integral of M(θ)ⁿ/(2πi·n·θ²) along a
    vertical line, and the integrand there is about a normal density around the θ at which it is least on the real line.
    """
    values = np.array(likelihoods.values(epsilon))
    unit = float(values.max(initial=0.0))
    if unit <= 0:
        return -math.inf
    values /= unit
    weights = np.array(likelihoods.probabilities)
    mean = float(weights @ values)
    square = float(weights @ values**2)
    tilt = min(0.5 * (-mean + math.sqrt(mean**2 + 8 * square / reports)) / square, LARGEST_POWER)
    for _ in range(30):
        powers = np.expm1(tilt * values) * weights
        growth = float(powers.sum())  # M − 1
        tilted = (powers + weights) * values / (1 + growth)
        first = float(tilted.sum())
        second = float(tilted @ values)
        slope = reports * first - 2 / tilt
        curvature = reports * (second - first**2) + 2 / tilt**2
        step = -slope / (curvature * tilt)
        if abs(step) < 1e-9 or (tilt == LARGEST_POWER and step > 0):
            break
        tilt = min(tilt * math.exp(min(max(step, -1.0), 1.0)), LARGEST_POWER)
    exponent = reports * math.log1p(growth) - 2 * math.log(tilt) - 0.5 * math.log(2 * math.pi * curvature)
    return exponent + math.log(unit / reports)


def root(value: Callable[[float], float], start: float, *, low: float, high: float, steps: int = 60) -> float:
    """Return roughly where a rising function is zero, between two ends of which the upper one may be infinite."""
    point = start
    step = _FIRST * max(abs(start), _FIRST)
    before: tuple[float, float] | None = None
    for _ in range(steps):
        height = value(point)
        if height < 0:
            low = point
        else:
            high = point
        if height == 0 or high - low <= 1e-13 * abs(point):
            break
        guess = math.nan
        if before is not None and math.isfinite(height - before[1]) and height != before[1]:
            guess = point - height * (point - before[0]) / (height - before[1])
        if abs(guess - point) <= 1e-12 * abs(point):
            return min(max(guess, low), high)
        if not low < guess < high or abs(guess - point) > 8 * step:  # no slope to go by, or one that leads far away
            guess = point + math.copysign(step, -height)
            step = 8 * step
        if not low < guess < high:
            guess = 0.5 * (low + high)
        before = (point, height)
        point = guess
    return point


@dataclass(frozen=True)
class Target:
    """A budget (ε, δ) for all rounds together, with the rounds `before` of a ledger.

    `room` is the part of ε that is left to a certificate.
    """

    budget: Budget
    before: Rounds = ()
    room: float = 0.0

    @property
    def epsilon(self) -> float:
        """The ε of the budget."""
        return self.budget.epsilon

    @property
    def computed(self) -> float:
        """The largest ε that may be computed for all rounds, so that what is proved of them is within the budget."""
        return self.epsilon * (1 - self.room)

    @property
    def delta(self) -> float:
        """The δ of the budget."""
        return self.budget.delta

    def reached(self, curve: PrivacyCurve, rounds: int) -> float:
        """Return the ε of this many such rounds, and of those before; infinite where nothing is proven."""
        return self.budget.reached((*self.before, (curve, rounds)))

    def single(self, rounds: float) -> bool:
        """Whether there is nothing to compose: one round, and none before."""
        return rounds == 1 and not self.before and self.budget.planned

    def kept(self, curve: PrivacyCurve, like: Likelihoods, rounds: int) -> float:
        """Return the ε of rounds with the largest ε₀, of which it is known that they keep the target.

        A single one is about at the target, unless another limit was in the way; then there is nothing to compute.
        """
        searched = self.single(rounds) and isinstance(curve.profile, Gridded) and curve.local_epsilon > self.epsilon
        if searched and self.likely(like, curve.reports) > -1:
            return self.computed
        return min(self.reached(curve, rounds), self.epsilon)

    def excess(self, curve: PrivacyCurve, rounds: int = 1) -> float:
        """Return how far these rounds are above the target: at most 0 exactly if they keep it.

        It is ln δ(ε)/δ for a single round, which is a single value of its curve, and else ln of ε over the target.
        """
        if self.single(rounds) and isinstance(curve.profile, Gridded):
            if curve.local_epsilon <= self.epsilon and not curve.local_delta:  # a proof of ε₀ needs no room
                return -math.inf
            try:
                # ε(δ) of the curve ends up to 1e-11 above the exact one, and shall keep the target, too.
                reached = _delta(curve.profile, self.computed * (1 - _SEARCHED))
                most = self.delta
            except RangeError:
                return math.inf
        else:
            reached = self.reached(curve, rounds)
            most = self.computed
        if reached == 0:
            return -math.inf
        if most == 0:  # δ = 0, which only a target of at least ε₀ keeps
            return math.inf
        ratio = math.log(reached) - math.log(most)
        return min(ratio, 0.0) if reached <= most else max(ratio, 1e-300)  # whatever rounding makes of it

    def likely(self, likelihoods: Likelihoods, reports: float, rounds: float = 1) -> float:
        """Return roughly the excess of rounds in which a report tells this; there may be any number of them."""
        if self.single(rounds):
            if likelihoods.reach <= self.epsilon:
                return -math.inf
            if self.delta == 0:
                return math.inf
            return likely_log_delta(likelihoods, reports, self.computed) - math.log(self.delta)
        shift = math.hypot(self.spent_shift, likely_spread(likelihoods) * math.sqrt(rounds / reports))
        reached = gaussian_epsilon(shift, max(self.delta, SMALLEST_DELTA))
        return math.log(reached) - math.log(self.computed) if reached else -math.inf

    @cached_property
    def spent(self) -> float:
        """What was spent before."""
        return self.budget.reached(self.before) if self.before else 0.0

    @cached_property
    def spent_shift(self) -> float:
        """The shift of a normal distribution that has what was spent before."""
        delta = max(self.delta, SMALLEST_DELTA)
        return gaussian_spread(min(self.spent, self.epsilon), delta) if self.spent else 0.0


@lru_cache(maxsize=256)  # mechanisms with other names may have the same likelihoods
def _delta(profile: Profile, epsilon: float) -> float:
    return float(profile.delta(epsilon))


def target_of(epsilon: Number | None, delta: Number | None, ledger: Ledger | None) -> Target:
    """Return what is asked for, or what is left of the budget of a ledger.

    A ledger that has no budget yet counts what was released before as `Ledger.spent` does. Rounds
    fixed in advance leave room for a certificate.
    """
    if ledger is None:
        if epsilon is None or delta is None:
            raise ParameterError(
                "give the central guarantee that must hold, such as epsilon=1, delta=1e-6; or a ledger with a budget"
            )
        return Target(Budget(positive(epsilon=epsilon), probability(delta=delta), planned=True), room=ROOM)
    if not isinstance(ledger, Ledger):
        raise ParameterError(
            f'ledger must be a Ledger, such as shoal.Ledger("telemetry.json"), got {ledger!r}', "ledger"
        )
    budget = ledger.limit
    if budget is None:
        if epsilon is None or delta is None:
            raise ParameterError("this ledger has no budget yet; give epsilon and delta, such as epsilon=1, delta=1e-6")
        budget = Budget(positive(epsilon=epsilon), probability(delta=delta), planned=True)
    for name, given, stored in (("epsilon", epsilon, budget.epsilon), ("delta", delta, budget.delta)):
        if given is not None and given != stored:
            raise BudgetError(
                f"this ledger has the budget of {budget}; asked for was {name}={given!r}. Leave epsilon and delta out, "
                "and what is left of the stored budget is the target"
            )
    # A certificate of a ledger proves the ε of rounds fixed in advance, which is far below an adaptive charge.
    room = ROOM if budget.planned else 0.0
    target = Target(budget, tuple(part for entry in ledger for part in entry.rounds), room)
    if not target.epsilon > 0 or not target.delta > 0:
        raise ParameterError(f"a budget of {target.budget} leaves nothing to calibrate; it needs ε and δ above 0")
    if not target.spent < target.computed:
        raise BudgetError(
            f"this ledger has spent epsilon={rounded_up(target.spent)} at delta={target.delta:g}, and its budget is "
            f"{target.epsilon!r}: nothing is left for another round"
        )
    return target
