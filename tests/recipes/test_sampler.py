"""The recipe "add a sampler", followed: one file, and it is everywhere."""

import inspect
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal import ParameterError, Simulation, sgd
from shoal.cli import main
from shoal.sgd import Run
from shoal.sgd.bounds import Bound
from shoal.sgd.sampler import SAMPLERS, Sampler, register

RUN = sgd.Run(examples=203, batch_size=20, noise_multiplier=40, epochs=2)


@pytest.fixture(autouse=True)
def toy() -> Iterator[Sampler]:
    """Register the sampler by importing its file, and take it out again."""
    from tests.recipes import round_robin

    SAMPLERS.setdefault("round-robin", round_robin.RoundRobin())
    yield SAMPLERS["round-robin"]
    del SAMPLERS["round-robin"]


def problem() -> tuple[Any, Any]:
    """Return examples, and labels by a linear rule."""
    rows = np.random.default_rng(1).normal(size=(203, 3))
    return rows, rows[:, 0] > 0


@pytest.mark.slow
def test_it_has_a_guarantee_of_its_own(toy: Sampler) -> None:
    run = replace(RUN, sampling="round-robin")
    assert run.sampler is toy
    result = sgd.guarantee(run, delta=1e-6)
    assert (result.bound, result.alternatives) == ("plain", ())
    assert result.epsilon == sgd.guarantee(RUN, delta=1e-6).plain_epsilon > sgd.guarantee(RUN, delta=1e-6).epsilon
    assert 0 < sgd.lower_bound(run, delta=1e-6) < result.epsilon
    calibrated = sgd.calibrate(run, epsilon=1.0, delta=1e-6)
    assert calibrated.sampling == "round-robin" and 0.99 < sgd.guarantee(calibrated, delta=1e-6).epsilon <= 1
    account = sgd.Account(run, delta=1e-6, budget=0.9)
    assert account.most and account.spent(1) <= 0.9
    with pytest.raises(ParameterError, match="round-robin is for sums of batches"):
        replace(run, noise="example")
    with pytest.raises(ParameterError, match='no guarantee for sampling="round-robin"'):
        replace(run, adjacency="add-remove")
    with pytest.raises(ParameterError, match="there is a sampler 'round-robin' already"):
        sgd.register(type(toy))


def test_a_filter_refuses_a_sampler_that_uses_examples_more_than_once_an_epoch(
    toy: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, budget = replace(RUN, sampling="round-robin"), sgd.Filter(epsilon=2, delta=1e-6)
    assert budget.affords(run)
    monkeypatch.setattr(type(toy), "usage", "twice an epoch")
    for ask in (budget.affords, budget.left, budget.charge):
        with pytest.raises(ParameterError, match=r"twice an epoch.*one use an epoch"):
            ask(run)
    assert budget.used == 0


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda batches: [*batches, batches[0]], "drew 12 batches for an epoch of 11 steps"),
        (lambda batches: batches[:-1], "drew 10 batches"),
        (lambda batches: [batches[1], *batches[1:]], "more than once"),
        (lambda batches: [np.repeat(batches[0], 2), *batches[1:]], "more than once"),
        (lambda batches: [batches[0] - 1, *batches[1:]], "not among the 203"),
        (lambda batches: [batches[0] + 1000, *batches[1:]], "not among the 203"),
    ],
)
def test_draws_that_the_guarantee_is_not_about_are_refused(
    toy: Sampler, monkeypatch: pytest.MonkeyPatch, wrong: Any, complaint: str
) -> None:
    batches = type(toy).batches
    monkeypatch.setattr(type(toy), "batches", lambda *args, **names: wrong(batches(*args, **names)))
    model = sgd.PrivateLogisticRegression(noise_multiplier=40, batch_size=20, sampling="round-robin")
    with pytest.raises(ParameterError, match=complaint):
        model.fit(*problem())


def test_it_trains_in_numpy(toy: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = problem()
    drawn: list[int] = []
    batches = type(toy).batches

    def watched(self: Sampler, run: sgd.Run, *, key: bytes, epoch: int) -> list[Any]:
        drawn.append(epoch)
        return batches(self, run, key=key, epoch=epoch)

    monkeypatch.setattr(type(toy), "batches", watched)
    model = sgd.PrivateLogisticRegression(
        noise_multiplier=40, batch_size=20, epochs=2, sampling="round-robin", simulation=Simulation(seed=1)
    ).fit(rows, labels)
    assert drawn == [0, 1]
    assert model.guarantee_ == sgd.guarantee(replace(RUN, sampling="round-robin", releases="sums"), delta=1e-6)
    other = sgd.PrivateLogisticRegression(noise_multiplier=40, batch_size=20, epochs=2, simulation=Simulation(seed=1))
    assert (other.fit(rows, labels).coef_ != model.coef_).any()
    with pytest.raises(ParameterError, match="round-robin is for sums of batches"):
        sgd.LocalLogisticRegression(noise_multiplier=40, sampling="round-robin").fit(rows, labels)


@pytest.mark.slow
def test_it_trains_in_torch() -> None:
    torch = pytest.importorskip("torch")
    from shoal.sgd.torch import make_private

    run = sgd.Run(examples=203, batch_size=20, noise_multiplier=40, sampling="round-robin")
    rows, labels = problem()
    data = torch.utils.data.TensorDataset(torch.tensor(rows, dtype=torch.float32), torch.tensor(labels).long())
    model = torch.nn.Linear(3, 2)
    training = make_private(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        data,
        run,
        loss=torch.nn.CrossEntropyLoss(),
    )
    steps = []
    for batch in training.batches():
        steps.append(batch.indices.tolist())
        training.step(batch)
    assert steps == [list(range(start, 203, 11)) for start in range(11)]
    result = training.guarantee()
    assert result is not None and result.bound == "plain" and result.run.sampling == "round-robin"


def test_it_is_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows, labels = problem()
    np.savez("data.npz", X=rows, y=labels.astype(int))
    options = "--noise-multiplier 40 --batch-size 20 --sampling round-robin"
    assert main(f"train data.npz --test-share 0 --epochs 2 --json {options}".split()) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["run"]["sampling"] == "round-robin" and facts["bound"] == "plain"
    assert facts["epsilon"] == sgd.guarantee(replace(RUN, sampling="round-robin"), delta=1e-6).epsilon
    assert (
        main(["sgd", "--examples", "203", "--batch-size", "20", "--noise-multiplier", "4", "--sampling", "round-robin"])
        == 0
    )
    assert "round-robin: example i in step i modulo the number of steps" in " ".join(capsys.readouterr().out.split())
    assert main(f"sgd --examples 203 {options}".split()) == 0
    assert "round-robin: example i in step i modulo the number of steps" in " ".join(capsys.readouterr().out.split())
    assert main(f"sgd --examples 203 {options}-ish".split()) == 2
    assert "did you mean round-robin?" in capsys.readouterr().err


def test_the_recipe_needs_one_short_file(toy: Sampler) -> None:
    source = inspect.getsourcefile(type(toy))
    assert source is not None and len(Path(source).read_text().splitlines()) <= 45


@pytest.mark.parametrize("bound", [(math.nan, "plain"), (-1.0, "plain"), (0.1, "nobody proved this"), None])
def test_bounds_that_are_none_are_refused(bound: tuple[float, str] | None) -> None:
    class Wishful(type(SAMPLERS["permutation"])):  # type: ignore[misc]
        name = "wishful"

        def bounds(self, run: Run, delta: float) -> Iterator[Bound]:
            if bound is not None:
                yield Bound(*bound)

    register(Wishful)
    try:
        with pytest.raises(ParameterError, match="the sampler 'wishful' yields"):
            sgd.guarantee(Run(examples=100, noise_multiplier=2, sampling="wishful"), delta=1e-6)
    finally:
        del SAMPLERS["wishful"]
