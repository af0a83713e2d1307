"""Rounds chosen in view of earlier outputs: privacy losses do not add up, and the Rényi filter holds."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache

import pytest

import shoal
from shoal.composition.budget import filter_order, filtered
from shoal.composition.composition_method import Round

Outcomes = tuple[tuple[Fraction, Fraction], ...]


def strong_pair(reports: int, local: Fraction) -> Outcomes:
    """Return the masses (P, Q) of all outcomes of the strong clones, exactly; `local` is e^ε₀."""
    clone, truth = 2 / (local + 1), local / (local + 1)
    distributions: dict[tuple[int, int], list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for clones in range(reports):
        probability = math.comb(reports - 1, clones) * clone**clones * (1 - clone) ** (reports - 1 - clones)
        for ours in range(clones + 1):
            mass = probability * math.comb(clones, ours) / 2**clones
            for first, second, weight in ((1, 0, truth), (0, 1, 1 - truth)):
                distributions[ours + first, clones - ours + second][0] += mass * weight
                distributions[ours + second, clones - ours + first][1] += mass * weight
    assert sum(one for one, _ in distributions.values()) == sum(two for _, two in distributions.values()) == 1
    merged: dict[Fraction, Fraction] = defaultdict(Fraction)
    for one, two in distributions.values():
        merged[two / one] += one
    return tuple((one, one * ratio) for ratio, one in merged.items())


def hockey_stick(pair: Outcomes, growth: Fraction) -> Fraction:
    """Return Σ (P − λQ)₊."""
    return sum((max(one - growth * two, Fraction(0)) for one, two in pair), Fraction(0))


def test_losses_do_not_add_up_if_parameters_are_chosen() -> None:
    first, growth = strong_pair(1, Fraction(4, 3)), Fraction(3, 2)
    alone, crowd = strong_pair(1, Fraction(2)), strong_pair(10, Fraction(9, 2))
    # Their curves cross: after one outcome of the first round the one harms more, after the other the other.
    after = {two / one: (one, growth * two / one) for one, two in first}
    assert sorted(after) == [Fraction(3, 4), Fraction(4, 3)]
    harms = {ratio: (hockey_stick(alone, level), hockey_stick(crowd, level)) for ratio, (_, level) in after.items()}
    assert harms[Fraction(3, 4)][0] > harms[Fraction(3, 4)][1]
    assert harms[Fraction(4, 3)][0] < harms[Fraction(4, 3)][1]

    fixed = [sum(one * harms[ratio][which] for ratio, (one, _) in after.items()) for which in (0, 1)]
    chosen = sum(one * max(harms[ratio]) for ratio, (one, _) in after.items())
    assert [float(value) for value in fixed] == pytest.approx([0.1666667, 0.1652799], abs=1e-7)
    assert chosen > Fraction(6, 5) * max(fixed)

    # What the library says of the two fixed sequences is right, and no bound for the chooser.
    start = shoal.amplify(local_epsilon=math.log(4 / 3), reports=1)
    for value, reports, local in zip(fixed, (1, 10), (2.0, 4.5), strict=True):
        second = shoal.amplify(local_epsilon=math.log(local), reports=reports)
        said = shoal.compose([start, second]).delta(math.log(1.5))
        assert float(value) <= said * (1 + 1e-12)
        assert said <= float(value) * 1.01
        assert said < float(chosen)


def test_neither_does_the_optimal_theorem_hold_for_chosen_parameters() -> None:
    # The pairs that attain it: a coin of e^ε = 4/3, then one of e^ε = 2, or the truth with probability δ = 1/5.
    first, growth = strong_pair(1, Fraction(4, 3)), Fraction(3, 2)
    coin, truth = strong_pair(1, Fraction(2)), Fraction(1, 5)

    def told(level: Fraction) -> Fraction:
        return truth + (1 - truth) * max(1 - level, Fraction(0))

    harms = [(one, hockey_stick(coin, growth * two / one), told(growth * two / one)) for one, two in first]
    fixed = [sum(one * pair[which] for one, *pair in harms) for which in (0, 1)]
    assert fixed == [Fraction(1, 6), Fraction(1, 5)]
    assert sum(one * max(pair) for one, *pair in harms) == Fraction(53, 210) > max(fixed)


# Of each round: the number of reports and e^ε₀.
_KINDS = ((1, Fraction(2)), (4, Fraction(9, 2)), (2, Fraction(5, 4)))


def worst_chooser(budget: float, delta: float, rounds: int) -> tuple[float, int]:
    """Return the largest δ at ε = budget over all choosers whom the filter lets pass, and how far they get."""
    curves = [shoal.amplify(local_epsilon=math.log(local), reports=reports) for reports, local in _KINDS]
    pairs = [
        tuple((float(one), float(two / one)) for one, two in strong_pair(reports, local)) for reports, local in _KINDS
    ]

    @cache
    def allowed(counts: tuple[int, ...]) -> bool:
        parts = tuple(
            Round(c.profile, c.local_epsilon, number) for c, number in zip(curves, counts, strict=True) if number
        )
        return filtered(parts, epsilon=budget, delta=delta) <= budget

    longest = 0

    def worst(counts: tuple[int, ...], growth: float) -> float:
        nonlocal longest
        longest = max(longest, sum(counts))
        best = max(0.0, 1 - growth)
        if sum(counts) == rounds:
            return best
        for kind, pair in enumerate(pairs):
            after = tuple(number + (place == kind) for place, number in enumerate(counts))
            if allowed(after):
                best = max(best, math.fsum(one * worst(after, growth * ratio) for one, ratio in pair))
        return best

    return worst((0,) * len(_KINDS), math.exp(budget)), longest


@pytest.mark.parametrize(
    ("budget", "delta", "rounds"), [(0.8, 0.1, 4), (1.0, 0.2, 4), (1.5, 0.1, 4), (2.0, 0.1, 4), (2.0, 0.02, 5)]
)
def test_no_chooser_gets_past_the_filter(budget: float, delta: float, rounds: int) -> None:
    reached, longest = worst_chooser(budget, delta, rounds)
    assert longest == rounds
    assert 0.2 * delta < reached <= delta


@pytest.mark.slow
def test_the_order_depends_on_the_budget_alone() -> None:
    curve = shoal.amplify(local_epsilon=1, reports=1000)
    part = Round(curve.profile, curve.local_epsilon, 1)
    for epsilon, delta in ((0.3, 1e-6), (1.0, 1e-3)):
        assert filter_order(epsilon, delta) > 1
        costs = [filtered((part._replace(times=times),), epsilon=epsilon, delta=delta) for times in (1, 2, 5)]
        assert costs == sorted(costs)
        assert curve.epsilon(delta) <= costs[0]
