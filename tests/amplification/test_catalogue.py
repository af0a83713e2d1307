"""Every proven bound of the catalogue above what real inputs reach, and in the order that their proofs say."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import shoal
from shoal.amplification.amplify import proven_bounds, setting_of
from shoal.amplification.setting import BOUNDS, Setting, ShufflingBound
from shoal.cli import main
from shoal.curve import Comparison
from shoal.mechanisms import Randomizer

_SLOW = {"girgis", "koskela"}
_ORDER = (  # the first is never above the second
    ("strong-clones", "clones"),
    ("clones", "clones-sharp-form"),
    ("clones", "clones-closed-form"),
    ("clones", "koskela"),
    ("strong-clones", "strong-clones-sharp-form"),
    ("strong-clones-sharp-form", "clones-sharp-form"),
    ("strong-clones", "girgis"),
    ("strong-clones", "erlingsson"),
    ("one-bit", "blanket"),
    ("blanket", "strong-clones"),
    ("blanket", "decomposition"),
    ("blanket", "blanket-bennett"),
    ("blanket", "blanket-hoeffding"),
    ("blanket", "cheu"),
    ("decomposition", "decomposition-closed-form"),
)


def points() -> Iterator[tuple[Randomizer | None, int, float, float]]:
    """Yield 500 settings: 125 on a grid, the others drawn once and for all."""
    for reports, local_epsilon, delta in product(
        (1, 30, 1000, 10**5, 10**8), (0.01, 0.3, 1.0, 3.0, 9.0), (0.1, 1e-3, 1e-6, 1e-12, 1e-50)
    ):
        yield None, reports, local_epsilon, delta
    random = np.random.default_rng(2012)
    for place in range(375):
        reports, local_epsilon = int(10 ** random.uniform(0, 8)), float(10 ** random.uniform(-2, 1))
        delta = float(10 ** random.uniform(-15, -0.5))
        if place < 275:
            yield None, reports, local_epsilon, delta
        elif place < 359:
            size = (2, 3, 10, 100)[place % 4]
            yield shoal.RandomizedResponse(categories=size, local_epsilon=local_epsilon), reports, 0.0, delta
        else:
            kinds = shoal.HadamardResponse, shoal.Rappor, shoal.UnaryEncoding, shoal.SubsetSelection
            yield kinds[place % 4](categories=12, local_epsilon=min(local_epsilon, 5.0)), reports, 0.0, delta


def applies(row: ShufflingBound, setting: Setting) -> bool:
    """Tell whether a bound says something of this randomizer, without `amplify`."""
    return math.isfinite(setting.local_epsilon) if row.applies is None else row.applies(setting)


def asked(row: ShufflingBound, setting: Setting, delta: float) -> float | None:
    """Return ε(δ) by this bound, or nothing out of its range."""
    try:
        return float(row.make(setting).epsilon(delta))
    except (shoal.errors.RangeError, shoal.errors.UnreachableError):
        return None


def reached(randomizer: Randomizer | None, reports: int, local_epsilon: float, epsilon: float) -> float:
    """Return the δ that real inputs reach at this ε."""
    if randomizer is not None:
        return float(shoal.lower_bound(randomizer, reports=reports).delta(epsilon))
    return float(shoal.lower_bound(local_epsilon=local_epsilon, reports=reports).delta(epsilon))


def checked(randomizer: Randomizer | None, reports: int, local_epsilon: float, delta: float, *, slow: bool) -> set[str]:
    """Check limits and order at one point, and return the bounds that said something."""
    given = None if randomizer is not None else local_epsilon
    setting = setting_of(randomizer, reports=reports, local_epsilon=given)
    rows = [row for row in BOUNDS.values() if row.proven and (slow or row.name not in _SLOW)]
    found = {row.name: asked(row, setting, delta) for row in rows if applies(row, setting)}
    told = {name: epsilon for name, epsilon in found.items() if epsilon is not None}
    assert all(0 <= epsilon <= setting.local_epsilon for epsilon in told.values()), (told, setting, delta)
    # What is reached falls with ε: if the least bound is above it, so are all.
    assert reached(randomizer, reports, local_epsilon, min(told.values())) <= delta, (told, setting, delta)
    for smaller, larger in _ORDER:
        if smaller in told and larger in told:
            assert told[smaller] <= told[larger] * (1 + 1e-6) + 1e-12, (smaller, larger, setting, delta)
    return set(told)


@pytest.mark.slow
def test_bounds_are_in_order_at_500_points() -> None:
    everything = list(points())
    assert len(everything) == 500
    told: set[str] = set()
    for place, point in enumerate(everything):
        slow = place % 29 == 0 and point[1] <= 10**6
        told |= checked(*point, slow=slow)
    several = {"covers", "dummies", "split-and-mix"}  # with which no others can be compared: test_several_messages.py
    assert told == {row.name for row in BOUNDS.values() if row.proven} - several


@pytest.mark.slow
@pytest.mark.parametrize(
    ("randomizer", "reports", "delta"),
    [
        (shoal.Laplace(local_epsilon=0.5), 10**5, 1e-6),
        (shoal.Laplace(local_epsilon=4.0), 10**6, 1e-10),
        (shoal.Gaussian(sigma=2.0), 1000, 1e-4),
        (shoal.Gaussian(sigma=20.0), 100, 1e-4),
    ],
    ids=str,
)
def test_bounds_for_noise_are_in_order(randomizer: Randomizer, reports: int, delta: float) -> None:
    assert "blanket" in checked(randomizer, reports, 0.0, delta, slow=False)


@pytest.mark.parametrize("name", [row.name for row in BOUNDS.values() if not row.proven])
def test_what_is_not_proven_is_labelled(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    curves = {curve.bound: curve for curve in shoal.compare(local_epsilon=1, reports=10**6, delta=1e-6)}
    assert isinstance(curves[name], Comparison)
    assert not isinstance(curves[name], shoal.PrivacyCurve)
    assert not curves[name].proven
    assert curves[name].to_dict(delta=1e-6)["proven"] is False
    assert "no guarantee" in repr(curves[name])
    with pytest.raises(shoal.ParameterError, match="comparison only"):
        shoal.amplify(local_epsilon=1, reports=10**6, bound=name)
    main(["explain", name])
    assert "comparison only" in capsys.readouterr().out


def test_what_is_proven_is_not_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"tightest", *(row.name for row in BOUNDS.values() if row.proven)} <= set(proven_bounds())
    for curve in shoal.compare(shoal.RandomizedResponse(categories=2, local_epsilon=0.4), reports=10**5, delta=1e-6):
        assert isinstance(curve, shoal.PrivacyCurve) == curve.proven == shoal.explain(curve.bound).proven
    assert {row.name for row in BOUNDS.values() if not row.proven} == {"check-ins", "bassily"}
    main(["explain", "strong-clones"])
    assert "comparison only" not in capsys.readouterr().out
    with pytest.raises(shoal.ShoalError):
        shoal.explain("no-such-bound")


# Errata that are about the catalogue


def homogeneous_delta(reports: int, local_epsilon: float, epsilon: float, *, others: int) -> float:
    """Return δ of ternary randomized response, victim at 0 or 1 and all others on one value; by enumeration."""
    local, growth = math.exp(local_epsilon), math.exp(epsilon)
    matrix = [[(local if x == y else 1.0) / (local + 2) for y in range(3)] for x in range(3)]
    counts = [(a, b, reports - a - b) for a in range(reports + 1) for b in range(reports + 1 - a)]

    def among_others(count: tuple[int, ...]) -> float:
        if min(count) < 0:
            return 0.0
        ways = math.factorial(reports - 1) // math.prod(math.factorial(number) for number in count)
        return ways * math.prod(probability**number for probability, number in zip(matrix[others], count, strict=True))

    def distribution(victim: int) -> list[float]:
        return [
            math.fsum(
                matrix[victim][y] * among_others(tuple(c - (place == y) for place, c in enumerate(count)))
                for y in range(3)
            )
            for count in counts
        ]

    zero, one = distribution(0), distribution(1)
    assert math.fsum(zero) == pytest.approx(1, rel=1e-12)
    return max(
        math.fsum(max(a - growth * b, 0.0) for a, b in zip(*pair, strict=True)) for pair in ((zero, one), (one, zero))
    )


def test_the_third_symbol_is_not_always_the_worst_place() -> None:
    local_epsilon, reports = 8.98318, 13
    lower = shoal.lower_bound(shoal.RandomizedResponse(categories=3, local_epsilon=local_epsilon), reports=reports)
    for share, third_is_worst in ((0.5, True), (0.9, True), (0.95, False), (0.99, False)):
        epsilon = share * local_epsilon
        third, own = (homogeneous_delta(reports, local_epsilon, epsilon, others=others) for others in (2, 0))
        assert (third > own) == third_is_worst
        assert lower.delta(epsilon) == pytest.approx(max(third, own), rel=1e-7)
    assert own == pytest.approx(0.0856352, rel=1e-5)
    assert third == pytest.approx(0.0843914, rel=1e-5)


@pytest.mark.parametrize(("reports", "local_epsilon"), [(10_000, 3.0), (10_000, 4.0), (10_000, 5.0), (10**5, 5.0)])
def test_the_clones_jump_where_the_paper_says_and_the_truth_at_twice_that(reports: int, local_epsilon: float) -> None:
    height, epsilon = reports * math.exp(-local_epsilon) / 2, 0.99 * local_epsilon
    truth = shoal.lower_bound(local_epsilon=local_epsilon, reports=reports, categories=2)
    strong, clones = (
        shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound=bound)
        for bound in ("strong-clones", "clones")
    )
    for curve, ratio in ((truth, 2.0), (strong, 2.0), (clones, 1.05)):
        assert -math.log(curve.delta(epsilon)) / height == pytest.approx(ratio, rel=0.05)
    assert truth.epsilon(math.exp(-1.05 * height)) < 0.6 * local_epsilon


def test_every_test_named_in_the_errata_exists_in_its_file() -> None:
    root = Path(__file__).parents[2]
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", (root / "docs" / "theory" / "errata.md").read_text())
    assert {place for place, _ in named} > {"tests/test_errata.py"}
    for place, name in named:
        assert f"def {name}(" in (root / place).read_text(), (place, name)
