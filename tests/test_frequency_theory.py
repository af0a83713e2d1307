"""Every statement of docs/theory/frequency.md, in exact fractions over designs that are listed output by output."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Any, NamedTuple

import numpy as np
import pytest

import shoal
from shoal.calibration.target import ROOM
from shoal.estimation.interval import Sum, fewest, most, quantile
from shoal.mechanisms import Categorical, HadamardResponse, ProjectiveGeometryResponse
from tests.exhaustive import representative
from tests.oracles import designs, enumeration
from tests.oracles.designs import Design
from tests.oracles.reports import matrix_of, outputs_of, table_of


class Claim(NamedTuple):
    """A design and what section 3 says about it: blocks, M, s, c within a block, outputs that support everybody."""

    name: str
    design: Design
    blocks: int
    outputs: int
    support: int
    common: Fraction
    everybody: int | None = 0

    @property
    def kappa(self) -> Fraction:
        return self.common / self.support


def claims() -> Iterator[Claim]:
    for k in (2, 3, 6):
        yield Claim(f"rr-{k}", designs.randomized_response(k), 1, k, 1, Fraction(0))
    for k, d in ((2, 1), (4, 2), (5, 2), (6, 3), (6, 5)):
        common = Fraction(math.comb(k - 2, d - 2)) if d >= 2 else Fraction(0)
        found = designs.subset_selection(k, d)
        yield Claim(f"subsets-{k}-{d}", found, 1, math.comb(k, d), math.comb(k - 1, d - 1), common)
    for k, blocks in ((2, 1), (3, 1), (7, 1), (8, 1), (12, 1), (2, 2), (4, 2), (7, 2), (12, 4), (4, 4)):
        b = 2 ** math.ceil(math.log2(-(-k // blocks) + 1))
        found = designs.hadamard(k, blocks)
        yield Claim(f"hadamard-{k}-{blocks}", found, blocks, blocks * b, b // 2, Fraction(b, 4), int(blocks == 1))
    for k, blocks in ((2, 1), (3, 1), (8, 1), (9, 1), (2, 2), (5, 2), (8, 2), (11, 4), (4, 4)):
        w = 2 ** math.ceil(math.log2(-(-k // blocks)))
        found = designs.recursive_hadamard(k, blocks)
        yield Claim(f"recursive-{k}-{blocks}", found, blocks, 2 * blocks * w, w, Fraction(w, 2), int(blocks == 1))
    for k, q, t, h in (
        (3, 2, 2, 1), (7, 2, 3, 1), (4, 3, 2, 1), (10, 3, 3, 1), (6, 5, 2, 1), (9, 2, 3, 2), (11, 3, 2, 3),
    ):  # fmt: skip
        found = designs.projective(k, q, t, h)
        points = [(q**i - 1) // (q - 1) for i in range(t + 1)]
        yield Claim(f"projective-{k}-{q}-{t}-{h}", found, h, h * points[t], points[t - 1], Fraction(points[t - 2]))
    for k, order, m in ((2, 2, 1), (4, 2, 1), (3, 3, 1), (5, 3, 2), (9, 3, 1), (5, 5, 2), (8, 5, 1), (7, 5, 3)):
        t = 1 if k <= order else 2
        sizes = (order ** (t + 1), m * order**t, Fraction(m * m * order ** (t - 1)))
        found = designs.private_independent(k, order, m)
        yield Claim(f"independent-{k}-{order}-{m}", found, 1, *sizes, 1 if m == 1 else None)
    for k, g in ((2, 2), (4, 2), (3, 3), (7, 3), (5, 5)):
        t = 1 if k <= g else 2
        found = designs.local_hashing(k, g)
        yield Claim(f"hashing-{k}-{g}", found, 1, g ** (t + 1), g**t, Fraction(g ** (t - 1)), 1)


CLAIMS = list(claims())
EVERY = pytest.mark.parametrize("claim", CLAIMS, ids=[claim.name for claim in CLAIMS])
TRUTHS = (Fraction(1, 7), Fraction(1, 2), Fraction(40, 41))


# Section 1


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("truth", TRUTHS)
def test_exact_local_epsilon(claim: Claim, truth: Fraction) -> None:
    matrix = claim.design.matrix(truth)
    assert all(sum(row) == 1 for row in matrix)
    worst = max(max(column) / min(column) for column in zip(*matrix, strict=True))
    assert worst == 1 + truth / (1 - truth) * Fraction(claim.outputs, claim.support)
    assert truth == (worst - 1) / (worst - 1 + Fraction(claim.outputs, claim.support))


@pytest.mark.slow
@EVERY
def test_less_truth_is_a_garbling(claim: Claim) -> None:
    more, less = claim.design.matrix(Fraction(2, 3)), claim.design.matrix(Fraction(1, 4))
    keep = Fraction(1, 4) / Fraction(2, 3)
    for rich, poor in zip(more, less, strict=True):
        assert poor == [keep * probability + (1 - keep) / claim.outputs for probability in rich]
    for reports in (1, 2):
        for factor in (Fraction(1, 2), Fraction(1), Fraction(6, 5), Fraction(2)):
            rows = [designs.blanket_rows(matrix, 0, 1) for matrix in (less, more)]
            poor_delta, rich_delta = (designs.blanket_delta(row, factor, reports) for row in rows)
            assert poor_delta <= rich_delta


@pytest.mark.parametrize(("low", "high"), [(Fraction(1, 10), Fraction(1, 3)), (Fraction(1, 5), Fraction(1, 2))])
def test_flipping_bits_garbles_unary_encodings(low: Fraction, high: Fraction) -> None:
    flip = (high - low) / (1 - 2 * low)
    for before, after in ((Fraction(1, 2), Fraction(1, 2)), (low, high), (1 - low, 1 - high)):
        assert before * (1 - flip) + (1 - before) * flip == after


# Section 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_fewer_common_outputs_are_worse(seed: int) -> None:
    """The distributions of W are ordered in the convex order, whatever the sign of ε; so are the δ of a few people."""
    draw = random.Random(seed)
    support = draw.randint(1, 6)
    outputs = draw.randint(2 * support, 20)
    ratio = Fraction(draw.randint(101, 900), 100)
    factor = Fraction(draw.randint(5, 500), 100)
    everybody = draw.choice((0, 0, 1))
    theta = 1 / ((ratio - 1) * support + outputs)

    def rows(common: int) -> list[designs.Row]:
        one = Fraction(1)
        alike = theta * (outputs - 2 * support + common) + ratio * theta * everybody
        return [
            (ratio, one, theta * (support - common)),
            (one, ratio, theta * (support - common)),
            (ratio, ratio, theta * (common - everybody)),
            (one, one, alike),
        ]

    knots = [ratio - factor, 1 - ratio * factor, ratio * (1 - factor), 1 - factor, Fraction(0)]
    for common in range(everybody, support):
        worse, better = rows(common), rows(common + 1)
        for knot in knots:
            tails = [
                sum((max(r - factor * q - knot, Fraction(0)) * probability for r, q, probability in table), Fraction(0))
                + max(-knot, Fraction(0)) * (1 - sum((probability for _, _, probability in table), Fraction(0)))
                for table in (worse, better)
            ]
            assert tails[0] >= tails[1]
        for reports in (1, 2, 3, 4):
            high, low = (designs.blanket_delta(table, factor, reports) for table in (worse, better))
            assert high >= low


@pytest.mark.slow
@EVERY
def test_the_pair_with_the_fewest_common_outputs_is_the_worst(claim: Claim) -> None:
    matrix = claim.design.matrix(Fraction(1, 2))
    pairs = list(combinations(range(claim.design.categories), 2))
    common = {pair: len(claim.design.supports[pair[0]] & claim.design.supports[pair[1]]) for pair in pairs}
    fewest = min(common.values())
    for reports, factor in ((1, Fraction(6, 5)), (3, Fraction(11, 10)), (2, Fraction(4, 5))):
        found: dict[int, set[Fraction]] = {}
        for pair in pairs:
            delta = designs.blanket_delta(designs.blanket_rows(matrix, *pair), factor, reports)
            assert delta == designs.blanket_delta(designs.blanket_rows(matrix, *pair[::-1]), factor, reports)
            found.setdefault(common[pair], set()).add(delta)
        assert all(len(deltas) == 1 for deltas in found.values())
        assert max(max(deltas) for deltas in found.values()) == max(found[fewest])


BLOCKED = [claim for claim in CLAIMS if claim.blocks > 1]


@pytest.mark.parametrize("claim", BLOCKED, ids=[claim.name for claim in BLOCKED])
def test_two_blocks_leak_like_randomized_response(claim: Claim) -> None:
    assert claim.design.commons(same_block=False) == {0}
    matrix = claim.design.matrix(Fraction(1, 2))
    rows = {(one, two): probability for one, two, probability in designs.blanket_rows(matrix, 0, 1)}
    places = Fraction(claim.outputs, claim.support)
    ratio, one = 1 + places, Fraction(1)
    probability = 1 / (ratio - 1 + places)
    expected = {(ratio, one): probability, (one, ratio): probability, (one, one): (places - 2) * probability}
    assert rows == {place: mass for place, mass in expected.items() if mass}


SMALL = [claim for claim in CLAIMS if claim.outputs <= 6 and claim.design.categories <= 4]


@pytest.mark.slow
@pytest.mark.parametrize("claim", SMALL, ids=[claim.name for claim in SMALL])
@pytest.mark.parametrize("reports", [2, 3])
def test_no_dataset_exceeds_the_worst_pair(claim: Claim, reports: int) -> None:
    matrix = claim.design.matrix(Fraction(3, 5))
    inputs = range(claim.design.categories)
    for factor in (Fraction(1), Fraction(3, 2)):
        bound = max(
            designs.blanket_delta(designs.blanket_rows(matrix, x, z), factor, reports)
            for x, z in combinations(inputs, 2)
        )
        for others in product(inputs, repeat=reports - 1):
            if list(others) == sorted(others):
                for x, z in product(inputs, repeat=2):
                    assert designs.shuffled_delta(matrix, (x, *others), (z, *others), factor) <= bound


# Section 3


@EVERY
def test_the_numbers_of_the_design(claim: Claim) -> None:
    design = claim.design
    assert len(design.outputs) == len(set(design.outputs)) == claim.outputs
    assert design.sizes == {claim.support}
    assert design.commons(same_block=True) <= {claim.common}
    assert design.commons(same_block=False) <= {0}
    assert len(set(design.homes)) == claim.blocks
    assert all(len(home) * claim.blocks == claim.outputs for home in design.homes)
    if claim.everybody is not None:
        assert design.everybody == claim.everybody
    assert design.categories <= claim.outputs


@pytest.mark.parametrize(("order", "window"), [(3, 2), (5, 2), (5, 4)])
def test_constant_functions_support_everybody_and_a_few_others_may(order: int, window: int) -> None:
    assert designs.private_independent(order**2, order, window).everybody == window
    assert designs.private_independent(order + 1, order, window).everybody >= window
    assert designs.private_independent(4, 3, 2).everybody == 4  # the last digit is 0 or 1


@pytest.mark.parametrize(("categories", "blocks"), [(3, 1), (8, 1), (5, 2), (8, 2), (9, 4)])
@pytest.mark.parametrize("ratio", [Fraction(3, 2), Fraction(7)])
def test_the_recursive_protocol_is_the_mixture(categories: int, blocks: int, ratio: Fraction) -> None:
    truth = (ratio - 1) / (ratio - 1 + 2 * blocks)
    mixture = designs.recursive_hadamard(categories, blocks).matrix(truth)
    assert designs.recursive_response(categories, blocks, ratio) == mixture


@pytest.mark.parametrize("categories", [3, 4, 8])
def test_three_signs_are_independent(categories: int) -> None:
    design = designs.recursive_hadamard(categories)
    for trio in combinations(design.supports, 3):
        patterns = [tuple(y in support for support in trio) for y in design.outputs]
        assert {patterns.count(pattern) for pattern in product((False, True), repeat=3)} == {len(patterns) // 8}


@pytest.mark.parametrize(("categories", "buckets"), [(2, 2), (4, 2), (3, 3), (8, 3), (7, 5)])
def test_local_hashing_is_a_window_of_one(categories: int, buckets: int) -> None:
    hashing = designs.local_hashing(categories, buckets)
    affine = designs.private_independent(categories, buckets, 1)
    for ours, theirs in zip(hashing.supports, affine.supports, strict=True):
        assert {(-bucket % buckets, *seed) for seed, bucket in ours} == theirs


@pytest.mark.slow
@pytest.mark.parametrize(("categories", "buckets", "size"), [(2, 2, 1), (3, 2, 1), (3, 2, 2), (2, 3, 2), (3, 3, 1)])
def test_the_floor_of_a_random_pool(categories: int, buckets: int, size: int) -> None:
    """The mean squared bias over all pools is (k − 1)·Σf²/(N(g − 1))."""
    shares = [Fraction(6, 10), Fraction(3, 10), Fraction(1, 10)][:categories]
    truth, kappa = Fraction(1, 3), Fraction(1, buckets)
    functions = list(product(range(buckets), repeat=categories))
    total = Fraction(0)
    for pool in product(functions, repeat=size):
        design = designs.pool(pool, buckets)
        matrix = design.matrix(truth)
        for x in range(categories):
            mean = sum((share * _mean(design, matrix, x, z, kappa) for z, share in enumerate(shares)), Fraction(0))
            estimate = (mean - (1 - truth) * (Fraction(1, buckets) - kappa)) / (truth * (1 - kappa))
            collisions = [Fraction(sum(h[x] == h[z] for h in pool), size) for z in range(categories)]
            bias = sum((shares[z] * (collisions[z] - kappa) for z in range(categories) if z != x), Fraction(0)) / (
                1 - kappa
            )
            assert estimate - shares[x] == bias
            total += bias**2
    squares = sum((share**2 for share in shares), Fraction(0))
    assert total / len(functions) ** size == (categories - 1) * squares / (size * (buckets - 1))


@pytest.mark.parametrize(("buckets", "dimension"), [(2, 2), (2, 3), (3, 2), (5, 2)])
def test_the_smallest_pool_without_bias(buckets: int, dimension: int) -> None:
    vectors = list(product(range(buckets), repeat=dimension))
    maps = designs.projective_points(dimension, buckets)
    values = [[sum(a * b for a, b in zip(seed, x, strict=True)) % buckets for x in vectors] for seed in maps]
    design = designs.pool(values, buckets)
    assert design.commons(same_block=True) == {(buckets ** (dimension - 1) - 1) // (buckets - 1)}
    assert len(maps) * (buckets - 1) == len(vectors) - 1


# Section 4


def _mean(
    design: Design, matrix: Sequence[Sequence[Fraction]], x: int, z: int, kappa: Fraction, *, power: int = 1
) -> Fraction:
    """Return E[Z_x^power] of the report of somebody who holds z."""
    support, home = design.supports[x], design.homes[x]
    terms = (
        c * ((y in support) - kappa * (y in home)) ** power for y, c in zip(design.outputs, matrix[z], strict=True)
    )
    return sum(terms, Fraction(0))


def _formula(claim: Claim, truth: Fraction, own: bool, same: bool) -> tuple[Fraction, Fraction]:
    """Return the mean and the variance of Z_x that section 4 gives."""
    rho, kappa = Fraction(claim.support, claim.outputs), claim.kappa
    supported = truth * (1 if own else kappa if same else 0) + (1 - truth) * rho
    inside = truth * same + (1 - truth) / claim.blocks
    mean = supported - kappa * inside
    return mean, supported * (1 - kappa) ** 2 + (inside - supported) * kappa**2 - mean**2


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("truth", TRUTHS)
def test_mean_and_variance_of_a_report(claim: Claim, truth: Fraction) -> None:
    design, kappa = claim.design, claim.kappa
    matrix = design.matrix(truth)
    base = (1 - truth) * (Fraction(claim.support, claim.outputs) - kappa / claim.blocks)
    scale = truth * (1 - kappa)
    assert scale > 0
    for x, z in product(range(min(design.categories, 6)), repeat=2):
        mean = _mean(design, matrix, x, z, kappa)
        assert mean == base + scale * (x == z)
        same = design.homes[x] == design.homes[z]
        assert (mean, _mean(design, matrix, x, z, kappa, power=2) - mean**2) == _formula(claim, truth, x == z, same)


@pytest.mark.slow
@pytest.mark.parametrize("claim", SMALL, ids=[claim.name for claim in SMALL])
@pytest.mark.parametrize("dataset", [(0, 1), (0, 0, 1), (1, 1, 1)])
def test_unbiased_and_its_variance_on_whole_datasets(claim: Claim, dataset: tuple[int, ...]) -> None:
    design, kappa, truth, n = claim.design, claim.kappa, Fraction(2, 7), len(dataset)
    matrix = design.matrix(truth)
    base = (1 - truth) * (Fraction(claim.support, claim.outputs) - kappa / claim.blocks)
    scale = truth * (1 - kappa)
    for x in range(design.categories):
        scores = [(y in design.supports[x]) - kappa * (y in design.homes[x]) for y in design.outputs]
        first = second = Fraction(0)
        for reports in product(range(claim.outputs), repeat=n):
            probability = math.prod(matrix[z][y] for z, y in zip(dataset, reports, strict=True))
            estimate = (sum((scores[y] for y in reports), Fraction(0)) / n - base) / scale
            first, second = first + probability * estimate, second + probability * estimate**2
        assert first == Fraction(dataset.count(x), n)
        kinds = [_formula(claim, truth, x == z, design.homes[x] == design.homes[z])[1] for z in dataset]
        assert second - first**2 == sum(kinds, Fraction(0)) / (n * scale) ** 2


@EVERY
def test_short_forms_of_the_variance(claim: Claim) -> None:
    truth = Fraction(3, 8)
    scale = truth * (1 - claim.kappa)
    share, block = Fraction(1, 5), Fraction(1) if claim.blocks == 1 else Fraction(1, 3)
    kinds = ((True, True), (False, True), (False, False))
    own, same, other = (_formula(claim, truth, *kind)[1] for kind in kinds)
    variance = (share * own + (block - share) * same + (1 - block) * other) / scale**2
    if claim.blocks == 1:
        rho = Fraction(claim.support, claim.outputs)
        p, q = truth + (1 - truth) * rho, truth * claim.kappa + (1 - truth) * rho
        assert variance == q * (1 - q) / (p - q) ** 2 + share * (1 - p - q) / (p - q)
    if claim.name.startswith(("hadamard", "recursive")):
        more = truth / (1 - truth) * 2 * claim.blocks  # E − 1
        assert variance == (more + 2 * claim.blocks) * (2 + more * block) / more**2 - share


@pytest.mark.parametrize("ratio", [Fraction(3, 2), Fraction(20)])
def test_optimised_unary_encoding_has_the_best_known_constant(ratio: Fraction) -> None:
    p, q, share = Fraction(1, 2), 1 / (ratio + 1), Fraction(2, 9)
    exact = (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
    assert exact == 4 * ratio / (ratio - 1) ** 2 + share


@pytest.mark.slow
@pytest.mark.parametrize("level", [Fraction(26, 101), Fraction(1, 41), Fraction(1, 20001)])
@pytest.mark.parametrize(
    ("p", "q"),
    [(Fraction(399, 400), Fraction(1, 400)), (Fraction(1, 2), Fraction(1, 9)), (Fraction(3, 5), Fraction(1, 2))],
)
def test_exact_limits_miss_as_seldom_as_they_say(p: Fraction, q: Fraction, level: Fraction) -> None:
    """4.3 in fractions, from its definition, with no tail equal to the level; the library has the same limits."""
    for n in (1, 2, 5, 11):
        distributions = [two_binomials(n, m, p, q) for m in range(n + 1)]
        low, high = [], []
        for x in range(n + 1):
            fits = [m for m, distribution in enumerate(distributions) if sum(distribution[x:]) > level]
            low.append(min(fits, default=n))
            fits = [m for m, distribution in enumerate(distributions) if sum(distribution[: x + 1]) > level]
            high.append(max(fits, default=0))
        assert low == sorted(low)
        assert high == sorted(high)
        assert all(first <= last for first, last in zip(low, high, strict=True))
        for m, distribution in enumerate(distributions):
            assert sum(distribution[x] for x in range(n + 1) if low[x] > m) <= level
            assert sum(distribution[x] for x in range(n + 1) if high[x] < m) <= level
        counts, total, rates = np.arange(n + 1.0), np.full(n + 1, float(n)), (float(p), float(q))
        assert fewest(counts, total, *rates, float(level)).tolist() == low
        assert most(counts, total, *rates, float(level)).tolist() == high


def two_binomials(n: int, m: int, p: Fraction, q: Fraction) -> list[Fraction]:
    distribution, nothing = [Fraction(1)], [Fraction(0)]
    for rate in [p] * m + [q] * (n - m):
        distribution = [
            (1 - rate) * here + rate * below
            for here, below in zip(distribution + nothing, nothing + distribution, strict=True)
        ]
    return distribution


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_the_expansion_solves_its_equation(side: float) -> None:
    """4.4: at the solution, what was counted is the quantile of a sum with the cumulants there."""
    total, normal, low, high = 10_000, 1.959964, 0.02, 0.6
    ours, theirs = (np.array([v, v * (1 - 2 * c), v * (1 - 6 * v)]) for c in (high, low) for v in [c * (1 - c)])
    gap = np.array([300.0, 900.0])
    people, variance = Sum(high - low, np.outer(theirs, [total] * 2), ours - theirs, total).crossing(gap, normal, side)
    second, third, fourth = np.outer(theirs, total - people) + np.outer(ours, people)
    assert variance == pytest.approx(second)
    factor = quantile(normal, second, side * third, fourth)
    assert (high - low) * people + side * factor * np.sqrt(second) == pytest.approx(gap, abs=0.01)


def test_reports_in_a_block_support_at_three_rates() -> None:
    """4.5: for Hadamard response all but the holders' are one half."""
    made = HadamardResponse(categories=32, local_epsilon=3.0, blocks=8).moments
    assert made.same[0] / made.same[1] == pytest.approx(0.5)
    assert made.other[0] / made.other[1] == pytest.approx(0.5)
    assert made.own[0] / made.own[1] > 0.5
    plane = ProjectiveGeometryResponse(categories=12, local_epsilon=3.0, order=2, dimension=3, blocks=6).moments
    assert plane.overlap < plane.same[0] / plane.same[1] < plane.other[0] / plane.other[1] == pytest.approx(3 / 7)


# Section 5


def printed(x: float) -> float:
    return x / 16 if x <= 1 else math.log(x * x / 100)


def repaired(x: float) -> float:
    return x / 16 if x <= 32 else math.log(x * x / 100)


def settings(seed: int, count: int) -> Iterator[tuple[float, float, int, float]]:
    """Yield random ε, δ, n and x = ε·√(n/ln(1/δ))."""
    draw = random.Random(seed)
    while count:
        delta = draw.choice((draw.random(), 10 ** draw.uniform(-12, -1.6), 1 - 10 ** draw.uniform(-6, -0.5)))
        epsilon, reports = 10 ** draw.uniform(-4, -1e-9), int(10 ** draw.uniform(0, 7))
        x = epsilon * math.sqrt(reports / math.log(1 / delta))
        if 0 < delta < 1 and x < 1e6:
            yield epsilon, delta, reports, x
            count -= 1


@pytest.mark.parametrize("rule", [printed, repaired])
def test_the_local_epsilon_of_theorem_5_2_is_private_where_there_is_one(rule: Callable[[float], float]) -> None:
    for epsilon, delta, reports, x in settings(5, 150):
        local = rule(x)
        if local > 0 and (rule is printed or delta <= 1 / 32):
            curve = shoal.amplify(local_epsilon=local, reports=reports, bound="strong-clones")
            assert curve.delta(epsilon) <= delta


def test_the_printed_local_epsilon_is_useless_in_between() -> None:
    def constant(x: float, local: float) -> float:
        return x * x * math.exp(local) / math.expm1(local) ** 2

    assert printed(1.01) < 0
    assert printed(9.99) < 0
    x = 0.038 * math.sqrt(10**6 / math.log(10**6))
    assert constant(x, printed(x)) == pytest.approx(5.3e4, rel=0.02)
    for x in (1e-3, 0.5, 1, 5, 10, 20, 31.9, 32, 32.1, 100, 1e4):
        assert constant(x, repaired(x)) <= 256


def test_the_error_bound_of_the_repaired_theorem() -> None:
    """Inequality (9), with the blocks as in its proof, on the worst data: everybody in the fullest block."""
    for categories in (2, 3, 5, 17, 100, 1000, 4096, 10**5):
        most = 2 ** (math.ceil(math.log2(categories)) - 1)
        for local in (0.01, 0.3, 1.0, 1.34, 1.35, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0):
            more = math.expm1(local)
            blocks = 1
            while blocks < most and more / (2 * blocks) > math.sqrt(2):
                blocks *= 2
            fullest = -(-categories // blocks)
            factor = (more + 2 * blocks) / more**2
            error = factor * (2 * categories + more * fullest) - 1
            assert error <= 7 + 8.3 * categories * math.exp(local) / more**2
            assert 2 * blocks * 2 ** math.ceil(math.log2(fullest)) == 2 * 2 ** math.ceil(math.log2(categories))


def test_what_calibration_makes_of_it() -> None:
    for reports, epsilon, expected in ((10**4, 0.1, 1.65), (10**6, 0.5, 2.46), (10**8, 0.01, 1.36)):
        local = shoal.calibrate(epsilon=epsilon, delta=1e-6, reports=reports).local_epsilon
        x = epsilon * (1 - ROOM) * math.sqrt(reports / math.log(10**6))
        assert x * x * math.exp(local) / math.expm1(local) ** 2 == pytest.approx(expected, abs=0.006)


# The library's mechanisms


def _mechanisms() -> Iterator[tuple[type[Categorical], dict[str, Any]]]:
    for k in (2, 3, 4, 5, 8, 11):
        for kind in MECHANISMS:
            if k <= 5 or not issubclass(kind, shoal.UnaryEncoding):
                yield kind, {"categories": k}
    for kind in (shoal.HadamardResponse, shoal.RecursiveHadamardResponse):
        for k, blocks in ((2, 1), (4, 2), (5, 1), (5, 4), (8, 4), (11, 2), (16, 8), (17, 4)):
            yield kind, {"categories": k, "blocks": blocks}
    for k, q, t, h in (
        (3, 2, 2, 1), (7, 2, 3, 1), (10, 3, 3, 1), (4, 2, 2, 2), (9, 2, 3, 2), (11, 3, 2, 3), (6, 5, 2, 1),
    ):  # fmt: skip
        sizes = {"order": q, "dimension": t, "blocks": h}
        yield shoal.ProjectiveGeometryResponse, {"categories": k, **sizes}
    for k, order, window in ((2, 2, 1), (4, 2, 1), (5, 3, 2), (9, 3, 1), (5, 5, 2), (8, 5, 3), (6, 7, 3)):
        yield shoal.PrivateIndependentRappor, {"categories": k, "order": order, "window": window}
    for k, buckets in ((2, 2), (5, 2), (3, 3), (9, 3), (7, 5)):
        yield shoal.LocalHashing, {"categories": k, "buckets": buckets}
    for k, size in ((4, 3), (6, 2), (7, 4)):
        yield shoal.SubsetSelection, {"categories": k, "size": size}


MECHANISMS: tuple[type[Categorical], ...] = (
    shoal.RandomizedResponse,
    shoal.UnaryEncoding,
    shoal.Rappor,
    shoal.HadamardResponse,
    shoal.RecursiveHadamardResponse,
    shoal.ProjectiveGeometryResponse,
    shoal.PrivateIndependentRappor,
    shoal.SubsetSelection,
    shoal.LocalHashing,
)
FOUND = [(kind, sizes, local) for kind, sizes in _mechanisms() for local in (0.2, 1.0, 3.5)]
MADE = [kind(local_epsilon=local, **sizes) for kind, sizes, local in FOUND]
NAMES = ["-".join([kind.name, *map(str, sizes.values()), str(local)]) for kind, sizes, local in FOUND]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [m for m in MADE if not isinstance(m, shoal.UnaryEncoding)], ids=str)
def test_mechanisms_are_the_designs_they_claim_to_be(mechanism: Any) -> None:
    table, claim, k = table_of(mechanism).astype(int), mechanism.design, mechanism.categories
    scale = Fraction(len(table), claim.outputs)  # sets are given in the smallest whole numbers
    assert scale == 1 or isinstance(mechanism, shoal.SubsetSelection)
    together = table.T @ table
    for x, z in product(range(k), repeat=2):
        inside = x % claim.blocks == z % claim.blocks
        expected = claim.supporting if x == z else claim.common if inside else 0
        assert together[x, z] == scale * expected
    everybody = int(table.all(axis=1).sum())
    assert mechanism._everybody * len(table) <= everybody + 1e-9
    homes = [{y * claim.blocks // len(table) for y in np.flatnonzero(table[:, x])} for x in range(k)]
    assert all(home == {x % claim.blocks} for x, home in enumerate(homes)) or claim.blocks == 1


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", representative([m for m in MADE if m.categories <= 9], len(MADE) // 3), ids=str)
def test_mechanisms_estimate_without_bias_and_with_their_variance(mechanism: Categorical) -> None:
    """From one report, over all outputs: estimates and variances are linear in people."""
    outputs = outputs_of(mechanism)
    probabilities = np.array([[float(probability) for probability in row] for row in matrix_of(mechanism)])
    estimates = np.array(
        [mechanism.estimate(mechanism.aggregate(outputs[y : y + 1])).frequencies for y in range(len(outputs))]
    )
    means = probabilities @ estimates
    size = float(np.abs(estimates).max())
    assert means == pytest.approx(np.eye(mechanism.categories), abs=1e-10 * size)
    spreads = probabilities @ estimates**2 - means**2
    for x, spread in enumerate(spreads):
        one = np.eye(mechanism.categories)[x]
        assert mechanism.variance(one, reports=1) == pytest.approx(spread, rel=1e-9, abs=1e-10 * size**2)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", representative(MADE, len(MADE) // 3), ids=str)
def test_no_pair_of_categories_exceeds_the_blanket_of_mechanisms(mechanism: Categorical) -> None:
    """The bound is at least that of every pair with the largest blanket, and no larger where nothing supports all."""
    table, matrix = table_of(mechanism), matrix_of(mechanism)
    rows = {tuple(sorted(designs.blanket_rows(matrix, x, z))) for x, z in permutations(range(mechanism.categories), 2)}
    for reports, share in ((1, 0.5), (3, 0.3), (6, 0.05)):
        epsilon = share * mechanism.local_epsilon
        bound = shoal.amplify(mechanism, reports=reports, bound="blanket").delta(epsilon)
        worst = max(_float_delta(pair, math.exp(epsilon), reports) for pair in rows)
        assert worst <= bound * (1 + 1e-9)
        if not table.all(axis=1).any() or not isinstance(
            mechanism, shoal.PrivateIndependentRappor | shoal.LocalHashing
        ):
            assert bound <= worst * (1 + 1e-6)


def _float_delta(rows: Sequence[designs.Row], factor: float, reports: int) -> float:
    """Return E[(W₁ + … + Wₙ)₊]/n by listing the counts of the values."""
    distribution = [(float(one) - factor * float(two), float(probability)) for one, two, probability in rows]
    distribution.append((0.0, float(1 - sum((probability for *_, probability in rows), Fraction(0)))))
    total = [(0.0, 1.0)]
    for _ in range(reports):
        merged: dict[float, list[float]] = {}
        for (value, mass), (step, probability) in product(total, distribution):
            entry = merged.setdefault(round(value + step, 9), [value + step, 0.0])
            entry[1] += mass * probability
        total = [(value, mass) for value, mass in merged.values()]
    return math.fsum(value * mass for value, mass in total if value > 0) / reports


FEW = [m for m in MADE if m.categories <= 4 and len(outputs_of(m)) <= 16]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", FEW, ids=str)
def test_no_dataset_of_three_exceeds_the_bound_of_mechanisms(mechanism: Categorical) -> None:
    matrix = [[float(probability) for probability in row] for row in matrix_of(mechanism)]
    reports = 3 if len(matrix[0]) <= 9 else 2
    curve = shoal.amplify(mechanism, reports=reports)
    lower = curve.lower
    assert curve.bound == ("one-bit" if getattr(mechanism, "bit", None) else "blanket")
    assert lower is not None
    epsilons = [share * mechanism.local_epsilon for share in (0.0, 0.2, 0.6, 0.95)]
    worst = [0.0] * len(epsilons)
    for others in combinations_with_replacement(range(mechanism.categories), reports - 1):
        distributions = [
            enumeration.shuffled_distribution(matrix, (victim, *others)) for victim in range(mechanism.categories)
        ]
        for one, two in permutations(distributions, 2):
            found = [enumeration.hockey_stick(one, two, epsilon) for epsilon in epsilons]
            worst = [max(pair) for pair in zip(worst, found, strict=True)]
    for epsilon, exact in zip(epsilons, worst, strict=True):
        assert lower.delta(epsilon) * (1 - 1e-11) - 1e-15 <= exact <= curve.delta(epsilon) * (1 + 1e-11) + 1e-15


@pytest.mark.slow
def test_the_statistical_term_is_not_necessary_for_few_categories() -> None:
    """One message a person, 16 categories: the squared error is far below 1/n."""
    chosen = shoal.calibrate(
        shoal.RandomizedResponse(categories=16, local_epsilon=1), epsilon=1, delta=1e-6, reports=10**6
    )
    assert chosen.curve.delta(1.0) <= 1e-6
    assert isinstance(chosen.randomizer, shoal.RandomizedResponse)
    assert chosen.randomizer.variance(reports=10**6).sum() < 2e-3 * 1e-6
