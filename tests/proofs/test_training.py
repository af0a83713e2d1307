"""Certificates of training runs: every theorem, both adjacencies, and what is charged next to the pair."""

import math
from dataclasses import replace
from typing import Any

import pytest

import shoal
from shoal.assumptions import TRAINING
from shoal.proofs.balls import ball, precision
from shoal.proofs.training_claim import GaussianClonesPair, TrainingClaim
from shoal.sgd.bounds import THEOREMS
from shoal.sgd.guarantees import guarantee
from shoal.sgd.run import Run
from tests.exhaustive import representative

_CLAIM = TrainingClaim(
    60_000, 64, 16.0, 1, "batch", "every-step", "replace", "permutation", "gaussian-clones", "examples"
)


def test_the_words_are_those_of_the_catalogue() -> None:
    proven = {name: row.citation for name, row in THEOREMS.items() if row.proven}
    assert proven.pop("kept-allocation")  # the one that `certify` refuses
    assert proven == {name: words[0] for name, words in TRAINING.items()}
    for name, (_, assumptions) in TRAINING.items():
        assert set(THEOREMS[name].assumptions) <= set(assumptions)


@pytest.mark.parametrize("epochs", [1, 7])
@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
@pytest.mark.parametrize(
    ("noise", "releases"), [("batch", "every-step"), ("example", "sums"), ("example", "every-step")]
)
def test_the_plain_bound_is_that_of_floating_point(epochs: int, adjacency: str, noise: str, releases: str) -> None:
    run = Run(
        examples=1000, batch_size=10, noise_multiplier=3, epochs=epochs, adjacency=adjacency, noise=noise,
        releases=releases, sampling="fixed-order",
    )  # fmt: skip
    result = guarantee(run, delta=1e-5)
    certificate = result.certify(delta=result.delta)
    assert result.epsilon <= certificate.epsilon <= result.epsilon * (1 + 1e-9)
    assert shoal.Certificate.from_json(certificate.to_json()).verify()
    smaller = replace(certificate, epsilon=result.epsilon * (1 - 1e-6), printed_epsilon=result.epsilon * (1 - 1e-6))
    assert not smaller.verify()


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    representative(
        [
            Run(examples=60_000, batch_size=64, noise_multiplier=16),
            Run(examples=60_000, batch_size=64, noise_multiplier=16, adjacency="zero-out"),
            Run(examples=1_000_000, noise_multiplier=2),
            Run(examples=20_000, noise_multiplier=4, noise="example"),
            Run(examples=60_000, batch_size=64, noise_multiplier=64, noise="example", releases="sums"),
            Run(examples=60_000, batch_size=256, noise_multiplier=2),
            Run(examples=60_000, batch_size=64, noise_multiplier=16, epochs=10),
        ],
        2,
    ),
    ids=str,
)
def test_theorem_g_is_proved_for_examples_and_for_representatives(run: Run) -> None:
    result = guarantee(run, delta=1e-6)
    assert result.bound == ("gaussian-clones" if run.batch_size == 1 else "representatives")
    certificate = result.certify(delta=result.delta)
    assert certificate.printed_epsilon == result.epsilon
    assert certificate.epsilon <= result.epsilon * (1 + 1e-3)
    assert shoal.Certificate.from_json(certificate.to_json()).verify()
    smaller = replace(certificate, epsilon=0.9 * result.epsilon, printed_epsilon=0.9 * result.epsilon)
    assert not smaller.verify()


@pytest.mark.parametrize(
    "change",
    [
        {"examples": 0}, {"batch_size": 10**6}, {"noise_multiplier": 0.0}, {"epochs": 10**7}, {"noise": "none"},
        {"sampling": "fixed-order"}, {"bound": "plain"}, {"elements": ""}, {"bound": "poisson"}, {"bound": "clones"},
        {"elements": "batches", "batch_size": 1}, {"adjacency": "add"}, {"elements": "representatives"},
        {"bound": "representatives"}, {"bound": "representatives", "elements": "representatives", "batch_size": 1},
    ],
)  # fmt: skip
def test_runs_of_no_theorem_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(shoal.ParameterError):
        replace(_CLAIM, **change)


def test_any_number_of_representatives_is_a_proof_and_none_beyond_the_batch() -> None:
    """With all slots of a batch it is Theorem G for the examples."""
    claim = replace(_CLAIM, bound="representatives", elements="representatives")
    frame = {"log_ratio": 3.0, "log_near": 0.0, "cells": 200, "reach": 7.0, "inner": {"fineness": 0.01}}
    with precision(128):
        assert claim.upper(0.1, frame | {"shown": 64}).overlaps(_CLAIM.upper(0.1, frame | {"shown": 1}))
        few = frame | {"log_ratio": 0.3}
        assert claim.upper(0.0151, few | {"shown": 1}) < 1e-6 < claim.upper(0.0151, few | {"shown": 8})
        for shown in (0, 65, 1.0):
            with pytest.raises(shoal.ParameterError, match="shown must be a whole number"):
                claim.upper(0.1, frame | {"shown": shown})


def test_a_sampler_of_ones_own_says_why_not() -> None:
    result = guarantee(Run(examples=100, noise_multiplier=3, sampling="fixed-order"), delta=1e-5)
    run = replace(result.run)
    object.__setattr__(run, "sampling", "mine")
    with pytest.raises((shoal.errors.NoPairError, shoal.ParameterError)):
        replace(result, run=run).certify(delta=result.delta)


def test_the_clones_of_a_gaussian_have_the_mean_of_the_theorem() -> None:
    claim = GaussianClonesPair(100, 2.0, 1, 1, 1.0, 0.0, 1.0, 400, 8.0)
    with precision(128):
        for w in claim.summands(ball(0.2).exp()):
            mean = sum((p * value for value, p in zip(w.values, w.probabilities, strict=True)), ball(0.0))
            assert abs(float(mean + w.cost) - (1 - math.exp(0.2))) < 1e-6
    for bad in ({"cells": 1}, {"reach": 0.0}, {"log_ratio": 1e4}, {"above": 0.0}):
        with pytest.raises(shoal.ParameterError):
            replace(claim, **bad)
