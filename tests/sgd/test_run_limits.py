"""Lower limits of a run: true of some dataset, by brute force and by integration, and never above a guarantee."""

import itertools
import math
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_poly, ctx, fmpz
from numpy.typing import NDArray
from scipy.special import ndtr

from shoal import sgd
from shoal.sgd.run import Run
from shoal.sgd.run_limits import (
    Crowd,
    Victim,
    _distinguished,
    _Statistic,
    _summed,
    loader_limit,
    lower_bound,
    soft_limit,
)
from tests.exhaustive import amount, representative

_POINTS = np.linspace(-11.0, 19.0, 1501)


def layouts(examples: int, size: int) -> Counter[tuple[tuple[int, bool], ...]]:
    """Return how often each batch has so many empty slots, and the victim or not, over all orders of the slots."""
    steps = -(-examples // size)
    found: Counter[tuple[tuple[int, bool], ...]] = Counter()
    for order in itertools.permutations(range(steps * size)):
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        found[tuple((sum(slot >= examples for slot in batch), 0 in batch) for batch in batches)] += 1
    return found


@pytest.mark.parametrize(("examples", "size"), [(3, 2), (5, 2), (5, 3), (4, 3), (7, 4), (6, 3)])
@pytest.mark.parametrize("pull", [1.0, 0.6])
def test_exceeding_is_what_all_orders_give(examples: int, size: int, pull: float) -> None:
    steps = -(-examples // size)
    found = layouts(examples, size)
    orders = sum(found.values())
    for multiplier, level, victim in itertools.product((0.4, 1.0, 3.0), (0.3, 2.0, 6.0), (1.0, 0.0, -1.0)):
        means = [
            (count, [(pull * (empty + there) + victim * there) / multiplier for empty, there in batches])
            for batches, count in found.items()
        ]
        # Where hardly anything exceeds the level, 1 − ∏(1 − q) loses its digits.
        none = sum(count * math.prod(float(ndtr(level - mean)) for mean in row) for count, row in means) / orders
        tails = [(count, [float(ndtr(mean - level)) for mean in row]) for count, row in means]
        some = sum(count * (1 if 1 in row else -math.expm1(sum(math.log1p(-q) for q in row))) for count, row in tails)
        some /= orders
        crowd = Crowd(steps, size, steps * size - examples, pull / multiplier)
        exceeding = crowd.exceeding(level, (pull + victim) / multiplier)
        assert exceeding is not None
        sides = exceeding[0]
        assert sides.none_low <= none * (1 + 1e-13) and none * (1 - 1e-13) <= sides.none_high
        assert sides.some_low <= some * (1 + 1e-12) and some * (1 - 1e-12) <= sides.some_high
        assert sides.some_high <= sides.some_low * (1 + 1e-10) and sides.none_high <= sides.none_low * (1 + 1e-10)


def test_the_layout_is_that_of_an_epoch() -> None:
    """Of a thousand epochs, as many batches with each number of empty slots as all orders have on average."""
    run = Run(examples=5, batch_size=3)
    seen: Counter[tuple[tuple[int, bool], ...]] = Counter()
    for epoch in range(4000):
        batches = run.sampler.batches(run, key=bytes(32), epoch=epoch)
        seen[tuple((3 - len(batch), 0 in batch) for batch in batches)] += 1
    expected = layouts(5, 3)
    assert set(seen) == set(expected)
    for layout, count in expected.items():
        share = count / 720
        assert abs(seen[layout] / 4000 - share) < 5 * math.sqrt(share / 4000)


def divergence(run: Run, pull: float, epsilon: float) -> float:
    """Return the larger δ(ε) of both directions, by adding up densities: two batches, one epoch, any order."""
    points = np.linspace(-11, 11 + (1 + 2 * pull) / run.sum_multiplier, 1201)
    width = points[1] - points[0]

    def density(victim: float) -> NDArray[np.float64]:
        found = layouts(run.examples, run.batch_size)
        total = np.zeros((len(points), len(points)))
        for batches, count in found.items():
            rows = [
                np.exp(-0.5 * (points - (pull * (empty + there) + victim * there) / run.sum_multiplier) ** 2)
                for empty, there in batches
            ]
            total += count / sum(found.values()) * np.outer(*rows)
        return np.asarray(total * width**2 / (2 * math.pi))

    here, there = density(1.0), density(-1.0 if run.adjacency == "replace" else 0.0)
    growth = math.exp(epsilon)
    return float(max(np.maximum(here - growth * there, 0).sum(), np.maximum(there - growth * here, 0).sum()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "adjacency"),
    representative(
        itertools.product(
            (
                (3, 2, 0.5, 1e-3),
                (3, 2, 0.3, 1e-6),
                (3, 2, 1.0, 1e-2),
                (5, 3, 0.4, 1e-4),
                (4, 3, 0.4, 1e-4),
                (4, 2, 0.5, 1e-3),
            ),
            ("replace", "zero-out"),
        ),
        4,
    ),
)
def test_some_dataset_reaches_the_limit(setting: tuple[int, int, float, float], adjacency: str) -> None:
    """What is printed as below every bound is contradicted by data; counted without empty slots, it was not."""
    examples, size, multiplier, delta = setting
    run = Run(examples=examples, batch_size=size, noise_multiplier=multiplier, adjacency=adjacency)
    least = lower_bound(run, delta=delta)
    assert least > 0
    reached = max(divergence(run, pull, least) for pull in np.linspace(0, 1, 21))
    assert reached >= delta * (1 - 1e-6)
    assert least <= run.sampler.epsilon(run, delta)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
def test_gradients_that_are_seen_one_by_one(adjacency: str) -> None:
    """There the examples are shuffled by themselves, and the size of a batch says nothing."""
    run = Run(examples=2, noise_multiplier=0.5, adjacency=adjacency)
    other = Run(
        examples=2, batch_size=2, noise_multiplier=0.5, adjacency=adjacency, noise="example", releases="every-step"
    )
    assert lower_bound(run, delta=1e-3) == lower_bound(other, delta=1e-3)
    assert divergence(run, 1.0, lower_bound(run, delta=1e-3)) >= 1e-3 * (1 - 1e-6)
    # Three clients, two at a time: no report is missing, so that nothing is empty.
    odd = Run(examples=3, batch_size=2, noise_multiplier=0.5, noise="example", releases="every-step")
    assert lower_bound(odd, delta=1e-3) == lower_bound(Run(examples=3, noise_multiplier=0.5), delta=1e-3)


@pytest.mark.slow
def test_empty_slots_hide_an_example() -> None:
    """The run of Chua et al. has none: 938 batches of 64. With 60,000 examples, 32 of the slots are empty."""
    common: dict[str, Any] = {"batch_size": 64, "noise_multiplier": 0.8, "adjacency": "zero-out"}
    assert 6.058 < lower_bound(Run(examples=60_032, **common), delta=1e-6) < 6.07
    assert 2.76 < lower_bound(Run(examples=60_000, **common), delta=1e-6) < 2.8


@pytest.mark.slow
def test_never_above_a_guarantee() -> None:
    chosen = random.Random(5)
    for _ in range(amount(10, 60)):
        examples = chosen.choice([2, 3, 10, 100, 1000, 20_000, 10**6])
        fields: dict[str, Any] = {
            "examples": examples,
            "batch_size": min(examples, chosen.choice([1, 2, 3, 7, 64, 250, 1000])),
            "noise_multiplier": math.exp(chosen.uniform(-1.5, 4)),
            "epochs": chosen.choice([1, 1, 2, 30, 5000]),
            "adjacency": chosen.choice(["replace", "zero-out"]),
            "noise": chosen.choice(["batch", "example"]),
            "releases": chosen.choice(["every-step", "sums"]),
            "sampling": chosen.choice(["permutation", "permutation", "fixed-order"]),
        }
        delta = chosen.choice([1e-2, 1e-6, 1e-12])
        run = Run(**fields)
        assert lower_bound(run, delta=delta) <= run.sampler.epsilon(run, delta), (run, delta)


def test_one_batch_is_a_normal_variable() -> None:
    """Then the sum is all there is, and the limit is the guarantee."""
    for multiplier in (0.2, 0.5, 3.0, 40.0):
        run = Run(examples=10, batch_size=10, noise_multiplier=multiplier)
        assert lower_bound(run, delta=1e-6) == pytest.approx(run.sampler.epsilon(run, 1e-6), rel=1e-5)


def test_a_fixed_order_is_not_drawn_again() -> None:
    fresh, kept = (
        Run(examples=100, batch_size=5, noise_multiplier=0.5, epochs=20, sampling=sampling)
        for sampling in ("permutation", "fixed-order")
    )
    assert lower_bound(kept, delta=1e-6) == _summed(2 * math.sqrt(20 / 20) / 0.5, 1e-6)
    assert lower_bound(kept, delta=1e-6) < lower_bound(fresh, delta=1e-6)


@pytest.mark.parametrize("epochs", [1, 2, 5, 40, 5000])
def test_the_number_of_epochs_that_stand_out(epochs: int) -> None:
    """Against exact binomial probabilities, in both directions."""
    from scipy.stats import binom

    here, there = (Crowd(50, 1, 0, 0.0).exceeding(4.0, victim) for victim in (4.5, 1.0))
    assert here is not None and there is not None
    first, second = here[0].some_low, there[0].some_high
    counts = np.arange(epochs + 1)
    with np.errstate(all="ignore"):
        best = max(
            np.nanmax(np.log(binom.sf(counts - 1, epochs, first) - 1e-5) - binom.logsf(counts - 1, epochs, second)),
            np.nanmax(np.log(binom.cdf(counts, epochs, second) - 1e-5) - binom.logcdf(counts, epochs, first)),
        )
    found = _distinguished(here[0], there[0], epochs, 1e-5)
    assert found <= best * (1 + 1e-9) + 1e-9
    if epochs <= 40:
        assert found == pytest.approx(best, rel=1e-6)


@pytest.mark.slow
def test_many_empty_slots_and_many_batches_have_an_answer() -> None:
    for examples, size in ((10**12 - 1, 2), (1_500_001, 1_000_000), (10**9 - 500, 1000)):
        run = Run(examples=examples, batch_size=size, noise_multiplier=0.3)
        assert 0 <= lower_bound(run, delta=1e-6) <= sgd.guarantee(run, delta=1e-6).epsilon


def stays(crowd: Crowd, level: float, slots: int, shift: float) -> arb_poly:
    """Return Σ C(slots, k)·Φ(level − mean of k empty slots)·xᵏ, in ball arithmetic."""
    means = [arb(shift) + k * arb(crowd.spacing) for k in range(crowd.empty + 1)]
    below = [((mean - arb(level)) / arb(2).sqrt()).erfc() / 2 for mean in means]
    return arb_poly([fmpz.bin_uiui(slots, k) * each for k, each in enumerate(below)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batches", "size", "empty"), [(938, 64, 32), (196, 256, 176), (3, 9, 4), (10**5, 5, 3), (2, 60, 59)]
)
def test_exceeding_against_ball_arithmetic(batches: int, size: int, empty: int) -> None:
    """The whole sum with 480 digits lies between the two ends, which are close."""
    before, ctx.prec = ctx.prec, 1600
    try:
        for spacing, level in ((0.75, 6.6), (1.25, 8.0), (0.1, 4.0)):
            crowd = Crowd(batches, size, empty, spacing)
            product, square, left = arb_poly([1]), stays(crowd, level, size, 0.0), batches - 1
            while left:
                product = (product * square).truncate(empty + 1) if left & 1 else product
                square, left = (square * square).truncate(empty + 1), left >> 1
            exceeding = crowd.exceeding(level, 2.0, 0.5)
            assert exceeding is not None
            for victim, sides in zip((2.0, 0.5), exceeding, strict=True):
                whole = (product * stays(crowd, level, size - 1, victim))[empty]
                none = whole / fmpz.bin_uiui(batches * size - 1, empty)
                assert arb(sides.none_low) <= none <= arb(sides.none_high)
                assert arb(sides.some_low) <= 1 - none <= arb(sides.some_high)
                assert sides.some_high - sides.some_low <= 1e-6 * sides.some_high
                assert sides.none_high - sides.none_low <= 1e-6 * sides.none_high + 2e-290
    finally:
        ctx.prec = before


@pytest.mark.parametrize("more", [{"participations": 4}, {"participations": 4, "epochs": 3}, {"public_steps": 1}])
def test_a_loader_knows_nothing_of_other_samplers(more: dict[str, Any]) -> None:
    plain = Run(examples=225, batch_size=64, noise_multiplier=5, adjacency="zero-out", epochs=more.get("epochs", 1))
    run = replace(plain, sampling="allocation", **more)
    assert loader_limit(run, delta=1e-6) == loader_limit(plain, delta=1e-6)


def _victim(adjacency: str, pull: float, multiplier: float) -> Victim:
    return Victim((1 + pull) / multiplier, ((-1 if adjacency == "replace" else 0) + pull) / multiplier)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
@pytest.mark.parametrize(
    ("examples", "size", "multiplier", "delta"),
    [(3, 2, 1.0, 1e-2), (5, 3, 0.7, 1e-3), (4, 3, 1.0, 1e-3), (4, 2, 1.0, 1e-3)],
)
def test_two_batches_by_integration(examples: int, size: int, multiplier: float, delta: float, adjacency: str) -> None:
    """Over all orders of the slots: what is claimed is reached."""
    run = Run(examples=examples, batch_size=size, noise_multiplier=multiplier, adjacency=adjacency)
    for pull in (1.0, 0.5, 0.0):
        crowd = Crowd(2, size, 2 * size - examples, pull / multiplier)
        limit = soft_limit(crowd, _victim(adjacency, pull, multiplier), 1, delta)
        assert limit > 0
        assert divergence(run, pull, limit) >= delta * (1 - 1e-5)
        assert adjacency == "replace" or divergence(run, pull, 1.1 * limit) < delta


GOLDEN = [  # remove, from a contour integral; at noise 2σ it is the pair of others that pull as hard as they can
    (4.0, 938, 0.02751929), (2.0, 1000, 0.05923146), (2.0, 235, 0.12919377), (1.0, 10_000, 0.04582223),
    (1.0, 938, 0.17885276), (1.0, 235, 0.47336152),
]  # fmt: skip


@pytest.mark.parametrize(("noise", "steps", "exact"), GOLDEN)
def test_known_values_from_below(noise: float, steps: int, exact: float) -> None:
    limit = soft_limit(Crowd(steps, 8, 0, 0.0), Victim(1 / noise, 0.0), 1, 1e-6)
    assert 0.996 * exact < limit <= exact * (1 + 1e-7)
    replaced = Run(examples=8 * steps, batch_size=8, noise_multiplier=2 * noise)
    assert loader_limit(replaced, delta=1e-6) >= limit


@pytest.mark.parametrize(("epochs", "exact", "replaced"), [(10, 1.2081, 1.9945), (100, 4.1255, 7.2652)])
def test_epochs_from_below(epochs: int, exact: float, replaced: float) -> None:
    """Within a per cent of what is proved from above, and never beyond."""
    crowd = Crowd(235, 8, 0, 0.0)
    assert 0.99 * exact < soft_limit(crowd, Victim(1.0, 0.0), epochs, 1e-6) <= exact * 1.0001
    assert 0.99 * replaced < soft_limit(crowd, Victim(1.0, -1.0), epochs, 1e-6) <= replaced


def _loader_divergence(examples: int, size: int, other: float, epsilon: float) -> float:
    """Return δ(ε) of two batches, the second of which is short, by adding up densities; one dimension a batch."""
    width = _POINTS[1] - _POINTS[0]

    def density(mean: float) -> NDArray[np.float64]:
        return np.asarray(np.exp(-0.5 * (_POINTS - mean) ** 2) / math.sqrt(2 * math.pi) * width)

    def world(victim: float) -> NDArray[np.float64]:
        mean, nobody = victim + 1, density(0.0)
        first, second = np.outer(density(mean), nobody), np.outer(nobody, density(mean))
        return np.asarray(size / examples * first + (1 - size / examples) * second)

    one, two = world(1.0), world(other)
    growth = math.exp(epsilon)
    return float(max(np.maximum(one - growth * two, 0).sum(), np.maximum(two - growth * one, 0).sum()))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
@pytest.mark.parametrize(("examples", "size"), [(3, 2), (100, 99), (100, 51)])
def test_a_short_last_batch_at_a_known_position(examples: int, size: int, adjacency: str) -> None:
    run = Run(examples=examples, batch_size=size, noise_multiplier=1.0, adjacency=adjacency)
    limit = loader_limit(run, delta=1e-3)
    assert limit > 1
    assert _loader_divergence(examples, size, -1.0 if adjacency == "replace" else 0.0, limit) >= 1e-3


def test_a_dropped_batch_hides_the_victim() -> None:
    run = Run(examples=6_000, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
    assert 6.283 < loader_limit(run, delta=1e-6) < 6.284
    assert 6.281 < loader_limit(run, delta=1e-6, drop_last=True) < 6.282
    # Half of all examples are in no batch: at most half of δ is left of what is proved for all of them.
    half = Run(examples=127, batch_size=64, noise_multiplier=1, adjacency="zero-out")
    assert loader_limit(half, delta=1e-3, drop_last=True) < run.sampler.epsilon(
        Run(examples=64, batch_size=64, noise_multiplier=1, adjacency="zero-out"), 1e-3 * 127 / 64
    )


@pytest.mark.slow
@pytest.mark.parametrize(("empty", "spacing"), [(0, 0.0), (3, 0.7)])
def test_masses_are_those_of_a_simulation(empty: int, spacing: float) -> None:
    """A chi-square of 40 groups of values, in the world with the victim; the false-alarm rate is 1e-6."""
    crowd, victim, draws = Crowd(6, 4, empty, spacing), Victim(1.5, 0.5), 100_000
    statistic = _Statistic(crowd, victim)
    seen = statistic.seen()
    generator = np.random.default_rng(5)
    slots = np.argsort(generator.random((draws, 23)), axis=1)  # those of the others; the victim's is the first of 24
    means = np.zeros((draws, 6))
    for slot in range(23):
        means[:, (slot + 1) // 4] += spacing * (slots[:, slot] < empty)
    means[:, 0] += victim.one
    cells = np.searchsorted(statistic.cuts, means + generator.standard_normal((draws, 6)))
    values = statistic.index[cells].sum(axis=1) % statistic.period
    order = np.argsort(seen.one)[::-1]
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = np.minimum(40 * np.cumsum(seen.one[order]), 39).astype(np.int64)
    expected = draws * np.bincount(groups, seen.one, 40)
    counted = np.bincount(groups[values], minlength=40)
    assert seen.one.sum() == pytest.approx(1, abs=1e-9) and np.all(expected > 500)
    assert float(((counted - expected) ** 2 / expected).sum()) < 105  # 39 degrees of freedom


def test_what_is_too_much_is_left_to_others() -> None:
    assert soft_limit(Crowd(100, 1000, 700, 0.1), Victim(1.0, 0.0), 1, 1e-6) == 0.0
    assert soft_limit(Crowd(10**11, 1, 0, 0.0), Victim(1.0, 0.0), 1, 1e-6) == 0.0
    assert soft_limit(Crowd(10, 1, 0, 0.0), Victim(0.0, 0.0), 5, 1e-6) == 0.0
    with pytest.raises(Exception, match="replace"):
        loader_limit(
            Run(batch_size=8, public_steps=10, adjacency="add-remove", sampling="allocation", noise_multiplier=1),
            delta=1e-6,
        )


@pytest.mark.parametrize("delta", [5e-324, 1e-321, 1e-300])
def test_a_delta_that_is_hardly_a_double_is_answered(delta: float) -> None:
    run = Run(examples=8, batch_size=4, noise_multiplier=1.0, epochs=2, sampling="allocation")
    assert 0 <= lower_bound(run, delta=delta) < 100
