"""Split and mix, Theorem M: the series against all matchings and all views, the bound against the series."""

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import pytest

from shoal.mechanisms.split_and_mix import fewest_messages
from shoal.proofs.several_messages_claim import _STARTS, _from, exact_excess, excess_above

_SETTINGS = [
    (2, 2, 2), (2, 2, 3), (2, 2, 5), (2, 3, 2), (2, 3, 3), (2, 3, 4), (2, 4, 2), (3, 2, 2), (3, 2, 3), (3, 3, 2),
    (3, 3, 3),
]  # fmt: skip


def _components(people: int, messages: int, order: tuple[int, ...]) -> int:
    """Return how many components blocks on both sides have, if place i on the left is matched with order[i]."""
    root = list(range(2 * people))

    def find(block: int) -> int:
        return block if root[block] == block else find(root[block])

    for place, other in enumerate(order):
        root[find(place // messages)] = find(people + other // messages)
    return len({find(block) for block in range(2 * people)})


@pytest.mark.slow
@pytest.mark.parametrize("setting", [(2, 2, 2), (2, 3, 3), (3, 2, 4), (2, 4, 7), (4, 2, 3)])
def test_the_series_is_the_mean_over_all_matchings(setting: tuple[int, int, int]) -> None:
    people, messages, modulus = setting
    orders = list(permutations(range(people * messages)))
    mean = Fraction(sum(modulus ** (_components(people, messages, order) - 1) for order in orders), len(orders))
    assert exact_excess(*setting) == mean - 1


def _views(inputs: tuple[int, ...], messages: int, modulus: int) -> dict[tuple[int, ...], Fraction]:
    """Return the probability of every multiset of messages."""
    seen: Counter[tuple[int, ...]] = Counter()
    for drawn in product(range(modulus), repeat=(messages - 1) * len(inputs)):
        view = list(drawn)
        for person, value in enumerate(inputs):
            own = drawn[person * (messages - 1) : (person + 1) * (messages - 1)]
            view.append((value - sum(own)) % modulus)
        seen[tuple(sorted(view))] += 1
    every = modulus ** ((messages - 1) * len(inputs))
    return {view: Fraction(count, every) for view, count in seen.items()}


def _apart(first: dict[tuple[int, ...], Fraction], second: dict[tuple[int, ...], Fraction]) -> Fraction:
    return sum(abs(first.get(key, Fraction(0)) - second.get(key, Fraction(0))) for key in first | second) / Fraction(2)


@pytest.mark.slow
@pytest.mark.parametrize("setting", _SETTINGS)
def test_no_two_inputs_with_one_sum_are_farther_apart_than_the_bound(setting: tuple[int, int, int]) -> None:
    """All inputs, all views, in fractions: within ½·√(e − 1) of uniform, and √(e − 1) of one another."""
    people, messages, modulus = setting
    excess = exact_excess(*setting)
    by_sum: dict[int, list[dict[tuple[int, ...], Fraction]]] = {}
    for inputs in product(range(modulus), repeat=people):
        by_sum.setdefault(sum(inputs) % modulus, []).append(_views(inputs, messages, modulus))
    worst = Fraction(0)
    for views in by_sum.values():
        # Inputs are equally likely given their sum: the mean of their views is that of uniform vectors with this sum.
        uniform = {
            key: sum((view.get(key, Fraction(0)) for view in views), Fraction(0)) / len(views)
            for view in views
            for key in view
        }
        assert all(4 * _apart(view, uniform) ** 2 <= excess for view in views)
        worst = max([worst, *(_apart(views[0], view) for view in views), *(_apart(views[-1], view) for view in views)])
    assert worst**2 <= excess
    known = {(2, 2, 2): Fraction(1, 2), (2, 3, 3): Fraction(7, 27)}
    assert setting not in known or worst == known[setting]


def test_golden_values_of_the_series() -> None:
    assert exact_excess(2, 2, 2) == Fraction(1, 3) and exact_excess(3, 3, 3) == Fraction(31, 140)
    for setting, value in {
        (20, 3, 7): 0.0776918030,
        (50, 4, 1 << 10): 0.0403922553,
        (100, 5, 1 << 20): 0.0419639192,
    }.items():
        assert float(exact_excess(*setting)) == pytest.approx(value, rel=2e-9)
        assert Fraction(excess_above(*setting)) >= exact_excess(*setting)


@pytest.mark.slow
@pytest.mark.parametrize("messages", [4, 5, 6, 8])
@pytest.mark.parametrize("modulus", [2, 1 << 10, 1 << 20])
def test_the_bound_is_never_below_the_series(messages: int, modulus: int) -> None:
    """From 40 people on, at 81 to 100 where both are computed; and it falls with more people."""
    bounds = []
    for people in (81, 90, 100):
        bound = _from(40, people, messages, modulus)
        assert bound == math.inf or Fraction(bound) >= exact_excess(people, messages, modulus)
        bounds.append(bound)
    assert bounds == sorted(bounds, reverse=True)
    more = [excess_above(people, messages, modulus) for people in (200, 300, 10**3, 10**4, 10**6)]
    assert more == sorted(more, reverse=True)


def test_the_bound_is_close_to_the_series_where_it_says_something() -> None:
    exact = float(exact_excess(100, 8, 1 << 20))
    assert exact <= _from(40, 100, 8, 1 << 20) <= 1.05 * exact


def test_golden_values_of_the_bound() -> None:
    """Of the starts 40, 120 and 300 the best is taken: a little below what one of them alone has."""
    for setting, value in {
        (10**4, 10, 1 << 32): 1.55926e-26,
        (10**5, 9, 1 << 40): 1.02991e-26,
        (10**6, 8, 1 << 40): 2.6436e-27,
    }.items():
        people, messages, modulus = setting
        assert excess_above(*setting) == pytest.approx(value, rel=6e-4)
        main = (modulus - 1) * people**2 / math.comb(messages * people, messages)
        assert excess_above(*setting) >= main * (1 - 1e-12)
    assert excess_above(10**6, 2, 1 << 20) == math.inf and _STARTS == (40, 120, 300)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("people", "expected"),
    [
        (10**3, (11, 12, 13, 15)),
        (10**4, (9, 10, 11, 12)),
        pytest.param(10**5, (8, 9, 9, 10), marks=pytest.mark.exhaustive),
        pytest.param(10**6, (7, 8, 8, 10), marks=pytest.mark.exhaustive),
        (10**8, (6, 6, 7)),
    ],
)
def test_the_table_of_messages(people: int, expected: tuple[int, ...]) -> None:
    for bits, messages in zip((16, 32, 40, 64), expected, strict=False):
        assert fewest_messages(people, 1 << bits, 2.0**-41) == messages
