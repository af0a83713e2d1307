"""Cells of continuous noise in balls: larger in convex order than W, and certificates of Laplace and Gaussian noise."""

import math
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.proofs.balls import ball, precision, total
from shoal.proofs.blanket_claim import GaussianClaim, LaplaceClaim
from shoal.proofs.cells import Edge, celled
from tests.exhaustive import representative

_LAPLACE = LaplaceClaim(1000, 2.0, 40)
_GAUSSIAN = GaussianClaim(1000, 1.0, 200, 6.0)


def quadrature(claim: LaplaceClaim | GaussianClaim, epsilon: float, level: float) -> float:
    """Return E[(W − level)₊] from the densities, by the midpoint rule."""
    points = np.linspace(-12.0, 13.0, 2_000_001)
    middle = (points[1:] + points[:-1]) / 2
    if isinstance(claim, LaplaceClaim):
        local = claim.local_epsilon
        first, second = (0.5 * local * np.exp(-local * np.abs(middle - value)) for value in (0.0, 1.0))
    else:
        width = claim.deviation
        first, second = (
            np.exp(-(((middle - value) / width) ** 2) / 2) / (width * math.sqrt(2 * math.pi)) for value in (0.0, 1.0)
        )
    reference = np.minimum(first, second)
    gains = np.maximum(first - math.exp(epsilon) * second - level * reference, 0.0)
    rest = 1 - float(reference.sum() * (points[1] - points[0]))
    return float(gains.sum() * (points[1] - points[0])) + rest * max(0.0, -level)


@pytest.mark.slow
@pytest.mark.parametrize("claim", [_LAPLACE, _GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_cells_are_larger_in_convex_order(claim: Any, epsilon: float) -> None:
    with precision(128):
        (w,) = claim.summands(ball(epsilon).exp())
        assert total(w.probabilities) < 1
        for level in (-2.0, -0.7, -0.1, 0.0, 0.3, 1.0, 4.0):
            gains = [p * (value - level).max(ball(0.0)) for value, p in zip(w.values, w.probabilities, strict=True)]
            rest = (1 - total(w.probabilities)) * max(0.0, -level)
            ours, true = float(total(gains) + rest + w.cost), quadrature(claim, epsilon, level)
            assert ours >= true - 1e-7
            assert ours <= true + 2e-2


def test_beyond_its_interval_the_ratio_of_laplace_noise_does_not_change() -> None:
    with precision(160):
        (w,) = _LAPLACE.summands(ball(0.3).exp())
        assert abs(w.cost) < 1e-30
        assert (w.values[-1] - (ball(2.0).exp() - ball(0.3).exp())).contains(0)


def test_a_coarse_cell_costs_more_than_a_fine_one() -> None:
    with precision(128):
        ends = [LaplaceClaim(1000, 1.0, cells).at(0.1, fineness=1e-2) for cells in (4, 16, 64)]
    assert ends[0] > ends[1] > ends[2]


def test_two_edges_are_two_values() -> None:
    with precision(64):
        edges = [
            Edge(ball(0.5), ball(2.0), ball(0.0), ball(0.0), ball(0.0)),
            Edge(ball(2.0), ball(0.5), ball(1.0), ball(1.0), ball(0.5)),
        ]
        w = celled(edges, ball(0.5), ball(1.0))
    assert [float(value) for value in w.values] == [-1.5, 1.5]
    assert [float(p) for p in w.probabilities] == [0.25, 0.25]
    assert float(w.cost) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "reports", "rounds"),
    representative(
        [
            (shoal.Laplace(local_epsilon=1), 10**5, 1),
            (shoal.Laplace(local_epsilon=4, lower=0, upper=120), 10**4, 1),
            (shoal.Gaussian(sigma=1), 10**5, 1),
            (shoal.Gaussian(sigma=5), 10**6, 1),
            (shoal.Laplace(local_epsilon=1), 10**5, 5),
            (shoal.Gaussian(sigma=1), 10**4, 2),
        ],
        3,
    ),
    ids=str,
)
def test_noise_is_proved(mechanism: shoal.Laplace | shoal.Gaussian, reports: int, rounds: int) -> None:
    one = shoal.amplify(mechanism, reports=reports, bound="blanket")
    curve = one if rounds == 1 else one.repeated(rounds)
    certificate = curve.certify(delta=1e-6)
    assert certificate.printed_epsilon == curve.epsilon(1e-6)
    assert certificate.epsilon <= certificate.printed_epsilon * (1 + 1e-3)
    again = shoal.Certificate.from_json(certificate.to_json())
    assert again.verify()
    assert "discretised upwards" in str(again)
    assert certificate.claim.theorem == curve.citation
    assert certificate.claim.assumptions == curve.assumptions


@pytest.mark.parametrize(
    "make",
    [
        lambda: LaplaceClaim(10, 0.0, 10), lambda: LaplaceClaim(10, 1.0, 1), lambda: LaplaceClaim(10, 1.0, 10**6),
        lambda: GaussianClaim(10, 1e-3, 10, 1.0), lambda: GaussianClaim(10, 1.0, 10, 0.0),
        lambda: GaussianClaim(10, 1.0, 10, 1e9),
    ],
)  # fmt: skip
def test_noise_of_nothing_is_refused(make: Any) -> None:
    with pytest.raises(shoal.ParameterError):
        make()
