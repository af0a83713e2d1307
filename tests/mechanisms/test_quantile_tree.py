"""Trees: all outcomes in fractions, sums of counts with the least noise, errors, intervals, and when one is better."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.errors import ParameterError, UnreachableError
from shoal.estimation.distribution_estimate import TreeEstimate
from shoal.mechanisms import Simulation
from shoal.pairs import CoverPair, DummyPair
from shoal.pairs.discrete_laplace import DECAYS
from tests.exhaustive import amount, representative

Law = dict[tuple[int, ...], Fraction]

_DUMMIES = tuple(shoal.Dummies(categories=nodes, epsilon=0.5, limit=40) for nodes in (4, 16, 64))
_HELPERS = tuple(shoal.Dummies(categories=nodes, epsilon=1, limit=20, helpers=2) for nodes in (3, 6))
_COVERS = tuple(shoal.Covered(categories=nodes, slots=1, fill=nodes / 80) for nodes in (5, 15, 30))
_TREES = [shoal.QuantileTree(protocols=each, lower=-1, upper=3) for each in (_DUMMIES, _HELPERS, _COVERS)]
_IDS = ["dummies", "helpers", "covers"]


def _divergence(first: Law, second: Law, growth: Fraction) -> Fraction:
    return sum((max(Fraction(0), p - growth * second.get(each, Fraction(0))) for each, p in first.items()), Fraction(0))


def _together(depths: list[Law]) -> Law:
    law: Law = {(): Fraction(1)}
    for each in depths:
        law = {(*before, *seen): p * q for before, p in law.items() for seen, q in each.items()}
    return law


def _of_dummies(counts: list[int], decay: Fraction, limit: int) -> Law:
    """Return the law of the counts of one depth."""
    powers = {z: decay ** abs(z) for z in range(-limit, limit + 1)}
    law: Law = {(): Fraction(1)}
    for count in counts:
        law = {
            (*seen, count + limit + z): chance * power / sum(powers.values())
            for seen, chance in law.items()
            for z, power in powers.items()
        }
    return law


def _of_covers(counts: list[int], slots: int, fill: Fraction) -> Law:
    law: Law = {tuple(counts): Fraction(1)}
    for _ in range(slots):
        more: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for seen, chance in law.items():
            more[seen] += chance * (1 - fill)
            for node in range(len(seen)):
                more[*seen[:node], seen[node] + 1, *seen[node + 1 :]] += chance * fill / len(seen)
        law = dict(more)
    return law


def _counted(leaves: tuple[int, ...], nodes: int, of: int) -> list[int]:
    counts = [0] * nodes
    for leaf in leaves:
        counts[leaf * nodes // of] += 1
    return counts


def _several_dummies(decay: Fraction, limit: int, depths: int, growth: Fraction) -> Fraction:
    """Return δ of the theorem: 1 − (1 − e)^2d + v^2d·Σ C(2d, K)·a^(2d − K)·(1 − λ·a^2(K − d))₊."""
    whole = (1 + decay - 2 * decay ** (limit + 1)) / (1 - decay)
    end, upper = decay**limit / whole, (1 - decay**limit) / ((1 - decay) * whole)
    finite = sum(
        math.comb(2 * depths, k)
        * decay ** (2 * depths - k)
        * max(Fraction(0), 1 - growth * decay ** (2 * (k - depths)))
        for k in range(2 * depths + 1)
    )
    return 1 - (1 - end) ** (2 * depths) + upper ** (2 * depths) * finite


_GROWTHS = (Fraction(1), Fraction(3, 2), Fraction(3), Fraction(10))


@pytest.mark.slow
@pytest.mark.parametrize(("decay", "limit"), [(Fraction(1, 2), 1), (Fraction(3, 4), 1)])
def test_dummies_of_a_tree_are_exact_for_every_dataset(decay: Fraction, limit: int) -> None:
    """Two depths of 2 and 4 nodes, every two leaves: equality where the first depth differs, and less where not."""
    worst = [_several_dummies(decay, limit, 2, growth) for growth in _GROWTHS]
    one = DummyPair(int(decay * DECAYS), limit)
    for others in ((), (0,), (3, 1)):
        laws = [
            _together([_of_dummies(_counted((leaf, *others), nodes, 4), decay, limit) for nodes in (2, 4)])
            for leaf in range(4)
        ]
        for first, second in product(range(4), repeat=2):
            for growth, most in zip(_GROWTHS, worst, strict=True):
                told = _divergence(laws[first], laws[second], growth)
                if first // 2 != second // 2:
                    assert told == most > Fraction(one.delta(math.log(growth)))  # one depth alone promises less
                else:
                    assert told < most
    mechanism = shoal.Dummies(categories=2, epsilon=float(-2 * math.log(decay)), limit=limit)
    together = shoal.amplify(mechanism, reports=3).repeated(2)
    for growth, most in zip(_GROWTHS, worst, strict=True):
        assert together.delta(math.log(growth)) >= float(most) * (1 - 1e-12)


def test_rounds_are_composed_within_two_thousandths_of_what_is_exact() -> None:
    """Of planned depths, at δ = 10⁻⁶: the exact δ at two thousandths less than the printed ε is larger."""
    for leaves in (1024, 4096):
        tree = shoal.plan_quantiles(reports=1e5, epsilon=0.5, leaves=leaves)
        leaf = tree.protocols[-1]
        assert isinstance(leaf, shoal.Dummies)
        curve = shoal.compose([shoal.amplify(each, reports=1e5) for each in tree.protocols])
        epsilon = curve.epsilon(1e-6)
        exact = [
            _several_dummies(Fraction(leaf.decay, DECAYS), leaf.limit, tree.depth, Fraction(math.exp(each)))
            for each in (epsilon, 0.998 * epsilon)
        ]
        assert float(exact[0]) <= 1e-6 < float(exact[1])


@pytest.mark.slow
def test_covers_of_a_tree_are_exact_for_every_dataset() -> None:
    """As many covers for each node of both depths: the same pair twice, whatever the nodes."""
    slots = 3
    pair = CoverPair(slots, 0.5, 2)
    for growth in _GROWTHS:
        for others in ((), (2,)):
            laws = [
                _together(
                    [
                        _of_covers(_counted((leaf, *others), nodes, 4), slots, fill)
                        for nodes, fill in ((2, Fraction(1, 2)), (4, Fraction(1)))
                    ]
                )
                for leaf in range(4)
            ]
            told = {
                _divergence(laws[first], laws[second], growth)
                for first, second in product(range(4), repeat=2)
                if first // 2 != second // 2
            }
            assert len(told) == 1
            (most,) = told
            assert most > Fraction(pair.delta(math.log(growth)))
            assert all(_divergence(laws[a], laws[b], growth) < most for a, b in ((0, 1), (2, 3)))
        curve = shoal.amplify(shoal.Covered(categories=2, fill=0.5), reports=slots).repeated(2)
        assert curve.delta(math.log(growth)) >= float(most) * (1 - 1e-12)


@pytest.mark.parametrize("tree", _TREES, ids=_IDS)
def test_sums_of_counts_are_those_below_and_have_the_least_noise(tree: shoal.QuantileTree) -> None:
    """Without noise they are exact; and no shorter way leads to an edge, found by trying all."""
    leaves = tree.leaves
    held = np.random.default_rng(1).integers(0, 50, leaves)
    ranges = tree.ranges
    total = np.where(ranges.rest, held.sum(), 0)
    for index, protocol in enumerate(tree.protocols):
        sums = np.concatenate([[0], np.cumsum(held.reshape(protocol.categories, -1).sum(axis=1))])
        total += sums[ranges.stops[:, index]] - sums[ranges.starts[:, index]]
    assert total.tolist() == np.cumsum(held)[:-1].tolist()
    for edge in range(1, leaves):
        ways = {0: 0.0, leaves: 0.0}
        for protocol in tree.protocols:
            size, cost = leaves // protocol.categories, float(protocol.variance(reports=1)[0])
            ways = {
                end: min(before + cost * abs(end - start) / size for start, before in ways.items())
                for end in {edge // size * size, -(-edge // size) * size}
            }
        costs = [float(protocol.variance(reports=1)[0]) for protocol in tree.protocols]
        assert np.abs(ranges.terms[edge - 1]) @ costs == pytest.approx(ways[edge])


def _run(tree: shoal.QuantileTree, values: np.ndarray, seed: int, confidence: float = 0.95) -> TreeEstimate:
    coins = Simulation(seed=seed)
    counts = tree.aggregate(tree.randomize(values, simulation=coins))
    return tree.estimate(tree.released(counts, simulation=coins), confidence=confidence)


@pytest.mark.slow
@pytest.mark.parametrize("covers", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_the_error_of_a_hundred_thousand_numbers(covers: bool) -> None:
    """60 runs at n = 10⁵: the root mean square of all edges, over that of the formula, within 5 %; seeds are fixed."""
    tree = shoal.plan_quantiles(reports=1e5, epsilon=0.5, leaves=256, covers=covers)
    assert tree.depth > 1
    values = np.random.default_rng(5).beta(2, 5, size=10**5)
    truth = np.searchsorted(np.sort(values), tree.edges[1:-1], side="left")
    theory = tree.variance(reports=1e5)
    squares = [(_run(tree, values, seed).people_below[0] - truth) ** 2 / theory for seed in range(amount(30, 60))]
    assert 0.95 <= math.sqrt(np.mean(squares)) <= 1.05


@pytest.mark.slow
@pytest.mark.parametrize("tree", _TREES, ids=_IDS)
def test_intervals_hold(tree: shoal.QuantileTree) -> None:
    """Of 400 intervals of 90 % at least 84 % hold, four deviations below; and of all edges together, 89 %."""
    rng, held, edges = np.random.default_rng(3), np.zeros(4), []
    for seed in range(400):
        people = tree.lower + (tree.upper - tree.lower) * rng.beta(2, 5, size=300)
        found = _run(tree, people, seed, 0.9)
        ordered = np.sort(people)
        shares = (0.02, 0.3, 0.5, 0.9)
        measured = [(found.quantile(share), ordered[math.ceil(share * 300) - 1]) for share in shares]
        held += [each.lower <= truth <= each.upper for each, truth in measured]
        truth = np.searchsorted(ordered, tree.edges[1:-1], side="left")
        edges.append(np.mean((found.people_below[1] <= truth) & (truth <= found.people_below[2])))
    assert np.all(held >= 0.84 * 400), held
    assert np.mean(edges) >= 0.89


@pytest.mark.parametrize("tree", _TREES, ids=_IDS)
def test_values_at_edges_and_ends(tree: shoal.QuantileTree) -> None:
    nodes = tree.nodes([tree.lower, *tree.edges[1:-1], tree.upper])
    assert nodes[-1].tolist() == [*range(tree.leaves), tree.leaves - 1]
    assert [each.tolist() for each in nodes] == [
        (nodes[-1] // (tree.leaves // protocol.categories)).tolist() for protocol in tree.protocols
    ]
    with pytest.raises(ParameterError, match=r"values\[0\]"):
        tree.nodes([9.0])


def test_quantiles_at_the_ends_are_in_the_interval() -> None:
    tree = _TREES[0]
    for values in (np.full(200, tree.lower), np.full(200, tree.upper)):
        found = _run(tree, values, 1)
        for share in (0.001, 0.5, 0.999):
            assert found.quantile(share).lower <= values[0] <= found.quantile(share).upper


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_tree_is_better_than_levels_from_some_number_of_leaves_on() -> None:
    """With dummies from about 70 leaves on, and three depths from about 2,000; with covers from about 25 on."""
    for covers, expected in (
        (False, {16: 1, 64: 1, 128: 2, 1024: 2, 4096: 3}),
        (True, {16: 1, 64: 2, 1024: 3}),
    ):
        for leaves, depth in representative(expected.items(), 3 - covers):
            tree = shoal.plan_quantiles(reports=1e5, epsilon=0.5, leaves=leaves, covers=covers)
            assert tree.depth == depth and tree.leaves >= leaves
            curve = shoal.compose([shoal.amplify(each, reports=1e5) for each in tree.protocols])
            assert 0.499 < curve.epsilon(1e-6) <= 0.5
            flat = shoal.plan_quantiles(reports=1e5, epsilon=0.5, leaves=leaves, covers=covers, depth=1)
            errors = [math.sqrt(each.variance(reports=1e5).mean()) for each in (tree, flat)]
            assert errors[0] <= errors[1]
    assert errors[0] < 0.4 * errors[1]  # 53 people in place of 152
    certificate = curve.certify(delta=1e-6)
    assert shoal.Certificate.from_json(certificate.to_json()).verify()


def test_plans_share_a_budget() -> None:
    twice = shoal.plan_quantiles(reports=1e4, epsilon=1, leaves=100, rounds=2)
    curves = [shoal.amplify(each, reports=1e4) for each in twice.protocols] * 2
    assert shoal.compose(curves).epsilon(1e-6) <= 1
    with pytest.raises(UnreachableError, match="too few for covers"):
        shoal.plan_quantiles(reports=20, epsilon=0.5, covers=True)


@pytest.mark.parametrize(
    "protocols",
    [
        (),
        (shoal.RandomizedResponse(categories=4, local_epsilon=1),),
        (_DUMMIES[1], _DUMMIES[0]),
        (_DUMMIES[0], shoal.Dummies(categories=6, epsilon=1, limit=9)),
        (shoal.Covered(categories=4, fill=1, response=shoal.RandomizedResponse(categories=4, local_epsilon=3)),),
    ],
)
def test_what_is_no_tree_is_refused(protocols: Any) -> None:
    with pytest.raises(ParameterError, match="depth"):
        shoal.QuantileTree(protocols=protocols)


def test_counts_of_different_people_are_refused() -> None:
    tree = _TREES[2]
    one, other = (tree.aggregate(tree.randomize(np.zeros(number))) for number in (5, 6))
    with pytest.raises(ParameterError, match="same people"):
        tree.estimate((*one[:2], other[2]))


def test_results_show_themselves() -> None:
    found = _run(_TREES[0], np.linspace(-1, 3, 5000), 1)
    assert "median" in repr(found) and "<svg" in found._repr_html_() and found.plot() is not None
    assert list(found.to_frame().columns) == ["edge", "below", "lower", "upper", "standard_error"]
    facts = found.to_dict()
    assert facts["leaves"] == 64 and len(facts["protocols"]) == 3 and set(facts["quantiles"]) == {"0.25", "0.5", "0.75"}


@pytest.mark.slow
def test_a_delta_next_to_no_double_has_no_covers_and_says_so() -> None:
    with pytest.raises(UnreachableError, match=r"20,000 people are too few .* delta=1e-300; .* or delta"):
        shoal.plan_quantiles(reports=20_000, epsilon=1, delta=1e-300, covers=True, depth=2)
