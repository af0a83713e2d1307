"""A training that was killed goes on as if nothing had happened; a file that is not its own is refused."""

import itertools
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from shoal.errors import DamagedError, FormatError, ParameterError, StorageError
from shoal.mechanisms.coins import Simulation
from shoal.sgd.torch.checkpoint import read_checkpoint, write_checkpoint
from tests.sgd.torch_tests.trainings import dataset, network, training

ROOT = Path(__file__).parents[3]
SCRIPT = """
import json, sys, time
import torch
from tests.sgd.torch_tests.trainings import dataset, network, training
torch.set_num_threads(1)
path, resume, slow, seed = sys.argv[1], sys.argv[2] == "resume", sys.argv[3] == "slow", int(sys.argv[4])
model = network(dropout=0.3, seed=seed)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
run = training(model, dataset(64), optimizer=optimizer, resume=path if resume else None)
seen = []
def until(epochs):
    while run.epochs < epochs or run._step:
        for batch in run.batches():
            run.step(batch)
            seen.append(batch.indices.tolist())
            if slow:
                run.save(path)
                print("step", flush=True)
                time.sleep(0.05)
until(3)
weights = [parameter.detach().flatten().tolist() for parameter in model.parameters()]
print(json.dumps([weights, run.epsilon, run.epochs, seen, run._losses]))
"""


def run_script(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def answer(process: subprocess.Popen[str]) -> Any:
    import json

    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(output.splitlines()[-1])


@pytest.mark.slow
def test_resumed_after_a_kill(tmp_path: Path) -> None:
    path = str(tmp_path / "training")
    undisturbed = run_script("unused", "begin", "fast", "1")
    killed = run_script(path, "begin", "slow", "1")
    assert killed.stdout is not None
    for _ in range(11):  # in the middle of the second pass
        assert killed.stdout.readline() == "step\n"
    time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    assert killed.returncode == -signal.SIGKILL
    resumed = answer(run_script(path, "resume", "fast", "2"))  # begins with other weights
    whole = answer(undisturbed)
    weights, epsilon, epochs, seen, history = whole
    assert resumed[:3] == [weights, epsilon, epochs]
    assert epochs == 3
    assert 8 <= len(resumed[3]) <= 13  # 24 steps in all, 11 or 12 of them before the kill
    assert resumed[3] == seen[-len(resumed[3]) :]
    assert resumed[4] == history


def same(first: nn.Module, second: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.slow
def test_every_step_can_be_resumed(tmp_path: Path) -> None:
    path = tmp_path / "training"
    straight = network(dropout=0.5)
    torch.manual_seed(0)
    training(straight).fit(epochs=2)
    model = network(dropout=0.5)
    torch.manual_seed(0)
    run = training(model)
    for _ in range(8):
        run.step(next(run.batches()))
        run.save(path)
        torch.manual_seed(99)
        model = network(dropout=0.5, seed=5)
        run = training(model, resume=path)
    assert same(straight, model)
    assert run.epochs == 2


@pytest.mark.slow
def test_a_step_that_is_run_again_shows_the_same(tmp_path: Path) -> None:
    path = tmp_path / "training"
    model = network()
    run = training(model, simulation=None)
    run.step(next(run.batches()))
    run.save(path)
    run.fit(epochs=2)
    again = network()
    other = training(again, simulation=None, resume=path)
    other.fit(epochs=2)
    assert same(model, again)
    assert other.epochs == run.epochs == 2


@pytest.mark.slow
def test_a_step_that_is_run_again_differently_has_other_noise(tmp_path: Path) -> None:
    path = tmp_path / "training"
    gradients = []
    training(simulation=None, noise_multiplier=1e3).save(path)
    for change in (0.0, 0.0, 1e-3):
        model = network()
        run = training(model, simulation=None, noise_multiplier=1e3, resume=path)
        with torch.no_grad():
            model[3].bias[0] += change  # type: ignore[index]
        run.step(next(run.batches()))
        gradients.append(torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]))
    assert torch.equal(gradients[0], gradients[1])
    # The sums differ by 0.01 at most, the noises by 1,400 / 8 on the average: less than 1 is once in 10⁶⁰ times.
    assert float((gradients[0] - gradients[2]).abs().mean()) > 1


@pytest.mark.slow
def test_fit_saves_every_so_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "training"
    saved = []
    run = training()
    write = run.save

    def save(path: str | os.PathLike[str]) -> None:
        saved.append(run._done)
        write(path)

    monkeypatch.setattr(run, "save", save)
    run.fit(epochs=2, checkpoint=path, every=3)
    assert saved == [3, 6, 8]
    assert training(resume=path).fit(epochs=2).epochs == 2
    saved.clear()
    run.fit(epochs=4, checkpoint=path)
    assert saved == [12, 16]


@pytest.mark.slow
def test_the_file_is_secret_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "training"
    path.write_bytes(b"old")
    path.chmod(0o644)
    training().save(path)
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["training"]
    before = path.read_bytes()
    with pytest.raises(StorageError, match="cannot write"):
        training().save(tmp_path / "nowhere" / "training")
    with pytest.raises(AttributeError):
        write_checkpoint(path, {"bad": lambda: 1})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["training"]


def changed_data() -> TensorDataset:
    points, labels = dataset().tensors
    points[29, 3] += 1e-3
    return TensorDataset(points, labels)


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "data": ({"data": changed_data()}, "has another data"),
    "labels": ({"data": TensorDataset(dataset().tensors[0], dataset().tensors[1].roll(1))}, "has another data"),
    "length": ({"data": dataset(29)}, r"has another examples \(30, not 29\)"),
    "noise": ({"noise_multiplier": 3.0}, r"another noise multiplier \(20.0, not 3.0\)"),
    "clip": ({"clip_norm": 3.0}, "another clip norm"),
    "batch": ({"batch_size": 7}, "another batch size"),
    "delta": ({"delta": 1e-7}, "another delta"),
    "adjacency": ({"adjacency": "zero-out"}, "another adjacency"),
    "loss": ({"loss": nn.CrossEntropyLoss(label_smoothing=0.1, reduction="sum")}, "another loss"),
    "simulation": ({"simulation": Simulation(seed=8)}, r"another simulation \(7, not 8\)"),
    "model": ({"model": nn.Linear(4, 2)}, "another model"),
    "dropout": ({"model": network(dropout=0.1)}, "another model"),
    "virtual": ({"virtual_batch_size": 2}, "another virtual batch size"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_settings_and_data_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "training"
    training().fit().save(path)
    changed, message = OTHERS[name]
    model = changed.get("model") or network()
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(ParameterError, match=message):
        training(model, resume=path, **{key: value for key, value in changed.items() if key != "model"})
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_another_optimizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "training"
    training().save(path)
    model = network()
    with pytest.raises(ParameterError, match=r"another optimizer \('SGD', not 'Adam'\)"):
        training(model, optimizer=torch.optim.Adam(model.parameters()), resume=path)


@pytest.mark.slow
def test_another_plan_is_not(tmp_path: Path) -> None:
    path = tmp_path / "training"
    training(epochs=1).fit().save(path)
    assert training(epochs=3, resume=path).fit().epochs == 3
    planned = training(epochs=5, sampling="fixed-order").fit(epochs=1)
    planned.save(path)
    shorter = training(epochs=1, sampling="fixed-order", resume=path)
    assert shorter.epsilon == planned.epsilon == planned.account.spent(5)  # what was seen may have made it shorter


@pytest.mark.slow
def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "training"
    training().save(path)
    right = path.read_bytes()
    for wrong, kind, message in [
        (right[:-1], DamagedError, "damaged or cut short"),
        (right[:30], DamagedError, "damaged or cut short"),
        (right[:-99] + bytes([right[-99] ^ 1]) + right[-98:], DamagedError, "damaged or cut short"),
        (right[:10], FormatError, "is not a training"),
        (b"", FormatError, "is not a training"),
        (b"PK" + right, FormatError, "is not a training"),
    ]:
        path.write_bytes(wrong)
        with pytest.raises(kind, match=message):
            training(resume=path)
    with pytest.raises(StorageError, match="cannot read"):
        training(resume=tmp_path / "nowhere")


EDITS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda fields: fields["account"]["run"].update(noise_multiplier=1000.0), "not of the training in it"),
    (lambda fields: fields["account"]["run"].update(sampling="poisson"), "not of the training in it"),
    (lambda fields: fields["account"].update(delta=0.1), "not of the training in it"),
    (lambda fields: fields["account"].update(budget=1e9, most=3), "not of the training in it"),
    (lambda fields: fields["account"].update(epochs=0), "has 0 epochs, and 0 epochs and 2 steps were made"),
    (lambda fields: fields.update(epoch=3), "has 1 epochs, and 3 epochs and 2 steps were made"),
    (lambda fields: fields.update(step=99), "step must be at least 0 and at most 3"),
    (lambda fields: fields["settings"].pop("noise_stream"), r"another noise stream \(None, not 2\)"),  # of 0.2.0
    (lambda fields: fields.pop("key"), "lacks what a training saves"),
    (lambda fields: fields.update(settings=None), "lacks what a training saves"),
    (lambda fields: fields.update(model={}), "lacks what a training saves"),
    (lambda fields: fields.update(losses=[1]), "lacks what a training saves"),
    (lambda fields: fields.update(random={}), "lacks what a training saves"),
]


@pytest.mark.parametrize(("edit", "message"), EDITS)
def test_files_edited_by_hand_are_refused(
    tmp_path: Path, edit: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = tmp_path / "training"
    run = training()
    for batch in itertools.islice(run.batches(), 2):
        run.step(batch)
    run.save(path)
    assert training(resume=path).epsilon == run.epsilon
    fields = read_checkpoint(path)
    edit(fields)
    write_checkpoint(path, fields)
    with pytest.raises((FormatError, ParameterError), match=message):
        training(resume=path)


def test_a_file_with_another_head_is_not_read_to_its_end(tmp_path: Path) -> None:
    """It is of zeros, and larger than any memory."""
    path = tmp_path / "training"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FormatError, match="is not a training"):
        read_checkpoint(path)
    with pytest.raises(StorageError, match="cannot read"):
        read_checkpoint(tmp_path)


class Evil:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("evil",)


def test_no_code_of_a_file_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "training"
    write_checkpoint(path, {"settings": Evil()})
    with pytest.raises(FormatError, match="more than tensors and numbers"):
        read_checkpoint(path)
    assert not (tmp_path / "evil").exists()


def test_another_training_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "training.shoal"
    training().fit(checkpoint=path)
    before = path.read_bytes()
    second = training()
    with pytest.raises(
        ParameterError, match=r"is there already; go on with that training by make_private\(..., resume="
    ):
        second.fit(checkpoint=path)
    assert second.epochs == 0 and path.read_bytes() == before
    resumed = training(resume=path)
    resumed.fit(epochs=2, checkpoint=path)
    assert resumed.epochs == 2 and path.read_bytes() != before


def test_a_place_that_is_not_there_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    run = training()
    with pytest.raises(ParameterError, match="its folder does not exist"):
        run.fit(checkpoint=tmp_path / "no" / "training.shoal")
    assert run.epochs == 0
