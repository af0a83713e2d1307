"""Gaussian noise on a contour: against closed forms, quadrature on the real axis, and sums on a lattice."""

import math

import numpy as np
import pytest
from flint import acb, arb
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import shoal
from shoal.numerics.complex_near_zero import expm1, log1p
from shoal.numerics.delta_grid import Mesh
from shoal.numerics.jump_frame import JumpFrame, Outline
from shoal.numerics.noise_contour import Integrals, NormalSum, brackets
from shoal.numerics.noise_ratio import GaussianRatio, gaussian_alone
from shoal.numerics.normal_curve import NormalCurve
from shoal.numerics.normal_disc import Disc
from shoal.numerics.normal_frame import NormalFrame
from shoal.numerics.normal_rays import falling, rule
from shoal.numerics.normal_sketch import NormalSketch
from shoal.numerics.normal_tilt import Effort
from shoal.proofs.balls import precision

Array = NDArray[np.float64]


def halves(deviation: float, epsilon: float) -> tuple[Array, Array, Array]:
    """Return W on both halves of the blanket, in units of e^ε, and weights of 40 nodes each on many short cells."""
    nodes, weights, _ = rule(40)
    # A cell ends where W is zero on the first half, since ramps have kinks there.
    ends = np.unique(np.append(np.linspace(0.0, 14 / deviation, 200), epsilon))
    width = np.diff(ends)[:, None]
    logs = (ends[:-1, None] + width / 2 * (1 + nodes)).ravel()
    density = deviation * stats.norm.pdf(0.5 / deviation + deviation * logs)
    masses = density * (width / 2 * weights).ravel()
    return np.expm1(logs - epsilon), math.expm1(-epsilon) - np.expm1(logs), masses


def ramp(deviation: float, epsilon: float, levels: Array) -> Array:
    """Return E[(W + c)₊] for c ≥ 0 and for c < 0, in units of e^ε, from normal distribution functions."""
    half, growth = 0.5 / deviation, math.exp(epsilon)
    first = np.maximum(1.0, growth * (1 - levels))
    right = stats.norm.sf(deviation * np.log(first) - half) / growth - (1 - levels) * stats.norm.sf(
        deviation * np.log(first) + half
    )
    # On the other half W + c = c + e^{−ε} − t > 0 for t up to the last one.
    last = np.maximum(1.0, levels + 1 / growth)
    far = deviation * np.log(last)
    mass = stats.norm.sf(half) - stats.norm.sf(far + half)
    size = stats.norm.sf(-half) - stats.norm.sf(far - half)
    left = (levels + 1 / growth) * mass - size
    return np.asarray(right + left + math.erf(half / math.sqrt(2)) * np.maximum(levels, 0.0))


@pytest.mark.parametrize("deviation", [0.25, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("place", [-1.0, 0.0, 2.0, 5.0])
def test_one_report_has_its_closed_form(deviation: float, place: float) -> None:
    # One report: the loss is normal with mean 1/(2σ²) and deviation 1/σ.
    epsilon = max(0.01, 0.5 / deviation**2 + place / deviation)
    lower, upper = NormalSum.of(deviation, 1, epsilon).ends()
    exact = gaussian_alone(deviation, epsilon)
    assert lower * (1 - 1e-9) <= exact <= upper * (1 + 1e-9)
    assert upper <= lower * (1 + 1e-3)


@pytest.mark.parametrize(
    ("deviation", "epsilon"), [(0.3, 4.0), (0.3, 17.0), (0.6, 2.0), (1.0, 0.5), (1.0, 3.5), (1.0, 6.0), (3.0, 0.3)]
)
def test_two_reports_are_those_of_quadrature(deviation: float, epsilon: float) -> None:
    first, second, masses = halves(deviation, epsilon)
    rest = math.erf(0.5 / deviation / math.sqrt(2))
    exact = float(masses @ (ramp(deviation, epsilon, first) + ramp(deviation, epsilon, second)))
    exact = (exact + rest * float(ramp(deviation, epsilon, np.zeros(1))[0])) * math.exp(epsilon) / 2
    lower, upper = NormalSum.of(deviation, 2, epsilon).ends()
    tolerance = 1e-8 * exact + 1e-15 * math.exp(epsilon)  # of the quadrature, which subtracts probabilities
    assert lower - tolerance <= exact <= upper + tolerance
    assert upper <= lower * (1 + 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("deviation", "epsilon"), [(0.4, 6.0), (1.0, 0.8), (2.5, 0.2)])
def test_three_reports_are_those_of_quadrature(deviation: float, epsilon: float) -> None:
    nodes, weights, _ = rule(12)
    ends = np.linspace(0.0, 11 / deviation, 60)
    width = ends[1]
    logs = (ends[:-1, None] + width / 2 * (1 + nodes)).ravel()
    part = deviation * stats.norm.pdf(0.5 / deviation + deviation * logs) * np.tile(weights * width / 2, len(ends) - 1)
    values = np.concatenate((np.expm1(logs - epsilon), math.expm1(-epsilon) - np.expm1(logs), [0.0]))
    masses = np.concatenate((part, part, [math.erf(0.5 / deviation / math.sqrt(2))]))
    total = 0.0
    for value, mass in zip(values, masses, strict=True):
        total += mass * float(masses @ ramp(deviation, epsilon, values + value))
    exact = total * math.exp(epsilon) / 3
    lower, upper = NormalSum.of(deviation, 3, epsilon).ends()
    assert lower * (1 - 1e-5) <= exact <= upper * (1 + 1e-5)


def transform(total: NormalSum, point: complex, reach: float, turned: float) -> tuple[complex, float]:
    """Return E[e^{sW}] − 1 along paths that leave the real axis at this reach over |s|, and how wrong it may be."""
    points = np.array([point, point])
    gains = np.array([total.gain, -1.0])
    edges = total.rays.edge(reach / (np.abs(points) * np.abs(gains)))
    right, left = falling(points)
    angles = np.array([right[0] + turned, left[0]])
    discs = Disc(points, 0.1 * np.abs(points), edges, angles, np.full(2, total.start), gains)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # bounds that say nothing are infinite
        ray = total.rays.along(discs, 10)
        axis, wrong = total.rays.on_axis(discs, points[:, None], plain=np.zeros(2, dtype=bool), around=0.2 * abs(point))
        powers = ray.weights * np.exp(points[:, None] * discs.values(1 + ray.excess)[0])
        sums = powers.sum(axis=1)[:, None]
        whole, _ = total.rays.on_axis(discs, points[:, None], plain=np.ones(2, dtype=bool))
    value = complex((axis + sums).sum()) + point * total.start
    mass = 2 * total.rays.real.beyond[0]
    assert abs(complex((whole + sums).sum()) - mass - value) <= 1e-14
    return value, float((wrong + ray.wrong).sum())


@pytest.mark.parametrize("deviation", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("turn", [0.6, 1.0, 1.5])
@pytest.mark.parametrize("size", [0.01, 0.3, 4.0])
def test_every_path_has_the_same_transform(deviation: float, turn: float, size: float) -> None:
    total = NormalSum.of(deviation, 5, 0.7)
    point = size * complex(math.cos(turn), math.sin(turn))
    first, wrong = transform(total, point, 2.0, 0.0)
    second, more = transform(total, point, 0.7, 0.1)
    assert abs(first - second) <= wrong + more
    assert wrong + more < 1e-8


@pytest.mark.parametrize("height", [0.01, 0.3, 2.0, 8.0])
def test_rays_have_the_transform_of_the_real_axis(height: float) -> None:
    # With much noise W is small enough for the real axis.
    total = NormalSum.of(3.0, 5, 0.7)
    point = complex(0.02 * height, height)
    value, wrong = transform(total, point, 2.0, 0.0)
    first, second, masses = halves(3.0, 0.7)
    exact = complex(masses @ np.expm1(point * first) + masses @ np.expm1(point * second))
    assert abs(value - exact) <= wrong + 1e-13
    assert wrong < 1e-8


def test_logarithms_and_exponentials_near_zero_are_accurate() -> None:
    small = np.array([1e-9 + 2e-9j, -3e-12 + 1e-5j])
    for value, log in zip(small, log1p(small), strict=True):
        assert log == pytest.approx(value - value**2 / 2 + value**3 / 3, rel=1e-14)
    assert expm1(log1p(small)) == pytest.approx(small, rel=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deviation", "reports", "epsilon"), [(1.0, 1000, 0.1387), (2.0, 50, 0.3), (3.0, 10**6, 1e-3), (1.0, 10**10, 3e-5)]
)
def test_lattices_say_the_same(deviation: float, reports: int, epsilon: float) -> None:
    ratio = GaussianRatio(deviation)
    outline, slope = Outline.sloped(ratio, reports, epsilon)
    frame = JumpFrame(ratio, reports, epsilon, outline=outline, slope=slope, precision=1e-5)
    lower, upper = NormalSum.of(deviation, reports, epsilon).ends()
    assert frame.lower(epsilon) <= upper
    assert lower <= frame.upper(epsilon)
    assert upper <= lower * (1 + 1e-4)


@pytest.mark.slow
@given(log_deviation=st.floats(-1.2, 0.7), log_reports=st.floats(0.3, 12), log_delta=st.floats(-20, -2))
@settings(deadline=None, max_examples=15)
def test_brackets_of_normal_noise_hold_what_they_say(
    log_deviation: float, log_reports: float, log_delta: float
) -> None:
    deviation, reports, delta = math.exp(log_deviation), math.floor(10**log_reports), 10**log_delta
    profile = shoal.Gaussian(deviation=deviation).profile(reports)
    lower, upper = profile.bracket(delta)
    assert 0 <= lower <= upper <= profile.alone(delta)
    assert profile.delta(upper) <= delta
    assert lower == 0 or profile.delta_below(lower) >= delta
    assert profile.delta_below(upper) <= profile.delta(upper)


def test_the_ray_from_the_outer_saddle_falls() -> None:
    """The inequality of (d) for 0.1 ≤ |ζ| ≤ 6, in balls that cover the ray; the theory has it for all others."""
    with precision(64):
        turn = acb(arb(-1) / 2, arb(3).sqrt() / 2)
        for index in range(100, 6000):
            length = (arb(2 * index + 1) / 2000).union(arb(index) / 1000).union(arb(index + 1) / 1000)
            logs = (1 + length * turn).log()
            assert arb(8) / 5 * (length * turn - logs).real - (logs * logs).real / 2 < 0
    assert math.log(0.75) / 2 > -0.1439  # |1 + ζ|² = 1 − |ζ| + |ζ|² is at least 3/4


def test_sides_are_next_to_epsilon() -> None:
    for epsilon in (1e-9, 0.1, 0.5, 3.0, 30.0):
        below, above = (NormalSum.of(1.0, 5, epsilon, side=side) for side in (-1, 1))
        assert below.start > math.expm1(-epsilon) > above.start or epsilon > 10
        assert below.gain >= math.exp(-epsilon) >= above.gain


@pytest.mark.parametrize(
    ("deviation", "reports", "epsilon"), [(0.3, 1000, 14.5), (0.7, 10, 5.8), (1.0, 10**5, 0.017), (4.0, 1000, 0.03)]
)
def test_sketches_are_close_to_what_is_proved(deviation: float, reports: int, epsilon: float) -> None:
    lower, upper = NormalSum.of(deviation, reports, epsilon).ends()
    for made in (epsilon, 0.98 * epsilon):
        log_delta = NormalSketch(NormalSum.of(deviation, reports, made)).log_delta(epsilon)
        assert math.log(lower) - 1e-5 <= log_delta <= math.log(upper) + 1e-5


def test_several_epsilon_at_once_are_those_of_each() -> None:
    sums = [NormalSum.of(0.6, 50, epsilon) for epsilon in (0.5, 2.0, 4.0)]
    lower, upper = brackets(sums)
    for index, one in enumerate(sums):
        low, high = one.ends()
        assert lower[index] == pytest.approx(low, rel=1e-9)
        assert upper[index] == pytest.approx(high, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deviation", "reports", "epsilons"),
    [
        (0.3, 100, (0.0, 0.4, 3.1, 3.4, 9.0)),
        (0.3, 10**6, (0.02, 0.5, 5.7, 6.3)),
        (0.6, 50, (0.1, 2.0, 2.2, 4.0)),
        (1.0, 10**4, (0.0, 1e-4, 0.03, 0.032, 0.2)),
        (3.0, 10**4, (1e-3, 2e-3, 0.01)),
    ],
)
def test_epsilons_that_share_a_path_have_the_bounds_of_each(
    deviation: float, reports: int, epsilons: tuple[float, ...]
) -> None:
    lower, upper = NormalCurve(deviation, reports).brackets(list(epsilons), 3e-4, 0.0)
    lows, highs = brackets([NormalSum.of(deviation, reports, epsilon) for epsilon in epsilons])
    assert (lower <= highs).all()
    assert (lows <= upper).all()
    assert (upper <= lower * (1 + 3e-4)).all()
    # Whatever was asked before, the paths are the same.
    again = NormalCurve(deviation, reports)
    for index in reversed(range(len(epsilons))):
        low, high = again.brackets([epsilons[index]], 3e-4, 0.0)
        assert low[0] == pytest.approx(lower[index], rel=1e-12)
        assert high[0] == pytest.approx(upper[index], rel=1e-12)


@pytest.mark.parametrize(
    ("deviation", "reports", "ends", "epsilon"),
    [(0.3, 10**4, (1.6, 2.6), 1.75), (0.3, 10**6, (5.6, 6.6), 6.5), (1.0, 10**4, (0.02, 0.05), 0.045)],
)
def test_power_series_are_the_sums_along_the_rays(
    deviation: float, reports: int, ends: tuple[float, float], epsilon: float
) -> None:
    first, one, last = (NormalSum.of(deviation, reports, each) for each in (ends[0], epsilon, ends[1]))
    middle = NormalSum.of(deviation, reports, sum(ends) / 2)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        frame = NormalFrame(middle, (first, last), middle.efforts[0])
        series = Integrals([one], [frame]).series
    count = len(frame.path.centres)
    starts, gains = np.full(2 * count, one.start), np.repeat([one.gain, -1.0], count)
    values = starts[:, None] + gains[:, None] * frame.ray.excess
    for part in (-1.0, 0.3, 1.0):
        points = frame.discs.centres + part * np.tile(frame.path.steps, 2)
        exact = (frame.ray.weights * np.exp(points[:, None] * values)).sum(axis=1)
        sums = series.at(np.arange(count), points[:count, None])[:, 0]
        assert (np.abs(sums - exact) <= series.wrong).all()
    sums, slopes = series.middles()
    powers = frame.ray.weights * np.exp(frame.discs.centres[:, None] * values)
    assert (np.abs(sums - powers.sum(axis=1)) <= series.wrong).all()
    assert (frame.discs.radii * np.abs(slopes - (powers * values).sum(axis=1)) <= 2 * series.wrong).all()


@pytest.mark.parametrize(("deviation", "reports", "ends"), [(0.3, 100, (4.5, 5.5)), (1.0, 10**4, (0.02, 0.05))])
def test_bounds_along_rays_hold_between_two_gains(deviation: float, reports: int, ends: tuple[float, float]) -> None:
    first, last = (NormalSum.of(deviation, reports, each) for each in ends)
    middle = NormalSum.of(deviation, reports, sum(ends) / 2)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        frame = NormalFrame(middle, (first, last), middle.efforts[0])
        count = len(frame.path.centres)
        for share in (0.1, 0.7):
            one = NormalSum.of(deviation, reports, ends[0] + share * (ends[1] - ends[0]))
            own = frame.discs._replace(
                starts=np.full(2 * count, one.start), gains=np.repeat([one.gain, -1.0], count), ends=()
            )
            ray = one.rays.along(own, middle.efforts[0].along)
            for shared, alone in zip((*frame.ray.sizes, *frame.ray.squares), (*ray.sizes, *ray.squares), strict=True):
                assert (alone <= shared * (1 + 1e-12) + 1e-300).all()
            assert (ray.slopes <= frame.ray.slopes * (1 + 1e-12) + 1e-300).all()


@pytest.mark.parametrize(
    ("deviation", "reports", "ends", "epsilon"),
    [(0.3, 10**4, (2.7, 3.7), 2.8), (0.3, 10**6, (2.0, 2.8), 2.7), (0.5, 10**4, (2.0, 2.8), 2.4)],
)
def test_straight_up_from_the_turn_no_transform_is_larger(
    deviation: float, reports: int, ends: tuple[float, float], epsilon: float
) -> None:
    first, one, last = (NormalSum.of(deviation, reports, each) for each in (ends[0], epsilon, ends[1]))
    middle = NormalSum.of(deviation, reports, sum(ends) / 2)
    effort = Effort(1.0, 6, 8, 2e-5, upright=True)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        frame = NormalFrame(middle, (first, last), effort)
        assert frame.path.end is None
        integrals = Integrals([one], [frame])
        largest, shares, _, expected = integrals._known()
    row, turn = len(frame.path.centres) - 2, frame.path.turn
    size = float(integrals.sizes[0][row])
    most, share = float(largest[0][row]) + size, float(shares[0][row]) + size
    mass = 2 * one.rays.real.beyond[0]
    for height in (0.02, 0.3, 1.0, 3.0, 30.0, 1e3):
        value, wrong = transform(one, turn * complex(1.0, height), 2.0, 0.0)
        assert abs(1 + value) <= most + wrong
        assert abs(mass + value) <= share + wrong
    # The integral of the bound over the whole line, which is little of δ; and the whole is about what was expected.
    bound = reports * share * most ** (reports - 1) * math.pi / (2 * turn)
    assert bound <= one.straight(turn, most, share) <= 1.01 * bound
    whole = float(expected.sum())
    assert bound <= 1e-4 * whole
    lower, upper = one.ends()
    assert lower < whole / (one.gain * math.pi * reports) * 1.2 < 1.5 * upper


@pytest.mark.parametrize(
    ("deviation", "reports", "epsilon"),
    [(0.2, 10**4, 2.5), (0.3, 100, 9.0), (0.3, 10**4, 3.0), (0.3, 10**6, 1.5), (0.5, 10**4, 0.7), (1.0, 100, 2.5)],
)
def test_paths_that_go_straight_up_have_the_bounds_of_others(deviation: float, reports: int, epsilon: float) -> None:
    one = NormalSum.of(deviation, reports, epsilon)
    found = []
    for upright in (False, True):
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            frame = NormalFrame(one, (), Effort(1.0, 10, 10, 1e-7, upright=upright))
            lower, upper = Integrals([one], [frame]).bounds()
        assert upright or frame.path.end is not None
        assert 0 < lower[0] <= upper[0] <= lower[0] * (1 + 1e-5)
        found.append((lower[0], upper[0]))
    assert max(found[0][0], found[1][0]) <= min(found[0][1], found[1][1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deviation", "reports", "epsilon", "lower", "upper"),
    [
        (0.2, 10**4, 0.3, 0.8046551777865759, 0.8046552335580732),
        (0.2, 10**4, 2.5, 0.6117475687777639, 0.6117476124424385),
        (0.2, 10**4, 9.0, 0.15734127787074711, 0.15734128980194745),
        (0.3, 100, 0.0, 0.7100738072774893, 0.7100738682468878),
        (0.3, 100, 1.4, 0.49989561010786854, 0.49989564853783364),
        (0.3, 100, 9.0, 0.011797947999791744, 0.01179794948597648),
        (0.3, 100, 14.0, 0.00011103073243674961, 0.00011103075512913591),
        (0.3, 10**4, 0.1, 0.23656082068269815, 0.23656086157872103),
        (0.3, 10**4, 0.9, 0.08809943098383036, 0.08809944043458348),
        (0.3, 10**4, 3.0, 0.015767087128335813, 0.01576708911157596),
        (0.3, 10**4, 12.0, 7.432327435469492e-07, 7.432329894120311e-07),
        (0.3, 10**6, 0.02, 0.0521204076378421, 0.052120421407165524),
        (0.3, 10**6, 0.2, 0.014970573529709093, 0.014970576931667642),
        (0.3, 10**6, 1.5, 0.0011199432923181456, 0.001119943483971193),
        (0.3, 10**6, 9.0, 4.379401076418091e-08, 4.3794028758894025e-08),
        (0.5, 10, 1.0, 0.2888363959679096, 0.28883642957814293),
        (0.5, 10, 6.0, 0.0013450168493713258, 0.001345017274187606),
        (0.5, 10, 16.0, 1.1414078772602955e-14, 1.1414079006957642e-14),
        (0.5, 10**4, 0.05, 0.018477584560299503, 0.01847758916246615),
        (0.5, 10**4, 0.7, 5.414005701589364e-05, 5.414009120255429e-05),
        (0.5, 10**4, 4.0, 2.8589811787953126e-09, 2.858988450356017e-09),
        (1.0, 10, 0.5, 0.04976149037603328, 0.04976156166652382),
        (1.0, 10, 3.0, 1.8363851001448346e-06, 1.8364103624575985e-06),
        (1.0, 10, 6.0, 5.896862107767743e-13, 5.896866011106419e-13),
        (1.0, 10**4, 0.02, 0.0010309249068401558, 0.00103092501571467),
        (1.0, 10**4, 0.2, 4.452496117382114e-14, 4.452496164602181e-14),
        (3.0, 100, 0.1, 5.9732383437530476e-05, 5.9732386765300284e-05),
        (2.806072333626968, 98460259, 0.0008202818930072455, 4.2817390859863876e-91, 4.281739661610872e-91),
        (3.7305152999300177, 64107787, 0.0007428261000153819, 3.208537486679142e-93, 3.2085377590008304e-93),
    ],
)
def test_bounds_hold_what_they_held_before(
    deviation: float, reports: int, epsilon: float, lower: float, upper: float
) -> None:
    """Both ends of before are from paths that were followed up to their end, with panels and series of their own."""
    curve = NormalCurve(deviation, reports)
    lows, highs = curve.brackets([epsilon], 3e-4, 0.0)
    for low, high in (NormalSum.of(deviation, reports, epsilon).ends(), (float(lows[0]), float(highs[0]))):
        assert low <= upper
        assert lower <= high <= upper * (1 + 3e-4)
        assert high <= low * (1 + 3e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("deviation", "reports"), [(0.4, 1000), (1.0, 200), (3.0, 50)])
def test_knots_of_a_grid_hold_delta_from_both_sides(deviation: float, reports: int) -> None:
    profile = shoal.Gaussian(deviation=deviation).profile(reports)
    step = 2.0**-6 / deviation
    grid = profile.grid(Mesh(step, 40 * step, 40.0, tilts=(1 / step,), goal=1e-2))
    assert len(grid.knots) >= 4
    for position, lower, upper in zip(grid.knots.tolist(), grid.lower, grid.upper, strict=True):
        epsilon = position * step
        if epsilon < 40 * step:
            assert lower <= profile.delta(epsilon)
            assert profile.delta_below(epsilon) <= upper <= max(lower * (1 + 1e-3), 1e-12)
        else:
            assert upper == 0
