"""Searches: what they return was evaluated and is safe, or was handed in as safe."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.searches import bisect_count, bisect_safe, doubled, lowest, smallest_safe
from tests.test_properties import examples


@examples(200)
@given(st.floats(1e-300, 1e300), st.sampled_from([{"relative": 1e-12}, {"steps": 60}, {"within": 1e-3, "steps": 500}]))
def test_halving_ends_at_a_point_that_was_evaluated_and_safe(edge: float, rule: dict[str, float]) -> None:
    asked = []

    def safe(point: float) -> bool:
        asked.append(point)
        return point >= edge

    before, after = doubled(safe)
    assert before < edge <= after
    point = bisect_safe(safe, unsafe=before, good=after, **rule)  # type: ignore[arg-type]
    assert point >= edge
    assert point in asked
    if "steps" not in rule:
        assert point <= edge * (1 + 2e-12)


@examples(200)
@given(st.integers(-(10**9), 10**9), st.integers(1, 10**9), st.integers(1, 10**9))
def test_counts_end_next_to_an_unsafe_one_from_either_side(edge: int, below: int, above: int) -> None:
    assert bisect_count(lambda count: count >= edge, unsafe=edge - below, good=edge + above) == edge
    assert bisect_count(lambda count: count < edge, unsafe=edge + above, good=edge - below) == edge - 1


def test_ends_that_are_close_enough_are_not_evaluated() -> None:
    def never(point: float) -> bool:
        raise AssertionError(point)

    assert bisect_safe(never, unsafe=1.0, good=1.0 + 1e-13, relative=1e-12) == 1.0 + 1e-13
    assert bisect_safe(never, unsafe=1.0, good=2.0, steps=0) == 2.0
    assert bisect_safe(never, unsafe=0.0, good=0.0, relative=1e-12) == 0.0
    assert bisect_count(never, unsafe=4, good=5) == 5


def test_downwards_where_safe_is_below() -> None:
    root = bisect_safe(lambda point: point * point <= 2, unsafe=2.0, good=1.0, steps=200)
    assert root * root <= 2 < math.nextafter(root, 2) ** 2


@pytest.mark.parametrize("valley", [-3.0, 0.1, 7.5])
def test_the_lowest_point_of_a_valley(valley: float) -> None:
    assert lowest(lambda point: (point - valley) ** 2, -10.0, 10.0, within=1e-6) == pytest.approx(valley, abs=1e-6)


@pytest.mark.parametrize("edge", [0.3, 4.06, 9.0])
@pytest.mark.parametrize("steepness", [1e3, 1e6])
@pytest.mark.parametrize("start", [0.1, 5.05, 9.9])
def test_a_cliff_does_not_stall_the_search(edge: float, steepness: float, start: float) -> None:
    asked = []

    def value(point: float) -> float:
        asked.append(point)
        return 0.5 * math.exp(-point - steepness * max(0.0, point - edge))

    answer = (math.log(0.5 / 1e-6) + steepness * edge) / (1 + steepness)
    point = smallest_safe(value, 1e-6, 10.0, start, -1.0)
    assert value(point) <= 1e-6
    assert point <= answer * (1 + 1e-10)
    assert len(asked) <= 60
