"""The recipe "add a pair" of CONTRIBUTING, followed with a toy: one file, and every question is answered.

The toy is the blanket of ternary randomized response, which shoal knows by another way too.
"""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import shoal
from shoal.curve import PrivacyCurve
from shoal.pairs import Pair

FILE = '''
"""A pair of one's own: everybody else reports each of three symbols with probability 1/(e^ε₀ + 2)."""

import math
from dataclasses import dataclass

from shoal.numerics.summand import Summand
from shoal.pairs import Pair, gaussian_guess
from shoal.proofs.balls import Ball, ball, ZERO
from shoal.proofs.balls import Summand as BallSummand
from shoal.proofs.claim import RoundClaim


@dataclass(frozen=True)
class TernaryClaim(RoundClaim, name="ternary"):
    """What a certificate of the pair claims: W in balls is all that a proof needs."""

    theorem = "a toy"
    assumptions = ()

    reports: int
    local_epsilon: float

    @property
    def subject(self) -> str:
        return f"{self.reports:,} shuffled reports of ternary randomized response, local_epsilon={self.local_epsilon!r}"

    @property
    def ceiling(self) -> float:
        return self.local_epsilon

    def summands(self, growth: Ball) -> list[BallSummand]:
        local = ball(self.local_epsilon).exp()
        return [BallSummand((local - growth, 1 - local * growth, 1 - growth), (1 / (local + 2),) * 3, ZERO)]


@dataclass(frozen=True)
class TernaryPair(Pair):
    """The blanket of ternary randomized response: W is e^ε₀ − e^ε, 1 − e^(ε + ε₀) or 1 − e^ε, else 0."""

    reports: int
    local_epsilon: float

    def advantage(self, epsilon: float) -> float:
        return max(0.0, -math.expm1(epsilon - self.local_epsilon) / (1 + 2 * math.exp(-self.local_epsilon)))

    def guess(self, delta: float) -> tuple[float, float]:
        first = self.distribution(0.0)
        return gaussian_guess(first.scale * first.spread, delta)

    def distribution(self, epsilon: float) -> Summand:
        local, central = math.exp(self.local_epsilon), math.exp(epsilon)
        width = math.expm1(self.local_epsilon) * (1 + central)  # the distance of the two outer values of W
        share = -local * math.expm1(epsilon - self.local_epsilon) / width
        mean = -math.expm1(epsilon) / width
        return Summand(
            self.reports, width / self.reports, (share, share - 1, mean), (1 / (local + 2),) * 3, mean
        )

    def provable(self) -> TernaryClaim:
        return TernaryClaim(self.reports, self.local_epsilon)
'''


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the toy as a module of somebody else."""
    (tmp_path / "ternary_pair_of_mine.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("ternary_pair_of_mine")


def curve_of(pair: Pair) -> PrivacyCurve:
    """Return the curve of a pair, as a bound of its own would."""
    return PrivacyCurve("ternary", "a toy", (), pair.reports, pair.local_epsilon, 0.0, pair)


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon"), [(1, 1.0), (30, 0.3), (30, 3.0), (2000, 0.3)])
def test_one_file_answers_every_question(toys: ModuleType, reports: int, local_epsilon: float) -> None:
    response = shoal.RandomizedResponse(categories=3, local_epsilon=local_epsilon)
    pair = toys.TernaryPair(reports, response.local_epsilon)
    known = shoal.amplify(response, reports=reports, bound="blanket")
    for share in (0.0, 0.02, 0.5):
        lower, upper = pair.delta_bracket(share * pair.local_epsilon)
        assert lower <= known.delta(share * pair.local_epsilon) * (1 + 1e-9)
        assert upper >= known.delta(share * pair.local_epsilon) * (1 - 1e-4)
    curve = curve_of(pair)
    lower, upper = curve.epsilon_bracket(1e-6)
    assert lower <= known.epsilon_bracket(1e-6).upper
    assert upper == curve.epsilon(1e-6) >= known.epsilon_bracket(1e-6).lower
    certificate = curve.certify(delta=1e-6)
    assert certificate.epsilon <= upper * (1 + 1e-9)
    assert shoal.Certificate.from_json(certificate.to_json()).verify()
    orders = np.array([1.5, 2.0, 20.0])
    assert np.all(curve.renyi(orders) > 0)
    assert np.all(curve.renyi(orders) <= pair.local_epsilon)
    strong = shoal.amplify(local_epsilon=pair.local_epsilon, reports=reports)
    several, others = curve.repeated(20).epsilon(1e-6), strong.repeated(20).epsilon(1e-6)
    assert upper <= several * (1 + 1e-9)
    assert several <= others * (1 + 1e-3)
