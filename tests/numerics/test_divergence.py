"""E[(S)₊] of any distribution of W, listed and inverted, against sums in balls that share nothing with them."""

import math
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_poly, ctx
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.numerics.contour import positive_part, positive_parts
from shoal.numerics.divergence import _listing_cost, divergence
from shoal.numerics.listing import counts_of, listed
from shoal.numerics.summand import Summand, Tilted
from shoal.pairs import LikelihoodPair
from shoal.pairs.likelihoods import response
from tests.test_properties import examples

Ball = Any


def distribution_of(reports: int, values: list[float], probabilities: list[float]) -> Summand:
    """Return these values with the two outer ones first, one apart; what is left of one has the value zero."""
    order = np.argsort(values)
    order = np.concatenate((order[-1:], order[:1], order[1:-1]))
    scaled = np.array(values)[order] / (max(values) - min(values))
    chosen = np.array(probabilities)[order]
    with ctx.workprec(200):
        mean = sum((arb(float(p)) * arb(float(x)) for p, x in zip(chosen, scaled, strict=True)), arb(0))
        return Summand(reports, 1.0, tuple(scaled.tolist()), tuple(chosen.tolist()), float(mean))


def listing(distribution: Summand, depth: float = 27.0) -> tuple[float, float] | None:
    """Return both ends by listing counts, however many they are."""
    counts = counts_of(distribution, depth=depth)
    assert counts is not None
    return listed(distribution, counts)


def enumerated(distribution: Summand) -> Ball:
    """Return E[(S)₊] by listing all counts, in balls."""
    with ctx.workprec(300):
        chosen = [arb(p) for p in distribution.probabilities]
        values = [arb(x) for x in distribution.values]
        rest = 1 - sum(chosen, arb(0))

        def summed(index: int, left: int, weight: Ball, total: Ball) -> Ball:
            if index == len(values):
                return weight * rest**left * total.max(0)
            result = arb(0)
            for count in range(left + 1):
                result += summed(
                    index + 1, left - count, weight * math.comb(left, count) * chosen[index] ** count,
                    total + count * values[index],
                )  # fmt: skip
            return result

        return summed(0, distribution.reports, arb(1), arb(0))


def on_a_lattice(reports: int, values: list[int], probabilities: list[float]) -> Ball:
    """Return E[(S)₊] for whole values as coefficients of a power of a polynomial, in balls."""
    with ctx.workprec(200 + 3 * reports):
        least = min(*values, 0)
        coefficients = [arb(0)] * (max(values) - least + 1)
        for value, probability in zip(values, probabilities, strict=True):
            coefficients[value - least] += arb(probability)
        coefficients[-least] += 1 - sum((arb(p) for p in probabilities), arb(0))
        power = arb_poly(coefficients) ** reports
        start = -least * reports
        return sum((power[index] * (index - start) for index in range(start + 1, power.degree() + 1)), arb(0))


def probabilities_of(draw: st.DrawFn, count: int, smallest: float) -> list[float]:
    logs = draw(st.lists(st.floats(math.log(smallest), 0.0), min_size=count + 1, max_size=count + 1))
    weights = np.exp(logs)
    return (weights[:-1] / weights.sum() * (1 - 1e-15)).tolist()  # type: ignore[no-any-return]


@st.composite
def small(draw: st.DrawFn) -> Summand:
    """Few reports, values of all sizes, probabilities down to 1e-12."""
    count = draw(st.integers(2, 4))
    sizes = draw(st.lists(st.floats(-12, 0), min_size=count, max_size=count, unique=True))
    signs = [1, -1, *draw(st.lists(st.sampled_from([1, -1]), min_size=count - 2, max_size=count - 2))]
    values = [sign * math.exp(size) for sign, size in zip(signs, sizes, strict=True)]
    return distribution_of(draw(st.integers(1, 9)), values, probabilities_of(draw, count, 1e-12))


def check(name: str, ends: tuple[float, float], ball: Ball, close: float | None) -> None:
    lower, upper = ends
    assert lower <= ball.upper(), (name, lower, ball)
    assert upper >= ball.lower(), (name, upper, ball)
    if close is not None and ball > 1e-290:
        assert upper <= float(ball.mid()) * (1 + close), (name, upper, ball)
        assert lower >= float(ball.mid()) * (1 - close), (name, lower, ball)


@pytest.mark.slow
@examples(150)
@given(small())
def test_few_reports_against_all_outcomes(distribution: Summand) -> None:
    ball = enumerated(distribution)
    ends = listing(distribution)
    assert ends is not None
    # A sum that nearly cancels is known as well as its parts are: to a few units of the last digit of each.
    kept = float(ball.mid()) > 1e-9 * sum(
        p * abs(x) for p, x in zip(distribution.probabilities, distribution.values, strict=True)
    )
    check("listed", ends, ball, 1e-6 if kept else None)
    check("inverted", positive_part(distribution), ball, None)
    check("coarse", positive_part(distribution, tolerance=1e-3), ball, None)
    check("either", divergence(distribution), ball, 1e-6 if kept else None)
    check("coarse either", divergence(distribution, tolerance=1e-4), ball, None)


@st.composite
def lattice(draw: st.DrawFn) -> tuple[int, list[int], list[float]]:
    """Whole values, from few to many, and up to several hundred reports."""
    count = draw(st.integers(2, 12))
    values = draw(st.lists(st.integers(-30, 30), min_size=count, max_size=count, unique=True))
    if max(values) <= 0 or min(values) >= 0:
        values = [*values[2:], 31, -31]
    reports = draw(st.sampled_from([2, 7, 40, 150, 400]))
    return reports, values, probabilities_of(draw, len(values), 1e-6)


@pytest.mark.slow
@examples(60)
@given(lattice(), st.floats(0, 4))
def test_lattices_against_powers_of_a_polynomial(given_: tuple[int, list[int], list[float]], drift: float) -> None:
    reports, values, probabilities = given_
    lowered = [value - round(drift) for value in values]
    if max(lowered) <= 0 or 0 in lowered:
        lowered = values
    ball = on_a_lattice(reports, lowered, probabilities) / (max(lowered) - min(lowered))
    if not ball > 1e-280:
        return
    distribution = distribution_of(reports, [float(value) for value in lowered], probabilities)
    check("inverted", positive_part(distribution), ball, None)
    check("either", divergence(distribution), ball, None)
    lower, upper = positive_parts(Tilted.of([distribution] * 2))
    check("rows", (float(lower[1]), float(upper[1])), ball, None)


def response_delta(reports: int, local_epsilon: float, categories: int, epsilon: float, most: int) -> Ball:
    """Return δ(ε) of the blanket of k-ary randomized response: (N₁, N₂) up to `most`, and N₃ from its sums, in balls.

    What is beyond is in the radius: S₊ ≤ (first value)·N₁, and n·p·Pr(a count of the other n − 1 is `most` or more).
    """
    with ctx.workprec(200):
        exponential, ratio = arb(local_epsilon).exp(), arb(epsilon).exp()
        low = 1 / (exponential + categories - 1)  # k·c, of which each output has a share
        own, alike, rest = low, (categories - 2) * low, 1 - categories * low
        up, down, little = exponential - ratio, ratio * exponential - 1, ratio - 1
        total = arb(0)
        for together in range(2 * most + 1):
            left = reports - together
            if left < 0:
                break
            scale = ((arb(reports) + 1).lgamma() - (arb(left) + 1).lgamma() + together * own.log()).exp()
            sums, moments = [arb(0)], [arb(0)]
            whole = (left * (alike + rest).log()).exp()
            probability = (rest / (alike + rest)) ** left * whole
            for count in range(left + 1):
                sums.append(sums[-1] + probability)
                moments.append(moments[-1] + count * probability)
                probability = probability * (left - count) / (count + 1) * alike / rest
            for first in range(max(0, together - most), min(most, together) + 1):
                second = together - first
                height = up * first - down * second
                if not height > 0:
                    continue
                weight = (
                    scale
                    / (arb(first).gamma() * first if first else 1)
                    / (arb(second).gamma() * second if second else 1)
                )
                edge = min(left, int((height / little).floor().unique_fmpz() or 0)) if epsilon else left
                total += weight * (height * sums[edge + 1] - little * moments[edge + 1])
        mean = (
            reports - 1
        ) * own  # Chernoff: Bin(n − 1, p) is `most` or more with probability exp(most − mean)·(mean/most)^most
        beyond = 2 * reports * own * up * (most - mean + most * (mean / most).log()).exp() if most < reports else arb(0)
        return (total + beyond * arb(0.5, 0.5)) / reports


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "categories", "epsilon", "most"),
    [
        (30, 2.0, 5, 0.3, 30),
        (249, 3.44, 16, 0.9, 60),
        (300, 4.0, 10, 1.5, 60),
        (2500, 1.0, 200, 0.02, 90),
        (2500, 4.0, 50, 0.9, 110),
    ],
)
def test_randomized_response_against_its_triple_sum(
    reports: int, local_epsilon: float, categories: int, epsilon: float, most: int
) -> None:
    ball = response_delta(reports, local_epsilon, categories, epsilon, most)
    pair = LikelihoodPair(reports, response(categories, local_epsilon).blanket[0])
    lower, upper = pair.delta_bracket(epsilon)
    assert float(ball.rad()) < 1e-9 * float(ball.mid())
    assert lower <= ball.upper()
    assert ball.lower() <= upper <= float(ball.mid()) * (1 + 1e-6)
    lower, upper = positive_part(pair.distribution(epsilon))
    assert lower <= ball.upper()
    assert ball.lower() <= upper <= float(ball.mid()) * (1 + 1e-6)


@examples(60)
@given(st.integers(1, 12), st.floats(0.05, 14.0), st.floats(0.0, 1.0), st.integers(2, 500))
def test_the_two_ways_agree_up_to_a_trillion_reports(power: int, local: float, share: float, categories: int) -> None:
    reports = 10**power
    pair = LikelihoodPair(reports, response(categories, local).blanket[0])
    deviation = pair.distribution(0.0).scale * pair.distribution(0.0).spread
    epsilon = min(0.9 * local, 8 * share * deviation)
    distribution = pair.distribution(epsilon)
    inverted = positive_part(distribution)
    assert inverted[0] <= inverted[1]
    if _listing_cost(distribution, 27.0) < 3e7:
        ends = listing(distribution)
        if ends is not None:
            assert ends[0] <= inverted[1]
            assert inverted[0] <= ends[1]


def test_rappor_where_rare_symbols_meet_a_common_one() -> None:
    import shoal

    curve = shoal.amplify(shoal.Rappor(categories=97, local_epsilon=13.406), reports=460_733)
    lower, upper = curve.epsilon_bracket(1.64e-11)
    assert upper == pytest.approx(9.482317, abs=1e-3)
    assert lower >= upper * (1 - 1e-6)


@pytest.mark.parametrize(("local_epsilon", "epsilon"), [(40.0, 7.0), (40.0, 9.0), (30.0, 0.9)])
def test_two_common_values_beside_rare_ones(local_epsilon: float, epsilon: float) -> None:
    """Of 10¹⁵ reports nearly all have one of two values next to zero, and few tell the inputs apart."""
    randomizer = shoal.HadamardResponse(categories=2, local_epsilon=local_epsilon, blocks=1)
    distribution = LikelihoodPair(10**15, randomizer.blanket[0]).distribution(epsilon)
    lower, upper = divergence(distribution)
    least, most = positive_part(distribution, tolerance=1e-5)
    assert least <= upper
    assert lower <= most
    assert lower <= upper <= lower * (1 + 1e-5)


def test_the_estimate_is_within_a_factor_of_three() -> None:
    for reports, local_epsilon, epsilon in (
        (10**4, 1.0, 0.03),
        (10**6, 4.0, 0.02),
        (300, 2.0, 0.8),
        (10**9, 8.0, 0.05),
    ):
        distribution = LikelihoodPair(reports, response(16, local_epsilon).blanket[0]).distribution(epsilon)
        lower, upper = divergence(distribution)
        assert lower / 3 <= math.exp(distribution.tilted.estimates[0]) <= 3 * upper


def test_windows_charge_what_lies_outside() -> None:
    """Narrow windows leave much out: the upper end pays for it, and the lower end does not."""
    distribution = distribution_of(60, [1.0, -0.6, 0.3], [0.1, 0.3, 0.2])
    ball = enumerated(distribution)
    for depth in (0.5, 2.0, 8.0):
        ends = listing(distribution, depth)
        assert ends is not None
        assert ends[0] < ball < ends[1]
    counts = counts_of(distribution, depth=0.5)
    assert counts is not None
    bare = listed(distribution, counts._replace(log_outside=-math.inf))
    assert bare is not None
    assert bare[1] < ball
