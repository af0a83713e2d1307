"""The published exact values, 29 digits each: never below, and at most 1e-6 above."""

import json
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.pairs import LikelihoodPair

_GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "clones.json").read_text())
_ROWS = [*_GOLDEN["clones"], *_GOLDEN["clones_large"]]


def _name(row: dict[str, Any]) -> str:
    return f"n={row['n']}, eps0={row['eps0']}"


@pytest.mark.parametrize("row", _ROWS, ids=_name)
def test_delta_of_the_clones_pair(row: dict[str, Any]) -> None:
    curve = shoal.amplify(local_epsilon=row["eps0"], reports=row["n"], bound="clones")
    for point in row["delta_of_eps"]:
        exact = float(point["delta"])
        assert exact * (1 - 1e-15) <= curve.delta(point["eps"]) <= exact * (1 + 1e-6)


@pytest.mark.parametrize("row", _ROWS, ids=_name)
def test_epsilon_of_the_clones_pair(row: dict[str, Any]) -> None:
    curve = shoal.amplify(local_epsilon=row["eps0"], reports=row["n"], bound="clones")
    for point in row["eps_of_delta"]:
        exact = float(point["eps"])
        bracket = curve.epsilon_bracket(point["delta"])
        assert bracket.lower <= exact * (1 + 1e-15)
        assert exact * (1 - 1e-15) <= bracket.upper <= max(exact * (1 + 1e-6), exact + 1e-12)
        assert curve.epsilon(point["delta"]) == bracket.upper


@pytest.mark.parametrize("row", _GOLDEN["clones"], ids=_name)
def test_renyi_of_the_clones_pair(row: dict[str, Any]) -> None:
    curve = shoal.amplify(local_epsilon=row["eps0"], reports=row["n"], bound="clones")
    for order, value in row["rdp"].items():
        assert float(value) <= curve.renyi(float(order)) <= float(value) * (1 + 1e-4)


@pytest.mark.parametrize("row", _GOLDEN["rr2"], ids=_name)
def test_shuffled_binary_randomized_response(row: dict[str, Any]) -> None:
    """The two directions of the golden file are the two inputs that the others may hold."""
    second, first = shoal.RandomizedResponse(categories=2, local_epsilon=row["eps0"]).homogeneous
    for direction, likelihoods in (("01", first), ("10", second)):
        pair = LikelihoodPair(row["n"], likelihoods)
        for point in row[direction]["delta_of_eps"]:
            lower, upper = pair.delta_bracket(point["eps"])
            exact = float(point["delta"])
            assert lower <= exact * (1 + 1e-14)
            assert upper >= exact * (1 - 1e-14)
            assert lower >= exact * (1 - 1e-4) - 1e-290


# ε at δ = 1e-6: FMT21 closed (None out of its range), clones, strong clones, 3RR and 2RR lower limits.
_TABLE = [
    (10**3, 1, 0.566201, 0.182412, 0.148671, 0.130566, 0.126614),
    (10**4, 1, 0.214026, 0.053005, 0.043206, 0.037998, 0.035659),
    (10**4, 4, None, 0.600909, 0.410812, 0.406630, 0.314643),
    (10**5, 0.1, 0.005171, 0.000786, 0.000764, 0.000612, 0.000744),
    (10**5, 4, 0.534634, 0.169770, 0.118153, 0.117025, 0.084714),
    (10**6, 1, 0.023497, 0.004335, 0.003514, 0.003079, 0.002849),
    (10**6, 2, 0.062617, 0.012958, 0.009517, 0.008949, 0.007000),
    (10**6, 4, 0.200985, 0.049307, 0.034280, 0.033952, 0.024014),
    (10**6, 6, 0.486500, 0.149291, 0.103051, 0.102914, 0.072971),
    (10**6, 8, 1.002723, 0.444469, 0.303694, 0.303638, 0.224993),
]


@pytest.mark.slow
@pytest.mark.parametrize("row", _TABLE, ids=lambda row: f"n={row[0]}, eps0={row[1]}")
def test_table_of_bounds_and_limits(row: tuple[int, float, float | None, float, float, float, float]) -> None:
    reports, local_epsilon, closed, clones, strong, ternary, binary = row
    sizes: dict[str, Any] = {"reports": reports, "local_epsilon": local_epsilon}
    if closed is None:
        with pytest.raises(shoal.errors.RangeError):
            shoal.amplify(**sizes, bound="clones-closed-form").epsilon(1e-6)
    else:
        assert shoal.amplify(**sizes, bound="clones-closed-form").epsilon(1e-6) == pytest.approx(closed, abs=1e-6)
    assert shoal.amplify(**sizes, bound="clones").epsilon(1e-6) == pytest.approx(clones, abs=1e-6)
    assert shoal.amplify(**sizes, bound="strong-clones").epsilon(1e-6) == pytest.approx(strong, abs=1e-6)
    assert max(ternary, binary) - 1e-6 <= shoal.amplify(**sizes).epsilon(1e-6) <= strong + 1e-6
    assert shoal.lower_bound(**sizes, categories=3).epsilon(1e-6) == pytest.approx(ternary, abs=1e-6)
    # The golden value is of others who all hold one value; the worst dataset may be a little worse.
    assert binary - 1e-6 <= shoal.lower_bound(**sizes, categories=2).epsilon(1e-6) <= max(binary + 1e-6, strong)
    assert max(ternary, binary) - 1e-6 <= shoal.lower_bound(**sizes).epsilon(1e-6) <= strong + 1e-6
