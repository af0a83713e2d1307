"""The proven bounds of a run, one function each (docs/theory/sgd.md).

An epoch over a permutation shows some elements in random order: its examples, with a share of the noise each, or some
slots of every batch. Theorems G and R ask how far elements can be from a centre, and how far one example moves an
element. Gaussian noise has an (ε₀, δ₀) for every ε₀ = ln q. Every q gives a bound; a rough formula picks one, and what
it gives is then computed (`Search`). Which bounds hold for a run, its sampler says.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

from shoal.amplification.gaussian_clones import FARTHEST, GaussianClonesProfile
from shoal.assumptions import CLIPPED, COINS, INDEPENDENT, KEPT_STEP, ONE_EXAMPLE, ONE_STEP, PERMUTED, Assumption
from shoal.catalogue import Theorem, register, rows_of
from shoal.composition.composition_method import Round
from shoal.composition.loss_accountant import LossProfile
from shoal.documentation import linked
from shoal.errors import ParameterError, UnreachableError
from shoal.numerics.noise import gaussian_epsilon
from shoal.numerics.normal import gaussian_delta, upper_tail
from shoal.pairs import gaussian_guess
from shoal.rounding import slack
from shoal.searches import lowest, smallest_safe
from shoal.sgd.participation import TINY, Allocation, PoissonStep
from shoal.sgd.run import Run

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
_TAIL = 1e-4
"""The share of δ for reports so far out that they are not looked at."""
_MOST_GROWN = 3.0
"""Theorem G is not computed where the factor on δ, of all epochs together, is above e to this power."""
_NOBODY = GaussianClonesProfile(1, 1.0, 1.0, 0.0, 0.0)
"""A profile that is never asked: its charge is infinite."""


class Elements(NamedTuple):
    """What an epoch shuffles.

    Their `kind` is "examples", "representatives" or "batches". In standard deviations of their
    noise, two are at most `far` apart; the victim's two are `above` and `below` a point between
    them, and any other is at most `around` from it.
    """

    kind: str
    number: int
    far: float
    above: float
    below: float
    around: float


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainingBound(Theorem):
    """A theorem about runs of noisy SGD."""

    kind: ClassVar[str] = "training"

    assumptions: tuple[Assumption, ...] = (CLIPPED, PERMUTED, ONE_EXAMPLE)
    needs: str = "a run of noisy SGD, as `shoal sgd` and `shoal train` do it"
    range: str = "noise enough for elements to hide one another"


THEOREMS = rows_of(TrainingBound)
"""All of them by name."""


class Bound(NamedTuple):
    """What one theorem says about a run.

    Attributes
    ----------
    epsilon : float
        ε; infinite where the theorem says nothing.
    name, theorem : str
        Which.
    elements : str
        What was taken as shuffled: "examples", "representatives", "batches", or "" where nothing was.
    local_epsilon, local_delta : float
        The (ε₀, δ₀) of an element that was used.
    number : int
        How many elements were shuffled; 0 where nothing was.
    """

    epsilon: float
    name: str
    elements: str = ""
    local_epsilon: float = math.inf
    local_delta: float = 0.0
    number: int = 0

    @property
    def theorem(self) -> str:
        """The theorem, with its source."""
        return linked(THEOREMS[self.name].citation)


class Charged(NamedTuple):
    """What Theorem G gives at one ln q: δ of an epoch is factor·(that of the profile) + fixed.

    `fixed` is what an epoch is charged next to the profile; `local_delta` is the δ₀ of an
    element, whose ε₀ is ln q.
    """

    profile: GaussianClonesProfile
    fixed: float
    local_delta: float
    factor: float = 1.0

    def left(self, epochs: int, delta: float) -> float:
        """Return what of δ the charges leave for the profile, rounded down."""
        return (delta - epochs * self.fixed * _UP) / (self.factor**epochs * _UP)

    def roughly(self, epochs: int, delta: float) -> float:
        """Return roughly the ε, or infinity."""
        left = self.left(epochs, delta)
        if left <= 0:
            return math.inf
        if epochs == 1:
            return self.profile.guess(left)[0]
        return gaussian_guess(self.profile.spread * math.sqrt(epochs), left)[0]

    def total(self, epsilon: float) -> float:
        """Return the δ of one epoch at ε, rounded up."""
        return (self.factor * self.profile.delta(epsilon) + self.fixed * _UP) * _UP

    def epsilon(self, epochs: int, delta: float) -> float:
        """Return an ε at which δ and the charges are at most `delta` together; or infinity."""
        left = self.left(epochs, delta)
        if left <= 0:
            return math.inf
        if epochs > 1:
            return LossProfile((Round(self.profile, FARTHEST, epochs),)).epsilon(left)
        guess = self.roughly(1, delta)
        ceiling = 1.1 * guess
        if self.total(ceiling) > delta:
            ceiling = max(4 * guess, 4.0)
            if self.total(ceiling) > delta:
                return math.inf
        slope = gaussian_guess(self.profile.spread, delta)[1]
        return smallest_safe(self.total, delta, ceiling, min(guess, 0.99 * ceiling), slope, past=1e-7)


@dataclass(frozen=True)
class Search:
    """The search for the q at which Theorem G, or R, has the least ε: every q gives a true bound.

    `delta` is δ of all epochs together.
    """

    name: str
    elements: Elements
    epochs: int
    delta: float

    def at(self, log_ratio: float) -> Charged:
        """Return what the theorem gives: the victim's two reports as they are, and q for those of everybody else."""
        elements = self.elements
        local_delta = gaussian_delta(1 / elements.around, log_ratio)
        deficit = local_delta * math.exp(-log_ratio)
        grown = (elements.number - 1) * deficit * _UP
        if grown * self.epochs > _MOST_GROWN:
            return Charged(_NOBODY, math.inf, local_delta)
        profile = GaussianClonesProfile(
            elements.number,
            elements.above,
            elements.below,
            log_ratio + math.log1p(deficit) * _UP,
            _TAIL * self.delta / self.epochs,
        )
        fixed = _stray(elements, log_ratio) * math.exp(grown * self.epochs)
        return Charged(profile, fixed, local_delta, math.exp(grown) * _UP)

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


@lru_cache(maxsize=64)
def bounds(run: Run, delta: float) -> tuple[Bound, ...]:
    """Return what every theorem says that holds for the run's sampler, the smallest first."""
    given = tuple(run.sampler.bounds(run, delta))
    for bound in given:
        if bound.name not in THEOREMS or not THEOREMS[bound.name].proven or not bound.epsilon >= 0:
            raise ParameterError(
                f"the sampler {run.sampler.name!r} yields ε = {bound.epsilon!r} by {bound.name!r}; a bound is a number "
                "of at least 0, by a theorem of the catalogue that is proven"
            )
    if not given:
        raise ParameterError(f"the sampler {run.sampler.name!r} yields no bound, and so nothing is guaranteed")
    return tuple(sorted(given, key=lambda bound: bound.epsilon))


def plain(run: Run, delta: float) -> Bound:
    """Return what holds for any order in which every example is in one noised vector an epoch."""
    separation = run.sensitivity * math.sqrt(run.epochs * run.participations) / run.seen_multiplier * _UP
    return Bound(gaussian_epsilon(1 / separation, delta), "plain")


def allocation(run: Run, delta: float) -> Bound:
    """Return what holds if every example joins one uniformly random step of each epoch, whatever the others do."""
    unit = _UP / run.sum_multiplier
    blocks = Counter(run.blocks)

    def rounds(direction: str) -> list[Round]:
        return [
            Round(Allocation(unit, direction, steps), FARTHEST, count * run.epochs) for steps, count in blocks.items()
        ]

    return Bound(largest_epsilon((rounds(each) for each in directions(run.adjacency)), delta), "allocation")


def kept_allocation(run: Run, delta: float) -> Bound:
    """Return what holds if every example joins one uniformly random step, the same in every epoch."""
    unit = _UP * math.sqrt(run.epochs) / run.sum_multiplier
    rounds = ([Round(Allocation(unit, each, run.steps), FARTHEST, 1)] for each in directions(run.adjacency))
    return Bound(largest_epsilon(rounds, delta), "kept-allocation")


def poisson(run: Run, delta: float) -> Bound:
    """Return what holds if every example joins every step by a coin of its own, of probability `run.rate`."""
    rate = min(1.0, float(run.rate) * _UP)
    unit = _UP / run.sum_multiplier
    times = run.steps * run.epochs
    rounds = ([Round(PoissonStep(unit, each, rate), FARTHEST, times)] for each in directions(run.adjacency))
    return Bound(largest_epsilon(rounds, delta), "poisson")


def directions(adjacency: str) -> tuple[str, ...]:
    """Return the directions that count: each is a pair of its own, and composed by itself."""
    return ("replace",) if adjacency == "replace" else ("remove", "add")


def largest_epsilon(rounds_of: Iterable[list[Round]], delta: float) -> float:
    """Return the ε of independent rounds that holds in every direction; infinity where one has too little noise."""
    epsilon = 0.0
    for rounds in rounds_of:
        (profile, _, times), *others = rounds
        try:
            if times > 1 or others:
                epsilon = max(epsilon, LossProfile(tuple(rounds)).epsilon(delta))
            elif epsilon == 0 or profile.delta(epsilon) > delta:  # or else the direction before has the larger ε
                epsilon = max(epsilon, profile.epsilon(delta))
        except UnreachableError:
            return math.inf
    return epsilon


def _stray(elements: Elements, log_ratio: float) -> float:
    """Return κ: how often the victim reports what some other element hardly ever does, rounded up."""
    nearest = max(elements.above, elements.below)
    around = elements.around
    point = around / 2 + nearest - log_ratio / around
    first = upper_tail(-point)
    second = upper_tail(around - point)
    rounding = slack(128) * (1 + log_ratio + nearest * around + point**2 + (point - around) ** 2)
    second = max(second - TINY, 0.0)
    return max(0.0, first - math.exp(min(log_ratio - nearest * around, 700.0)) * second) + rounding * first


register(
    TrainingBound(
        name="gaussian-clones",
        statement=(
            "Let all n elements lie within s of a centre, and the two of one example at distances a and b from it, in "
            "deviations of the noise. With q ≥ 1, d = D_q(N(0, 1), N(s, 1))/q and V = q·(e^(aZ − a²/2) − "
            "e^ε·e^(−bZ − b²/2)) with probability 1/q, else 0, Z normal: δ(ε) ≤ "
            "(1 + d)^(n − 1)·(E[(V₁′ + … + Vₙ′)₊]/n + κ), where V′ is (1 + d)·V with probability 1/(1 + d), else 0, "
            "κ = Φ(x) − q·e^(−rs)·Φ(x − s), x = s/2 + r − ln(q)/s and r = max(a, b)."
        ),
        citation="Theorem G, the clones of a Gaussian (docs/theory/sgd.md)",
        preference=1,
        proof="docs/theory/sgd.md, sections 3 and 4",
    ),
    TrainingBound(
        name="representatives",
        statement=(
            "Tell the adversary all of a permutation but r slots of every batch, the victim's among them, r = 1, …, b. "
            "The rt slots are in random order, and the noise of a sum is theirs alone: Theorem G holds for rt elements "
            "with 1/√r of the deviation of a sum each. r is chosen for the least ε."
        ),
        citation="Theorem R, representatives of every batch (docs/theory/samplers.md)",
        preference=1,
        proof="docs/theory/samplers.md, section 3",
    ),
    TrainingBound(
        name="allocation",
        statement=(
            "Let every example join one of the t steps of an epoch, uniformly and independently of the others, and let "
            "X = exp(aZ − a²/2), X′ = exp(−aZ − a²/2), Z normal, a = C/deviation. With independent copies an epoch has "
            "δ(ε) ≤ E[(Σᵢ(Xᵢ − e^ε))₊]/t if an example is removed or zeroed, E[(Σᵢ(1 − e^ε·Xᵢ))₊]/t if one is added, "
            "E[(Σᵢ(Xᵢ − e^ε·Xᵢ′))₊]/t if one is replaced. These are profiles of pairs, attained, and epochs compose."
        ),
        citation="Theorem A, participation that is independent of the others (docs/theory/samplers.md)",
        assumptions=(CLIPPED, ONE_STEP, INDEPENDENT),
        range="all runs, if an epoch has an ε of at most 600",
        preference=1,
        proof="docs/theory/samplers.md, sections 1 and 2",
    ),
    TrainingBound(
        name="kept-allocation",
        statement=(
            "Let every example join one of t steps, uniformly and independently of the others, and the same one in all "
            "E epochs. The run has the profiles of one epoch of allocation with a·√E in the place of a."
        ),
        citation="Theorem A, participation that is independent of the others, kept steps (docs/theory/samplers.md)",
        assumptions=(CLIPPED, KEPT_STEP, INDEPENDENT),
        range="all runs with an ε of at most 600",
        preference=2,
        proof="docs/theory/samplers.md, sections 1 and 2",
    ),
    TrainingBound(
        name="poisson",
        statement=(
            "Let every example join every step by a coin of its own, with probability p. All steps together are "
            "dominated by the composition of as many pairs ((1 − p)·N(0, 1) + p·N(a, 1), N(0, 1)), in both directions "
            "if an example is added, removed or zeroed, and ((1 − p)·N(0, 1) + p·N(a, 1), (1 − p)·N(0, 1) + "
            "p·N(−a, 1)) if one is replaced; a = C/deviation."
        ),
        citation="Theorem A, participation that is independent of the others, with coins (docs/theory/samplers.md)",
        assumptions=(CLIPPED, COINS, INDEPENDENT),
        range="all runs, if a step has an ε of at most 600",
        preference=1,
        proof="docs/theory/samplers.md, sections 1 and 4",
    ),
    TrainingBound(
        name="plain",
        statement=(
            "An example is in one noised vector an epoch, and moves its mean by D = 2C if it is replaced, C if it is "
            "zeroed, with C the clip norm. T epochs are dominated by the Gaussian mechanism with μ = √T·D/deviation: "
            "δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)."
        ),
        citation="one Gaussian mechanism an epoch (Balle and Wang, arXiv 1805.06530), whatever the order",
        assumptions=(CLIPPED, ONE_EXAMPLE),
        range="all runs, in any order",
        numerical=False,
        proof="docs/theory/sgd.md, section 2",
    ),
)
