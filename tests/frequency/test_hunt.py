"""One pair stands for every round of a hunt (Theorem H): compared with all outcomes, in fractions."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import shoal
from shoal.auditing import _tail
from shoal.frequency.hunt import Hunt, hunt
from shoal.pairs.cover_pair import covered_response
from shoal.randomizers.projective_geometry_response import points

Law = dict[tuple[int, ...], Fraction]
Round = Callable[[int], Law]


def _of(messages: list[Fraction], uniform: list[Fraction], slots: int, fill: Fraction) -> Law:
    """Return the law of the multiset of one message of the first kind and what fills the slots, symbol by symbol."""
    law: Law = {}
    covers = [(symbol, fill * chance) for symbol, chance in enumerate(uniform)] + [(-1, 1 - fill)]
    for own, chance in enumerate(messages):
        for drawn in itertools.product(covers, repeat=slots):
            view = tuple(sorted([own, *(symbol for symbol, _ in drawn)]))
            law[view] = law.get(view, Fraction(0)) + chance * math.prod((each for _, each in drawn), start=Fraction(1))
    return law


def _divergence(first: Law, second: Law, growth: Fraction) -> Fraction:
    return sum((max(first[each] - growth * second.get(each, Fraction(0)), Fraction(0)) for each in first), Fraction(0))


def _dominating(order: int, truth: Fraction, slots: int, fill: Fraction) -> tuple[Law, Law]:
    """Return the pair with Q + 1 categories: only whether a message says x, x′ or another matters."""
    share = Fraction(1, order + 1)
    uniform = [share, share, 1 - 2 * share]
    laws = []
    for own in (0, 1):
        messages = [truth * (symbol == own) + (1 - truth) * chance for symbol, chance in enumerate(uniform)]
        laws.append(_of(messages, uniform, slots, fill))
    return laws[0], laws[1]


def _geometry(order: int, dimension: int, truth: Fraction, slots: int, fill: Fraction) -> Round:
    """Return the law of a round over a geometry, given the point of the victim, from what the library's supports."""
    every = points(order, dimension)
    made = shoal.ProjectiveGeometryResponse(
        categories=every, local_epsilon=1, order=order, dimension=dimension, blocks=1
    )
    outputs = np.arange(every)
    uniform = [Fraction(1, every)] * every

    def law(value: int) -> Law:
        own = made.supports(outputs, np.full(every, value))
        messages = [truth * int(each) / int(own.sum()) + (1 - truth) / every for each in own]
        return _of(messages, uniform, slots, fill)

    return law


@pytest.mark.slow
@pytest.mark.parametrize("truth", [Fraction(1), Fraction(9, 10)])
@pytest.mark.parametrize(("slots", "fill"), [(1, Fraction(1)), (3, Fraction(1)), (3, Fraction(1, 2))])
def test_no_round_exceeds_the_pair_of_its_order(truth: Fraction, slots: int, fill: Fraction) -> None:
    first, second = _dominating(2, truth, slots, fill)
    line, plane = (_geometry(2, dimension, truth, slots, fill) for dimension in (2, 3))
    for growth in (Fraction(1), Fraction(3, 2), Fraction(3)):
        bound = _divergence(first, second, growth)
        assert _divergence(second, first, growth) == bound
        for x, y in itertools.permutations(range(3), 2):  # a line has as many points as the pair has categories
            assert _divergence(line(x), line(y), growth) == bound
        for x, y in [(0, 1), (1, 0), (0, 6), (3, 5)]:
            assert _divergence(plane(x), plane(y), growth) <= bound


@pytest.mark.slow
def test_lists_that_follow_from_earlier_results_cost_no_more_than_two_copies() -> None:
    truth, slots, fill = Fraction(9, 10), 2, Fraction(1)
    first, second = _dominating(2, truth, slots, fill)
    both = [
        {(view, more): law[view] * law[more] for view, more in itertools.product(law, law)} for law in (first, second)
    ]
    line, plane = (_geometry(2, dimension, truth, slots, fill) for dimension in (2, 3))
    laws: list[dict[object, Fraction]] = []
    for value in (1, 2):
        opening = line(value)
        joint: dict[object, Fraction] = {}
        for view, chance in opening.items():
            said = Counter(view).most_common(1)[0][0]  # the list of the next round is what was said most often
            space = plane if said == 1 else line
            later = space((said + value) % 3 if said != value else 0)  # 0 is "none of these"
            joint |= {(view, more): chance * each for more, each in later.items()}
        laws.append(joint)
    for growth in (Fraction(1), Fraction(3, 2), Fraction(4)):
        bound = _divergence(both[0], both[1], growth)  # type: ignore[arg-type]
        for one, other in (laws, laws[::-1]):
            assert _divergence(one, other, growth) <= bound  # type: ignore[arg-type]


def test_the_curve_is_that_of_copies_of_the_pair() -> None:
    """R = 2 copies with Q + 1 = 3 and three slots, from all outcomes: never below, and next to it."""
    plan = Hunt(people=3, bits=24, order=2)
    truth = Fraction(plan.to_dict()["truth"], 1 << 64)
    assert 0 <= truth - Fraction((1 << 16) - 1, 1 << 16) < Fraction(1, 1 << 50)
    first, second = _dominating(2, truth, 3, Fraction(1))
    for epsilon in (0.5, 1.5, 3.0):
        growth = Fraction(math.exp(epsilon))
        exact = sum(
            (max(first[a] * first[b] - growth * second[a] * second[b], Fraction(0)) for a in first for b in first),
            Fraction(0),
        )
        assert exact * (1 - Fraction(1, 10**9)) <= plan.curve.delta(epsilon) <= exact * (1 + Fraction(1, 500))


@pytest.mark.slow
def test_the_composed_epsilon_is_that_of_as_many_pairs() -> None:
    plan = hunt(people=1_000_000, epsilon=1)
    assert (plan.order, plan.rounds, plan.depths) == (5531, 5, (16, 24, 32, 40, 48))  # N/μ = 10⁶/180.5
    truth = Fraction(plan.to_dict()["truth"], 1 << 64)
    pair = covered_response(10**6, 1.0, outputs=5532, supporting=1, common=0, truth=truth)
    assert pair.delta(0.4) == plan.of_round.delta(0.4)
    assert plan.curve.epsilon(1e-6) == shoal.compose([plan.of_round] * 5).epsilon(1e-6) <= 1
    assert Hunt(people=10**6, order=5557).curve.epsilon(1e-6) > 1  # two primes further
    assert hunt(people=1_000_000, epsilon=1, covers=0.2).order == 1103
    proof = plan.curve.certify(delta=1e-6)
    assert proof.verify()
    assert proof.epsilon == pytest.approx(plan.curve.epsilon(1e-6), rel=1e-3)


@pytest.mark.parametrize("listed", [1, 5, 31, 100, 4000])
def test_the_mechanism_of_a_round_tells_no_more_truth_and_has_a_smaller_delta(listed: int) -> None:
    plan = Hunt(people=3000, order=31)
    made = plan.of_list(listed)
    assert made.categories == listed + 1
    assert made.truth <= plan.mechanism.truth
    assert float(plan.mechanism.truth - made.truth) < 1e-12
    assert float(1 / made.design.share) <= plan.order + 1
    ours, bound = shoal.amplify(made, reports=3000), plan.of_round
    for epsilon in (0.1, 0.5, 1.0):
        assert ours.delta(epsilon) <= bound.delta(epsilon) * (1 + 1e-9)


def test_a_ledger_charges_every_round() -> None:
    plan = hunt(people=50_000, epsilon=1, bits=24)
    ledger = shoal.Ledger()
    for depth in plan.depths:
        ledger.record(plan.of_round, label=f"{depth} bits")
    assert ledger.spent(1e-6) == pytest.approx(plan.curve.epsilon(1e-6), rel=1e-9)


@pytest.mark.slow
def test_false_alarms_are_as_frequent_as_stated() -> None:
    """By the mean of 200 runs, since they come in clusters; 4 of its standard errors are exceeded once in 12,000."""
    plan = Hunt(people=20_000, order=101, deviations=3)
    made, coins = plan.of_list(9000), shoal.Simulation(seed=3)
    limit = plan.deviations * plan.error(20_000, 9000)
    above = []
    for _ in range(200):
        estimate = made.estimate_messages(made.randomize(np.zeros(20_000, np.int64), simulation=coins))
        above.append(np.mean(20_000 * estimate.frequencies[1:] > limit))
    stated = plan.false_alarm(20_000, 9000)
    assert stated == pytest.approx(0.00161, abs=1e-5)  # 0.00135 if counts were normal
    assert abs(np.mean(above) - stated) < 4 * np.std(above, ddof=1) / math.sqrt(200) < 0.3 * stated


@pytest.mark.parametrize("people", [20_000, 10**6, 10**10])
def test_false_alarms_are_those_of_a_binomial_number(people: int) -> None:
    """Never below the tail that is summed term by term, and at most 1e-4 above; scipy's is too small from 10¹⁰ on."""
    plan = Hunt(people=people, slots=2, order=661)
    mechanism = plan.of_list(9000)
    covers = round(people * plan.slots * plan.fill)
    mean = people * mechanism.moments.same[0] + covers * float(mechanism.design.share)
    limit = math.floor(mean + plan.deviations * plan.error(people, 9000) * mechanism.moments.scale)
    share = mean / (people + covers)
    exact = _tail(limit + 1, people + covers, share, 1 - share) * (1 - 2e-9)
    assert 1e-8 < exact <= plan.false_alarm(people, 9000) <= exact * (1 + 1e-4)


def test_plans_that_cannot_be_are_refused() -> None:
    with pytest.raises(shoal.UnreachableError, match="too few"):
        hunt(people=100, epsilon=0.1)
    for wrong in ({"bits": 20}, {"bits": 28}, {"first": 24, "bits": 16}, {"order": 6}, {"order": 65_537}, {"step": 5}):
        with pytest.raises(shoal.ParameterError):
            Hunt(**({"people": 10, "order": 5} | wrong))
    assert repr(Hunt(people=1000, bits=16, order=5)).startswith("Hunt(1 round of 1,000 people, order 5")
    assert "next to nothing" in Hunt(people=1000, order=5).remains
