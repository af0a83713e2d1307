"""E[(S)₊] of a finite X, split by the largest copy: against sums over all outcomes, from both sides."""

import itertools
import math

import numpy as np
import pytest
from flint import acb, arb, ctx
from numpy.typing import NDArray

from shoal.numerics import split_sum
from shoal.numerics.split_sum import Piece, _tilted, lower_sum, split, upper_sum

Array = NDArray[np.float64]


def _exact(values: Array, masses: Array, copies: int) -> float:
    """Return E[(S)₊] by the distribution of the counts of each value, and of zero."""
    rows = [*zip(values.tolist(), masses.tolist(), strict=True), (0.0, 1 - float(masses.sum()))]
    terms = []
    for chosen in itertools.combinations_with_replacement(range(len(rows)), copies):
        counts = np.bincount(chosen, minlength=len(rows))
        ways = math.factorial(copies) / math.prod(math.factorial(count) for count in counts.tolist())
        probability = math.prod(rows[index][1] for index in chosen)
        terms.append(ways * probability * max(math.fsum(rows[index][0] for index in chosen), 0.0))
    return math.fsum(terms)


def _heavy(draws: np.random.Generator, count: int, decades: float) -> tuple[Array, Array]:
    """Return values of both signs over many decades, the larger the rarer, with a negative mean."""
    sizes = 10 ** draws.uniform(0, decades, count)
    signs = np.where(draws.random(count) < 0.6, -1.0, 1.0)
    signs[0], signs[1] = 1.0, -1.0
    values = np.sort(signs * sizes)
    masses = draws.random(count) / (1 + np.abs(values)) ** 1.5
    return values, masses * (0.6 / masses.sum())


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("copies", "count", "decades"), [(2, 12, 8.0), (4, 6, 3.0), (9, 4, 1.0), (3, 8, 0.5)])
def test_both_ends_enclose_the_sum_over_all_outcomes(seed: int, copies: int, count: int, decades: float) -> None:
    values, masses = _heavy(np.random.default_rng(seed), count, decades)
    exact = _exact(values, masses, copies)
    pieces = split(values, masses, copies, 1e-5)
    assert upper_sum(values, masses, copies, pieces) >= exact * (1 - 1e-12)
    assert lower_sum(values, masses, copies, pieces) <= exact * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_every_choice_of_pieces_is_valid(seed: int) -> None:
    """Tilts, periods, smoothings and caps that are far off cost accuracy, but never validity."""
    draws = np.random.default_rng(seed)
    values, masses = _heavy(draws, 8, 2.0)
    exact = _exact(values, masses, 3)
    pieces = split(values, masses, 3, 1e-4)
    for _ in range(20):
        changed = []
        for piece in pieces:
            tilt, period, smoothing = draws.uniform(0.5, 1.5, 3)
            changed.append(
                piece._replace(
                    tilt=tilt * piece.tilt, period=period * piece.period, smoothing=smoothing * piece.smoothing
                )
            )
        assert upper_sum(values, masses, 3, changed) >= exact * (1 - 1e-12)
        assert lower_sum(values, masses, 3, changed) <= exact * (1 + 1e-12)


@pytest.mark.parametrize("copies", [1, 20, 10**3, 10**6, 10**9, 10**12])
def test_many_copies_of_a_smooth_summand_are_close(copies: int) -> None:
    """A shifted normal X on a fine grid: the sum is normal, and both ends are within the precision."""
    points = np.linspace(-6.0, 6.0, 1201)
    masses = np.exp(-0.5 * points**2) * (0.5 * 0.01 / math.sqrt(2 * math.pi))
    shift = 1.5 / math.sqrt(copies)
    values = points - shift
    pieces = split(values, masses, copies, 1e-6)
    lower, upper = lower_sum(values, masses, copies, pieces), upper_sum(values, masses, copies, pieces)
    assert 0 < lower <= upper <= lower * (1 + (1e-5 if copies <= 10**6 else 1e-2))
    if copies >= 10**3:
        spread = math.sqrt(copies * 0.5 * (1 + shift**2 / 2))
        point = 0.5 * copies * shift / spread
        normal = math.exp(-0.5 * point**2) / math.sqrt(2 * math.pi) - point * 0.5 * math.erfc(point / math.sqrt(2))
        assert upper == pytest.approx(spread * normal, rel=30 / math.sqrt(copies))


def test_one_large_copy_decides() -> None:
    """A rare large value over many small negative ones: E[(S)₊] is n·p·(c − E[the others])."""
    values = np.array([-1.0, 1e6])
    masses = np.array([0.5, 1e-12])
    copies = 1000
    pieces = split(values, masses, copies, 1e-6)
    lower, upper = lower_sum(values, masses, copies, pieces), upper_sum(values, masses, copies, pieces)
    exact = copies * 1e-12 * (1e6 - 0.5 * (copies - 1) / (1 - 1e-12))
    assert lower <= exact * (1 + 1e-8) <= upper * (1 + 1e-8)
    assert upper <= lower * (1 + 1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_the_error_of_many_copies_is_charged(seed: int) -> None:
    """φ(θ) − 1 is tiny for 10¹³ copies: an addition to one would change φ(θ)ⁿ by a thousandth."""
    draws = np.random.default_rng(seed)
    values = np.sort(draws.uniform(-1.0, 1.0, 30))
    masses = draws.random(30) / 40
    copies = 10**13
    piece = Piece(0.0, math.inf, 3e-7, 1.0, 1.0, 0.0, charged=False)
    tilted = _tilted(values, masses, copies, piece, side=1)
    assert tilted is not None
    with ctx.workprec(200):
        excess = arb(0)
        for value, mass in zip(values.tolist(), masses.tolist(), strict=True):
            excess += arb(mass) * ((arb(piece.tilt) * value).exp() - 1)
        exact = copies * (1 + excess).log()
        assert abs(exact - tilted.log_moment) <= tilted.log_error


@pytest.mark.parametrize(("steepness", "copies"), [(9.78, 50), (23.7, 1)])
def test_rounded_angles_are_charged_far_from_zero(
    steepness: float, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At many nodes of a long grid the error, in balls of 200 bits, is at most its bound."""
    top = 333.3
    powers = split_sum._powers
    found = []

    def noted(*given: object) -> object:
        found.append((given[1], powers(*given)))  # type: ignore[arg-type]
        return found[-1][1]

    monkeypatch.setattr(split_sum, "_powers", noted)
    piece = Piece(0.0, math.inf, steepness / top, 15 * top / steepness, 1e-3 * top / steepness, 0.0, False)
    tilted = _tilted(np.array([-1.0, top]), np.array([0.5, 1e-3]), copies, piece, side=1)
    assert tilted is not None
    split_sum._inverted(tilted)
    ((heights, (terms, errors)),) = found
    with ctx.workprec(200):
        masses = [arb(mass) for mass in tilted.masses.tolist()]
        rest = 1 - sum(masses, arb(0))
        small, large = (
            mass * (arb(piece.tilt) * arb(value)).exp()
            for mass, value in zip(masses, tilted.values.tolist(), strict=True)
        )
        step = 2 * math.pi / piece.period
        for index in range(0, len(heights), 11):  # type: ignore[arg-type]
            height = arb(step) * index
            part = rest + small * acb(0, -height).exp()
            whole = part + large * acb(0, height * arb(top)).exp()
            exact = (whole**copies - part**copies) / (rest + small + large) ** copies
            assert abs(complex(acb(complex(terms[index])) - exact)) <= errors[index]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("copies", [1, 30, 10**6, 10**13])
def test_rows_are_bounded_within_their_radius(seed: int, copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No node of a row exceeds the bound of the row (N5), in balls of 300 bits."""
    draws = np.random.default_rng(seed)
    values, masses = _heavy(draws, 6, 1.5 * seed + 0.5)
    bounds = split_sum._row_bounds
    found = []

    def noted(*given: object) -> object:
        found.append((given, bounds(*given)))  # type: ignore[arg-type]
        return found[-1][1]

    monkeypatch.setattr(split_sum, "_row_bounds", noted)
    for piece in split(values, masses, copies, 1e-4):
        tilted = _tilted(values, masses, copies, piece, side=1)
        if tilted is None or piece.charged:
            continue
        split_sum._inverted(tilted)
        (_, _, middles, radius), tops = found.pop()
        with ctx.workprec(300):
            chosen = [arb(mass) for mass in tilted.masses.tolist()]
            rest = 1 - sum(chosen, arb(tilted.beyond))
            points = [arb(value) for value in tilted.values.tolist()]
            weights = [mass * (arb(piece.tilt) * point).exp() for mass, point in zip(chosen, points, strict=True)]
            for row in draws.integers(0, len(middles), 8).tolist():  # type: ignore[arg-type]
                height = arb(middles[row] + draws.uniform(-0.999, 0.999) * radius)  # type: ignore[index, operator]
                turned = [weight * acb(0, height * point).exp() for weight, point in zip(weights, points, strict=True)]
                whole = (rest + sum(turned, acb(0))) ** copies
                part = (rest + sum(turned[: tilted.inner], acb(0))) ** copies
                exact = abs(whole - part) / (rest + sum(weights, arb(0))) ** copies
                assert exact.lower() <= tops[row] + 1e-80
