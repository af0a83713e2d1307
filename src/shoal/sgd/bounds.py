"""The proven bounds of a run, one function each (docs/theory/sgd.md).

An epoch over a permutation shows some elements in random order: its examples, with a share of the noise each, or its
batches. All but the plain bound ask how far two elements can be apart, and how far one example moves an element.
Gaussian noise has an (ε₀, δ₀) for every ε₀ = ln q. Every q gives a bound; a rough formula picks one, and what it gives
is then computed. Which bounds hold for a run, its sampler says.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial

from shoal.amplification.gaussian_clones import FARTHEST, GaussianClonesProfile
from shoal.assumptions import CLIPPED, COINS, INDEPENDENT, KEPT_STEP, ONE_EXAMPLE, ONE_STEP
from shoal.catalogue import register
from shoal.composition.composition_method import Round
from shoal.composition.loss_accountant import LossProfile
from shoal.errors import ParameterError, UnreachableError
from shoal.numerics.noise import gaussian_epsilon
from shoal.numerics.normal import gaussian_delta
from shoal.pairs import ClonePair, Family, RatioPair
from shoal.rounding import slack
from shoal.sgd.participation import TINY, Allocation, PoissonStep
from shoal.sgd.ratio_search import Charged, Search
from shoal.sgd.run import Run
from shoal.sgd.training_bound import (
    THEOREMS,
    Bound,
    Elements,
    TrainingBound,
)

__all__ = ["allocation", "bounds", "kept_allocation", "plain", "poisson", "shuffled_bounds", "theorem_g", "theorem_r"]

_UP = 1 + slack(32)
"""It outweighs the rounding of about thirty operations."""
_TAIL = 1e-4
"""The share of δ for reports so far out that they are not looked at."""
_MOST_GROWN = 3.0
"""Theorem G is not computed where the factor on δ, of all epochs together, is above e to this power."""
_OWN_SHARES = (1e-3, 0.1)
"""The shares of δ that are tried for how often the victim's own ratio is exceeded."""
_NOBODY = GaussianClonesProfile(1, 1.0, 1.0, 0.0, 0.0)
"""A profile that is never asked: its charge is infinite."""


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
    """Return what holds if every example joins one uniformly random step of each epoch, whatever the others do.

    Parameters
    ----------
    run : Run
        What is done: `steps`, `epochs`, the noise on a sum and the adjacency count.
    delta : float
        δ of all epochs together.
    """
    unit, blocks = _UP / run.sum_multiplier, Counter(run.blocks)

    def rounds(direction: str) -> list[Round]:
        return [
            Round(Allocation(unit, direction, steps), FARTHEST, count * run.epochs) for steps, count in blocks.items()
        ]

    return Bound(_largest((rounds(each) for each in _directions(run)), delta), "allocation")


def kept_allocation(run: Run, delta: float) -> Bound:
    """Return what holds if every example joins one uniformly random step, the same in every epoch.

    Parameters
    ----------
    run : Run
        What is done: `steps`, `epochs`, the noise on a sum and the adjacency count.
    delta : float
        δ of all epochs together.
    """
    unit = _UP * math.sqrt(run.epochs) / run.sum_multiplier
    rounds = ([Round(Allocation(unit, each, run.steps), FARTHEST, 1)] for each in _directions(run))
    return Bound(_largest(rounds, delta), "kept-allocation")


def poisson(run: Run, delta: float) -> Bound:
    """Return what holds if every example joins every step by a coin of its own, of probability `run.rate`.

    Parameters
    ----------
    run : Run
        What is done: `rate`, `steps`, `epochs`, the noise on a sum and the adjacency count.
    delta : float
        δ of all steps together.
    """
    rate = min(1.0, float(run.rate) * _UP)
    unit, times = _UP / run.sum_multiplier, run.steps * run.epochs
    rounds = ([Round(PoissonStep(unit, each, rate), FARTHEST, times)] for each in _directions(run))
    return Bound(_largest(rounds, delta), "poisson")


def _directions(run: Run) -> tuple[str, ...]:
    """Return the directions that count: each is a pair of its own, and composed by itself."""
    return ("replace",) if run.adjacency == "replace" else ("remove", "add")


def _largest(directions: Iterable[list[Round]], delta: float) -> float:
    """Return the ε of independent rounds that holds in every direction; infinity where one has too little noise."""
    epsilon = 0.0
    for rounds in directions:
        (profile, _, times), *others = rounds
        try:
            if times > 1 or others:
                epsilon = max(epsilon, LossProfile(tuple(rounds)).epsilon(delta))
            elif epsilon == 0 or profile.delta(epsilon) > delta:  # or else the direction before has the larger ε
                epsilon = max(epsilon, profile.epsilon(delta))
        except UnreachableError:
            return math.inf
    return epsilon


def shuffled_bounds(elements: Elements, epochs: int, delta: float, *, limit: float) -> Iterator[Bound]:
    """Yield what every theorem says of elements in fresh random order in each epoch.

    Parameters
    ----------
    elements : Elements
        What is shuffled.
    epochs : int
        How often.
    delta : float
        δ of all epochs together.
    limit : float
        The plain ε: a theorem that is hopeless next to it is not computed, and says infinity.
    """
    for row in THEOREMS.values():
        if row.proven and row.splits is not None:
            splits = row.splits(elements, epochs, delta)
            yield min(Search(row.name, split, elements, epochs, delta).best(limit=limit) for split in splits)


def theorem_g(elements: Elements, epochs: int, delta: float) -> "Search":
    """Return the search for the best bound by Theorem G."""
    return Search("gaussian-clones", _theorem_g(elements, epochs, delta), elements, epochs, delta)


def theorem_r(elements: Elements, epochs: int, delta: float) -> "Search":
    """Return the search for the best bound by Theorem R, for elements that are some slots of every batch."""
    return Search("representatives", _theorem_g(elements, epochs, delta), elements, epochs, delta)


def _clones(elements: Elements, log_ratio: float, *, family: Family) -> Charged:
    """Apply the paper's theorem on approximate DP, or the sharper one."""
    local_delta = gaussian_delta(1 / elements.far, log_ratio)
    pair = ClonePair(elements.number, log_ratio, family)
    if family == "clones":
        fixed = growing = (1 + math.exp(-log_ratio) / 2) * elements.number * local_delta
    else:
        growing = (elements.number - 1) * 2 * math.exp(-log_ratio) * local_delta
        fixed = growing + local_delta
    return Charged(pair, log_ratio, _spread(pair), fixed, growing, log_ratio, local_delta)


def _two_ratios(elements: Elements, log_ratio: float, *, log_near: float) -> Charged:
    """Apply the theorem with p for the two reports of the victim, and q for those of any two elements."""
    log_near = min(log_near, log_ratio)
    local_delta = gaussian_delta(1 / elements.far, log_ratio)
    pair = RatioPair(elements.number, log_near, log_ratio)
    growing = (elements.number - 1) * 2 * math.exp(-log_ratio) * local_delta
    fixed = growing + gaussian_delta(1 / elements.near, log_near)
    return Charged(pair, log_near, _spread(pair), fixed, growing, log_ratio, local_delta)


def _spread(pair: ClonePair | RatioPair) -> float:
    return 2 * math.tanh(pair.local_epsilon / 2) / math.sqrt(pair.clone_probability * pair.reports)


def _gaussian_clones(elements: Elements, log_ratio: float, *, tail: float, epochs: int) -> Charged:
    """Apply Theorem G: the victim's two reports as they are, and q for those of everybody else."""
    local_delta = gaussian_delta(1 / elements.around, log_ratio)
    deficit = local_delta * math.exp(-log_ratio)
    grown = (elements.number - 1) * deficit * _UP
    if grown * epochs > _MOST_GROWN:
        return Charged(_NOBODY, FARTHEST, math.inf, math.inf, 0.0, log_ratio, local_delta)
    profile = GaussianClonesProfile(
        elements.number, elements.above, elements.below, log_ratio + math.log1p(deficit) * _UP, tail
    )
    fixed = _stray(elements, log_ratio) * math.exp(grown * epochs)
    return Charged(profile, FARTHEST, profile.spread, fixed, 0.0, log_ratio, local_delta, math.exp(grown) * _UP)


def _stray(elements: Elements, log_ratio: float) -> float:
    """Return κ: how often the victim reports what some other element hardly ever does, rounded up."""
    nearest, around = max(elements.above, elements.below), elements.around
    point = around / 2 + nearest - log_ratio / around
    first, second = (0.5 * math.erfc(-end / math.sqrt(2)) for end in (point, point - around))
    rounding = slack(128) * (1 + log_ratio + nearest * around + point**2 + (point - around) ** 2)
    second = max(second - TINY, 0.0)
    return max(0.0, first - math.exp(min(log_ratio - nearest * around, 700.0)) * second) + rounding * first


def _theorem_g(elements: Elements, epochs: int, delta: float) -> Callable[[float], Charged]:
    return partial(_gaussian_clones, elements, tail=_TAIL * delta / epochs, epochs=epochs)


def _two_ratio_splits(elements: Elements, epochs: int, delta: float) -> Iterator[Callable[[float], Charged]]:
    for share in _OWN_SHARES:
        near = gaussian_epsilon(1 / elements.near, share * delta / epochs)
        yield partial(_two_ratios, elements, log_near=near)


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
        splits=lambda elements, epochs, delta: (_theorem_g(elements, epochs, delta),),
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
        name="strong-clones",
        statement=(
            "Let any two of the n elements have δ_q at the ratio q. Then δ(ε) is at most that of the pair of Theorem S "
            "with ε₀ = ln q, plus (n − 1)·(2δ_q/q)·(1 + e^ε) + δ_q; q is chosen for the least ε."
        ),
        citation="the sharper theorem on approximate DP with the strong clones pair (docs/theory/approximate.md)",
        splits=lambda elements, epochs, delta: (partial(_clones, elements, family="strong-clones"),),
        preference=2,
        proof="docs/theory/approximate.md",
    ),
    TrainingBound(
        name="clones",
        statement=(
            "Let any two of the n elements have δ_q at the ratio q. Then δ(ε) is at most that of the pair of Theorem "
            "3.2 with ε₀ = ln q, plus (e^ε + 1)·(1 + 1/(2q))·n·δ_q; q is chosen for the least ε."
        ),
        citation=(
            "the theorem on approximate DP of Feldman, McMillan and Talwar, arXiv 2012.12803, with their clones pair"
        ),
        splits=lambda elements, epochs, delta: (partial(_clones, elements, family="clones"),),
        preference=3,
        proof="the paper",
    ),
    TrainingBound(
        name="two-ratios",
        statement=(
            "Let the two reports of one example have δ_p at the ratio p, and those of any two of the n elements δ_q at "
            "q ≥ 2p/(p + 1). Then δ(ε) is at most that of the pair of Theorem S with C ~ Bin(n − 1, 2p/(q(p + 1))) and "
            "Δ ~ Bernoulli(p/(p + 1)), plus (n − 1)·(2δ_q/q)·(1 + e^ε) + δ_p; p and q are chosen for the least ε."
        ),
        citation=(
            "the sharper theorem on approximate DP, with a ratio for one example and one for all elements "
            "(docs/theory/approximate.md)"
        ),
        splits=_two_ratio_splits,
        preference=4,
        proof="docs/theory/approximate.md, section 5, and docs/theory/strong-clones.md, section 9",
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
