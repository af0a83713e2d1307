"""The largest δ over all datasets of one-bit reports, against sums over everything."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_poly, ctx

from shoal.numerics.bit_count import BitCount, _cell_ends, _Circle, log_ceiling, worst_count
from shoal.pairs import BitRows


def binomial(trials: int, share: Any) -> list[Any]:
    """Return all probabilities of Bin(trials, share)."""
    return [math.comb(trials, x) * share**x * (1 - share) ** (trials - x) for x in range(trials + 1)]


def convolved(one: list[Any], two: list[Any]) -> list[Any]:
    """Return the distribution of a sum."""
    total: list[Any] = [0] * (len(one) + len(two) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(two):
            total[i + j] += a * b
    return total


def partial_sums(low: Any, high: Any, others: int, count: int, factor: Any) -> list[Any]:
    """Return the sum of P − e^ε·Q over all numbers of ones up to t, for each t: what δ is the largest of."""
    pmf = [0, *convolved(binomial(others - count, low), binomial(count, high)), 0]
    steps = [
        (1 - low) * pmf[s + 1] + low * pmf[s] - factor * ((1 - high) * pmf[s + 1] + high * pmf[s])
        for s in range(others + 2)
    ]
    return [sum(steps[: t + 1]) for t in range(others + 2)]


def fast(others: int, count: int, bits: BitCount) -> np.ndarray:
    """Return v_k(t) for all t, in doubles."""
    parts = []
    for trials, share, other in ((others - count, bits.low, bits.not_low), (count, bits.high, bits.not_high)):
        x = np.arange(trials + 1)
        logs = np.array([math.lgamma(trials + 1) - math.lgamma(v + 1) - math.lgamma(trials - v + 1) for v in x])
        parts.append(np.exp(logs + x * math.log(share) + (trials - x) * math.log(other)))
    pmf = np.convolve(*parts)
    return bits.gain * pmf - bits.excess * np.concatenate(([0.0], np.cumsum(pmf)[:-1]))


@pytest.mark.slow
def test_both_ends_are_around_the_largest_sum() -> None:
    rng = np.random.default_rng(15)
    for _ in range(60):
        total = int(rng.integers(3, 200))
        fewest, most = sorted(rng.choice(np.arange(1, total), 2, replace=False).tolist())
        rows, others = BitRows.of(fewest, most, total), int(rng.integers(0, 9))
        epsilon = float(rng.uniform(0, 0.98) * rows.reach)
        with ctx.workprec(200):
            low, high = (arb(part) / total for part in (fewest, most))
            for bits in rows.counts(others + 1, epsilon):
                a, b = (low, high) if bits.low == rows.low else (1 - high, 1 - low)
                sums = [partial_sums(a, b, others, k, arb(epsilon).exp()) for k in range(others + 1)]
                truth = max(max(float(value) for value in row) for row in sums)
                found = worst_count(bits)
                assert found.lower <= truth * (1 + 1e-15) and truth <= found.upper * (1 + 1e-15)
                assert found.upper <= found.lower * (1 + 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("local_epsilon", "reports", "epsilon"),
    [
        (1.0, 400, 0.2),
        (1.0, 400, 0.0),
        (1.0, 1000, 0.1266),
        (math.log(2), 400, 0.08),
        (5.0, 400, 1.9),
        (0.05, 300, 0.0057),
    ],
)
def test_every_number_of_others_is_covered(local_epsilon: float, reports: int, epsilon: float) -> None:
    (bits,) = BitRows.response(local_epsilon).counts(reports, epsilon)
    truth = max(float(fast(reports - 1, k, bits).max()) for k in range(reports))
    found = worst_count(bits)
    assert found.lower * (1 - 1e-11) <= truth <= found.upper * (1 + 1e-11)
    assert found.upper <= found.lower * (1 + 1e-9)


@pytest.mark.slow
def test_cells_are_above_everything_in_them() -> None:
    rng = np.random.default_rng(16)
    for _ in range(60):
        local, others = float(10 ** rng.uniform(-2, 1.0)), int(10 ** rng.uniform(2.5, 9))
        rows = BitRows.response(local)
        if rng.random() < 0.5:
            fewest, most = sorted(rng.choice(np.arange(1, 1000), 2, replace=False).tolist())
            rows = BitRows.of(fewest, most, 1000)
        deviation = math.sqrt(others * rows.low * rows.not_low)
        epsilon = min(float(rng.uniform(0, 8)) * (rows.high - rows.low) / deviation, 0.95 * rows.reach)
        for bits in rows.counts(others + 1, epsilon):
            circle = _Circle(bits)
            first = np.sort(rng.integers(0, others, 40)).astype(float)
            last = np.minimum(first + np.floor(10 ** rng.uniform(0, math.log10(others), 40)), others)
            with np.errstate(all="ignore"):
                bounds = circle.taylor(first, last, np.full(40, -0.5))[0]
                refined = circle.taylor(first, last, rng.uniform(-1, 1, 40))[0]
                ends = [bits.quick(end, bits.slope) for end in (first, last)]
                quick = np.exp(np.maximum(*ends) - bits.base) * (1 + 1e-9)
                best = circle.bounded(first.astype(int), last.astype(int), np.full(40, -0.5)).upper
                for share in (0.0, 0.3, 0.5, 0.9, 1.0):
                    counts = np.floor(first + share * (last - first))
                    lower, upper = circle.ends(counts)
                    least = np.fmax(lower, 0.0)
                    assert np.all(least <= bounds) and np.all(least <= refined)
                    assert np.all(least <= quick) and np.all(least <= best) and np.all(least <= upper)


def test_the_maximum_is_next_to_the_tilted_mean() -> None:
    rng = np.random.default_rng(17)
    for _ in range(200):
        low, high = sorted(rng.uniform(0.001, 0.999, 2).tolist())
        others, epsilon = int(rng.integers(1, 40)), float(rng.uniform(0, 1) * math.log((1 - low) / (1 - high)))
        gain = (1 - low) - math.exp(epsilon) * (1 - high)
        bits = BitCount(others, low, high, 1 - low, 1 - high, gain, math.expm1(epsilon))
        count = int(rng.integers(0, others + 1))
        centre = float(bits.centres(np.array([others - count]), np.array([count]))[0])
        assert abs(int(np.argmax(fast(others, count, bits))) - centre) < 1 + 1e-9


def test_people_who_leave_never_make_it_smaller() -> None:
    bits = BitCount(60, 0.2, 0.7, 0.8, 0.3, 0.8 - 1.2 * 0.3, 0.2)
    for rest, count in ((40, 20), (0, 60), (60, 0)):
        values = [_Circle(bits).ends(np.array([float(count)]), np.array([float(max(rest - d, 0))])) for d in (0, 5, 30)]
        assert float(values[0][0][0]) <= float(values[1][1][0]) <= float(values[2][1][0]) * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("local_epsilon", [0.01, 0.3, 1.0, 2.0, 4.0, 6.0, 8.0])
def test_ends_are_close_everywhere(local_epsilon: float) -> None:
    rows = BitRows.response(local_epsilon)
    for reports in (1, 2, 20, 10**3, 10**4, 10**5, 10**6, 10**8, 10**10, 10**12):
        deviation = math.exp(local_epsilon / 2) / math.sqrt(reports)
        for width in (0.3, 2.0, 5.0, 9.0):
            epsilon = min(width * deviation * math.tanh(local_epsilon / 2), 0.9 * local_epsilon)
            (bits,) = rows.counts(reports, epsilon)
            found = worst_count(bits, tolerance=1e-7)
            if found.lower > 1e-290:
                assert found.lower <= found.upper <= found.lower * (1 + 1e-4), (reports, width)


@pytest.mark.slow
def test_every_single_maximum_is_between_its_ends_in_balls() -> None:
    rng = np.random.default_rng(99)
    with ctx.workprec(600):
        for _ in range(30):
            others, total = int(10 ** rng.uniform(0, 2.7)), int(10 ** rng.uniform(0.8, 9))
            fewest, most = (int(part) for part in np.sort(rng.integers(1, total, 2)))
            if fewest == most:
                continue
            rows = BitRows.of(fewest, most, total)
            deviation = math.sqrt(max(others * rows.low * rows.not_low, 0.1))
            share = float(rng.choice([0.5, 0.99, 0.999999, 1 - 1e-12]))
            epsilon = min(abs(float(rng.normal())) * 4 * (rows.high - rows.low) / deviation, rows.reach * share)
            for bits in rows.counts(others + 1, epsilon):
                low, high = arb(fewest) / total, arb(most) / total
                if bits.low != rows.low:
                    low, high = 1 - high, 1 - low
                factor, circle = arb(epsilon).exp(), _Circle(bits)
                for count in {0, others, int(rng.integers(0, others + 1))}:
                    masses = arb_poly([1 - low, low]) ** (others - count) * arb_poly([1 - high, high]) ** count
                    below, values = arb(0), []
                    for t in range(others + 1):
                        values.append(((1 - low) - factor * (1 - high)) * masses[t] - (factor - 1) * below)
                        below += masses[t]
                    exact = max(values)
                    unit = arb(bits.base).exp()
                    with np.errstate(all="ignore"):
                        lower, upper = circle.ends(np.array([float(count)]))
                    assert lower[0] == -math.inf or arb(float(lower[0])) * unit <= exact * (1 + arb(2) ** -500)
                    assert upper[0] == math.inf or exact <= arb(float(upper[0])) * unit
                    assert exact <= unit


ROWS = {
    "0.1": BitRows.response(0.1),
    "1": BitRows.response(1.0),
    "4": BitRows.response(4.0),
    "half": BitRows.of(1, 2, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("reports", [300, 2_000, 10**4, 10**6, 10**9])
def test_never_below_the_largest_value(name: str, reports: int) -> None:
    rows = ROWS[name]
    deviation = (rows.high - rows.low) / math.sqrt(reports * min(rows.low * rows.not_low, rows.high * rows.not_high))
    epsilons = np.linspace(0, min(8 * deviation, 0.99 * rows.reach), 17).tolist()
    for way in range(len(rows.counts(reports, 0.0))):
        counts = [each[way] for epsilon in epsilons if len(each := rows.counts(reports, epsilon)) > way]
        known = [worst_count(each, tolerance=1e-6) for each in counts]
        close = np.array([log_ceiling(each, 1e-4) for each in counts])
        assert np.all(close >= np.log([each.lower for each in known]) - 1e-13)
        assert np.all(np.array([each.base for each in counts]) >= close)
        if reports >= 10**4:
            near = slice(0, 9)  # up to four deviations
            assert np.all(
                close[near] <= np.log([each.upper for each in known])[near] + (3e-3 if reports < 10**6 else 2e-4)
            )


def test_logarithms_far_below_the_least_double() -> None:
    rows = BitRows.response(1.0)
    epsilons = np.array([0.02, 0.05, 0.2])
    counts = [rows.counts(10**8, epsilon)[0] for epsilon in epsilons.tolist()]
    close = np.array([log_ceiling(each, 1e-2) for each in counts])
    # About −x²/2 of so many deviations.
    deviation = (rows.high - rows.low) / math.sqrt(10**8 * rows.low * rows.high)
    assert np.all(np.diff(close) < 0) and close[-1] < -1e5
    assert close == pytest.approx(-((epsilons / deviation) ** 2) / 2, rel=0.15)
    assert np.all(close <= [each.base for each in counts])


@pytest.mark.parametrize("m", [199, 1000, 10**9])
def test_cells_are_all_counts_once(m: int) -> None:
    first, last = _cell_ends(m)
    assert first[0] == 0 and last[-1] == m
    assert np.array_equal(first[1:], last[:-1] + 1) and np.all(last >= first)


@pytest.mark.slow
@pytest.mark.parametrize("reports", [300, 640, 1000, 3000])
@pytest.mark.parametrize(("low", "high"), [(1, 50_000), (30_000, 99_990), (10, 5_000), (1, 99_999)])
def test_tables_of_which_one_row_hardly_varies(low: int, high: int, reports: int) -> None:
    """Sums overflowed here, and the upper end of δ was 1e-300 where δ is 0.49: no dataset may be above."""
    rows = BitRows.of(low, high, 100_000)
    for share in (0.0, 1e-3, 0.03, 0.2):
        for bits in rows.counts(reports, share * rows.reach):
            counts = (0, 1, 2, 5, 20, 100, reports // 2, reports - 1)
            truth = max(float(fast(reports - 1, k, bits).max()) for k in counts)
            found = worst_count(bits, tolerance=1e-8)
            assert found.lower <= found.upper
            assert truth <= found.upper * (1 + 1e-10) or truth < 1e-290
            assert log_ceiling(bits, 1e-4) >= math.log(max(truth, 1e-300)) - 1e-10
            every = max(float(fast(reports - 1, k, bits).max()) for k in range(reports)) if reports < 600 else math.inf
            assert found.lower <= every * (1 + 1e-10)
