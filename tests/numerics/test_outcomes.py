"""Lists of outcomes: δ(ε) at many ε lies within the exact sum over all counts, whatever the kinds of reports."""

import math

import numpy as np
import pytest
from flint import arb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal import HadamardResponse, RandomizedResponse, amplify
from shoal.amplification.blanket import BlanketProfile
from shoal.numerics.outcomes import outcome_list


def exact_delta(kinds: list[tuple[arb, arb, arb]], reports: int, central: arb) -> arb:
    """Return E[(ΣW)₊]/n by visiting all counts; the probabilities sum to one."""
    total = arb(0)

    def visit(kind: int, left: int, weight: arb, value: arb) -> None:
        nonlocal total
        first, second, probability = kinds[kind]
        if kind == len(kinds) - 1:
            value += left * (first - central * second)
            if not value < 0:
                total += max(value, arb(0)) * weight * probability**left / arb.fac_ui(left)
            return
        power = arb(1)
        for count in range(left + 1):
            visit(
                kind + 1, left - count, weight * power / arb.fac_ui(count), value + count * (first - central * second)
            )
            power *= probability

    visit(0, reports, arb.fac_ui(reports), arb(0))
    return total / reports


@pytest.mark.slow
@settings(max_examples=25, derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.floats(-2, 3), st.floats(-2, 3), st.integers(1, 1000)), min_size=2, max_size=4),
    st.integers(2, 12),
    st.lists(st.floats(0, 3), min_size=1, max_size=5),
)
def test_lists_contain_the_exact_sum(rows: list[tuple[float, float, int]], reports: int, epsilons: list[float]) -> None:
    """Likelihoods of any size; that they belong to a randomizer is not needed."""
    size = sum(weight for _, _, weight in rows)
    kinds = [(arb(math.exp(a)), arb(math.exp(b)), arb(weight) / size) for a, b, weight in rows]
    listed = outcome_list(
        [math.exp(a) for a, _, _ in rows],
        [math.exp(b) for _, b, _ in rows],
        [weight / size for _, _, weight in rows],
        reports,
    )
    assert listed is not None
    points = np.sort(np.array(epsilons))
    lower, upper = listed.brackets(points)
    for index, epsilon in enumerate(points.tolist()):
        truth = exact_delta(kinds, reports, arb(epsilon).exp())
        assert lower[index] <= float(truth.upper()) * (1 + 1e-15)
        assert upper[index] >= float(truth.lower()) * (1 - 1e-15)


@pytest.mark.parametrize("share", [1e-6, 1e-4, 1e-3])
def test_a_kind_that_tells_little_is_not_listed(share: float) -> None:
    """Its count varies, and is charged: both ends still contain the sum over all counts."""
    reports, own = 14, 0.008
    rest = (1 - own * 60.5) / (1 - 2 * own)  # so that both inputs have total probability one, nearly
    rows = [(60.0, 0.5, own), (0.5, 60.0, own), (rest + 0.1, rest + 0.1, share), (rest, rest, 1 - 2 * own - share)]
    listed = outcome_list([a for a, _, _ in rows], [b for _, b, _ in rows], [p for _, _, p in rows], reports)
    assert listed is not None
    assert listed.rest is not None
    points = np.array([0.0, 0.01, 0.3, 1.0, 2.0])
    lower, upper = listed.brackets(points)
    kinds = [(arb(a), arb(b), arb(p)) for a, b, p in rows[:3]]
    kinds.append((arb(rest), arb(rest), 1 - sum((p for _, _, p in kinds), arb(0))))
    for index, epsilon in enumerate(points.tolist()):
        truth = exact_delta(kinds, reports, arb(epsilon).exp())
        assert lower[index] <= float(truth.upper()) * (1 + 1e-14)
        assert float(truth.lower()) * (1 - 1e-14) <= upper[index] <= float(truth.upper()) * (1 + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("randomizer", "reports"),
    [
        (RandomizedResponse(categories=16, local_epsilon=2), 100),
        (RandomizedResponse(categories=200, local_epsilon=7.23), 50_000),
        (HadamardResponse(categories=16, local_epsilon=4), 120),
    ],
)
def test_lists_agree_with_single_points(randomizer: RandomizedResponse, reports: int) -> None:
    """The same pair, one ε at a time, by other evaluators."""
    profile = amplify(randomizer, reports=reports).profile
    assert isinstance(profile, BlanketProfile)
    ends = profile.brackets(np.linspace(0, 0.9 * randomizer.local_epsilon, 9), 1e-9)
    for epsilon, lower, upper in zip(np.linspace(0, 0.9 * randomizer.local_epsilon, 9).tolist(), *ends, strict=True):
        least, most = profile.pairs[0].delta_bracket(epsilon)
        assert lower <= most
        assert upper >= least
        if least > 1e-15:
            assert upper <= most * 1.02
            assert lower >= least * 0.98
        if least > 1e-3:
            assert upper - lower <= 2e-4 * upper
