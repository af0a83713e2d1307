"""Audits of whole rounds: what holds passes, with some power, and what was planted is found."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

import shoal
from shoal.auditing import ProtocolAudit
from shoal.randomizers import Simulation
from shoal.randomizers.coins import Coins
from shoal.randomizers.mechanism import Reports

_RESPONSE = shoal.RandomizedResponse(categories=3, local_epsilon=6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "people", "delta"),
    [
        (shoal.Covered(categories=5, fill=0.5), 100, 1e-3),
        (shoal.Covered(categories=3, slots=2, fill=1), 10, 1e-2),
        (shoal.Covered(categories=3, fill=1, response=_RESPONSE), 20, 1e-3),
        (shoal.Dummies(categories=4, epsilon=1, limit=27), 3, 1e-6),
        (shoal.Dummies(categories=4, epsilon=2, limit=4), 1, 0.05),
        pytest.param(
            shoal.SplitAndMix.fitted(epsilon=1, delta=1e-3, honest=20, people=20),
            20,
            1e-3,
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_what_holds_passes_and_more_than_half_of_it_is_found(
    mechanism: shoal.Covered | shoal.Dummies | shoal.SplitAndMix, people: int, delta: float
) -> None:
    """The bound is wrong once in a thousand runs, and the seed is fixed."""
    result = shoal.audit(mechanism, people=people, delta=delta, trials=100_000, simulation=Simulation(seed=3))
    assert isinstance(result, ProtocolAudit) and result.passed
    assert result.claimed / 2 < result.lower <= result.claimed < np.inf
    assert "central ε ≥" in repr(result) and result.to_dict()["people"] == people


@dataclass(frozen=True, kw_only=True)
class _Absent(shoal.Covered):
    """Covers that promise all slots, and leave half of them empty."""

    def report(self, values: NDArray[np.int64], coins: Coins) -> Reports:
        bundles = super().report(values, coins)
        bundles[::2, 1:] = self.null
        return bundles


@dataclass(frozen=True, kw_only=True)
class _Twice(shoal.Dummies):
    """Dummies whose noise is half of what it should be: the mean of two draws over the same messages has less."""

    def noise(self, coins: Coins, count: int) -> NDArray[np.int64]:
        return super().noise(coins, count) // 2


@dataclass(frozen=True, kw_only=True)
class _Missing(shoal.SplitAndMix):
    """Shares of noise for twice as many people as there are."""

    def noise(self, coins: Coins, count: int) -> NDArray[np.int64]:
        noise = super().noise(coins, count)
        noise[1::2] = 0
        return noise


@pytest.mark.slow
def test_missing_shares_of_noise_are_found() -> None:
    fitted = shoal.SplitAndMix.fitted(epsilon=1, delta=1e-3, honest=20, people=20)
    fields = {each.name: getattr(fitted, each.name) for each in dataclasses.fields(fitted) if each.init}
    result = shoal.audit(_Missing(**fields), people=20, delta=1e-3, trials=20_000, simulation=Simulation(seed=4))
    assert not result.passed


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [_Absent(categories=2, fill=0.99), _Twice(categories=2, epsilon=1, limit=30)])
def test_planted_faults_are_found(mechanism: shoal.Covered | shoal.Dummies) -> None:
    result = shoal.audit(mechanism, people=60, delta=1e-3, trials=200_000, simulation=Simulation(seed=4))
    assert not result.passed and "VIOLATION" in repr(result)


def test_bad_arguments_are_refused() -> None:
    made = shoal.Covered(categories=3, fill=0.5)
    for arguments in ({"first": 1, "second": 1}, {"first": 7}, {"people": 0}, {"delta": 2}):
        with pytest.raises(shoal.ParameterError):
            shoal.audit(made, trials=2000, **arguments)  # type: ignore[arg-type]
