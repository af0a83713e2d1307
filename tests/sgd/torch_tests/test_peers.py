"""Two processes train one model: as one would, with one noise, one account, and no silence about what goes wrong."""

import itertools
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist

from shoal.errors import ParameterError
from tests.sgd.torch_tests.trainings import network, training
from tests.sgd.torch_tests.two_processes import SAMPLING, begin, compared, results

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="needs torch with gloo"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("peers")


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, list[Any]]:
    return results(folder)


@pytest.mark.parametrize("sampling", SAMPLING)
def test_two_processes_train_as_one_does(sampling: str, answers: dict[str, list[Any]]) -> None:
    alone = compared(sampling, wrapped=False)
    first, second = (answer[sampling] for answer in answers["same_as_alone"])
    assert first == second  # bit for bit
    for name in ("weights", "losses"):
        np.testing.assert_allclose(first[name], alone[name], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(first["validation"], alone["validation"], rtol=1e-12)
    assert first["account"] == alone["account"] and first["epsilon"] == alone["epsilon"] > 0
    assert len(first["losses"]) == 8


def test_noise_is_added_once(answers: dict[str, list[Any]]) -> None:
    (deviation, weights), (other, others) = answers["noise_is_added_once"]
    assert deviation == other and weights == others
    # Of 20,000 numbers; two noises would have 8.5, and half a sum's noise 4.2 or less.
    assert deviation == pytest.approx(6.0, rel=0.03)


def test_each_process_has_its_share(answers: dict[str, list[Any]]) -> None:
    (first, weights, losses), (second, others, other_losses) = answers["shares"]
    assert weights == others
    np.testing.assert_array_equal(losses, other_losses)
    run = training(batch_size=2)
    for batch, one, two in zip(run.batches(), first, second, strict=True):
        assert sorted([*one, *two]) == sorted(batch.indices.tolist())
        assert 0 <= len(one) - len(two) <= 1
        run.step(batch)
    assert sorted(itertools.chain(*first, *second)) == list(range(30))
    assert any(one and not two for one, two in zip(first, second, strict=True))  # nothing to do for the second


def test_the_key_is_one(answers: dict[str, list[Any]]) -> None:
    first, second = answers["secret_keys"]
    assert first == second and len(bytes.fromhex(first[0])) == 32


def test_random_numbers_of_the_model_are_not(answers: dict[str, list[Any]]) -> None:
    first, second = answers["other_random_numbers"]
    assert first != second


def test_what_differs_is_refused_at_the_start(answers: dict[str, list[Any]]) -> None:
    first, second = answers["different"]
    assert first == second
    for name, (kind, message) in first.items():
        if name == "nothing":
            assert kind == "nothing"
        else:
            assert kind == "ParameterError" and message.startswith(f"process 1 has another {name.strip()} ("), (
                name,
                message,
            )
    assert "(29, not 30); all processes need the same arguments" in first["examples"][1]


def test_an_error_of_one_is_heard_by_all(answers: dict[str, list[Any]]) -> None:
    (well, spent, epochs), (ill, other_spent, other_epochs) = answers["one_fails"]
    kinds = {name: kind for name, (kind, _) in ill.items()}
    assert kinds == {
        "start": "ParameterError",
        "simulation": "ParameterError",
        "data": "OSError",
        "step": "MixedError",
        "again": "MixedError",
        "argument": "ParameterError",
        "fit": "PeerError",
        "plan": "ParameterError",
    }
    for name in ("start", "simulation", "data", "step", "again", "argument"):
        kind, message = well[name]
        start = f"process 1 of 2 failed, and nothing was spent by that: {kinds[name]}: {ill[name][1]}"
        assert (kind, message) == ("PeerError", start)
    assert well["fit"][0] == "ParameterError" and "its folder does not exist" in well["fit"][1]
    assert "process 0 of 2 failed" in ill["fit"][1]
    assert well["plan"] == ill["plan"] and "another epochs (4, not 3)" in ill["plan"][1]
    assert spent == other_spent == [0, 0]
    assert epochs == other_epochs == 1


def test_processes_that_do_not_do_the_same_are_refused(answers: dict[str, list[Any]]) -> None:
    (said, epochs), (others, other_epochs) = answers["apart"]
    assert said == others
    (kind, message), (later, later_message) = said
    assert kind == later == "PeerError"
    assert "do different things: fit, step" in message
    assert "parameters of the processes are no longer the same" in later_message
    assert epochs == other_epochs == 0


def test_a_training_of_two_processes_is_resumed(answers: dict[str, list[Any]], folder: Path) -> None:
    first, second = answers["resumed"]
    assert first[:3] == second[:3] == [True, [2, 1], 2]
    assert second[3][0] == "StorageError" and first[3][0] == "PeerError" and "StorageError: cannot read" in first[3][1]
    with pytest.raises(ParameterError, match=r"another processes \(2, not 1\)"):
        training(network(dropout=0.5), resume=folder / "training")


def test_models_that_are_not_joined_are_refused(answers: dict[str, list[Any]]) -> None:
    first, second = answers["wrong_models"]
    assert first[:3] == second[:3]
    for (kind, message), part in zip(
        first[:3], ("spend its own ε; give make_private Distributed", "use torch.nn.parallel.Distr", "whole dataset"),
        strict=True,
    ):  # fmt: skip
        assert kind == "ParameterError" and part in message
    assert first[3] != second[3]  # two trainings, each of one process


@pytest.mark.parametrize(
    ("what", "sign"),
    [("kill", signal.SIGKILL), pytest.param("stop", signal.SIGSTOP, marks=pytest.mark.exhaustive)],
)
def test_a_process_that_is_gone_ends_the_other(what: str, sign: signal.Signals, tmp_path: Path) -> None:
    first, second = begin(tmp_path, what)
    assert second.stdout is not None
    for _ in range(5):
        assert second.stdout.readline() == "step\n"
    second.send_signal(sign)
    output, errors = first.communicate(timeout=120)
    second.kill()
    second.communicate()
    assert first.returncode == 1
    assert len(output.splitlines()) < 20  # of 100 steps
    assert "shoal.errors.PeerError: another of 2 processes ended, or does not answer" in errors
