"""Signed messages with a flood, Theorem F: against all outcomes in fractions, golden values, absent people."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

from shoal.errors import ParameterError
from shoal.evaluators.flood import Flood

Law = dict[tuple[int, int], Fraction]
"""How likely so many messages "+1" and "−1" of one category are."""


def _root(value: Fraction, degree: int) -> Fraction:
    """Return the root of a fraction that has one."""
    numerator, denominator = (round(part ** (1 / degree)) for part in (value.numerator, value.denominator))
    assert Fraction(numerator, denominator) ** degree == value
    return Fraction(numerator, denominator)


def _share(shape: Fraction, growth: Fraction, most: int) -> list[Fraction]:
    """Return NB(shape, growth) up to a number, exactly; 1 − growth must have a root of the degree that is needed."""
    masses = [_root(1 - growth, shape.denominator) ** shape.numerator]
    for k in range(most):
        masses.append(masses[-1] * growth * (shape + k) / (k + 1))
    return masses


def _convolved(first: list[Fraction], second: list[Fraction]) -> list[Fraction]:
    return [sum((first[i] * second[k - i] for i in range(k + 1)), Fraction(0)) for k in range(len(first))]


def _people(shares: int, of: int, shape: int, growth: Fraction, most: int) -> list[Fraction]:
    """Return the sum of what so many people add, each NB(shape/of, growth), share by share."""
    total = [Fraction(1), *[Fraction(0)] * most]
    for _ in range(shares):
        total = _convolved(total, _share(Fraction(shape, of), growth, most))
    return total


def _law(geometric: list[Fraction], pairs: list[Fraction], own: int) -> Law:
    """Return the law of a category that so many people have: U = own + Z₊ + F and V = Z₋ + F, outcome by outcome."""
    law: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for up, down, pair in product(range(len(geometric)), range(len(geometric)), range(len(pairs))):
        if max(up, down) + pair < len(geometric):  # all that lead to these counts are listed
            law[own + up + pair, down + pair] += geometric[up] * geometric[down] * pairs[pair]
    return dict(law)


def _seen(laws: tuple[Law, ...]) -> dict[tuple[tuple[int, int], ...], Fraction]:
    """Return the law of all categories together."""
    seen: dict[tuple[tuple[int, int], ...], Fraction] = {(): Fraction(1)}
    for law in laws:
        seen = {(*before, each): p * q for before, p in seen.items() for each, q in law.items()}
    return seen


def _delta(people: int, honest: int, growth: Fraction, *, shape: int, most: int, factor: Fraction) -> list[Fraction]:
    """Return δ of all outcomes that are listed, and how likely the others are: n people, of whom some add no noise."""
    geometric = _people(honest, people, 1, growth, most)
    pairs = _people(honest, people, shape, growth, most)
    has, lacks = (_law(geometric, pairs, own) for own in (1, 0))
    first, second = _seen((has, lacks)), _seen((lacks, has))
    told = sum((max(Fraction(0), p - factor * second.get(view, Fraction(0))) for view, p in first.items()), Fraction(0))
    # What is not listed of the second world makes the first one look as if it told more, and by no more than that.
    return [told - factor * (1 - sum(second.values())), told + 1 - sum(first.values())]


@pytest.mark.parametrize(("people", "growth"), [(1, Fraction(1, 2)), (2, Fraction(5, 9)), (3, Fraction(19, 27))])
def test_the_noise_of_all_people_is_that_of_the_lemma(people: int, growth: Fraction) -> None:
    """Equality in fractions, share by share: a^|u − v|·g(min(u, v)), g(w) = a²·g(w − 1) + (1 − a)²·Pr(F = w)."""
    most, shape = 9, 2
    pairs = _people(people, people, shape, growth, most)
    law = _law(_people(people, people, 1, growth, most), pairs, 0)
    level, levels = Fraction(0), []
    for w in range(most + 1):
        level = growth**2 * level + (1 - growth) ** 2 * pairs[w]
        levels.append(level)
    assert all(p == growth ** abs(u - v) * levels[min(u, v)] for (u, v), p in law.items())
    assert len(law) == (most + 1) ** 2


@pytest.mark.slow
@pytest.mark.parametrize("factor", [Fraction(1), Fraction(3, 2), Fraction(3)])
@pytest.mark.parametrize(
    ("people", "growth", "shape", "most"),
    [(1, Fraction(1, 3), 1, 14), (1, Fraction(1, 4), 3, 12), (2, Fraction(5, 9), 2, 15)],
)
def test_delta_is_that_of_all_outcomes(people: int, growth: Fraction, shape: int, most: int, factor: Fraction) -> None:
    low, high = Flood(float(growth), float(shape), float(growth)).delta_bracket(math.log(factor))
    least, most_told = _delta(people, people, growth, shape=shape, most=most, factor=factor)
    assert least <= high * (1 + 1e-12) and low <= most_told * (1 + 1e-12)
    assert high <= float(most_told) + 1e-12 and float(most_told - least) < 0.05


@pytest.mark.slow
def test_shares_that_are_missing_are_caught() -> None:
    """Of two people for whom the noise was made one is absent: what is told is more than what two promise."""
    growth, factor = Fraction(5, 9), Fraction(3)
    promised = Flood(float(growth), 2.0, float(growth)).delta(math.log(factor))
    told, _ = _delta(2, 1, growth, shape=2, most=12, factor=factor)
    assert told > 1.2 * promised


def test_more_people_than_the_noise_was_made_for_hide_more() -> None:
    """With a shape of 1.5 in place of 1 for all noise, computed from the outcomes of one category."""
    a, r, p, epsilon = 0.6, 3.0, 0.5, 1.0
    size = 90

    def masses(shape: float, growth: float) -> np.ndarray:
        counts = np.arange(size - 1)
        ratios = growth * (counts + shape) / (counts + 1)
        return np.asarray((1 - growth) ** shape * np.concatenate([[1.0], np.cumprod(ratios)]))

    def law(part: float) -> np.ndarray:
        each, pairs = masses(part, a), masses(r * part, p)
        result = np.zeros((size, size))
        for count in range(size):
            result[count:, count:] += pairs[count] * np.outer(each[: size - count], each[: size - count])
        return result

    def delta(part: float) -> float:
        noise = law(part)
        ups = noise[:-1, :].ravel(), noise[1:, :].ravel()  # the category that the person has, and without them
        ratio = np.log(np.maximum(ups[0], 1e-300) / np.maximum(ups[1], 1e-300))
        order = np.argsort(ratio)
        here, there = np.cumsum(ups[0][order][::-1]), np.cumsum(ups[1][order][::-1])
        lacking = (
            np.concatenate([noise[:1].ravel(), noise[1:].ravel()]),
            np.concatenate([np.zeros(size), noise[:-1].ravel()]),
        )
        with np.errstate(divide="ignore"):
            other = np.log(lacking[0]) - np.log(lacking[1])
        reach = np.searchsorted(-ratio[order][::-1], -(epsilon - other))
        padded = np.concatenate([[0.0], here]), np.concatenate([[0.0], there])
        gain = lacking[0] * padded[0][reach] - math.exp(epsilon) * lacking[1] * padded[1][reach]
        return float(gain.sum())

    assert delta(1.0) == pytest.approx(Flood(a, r, p).delta(epsilon), rel=1e-6)
    assert delta(1.5) < 0.9 * delta(1.0) and delta(0.5) > 1.2 * delta(1.0)


@pytest.mark.parametrize(
    ("flood", "epsilon", "golden", "digits"),
    [
        (Flood.of_mean(decay=math.exp(-0.2), shape=20, pairs=500), 0.5, 2.9483028e-9, 8),
        (Flood.of_mean(decay=0.79661145, shape=14, pairs=536), 0.5, 9.895932e-7, 7),
        (Flood(0.6, 3.0, 0.5), 1.4, 0.0625040, 6),
    ],
)
def test_golden_values(flood: Flood, epsilon: float, golden: float, digits: int) -> None:
    """To all digits that they were computed with; from both sides to nine digits, and never below the sum in balls."""
    low, high = flood.delta_bracket(epsilon)
    assert f"{high:.{digits - 1}e}" == f"{golden:.{digits - 1}e}"
    assert low <= high <= low * (1 + 1e-9)
    exact = _in_balls(flood, epsilon)
    assert low <= exact.upper() and exact <= high
    assert flood.guess(epsilon) == pytest.approx(high, rel=1e-6)


def _in_balls(flood: Flood, epsilon: float):  # type: ignore[no-untyped-def]
    """Return δ(ε) as a ball of 200 bits, by the sum over both lists; what is beyond them is left out."""
    from flint import arb, ctx

    with ctx.workprec(200):
        a, p, r, factor = arb(flood.decay), arb(flood.growth), arb(flood.shape), arb(epsilon).exp()
        likely, level, levels = (1 - p) ** r, arb(0), []
        for count in range(flood._size):
            level = a * a * level + (1 - a) ** 2 * likely
            levels.append(level)
            likely = likely * p * (r + count) / (count + 1)
        first = [(1 / (1 + a), a / (1 + a))]
        first += [(a * now / (1 - a), then / (1 - a)) for now, then in pairwise(levels)]
        second = [(a / (1 + a), 1 / (1 + a)), (levels[0] / (1 - a), arb(0))]
        second += [(then / (1 - a), a * now / (1 - a)) for now, then in pairwise(levels)]
        second.sort(key=lambda each: -float(each[0] / each[1]) if each[1] > 0 else -math.inf)
        here, there = [arb(0)], [arb(0)]
        for p_, q_ in second:
            here.append(here[-1] + p_)
            there.append(there[-1] + q_)
        ratios = [float(p_ / q_) if q_ > 0 else math.inf for p_, q_ in second]
        ordered = -np.array(ratios)
        total = arb(0)
        for p_, q_ in first:
            index = int(np.searchsorted(ordered, -float(factor * q_ / p_)))
            total += p_ * here[index] - factor * q_ * there[index]
        return total


def test_delta_falls_with_epsilon_and_with_pairs() -> None:
    flood = Flood.of_mean(decay=0.8, shape=9, pairs=200)
    deltas = [flood.delta(epsilon) for epsilon in (0.0, 0.2, 0.5, 1.0, 3.0, 50.0)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] >= (1 - flood.growth) ** 9 * (1 - flood.decay) * 0.999  # without pairs, u = 0 tells
    more = [Flood.of_mean(decay=0.8, shape=9, pairs=pairs).delta(0.5) for pairs in (20, 50, 200, 900)]
    assert more == sorted(more, reverse=True)


def test_a_share_is_a_burst() -> None:
    """At n = 10⁵ a share is empty with probability 0.9995, and else ten messages on average, 789 at most."""
    flood = Flood.of_mean(decay=0.79661145, shape=14, pairs=536)
    empty = (1 - flood.growth) ** (14 / 1e5)
    assert empty == pytest.approx(0.9995, abs=5e-5)
    assert flood.pairs / 1e5 / (1 - empty) == pytest.approx(10, abs=0.6)
    assert flood.burst(10**5, 1e-9) == pytest.approx(790, abs=1)
    shape = 14 / 1e5
    for limit, enough in ((789, True), (700, False)):
        counts = np.arange(1, 6000)
        logs = shape * math.log1p(-flood.growth) + np.cumsum(np.log(flood.growth * (counts - 1 + shape) / counts))
        assert (1e5 * float(np.exp(logs[limit:]).sum()) <= 1e-9) is enough


@pytest.mark.parametrize("people", [1, 2, 5, 13, 20, 1000])
def test_bursts_of_few_people_hold_although_their_probabilities_rise_first(people: int) -> None:
    flood = Flood.of_mean(decay=0.6, shape=14, pairs=300)
    shape, limit = flood.shape / people, flood.burst(people, 1e-7)
    exceeded = people * stats.nbinom.sf(limit, shape, 1 - flood.growth)
    assert exceeded <= 1e-7 < people * stats.nbinom.sf(0.98 * limit - 2, shape, 1 - flood.growth)
    assert flood.burst(people, 1e-320) > limit  # and a part of the least δ is no double


@pytest.mark.parametrize("numbers", [(0.0, 1.0, 0.5), (0.5, 0.0, 0.5), (0.5, 1.0, 1.0), (0.5, 1e6, 0.5)])
def test_what_is_no_flood_is_refused(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(ParameterError):
        Flood(*numbers)
