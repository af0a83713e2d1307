"""Certificates of allocation and Poisson sampling: both directions, epochs, and what is refused."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.proofs.balls import ball, precision
from shoal.proofs.lattice import dominating
from shoal.proofs.participation_pairs import AllocationPair, PoissonStepPair
from shoal.proofs.training_claim import ParticipationClaim
from shoal.sgd.guarantees import guarantee
from shoal.sgd.participation import PoissonStep
from shoal.sgd.run import Run
from tests.exhaustive import representative

_CLAIM = ParticipationClaim("poisson", 235, 8, 1875, 2.0, 1, "replace", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    representative(
        [
            Run(examples=60_000, batch_size=256, noise_multiplier=2, sampling="allocation"),
            Run(examples=60_000, batch_size=256, noise_multiplier=2, sampling="allocation", adjacency="zero-out"),
            Run(examples=60_000, batch_size=256, noise_multiplier=2, sampling="allocation", epochs=10),
            Run(
                examples=60_160,
                batch_size=256,
                noise_multiplier=1,
                sampling="allocation",
                epochs=10,
                adjacency="zero-out",
            ),
            Run(examples=60_000, batch_size=256, noise_multiplier=0.7, sampling="allocation", adjacency="zero-out"),
            Run(examples=60_000, batch_size=256, noise_multiplier=0.7, sampling="allocation", epochs=100),
            Run(examples=50_000, batch_size=256, noise_multiplier=0.5, sampling="allocation", adjacency="zero-out"),
            Run(examples=60_000, batch_size=256, noise_multiplier=2, sampling="poisson"),
            Run(batch_size=256, public_steps=100, noise_multiplier=2, sampling="poisson", adjacency="add-remove"),
        ],
        4,
    ),
    ids=str,
)
def test_runs_are_proved_and_less_is_not(run: Run) -> None:
    result = guarantee(run, delta=1e-6)
    assert result.bound == run.sampling
    certificate = result.certify(delta=result.delta)
    assert certificate.printed_epsilon == result.epsilon <= certificate.epsilon <= result.epsilon * (1 + 1e-3)
    assert shoal.Certificate.from_json(certificate.to_json()).verify()
    smaller = replace(certificate, epsilon=0.98 * result.epsilon, printed_epsilon=0.0)
    assert not smaller.verify()


@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
@pytest.mark.parametrize("rate", [Fraction(1, 1000), Fraction(1, 3), Fraction(1)])
def test_a_poisson_step_is_that_of_floating_point(direction: str, rate: Fraction) -> None:
    claim = PoissonStepPair(rate.numerator, rate.denominator, 1.5, direction)
    floats = PoissonStep(1 / 1.5, direction, float(rate))
    with precision(128):
        for epsilon in (0.0, 1e-4, 0.2, 1.0):
            exact = float(claim.at(epsilon, fineness=0.1))
            assert exact <= floats.delta(epsilon) <= exact * (1 + 1e-9) + 1e-15


def test_losses_of_one_direction_have_its_divergence_on_both_sides() -> None:
    """From the masses, H(t) at t ≥ 1 is that of the pair, and 1 − t + t·H(1/t) of the exchanged one below."""
    forward, backward = (PoissonStepPair(1, 4, 1.0, each) for each in ("remove", "add"))
    step, points = 0.125, 40
    with precision(128):
        heights, others = (
            [claim.at(step * index, fineness=0.1).upper() for index in range(points + 1)]
            for claim in (forward, backward)
        )
        losses = dominating(step, 1, range(len(heights)), heights, others)
    masses = np.array([*map(float, losses.masses)])
    places = step * np.arange(-points, points + 1)
    assert masses.sum() + float(losses.infinite) == pytest.approx(1, abs=1e-12)
    for index in (0, 1, 7, 20):
        t = np.exp(step * index)
        above = (masses * np.maximum(1 - t * np.exp(-places), 0)).sum() + float(losses.infinite)
        assert above == pytest.approx(float(heights[index]), rel=1e-9)
        below = (masses * np.maximum(1 - np.exp(-places) / t, 0)).sum() + float(losses.infinite)
        assert below == pytest.approx(1 - 1 / t + float(others[index]) / t, rel=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"sampling": "permutation"}, {"steps": 0}, {"numerator": 0}, {"numerator": 1876}, {"noise_multiplier": 0.0},
        {"epochs": 0}, {"adjacency": "add"}, {"charged": -1.0}, {"sampling": "allocation"},
    ],
)  # fmt: skip
def test_runs_of_no_theorem_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(shoal.ParameterError):
        replace(_CLAIM, **change)


def test_rounds_of_no_direction_are_refused() -> None:
    with pytest.raises(shoal.ParameterError, match="direction"):
        PoissonStepPair(1, 2, 1.0, "both")
    claim = AllocationPair(100, 2.0, "remove", 400, 8.0)
    assert claim.reverse == replace(claim, direction="add")
    assert replace(claim, direction="replace").reverse is None
    for bad in ({"cells": 1}, {"reach": 0.0}, {"direction": ""}, {"noise": 0.0}):
        with pytest.raises(shoal.ParameterError):
            replace(claim, **bad)


def test_an_allocation_in_cells_has_the_mean_of_the_theorem() -> None:
    with precision(128):
        for direction in ("remove", "add", "replace"):
            claim = AllocationPair(100, 2.0, direction, 400, 8.0)
            (w,) = claim.summands(ball(0.2).exp())
            mean = sum((p * value for value, p in zip(w.values, w.probabilities, strict=True)), ball(0.0))
            assert abs(float(mean + w.cost) - (1 - float(np.exp(0.2)))) < 1e-6


def test_what_is_charged_is_added() -> None:
    with precision(128):
        plain = ParticipationClaim("allocation", 50, 1, 50, 2.0, 1, "replace", 0.0)
        witness = {"cells": 200, "reach": 7.0, "replace": {"fineness": 0.01}}
        more = float(replace(plain, charged=0.25).upper(0.5, witness) - plain.upper(0.5, witness))
        assert more == pytest.approx(0.25)
        with pytest.raises(shoal.ParameterError, match="fields"):
            plain.upper(0.5, {**witness, "remove": {}})
