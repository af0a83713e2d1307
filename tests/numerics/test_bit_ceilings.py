"""Bounds of one-bit reports at many ε: never below the lower ends of the largest value, and close to the upper ones."""

import math

import numpy as np
import pytest

from shoal.numerics.bit_ceilings import BitCeilings, cell_ends
from shoal.numerics.bit_count import worst_count
from shoal.pairs import BitRows

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
        gains, excesses = np.array([each.gain for each in counts]), np.array([each.excess for each in counts])
        bits = BitCeilings(reports - 1, counts[0].rows, gains, excesses)
        known = [worst_count(each, tolerance=1e-6) for each in counts]
        close = bits.close(1e-4)
        assert np.all(close >= np.log([each.lower for each in known]) - 1e-13)
        assert np.all(bits.quick >= close)
        if reports >= 10**4:
            near = slice(0, 9)  # up to four deviations
            assert np.all(
                close[near] <= np.log([each.upper for each in known])[near] + (3e-3 if reports < 10**6 else 2e-4)
            )


def test_logarithms_far_below_the_least_double() -> None:
    rows = BitRows.response(1.0)
    epsilons = np.array([0.02, 0.05, 0.2])
    gains = np.array([rows.counts(10**8, epsilon)[0].gain for epsilon in epsilons.tolist()])
    bits = BitCeilings(10**8 - 1, rows.rows, gains, np.expm1(epsilons))
    close = bits.close(1e-2)
    # About −x²/2 of so many deviations.
    deviation = (rows.high - rows.low) / math.sqrt(10**8 * rows.low * rows.high)
    assert np.all(np.diff(close) < 0) and close[-1] < -1e5
    assert close == pytest.approx(-((epsilons / deviation) ** 2) / 2, rel=0.15)
    assert np.all(close <= bits.quick)


@pytest.mark.parametrize("m", [199, 1000, 10**9])
def test_cells_are_all_counts_once(m: int) -> None:
    first, last = cell_ends(m, 4.0)
    assert first[0] == 0 and last[-1] == m
    assert np.array_equal(first[1:], last[:-1] + 1) and np.all(last >= first)
