"""The proven bounds of a run, one function each (docs/theory/sgd.md).

A pass shows some elements in random order: its examples, with a share of the noise each, or its batches. All but the
plain bound ask how far two elements can be apart, and how far one example moves an element. Gaussian noise has an
(ε₀, δ₀) for every ε₀ = ln q. Every q gives a bound; a rough formula picks one, and what it gives is then computed.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from shoal.amplification.gaussian_clones import FARTHEST, GaussianClonesProfile
from shoal.amplification.gaussian_profile import GaussianProfile
from shoal.catalogue import register
from shoal.composition.composition_method import Round
from shoal.composition.loss_accountant import LossProfile
from shoal.losses.gaussian_blanket import gaussian_alone
from shoal.pairs import ClonePair, Family, RatioPair, gaussian_guess
from shoal.searches import lowest, smallest_safe
from shoal.sgd.run import Run
from shoal.sgd.training_bound import IN_ORDER, THEOREMS, Elements, TrainingBound

__all__ = ["Bound", "bounds", "estimated", "quick"]

_UP = 1 + 2.0**-48
_FARTHEST_APART = 24.0
"""Beyond so many standard deviations between elements, nobody hides anybody."""
_POLISH = 0.5
_TAIL = 1e-4
"""Of δ, for reports so far out that they are not looked at."""
_MOST_GROWN = 3.0
_NOBODY = GaussianClonesProfile(1, 1.0, 1.0, 0.0, 0.0)
_HOPELESS = 1.2
_FARTHER = (0.03, 0.06, 0.12, 0.25)
_OWN_SHARES = (1e-3, 0.1)
"""Of δ, for how often the victim's own ratio is exceeded."""


class Bound(NamedTuple):
    """What one theorem says about a run.

    Attributes
    ----------
    epsilon : float
        ε; infinite where the theorem says nothing.
    name, theorem : str
        Which.
    elements : str
        What was taken as shuffled: "examples", "batches", or "" for the plain bound.
    local_epsilon, local_delta : float
        The (ε₀, δ₀) of an element that was used.
    """

    epsilon: float
    name: str
    elements: str = ""
    local_epsilon: float = math.inf
    local_delta: float = 0.0

    @property
    def theorem(self) -> str:
        """The theorem, with its source."""
        return THEOREMS[self.name].citation


def plain(run: Run, delta: float) -> Bound:
    """Return what holds for any order: every example is seen in one noised vector a pass."""
    multiplier = run.sum_multiplier if run.sums_only else run.noise_multiplier
    separation = run.sensitivity * math.sqrt(run.epochs) / multiplier * _UP
    return Bound(GaussianProfile(1, 1 / separation).alone(delta), "plain")


def _views(run: Run) -> Iterator[Elements]:
    """Return what a pass can be taken to shuffle; the examples first."""
    if run.order == "kept":
        return
    zeroed = run.adjacency == "zero-out"
    unit, number = _UP / run.slot_multiplier, run.slots if run.sums_only else run.examples
    # Gradients are around zero, which is one of the two if an example is zeroed.
    yield Elements("examples", number, run.sensitivity * unit, 2 * unit, unit, 0.0 if zeroed else unit, unit)
    if run.sums_only and run.batch_size > 1:
        unit = _UP / run.sum_multiplier
        near, far = run.sensitivity * unit, 2 * run.batch_size * unit
        yield Elements("batches", run.steps, near, far, near / 2, near / 2, far)


class _Split(NamedTuple):
    """A profile for one pass, and what a pass is charged beside it: δ is factor·(that of it) + fixed + growing·e^ε.

    Attributes
    ----------
    ceiling : float
        No loss of the profile is greater, or nobody asks.
    spread : float
        Roughly the standard deviation of its loss.
    local_epsilon, local_delta : float
        The (ε₀, δ₀) of an element.
    """

    profile: ClonePair | RatioPair | GaussianClonesProfile
    ceiling: float
    spread: float
    fixed: float
    growing: float
    local_epsilon: float
    local_delta: float
    factor: float = 1.0

    def charge(self, passes: int, epsilon: float) -> float:
        """Return what is charged at ε, rounded up."""
        return passes * (self.fixed + self.growing * math.exp(min(epsilon, 700.0))) * _UP

    def left(self, passes: int, delta: float, epsilon: float) -> float:
        """Return what of δ the charge at ε leaves for the profile, rounded down."""
        return (delta - self.charge(passes, epsilon)) / (self.factor**passes * _UP)

    def roughly(self, passes: int, delta: float) -> float:
        """Return roughly the ε, or infinity."""
        guess = 0.0
        for _ in range(3):
            left = self.left(passes, delta, guess)
            if left <= 0:
                return math.inf
            if passes == 1:
                guess = self.profile.guess(left)[0]
            else:
                guess = gaussian_guess(self.spread * math.sqrt(passes), left)[0]
        return guess

    def total(self, epsilon: float) -> float:
        """Return the δ of one pass at ε, rounded up."""
        return (self.factor * self.profile.delta(epsilon) + self.charge(1, epsilon)) * _UP

    def epsilon(self, passes: int, delta: float) -> float:
        """Return an ε at which δ and the charges are at most `delta` together; or infinity."""
        guess = self.roughly(passes, delta)
        return self._once(delta, guess) if passes == 1 else self._often(passes, delta, guess)

    def _once(self, delta: float, guess: float) -> float:
        if math.isinf(guess):
            return guess
        ceiling = 1.1 * guess
        if self.total(ceiling) > delta:  # the total falls and then rises
            ceiling = lowest(self.total, guess, max(4 * guess, 4.0), within=0.02 * guess)
            if self.total(ceiling) > delta:
                return math.inf
        slope = gaussian_guess(self.spread, delta)[1]
        return smallest_safe(self.total, delta, ceiling, min(guess, 0.99 * ceiling), slope, past=1e-7)

    def _often(self, passes: int, delta: float, guess: float) -> float:
        together = LossProfile((Round(self.profile, self.ceiling, passes),))
        best = math.inf
        for _ in range(8):
            left = self.left(passes, delta, guess)
            if left <= 0:
                break
            found = together.epsilon(left)
            if found <= guess:  # then the charge at what was found is at most the one that was made
                best = min(best, found)
                if found > 0.9999 * guess:
                    break
            guess = found * (1 + 1e-5)
        return best


def _clones(elements: Elements, log_ratio: float, *, family: Family) -> _Split:
    """Split by the paper's theorem on approximate DP, or the sharper one."""
    local_delta = gaussian_alone(1 / elements.far, log_ratio)
    pair = ClonePair(elements.number, log_ratio, family)
    if family == "clones":
        fixed = growing = (1 + math.exp(-log_ratio) / 2) * elements.number * local_delta
    else:
        growing = (elements.number - 1) * 2 * math.exp(-log_ratio) * local_delta
        fixed = growing + local_delta
    return _Split(pair, log_ratio, _spread(pair), fixed, growing, log_ratio, local_delta)


def _two_ratios(elements: Elements, log_ratio: float, *, log_near: float) -> _Split:
    """Split with p for the two reports of the victim, and q for those of any two elements."""
    log_near = min(log_near, log_ratio)
    local_delta = gaussian_alone(1 / elements.far, log_ratio)
    pair = RatioPair(elements.number, log_near, log_ratio)
    growing = (elements.number - 1) * 2 * math.exp(-log_ratio) * local_delta
    fixed = growing + gaussian_alone(1 / elements.near, log_near)
    return _Split(pair, log_near, _spread(pair), fixed, growing, log_ratio, local_delta)


def _spread(pair: ClonePair | RatioPair) -> float:
    return 2 * math.tanh(pair.local_epsilon / 2) / math.sqrt(pair.clone_probability * pair.reports)


def _gaussian_clones(elements: Elements, log_ratio: float, *, tail: float, passes: int) -> _Split:
    """Split by Theorem G: the victim's two reports as they are, and q for those of everybody else."""
    local_delta = gaussian_alone(1 / elements.around, log_ratio)
    deficit = local_delta * math.exp(-log_ratio)
    grown = (elements.number - 1) * deficit * _UP
    if grown * passes > _MOST_GROWN:
        return _Split(_NOBODY, FARTHEST, math.inf, math.inf, 0.0, log_ratio, local_delta)
    profile = GaussianClonesProfile(
        elements.number, elements.above, elements.below, log_ratio + math.log1p(deficit) * _UP, tail
    )
    fixed = _stray(elements, log_ratio) * math.exp(grown * passes)
    return _Split(profile, FARTHEST, profile.spread, fixed, 0.0, log_ratio, local_delta, math.exp(grown) * _UP)


def _stray(elements: Elements, log_ratio: float) -> float:
    """Return κ: how often the victim reports what some other element hardly ever does, rounded up."""
    nearest, around = max(elements.above, elements.below), elements.around
    point = around / 2 + nearest - log_ratio / around
    first, second = (0.5 * math.erfc(-place / math.sqrt(2)) for place in (point, point - around))
    slack = 2.0**-46 * (1 + log_ratio + nearest * around + point**2 + (point - around) ** 2)
    return max(0.0, first - math.exp(min(log_ratio - nearest * around, 700.0)) * second) + slack * first


def _rough(elements: Elements, split: Callable[[float], _Split], passes: int, delta: float) -> tuple[float, float]:
    """Return roughly the least ε of all q, and ln q there."""

    def roughly(point: float) -> float:
        return split(point).roughly(passes, delta)

    if elements.around > _FARTHEST_APART or elements.number < 2:
        return math.inf, 0.0
    top = min(elements.far * (elements.far / 2 + 14), FARTHEST / 2)
    points = [top * place / 64 for place in range(1, 65)]
    guesses = [roughly(point) for point in points]
    if math.isinf(min(guesses)):
        return math.inf, 0.0
    start, width = points[guesses.index(min(guesses))], top / 64
    start = lowest(roughly, max(start - width, 1e-3 * width), start + width, within=1e-3 * start)
    return roughly(start), start


def _best(
    name: str, elements: Elements, split: Callable[[float], _Split], *, passes: int, delta: float, limit: float
) -> Bound:
    """Return the bound for about the best q; infinite where that is hopeless beside the limit."""
    nothing = Bound(math.inf, name, elements.kind)
    guess, start = _rough(elements, split, passes, delta)
    if guess > _HOPELESS * limit:
        return nothing
    found = split(start).epsilon(passes, delta)
    for farther in _FARTHER if math.isinf(found) else ():  # with few clones, the rough formula hopes for too much
        found = split(start + farther).epsilon(passes, delta)
        if found < math.inf:
            start += farther
            break
    if passes == 1 and found < math.inf:
        reach, first = min(_POLISH, start / 4), found
        better = lowest(lambda point: split(point).total(first), start - reach, start + reach, within=reach / 8)
        again = split(better).epsilon(passes, delta)
        if again < found:
            start, found = better, again
    return Bound(found, name, elements.kind, start, split(start).local_delta) if found < FARTHEST else nothing


def _gaussian(elements: Elements, passes: int, delta: float) -> Callable[[float], _Split]:
    return partial(_gaussian_clones, elements, tail=_TAIL * delta / passes, passes=passes)


def _bounds_of(elements: Elements, passes: int, delta: float, limit: float) -> Iterator[Bound]:
    """Return what every theorem on shuffling says, in the order of the catalogue."""
    for row in THEOREMS.values():
        if row.proven and row.splits is not None:
            splits = row.splits(elements, passes, delta)
            yield min(_best(row.name, elements, split, passes=passes, delta=delta, limit=limit) for split in splits)


@lru_cache(maxsize=64)
def bounds(run: Run, delta: float) -> tuple[Bound, ...]:
    """Return what every theorem says, the smallest first."""
    found = [plain(run, delta)]
    for elements in _views(run):
        found += _bounds_of(elements, run.epochs, delta, found[0].epsilon)
    return tuple(sorted(found, key=lambda bound: bound.epsilon))


def quick(run: Run, delta: float) -> float:
    """Return the smaller ε of the plain bound and Theorem G with the examples as elements, one of which always wins."""
    found = plain(run, delta).epsilon
    for elements in _views(run):
        if elements.kind == "examples":
            found = min(found, next(_bounds_of(elements, run.epochs, delta, found)).epsilon)
    return found


def estimated(run: Run, delta: float) -> float:
    """Return roughly what `quick` does, in milliseconds; it is no guarantee."""
    found = plain(run, delta).epsilon
    for elements in _views(run):
        if elements.kind == "examples":
            found = min(found, _rough(elements, _gaussian(elements, run.epochs, delta), run.epochs, delta)[0])
    return found


def _two_ratio_splits(elements: Elements, passes: int, delta: float) -> Iterator[Callable[[float], _Split]]:
    for share in _OWN_SHARES:
        near = GaussianProfile(1, 1 / elements.near).alone(share * delta / passes)
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
        splits=lambda elements, passes, delta: (_gaussian(elements, passes, delta),),
        preference=1,
        proof="docs/theory/sgd.md, sections 3 and 4",
    ),
    TrainingBound(
        name="strong-clones",
        statement=(
            "Let any two of the n elements have δ_q at the ratio q. Then δ(ε) is at most that of the pair of Theorem S "
            "with ε₀ = ln q, plus (n − 1)·(2δ_q/q)·(1 + e^ε) + δ_q; q is chosen for the least ε."
        ),
        citation="the sharper theorem on approximate DP with the strong clones pair (docs/theory/approximate.md)",
        splits=lambda elements, passes, delta: (partial(_clones, elements, family="strong-clones"),),
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
        splits=lambda elements, passes, delta: (partial(_clones, elements, family="clones"),),
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
        name="plain",
        statement=(
            "An example is in one noised vector a pass, and moves its mean by D = 2C if it is replaced, C if it is "
            "zeroed, with C the clip norm. T passes are dominated by the Gaussian mechanism with μ = √T·D/deviation: "
            "δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)."
        ),
        citation="one Gaussian mechanism a pass (Balle and Wang, arXiv 1805.06530), whatever the order",
        assumptions=IN_ORDER,
        range="all runs, in any order",
        numerical=False,
        proof="docs/theory/sgd.md, section 2",
    ),
)
