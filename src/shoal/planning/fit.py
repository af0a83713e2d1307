"""The fit of a mechanism to a guarantee: its best design, and the largest ε₀ that this design may have.

For covers and dummies it is the fewest covers over the best design, and the least noise.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from shoal.amplification.amplify import amplify
from shoal.calibration.largest import largest_local_epsilon, likely_private, varied
from shoal.calibration.target import Target, gaussian_spread, telling
from shoal.checks import MOST_REPORTS
from shoal.composition.budget import Budget
from shoal.digits import rounded_up
from shoal.errors import UnreachableError
from shoal.mechanisms import (
    Bundled,
    Categorical,
    Covered,
    Design,
    Dummies,
    Indexed,
    ProjectiveGeometryResponse,
    RandomizedResponse,
)
from shoal.mechanisms.coins import logarithm_above
from shoal.mechanisms.dummies import decay_of
from shoal.pairs.discrete_laplace import DECAYS, MOST_LIMIT, DummyPair
from shoal.pairs.registry import REGISTRY
from shoal.searches import bisect_count, bisect_safe

_TRIED = 3
"""How many designs of a mechanism have their ε₀ guessed, after all were compared by a formula."""
_WITHIN, _OF_ROUNDS = 1e-7, 5e-4
"""How close to the fewest covers, or the least noise, relatively; and for several rounds."""
_STEP, _ROUGHLY, _MANY = 1.06, 2e-3, 1000
"""How far a search goes first, how close a guess is to be, and how many categories are many."""
_TRUTH = Fraction((1 << 16) - 1, 1 << 16)
"""How often a response over a design tells the truth: nearly always, and no loss is infinite."""
_MOST_SLOTS = 64
"""The most covers of a person."""
_LEFT = 4.0
"""Of δ, one part in so many goes to infinite losses of dummies, if there are several rounds."""


@dataclass(frozen=True)
class Question:
    """What is asked of each mechanism."""

    categories: int  # categories, reports, rounds: k, n, and how many rounds there are
    reports: int
    rounds: int
    target: Target  # what all rounds together must keep
    local_epsilon: float  # the most that a report by itself may have; infinite if there is no limit
    messages: int = 1  # how many messages a person may send
    dummies: bool = False  # whether the shuffler may add dummies

    @property
    def kinds(self) -> list[type[Categorical]]:
        """The mechanisms to try, the simpler ones first."""
        kinds = planned()
        if self.messages > 1:
            kinds.append(Covered)
        if self.dummies:
            kinds.append(Dummies)
        return kinds

    def likely(self, kind: type[Categorical]) -> Categorical | None:
        """Return a mechanism with about its largest ε₀ and its best design, or nothing where it can't be decoded fast.

        A single round is guessed within about 0.1 % of ε₀, and many within 2 %.
        """
        if issubclass(kind, Bundled):
            return likely_covers(self, self.messages - 1) if kind is Covered else likely_dummies(self)
        options = [
            likely_private(given, self.target, reports=self.reports, rounds=self.rounds, most=self.local_epsilon)
            for given in self._candidates(kind)
        ]
        return min(options, key=self.error, default=None)

    def largest(self, guess: Categorical, *, tolerance: float) -> Categorical:
        """Return the mechanism with the largest ε₀ that keeps the target, within the tolerance; covers as they are."""
        if not guess.private_alone:
            return guess
        other = varied(guess)
        local = largest_local_epsilon(
            lambda value: amplify(other(value), reports=self.reports),
            lambda value: telling(other(value)),
            self.target,
            reports=self.reports,
            rounds=self.rounds,
            tolerance=tolerance,
            start=guess.local_epsilon,
            most=self.local_epsilon,
        )
        if local is None:
            rounds = "round" if self.rounds == 1 else f"{self.rounds:,} rounds"
            raise UnreachableError(
                f"the ledger has spent epsilon={rounded_up(self.target.spent)} of {self.target.epsilon!r}: the rest "
                f"allows no {rounds} of {self.reports:,} reports"
            )
        return other(local)

    def error(self, mechanism: Categorical) -> float:
        """Return the expected ℓ₂ error of all frequencies together in one round, where all are equal."""
        return math.sqrt(float(mechanism.variance(reports=self.reports).sum()))

    def at(self, epsilon: float) -> "Question":
        """Return the same question about another ε, with nothing spent before."""
        return replace(self, target=Target(Budget(epsilon, self.target.delta, planned=True)))

    def enough(self, mechanism: Categorical) -> int | None:
        """Return about how many reports make the average error of a rare category that of a uniform one, 1/k."""
        if not mechanism.private_alone:
            return None

        def wide(logarithm: float) -> float:
            count = max(2, round(math.exp(logarithm)))
            made = likely_private(mechanism, self.target, reports=count, rounds=self.rounds, most=self.local_epsilon)
            error = math.sqrt(made.rare_variance / count / self.rounds)
            return error * self.categories - 1

        most = math.log(MOST_REPORTS)
        if wide(most) > 0:
            return None
        enough = bisect_safe(lambda value: wide(value) <= 0, unsafe=math.log(self.reports), good=most, within=0.01)
        return int(float(rounded_up(math.exp(enough), 2)))

    def _candidates(self, kind: type[Categorical]) -> list[Categorical]:
        """Return a mechanism with the designs that are likely the best, the first of them first."""
        spread = self.reports * _room(self.target) / self.rounds / 2

        def error(pair: tuple[dict[str, int], Design | None]) -> float:
            design = pair[1]
            return 0.0 if design is None else _screened(design, self.categories, spread, self.local_epsilon)

        chosen = sorted(kind.designs(self.categories), key=error)[:_TRIED]
        return [kind(categories=self.categories, local_epsilon=1.0, **parameters) for parameters, _ in chosen]


def _room(target: Target) -> float:
    """Return the squared shift of Gaussian noise that a target has left, as if all losses were normal."""
    room = gaussian_spread(target.epsilon, target.delta) ** 2 - target.spent_shift**2
    return max(room, 1e-300)


def planned() -> list[type[Categorical]]:
    """Return the mechanisms to try, the simpler ones first."""
    rows = [(row.planned, row.name, row.kind) for row in REGISTRY.values() if row.planned is not None]
    return [kind for _, _, kind in sorted(rows, key=lambda row: row[:2])]


def _screened(design: Design, categories: int, spread: float, local_epsilon: float) -> float:
    """Return n times the expected squared error of a design, where W has twice this variance.

    That is λ²(1 − κ)/((1 − λ)ρ) = `spread`, and so a normal distribution would have the guarantee.
    """
    share = spread * design.supporting / design.outputs / (1 - _overlap(design))
    likely = 2 / (1 + math.sqrt(1 + 4 / share))
    truth = min(likely, design.truth(min(local_epsilon, 30.0)))
    return design.error_at(truth, categories)


def likely_covers(asked: Question, slots: int) -> Covered | None:
    """Return covers with the fewest of them that keep the target, over the design with the least error; or nothing."""
    mean = _mean(asked)
    if mean == math.inf:
        return None
    made: list[Covered] = []
    for response, covers in _responses(asked, slots, mean):
        start = Covered(categories=asked.categories, slots=slots, fill=1, response=response)
        filled = _filled(asked, start, covers / (asked.reports * slots))
        if filled is not None:
            made.append(filled)
    return min(made, key=asked.error, default=None)


def likely_plain_covers(asked: Question) -> Covered | None:
    """Return the fewest covers of the categories themselves that keep the target, in as few slots as hold them."""
    needed = _mean(asked) * asked.categories / asked.reports  # by each person
    slots = 1
    while slots <= _MOST_SLOTS:
        full = Covered(categories=asked.categories, slots=slots, fill=1)
        made = _filled(asked, full, needed / slots) if needed < slots else None
        if made is not None:
            return made
        slots *= 2
    return None


def _mean(asked: Question) -> float:
    """Return about how many covers a category needs, if there are many categories; at first, as if losses were normal.

    Infinite if no number of people that can be asked about has enough of them, as where δ is next to no double.

    It grows with a larger ε to more than that: by 4 % at ½, and 19 % at 1.
    """
    start = math.log(2 * asked.rounds / _room(asked.target))
    many = Covered(categories=_MANY, fill=1)

    def kept(logarithm: float) -> bool:
        people = max(1, round(_MANY * math.exp(logarithm)))
        if people > MOST_REPORTS:
            return False
        return asked.target.excess(amplify(many, reports=people), asked.rounds) <= 0

    good = start
    step = math.log(_STEP)
    while not kept(good):
        if good > math.log(MOST_REPORTS / _MANY):
            return math.inf
        good += step
        step *= 2
    return math.exp(bisect_safe(kept, unsafe=good - step, good=good, within=_ROUGHLY))


def _responses(asked: Question, slots: int, mean: float) -> Iterator[tuple[Indexed | None, float]]:
    """Yield responses to try, each with about how many covers it needs."""
    categories = asked.categories
    local_epsilon = asked.local_epsilon
    if local_epsilon == math.inf:
        yield None, mean * categories
    else:
        yield RandomizedResponse(categories=categories, local_epsilon=local_epsilon), mean * categories
    designs = list(ProjectiveGeometryResponse.designs(categories))
    errors = [_error(design, asked, slots, mean) for _, design in designs]
    least = min(errors, default=math.inf)
    if least < math.inf:
        parameters, design = designs[errors.index(least)]
        local = min(local_epsilon, logarithm_above(1 + _TRUTH / (1 - _TRUTH) / design.share))
        response = ProjectiveGeometryResponse(categories=categories, local_epsilon=local, **parameters)
        yield response, _covers(design, mean)


def _overlap(design: Design) -> float:
    """Return how much of what supports one category supports another one that is the easiest to tell from it."""
    return design.least_common / design.supporting


def _covers(design: Design, mean: float) -> float:
    """Return about how many covers a design needs, if one of many plain categories needs `mean`."""
    return mean * (1 - _overlap(design)) / float(design.share)


def _error(design: Design, asked: Question, slots: int, mean: float) -> float:
    """Return the expected squared error of all counts together of a design, roughly; infinite with too few covers."""
    covers = _covers(design, mean)
    if covers > 0.99 * asked.reports * slots:
        return math.inf
    moments = design.moments(1.0)
    constant, slope = moments.line(1 / design.blocks)
    own = asked.reports * (asked.categories * float(constant) + slope)
    of_cover = moments.spread((float(design.share), 1 / design.blocks)) / moments.scale**2
    return own + asked.categories * covers * of_cover


def _filled(asked: Question, full: Covered, guess: float) -> Covered | None:
    """Return the mechanism with the least fill that keeps the target; nothing if full slots are too few."""

    def kept(logarithm: float) -> bool:
        return _keeps(asked, replace(full, fill=math.exp(min(logarithm, 0.0))))

    good = min(0.0, math.log(guess) + 2 * _ROUGHLY)
    while not kept(good):
        if good == 0:
            return None
        good = min(0.0, good + math.log(_STEP))
    step = 4 * _ROUGHLY
    unsafe = good - step
    while unsafe > -20 and kept(unsafe):
        step *= 2
        good = unsafe
        unsafe = good - step
    within = _WITHIN if asked.target.single(asked.rounds) else _OF_ROUNDS
    return replace(full, fill=math.exp(bisect_safe(kept, unsafe=unsafe, good=good, within=within)))


def _keeps(asked: Question, mechanism: Bundled) -> bool:
    return asked.target.excess(amplify(mechanism, reports=asked.reports), asked.rounds) <= 0


def likely_dummies(asked: Question) -> Dummies | None:
    """Return dummies with the least noise that keep the target; nothing where a message alone must have an ε₀."""
    target = asked.target
    rounds = asked.rounds
    single = target.single(rounds)

    def made(epsilon: float) -> Dummies | None:
        limit = _least_limit(epsilon, target.delta if single else target.delta / (_LEFT * rounds))
        return None if limit is None else Dummies(categories=asked.categories, epsilon=epsilon, limit=limit)

    if asked.local_epsilon < math.inf:
        return None
    if single:
        return made(target.epsilon)

    def kept(epsilon: float) -> bool:
        mechanism = made(epsilon)
        return mechanism is not None and _keeps(asked, mechanism)

    good = (target.epsilon - target.spent) / rounds
    while not kept(good):
        good /= 2
        if good < 1e-9:
            return None
    unsafe = 2 * good
    while unsafe < target.epsilon and kept(unsafe):
        good = unsafe
        unsafe = 2 * good
    return made(bisect_safe(kept, unsafe=unsafe, good=good, relative=_OF_ROUNDS))


def _least_limit(epsilon: float, delta: float) -> int | None:
    """Return the least t with which an infinite loss has at most the probability δ; nothing if it is too large.

    It is guessed in floating point, and settled with whole numbers, of which a large t has very large ones.
    """
    decay = decay_of(epsilon)
    if decay == DECAYS:
        return None
    step = (DECAYS - decay) / DECAYS
    logarithm = math.log1p(-step) if 2 * decay > DECAYS else math.log(decay / DECAYS)

    def likely(limit: int) -> bool:
        total = -2 * math.expm1((limit + 1) * logarithm) - step
        end = math.exp(limit * logarithm) * step / total  # Pr(Z = t)
        return end * (2 - end) <= delta

    def enough(limit: int) -> bool:
        return DummyPair(decay, limit).unhidden_bracket[1] <= delta

    if not likely(MOST_LIMIT):
        return None
    limit = bisect_count(likely, unsafe=0, good=MOST_LIMIT)
    while limit > 1 and enough(limit - 1):
        limit -= 1
    while limit <= MOST_LIMIT and not enough(limit):
        limit += 1
    return limit if limit <= MOST_LIMIT else None
