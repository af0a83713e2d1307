"""What two processes do together, in the tests of `shoal.sgd.torch.peers`: each scenario runs in both at once."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from shoal.errors import ShoalError
from shoal.mechanisms.coins import Simulation
from shoal.sgd.torch import Training
from tests.sgd.torch_tests.trainings import Quiet, dataset, double, network, training

ROOT = Path(__file__).parents[3]
SAMPLING = ("allocation", "permutation", "poisson")


def together(model: nn.Module | None = None, data: Any = None, **changed: Any) -> Training:
    """Return a training of all processes."""
    model = network() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=changed.pop("rate", 0.5), momentum=0.9)
    return training(DistributedDataParallel(model), data, optimizer=optimizer, **changed)


def weights(model: nn.Module) -> list[float]:
    """Return all parameters in one list."""
    return [value for each in model.parameters() for value in each.detach().flatten().tolist()]


def compared(sampling: str, *, wrapped: bool) -> dict[str, Any]:
    """Return what a training of which the noise is left out comes to, by one process or by all."""
    make = together if wrapped else training
    settings: dict[str, Any] = {"virtual_batch_size": 3, "sampling": sampling, "epochs": 2}
    run = make(network().double(), double(), validation=double(7), **settings)
    run._noise = Quiet(key=bytes(32))
    run.fit()
    return {
        "weights": weights(run.model),
        "losses": [loss for _, _, loss in run._losses],
        "validation": run.validation_losses,
        "account": run.account.to_dict(),
        "epsilon": run.epsilon,
    }


def _caught(action: Callable[[], object]) -> list[str]:
    try:
        action()
    except ShoalError as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


class Failing:
    """Data of which one example cannot be read, for a while."""

    def __init__(self, broken: bool) -> None:
        self.broken = broken

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> Any:
        if self.broken and index == 29:
            raise OSError("the disk is gone")
        return dataset()[index]


class Mixing(nn.Module):
    """Mixes examples as soon as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mixes = nn.Linear(4, 2), False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        return y + y.mean(0) if self.mixes else y


def same_as_alone(rank: int, folder: Path) -> Any:
    return {sampling: compared(sampling, wrapped=True) for sampling in SAMPLING}


def noise_is_added_once(rank: int, folder: Path) -> Any:
    data = TensorDataset(torch.zeros(16, 40), torch.zeros(16, dtype=torch.int64))
    run = together(nn.Linear(40, 500), data, noise_multiplier=3.0, clip_norm=2.0)
    run.step(next(run.batches()))
    gradient = run.model.weight.grad
    assert isinstance(gradient, torch.Tensor)
    return [gradient.std().item() * 8, weights(run.model)[:1000]]


def shares(rank: int, folder: Path) -> Any:
    run, seen = together(batch_size=2), []
    for batch in run.batches():
        seen.append(batch.indices.tolist())
        run.step(batch)
    return [seen, weights(run.model), [loss for _, _, loss in run._losses]]


def secret_keys(rank: int, folder: Path) -> Any:
    run = together(simulation=None).fit()
    return [run._key.hex(), weights(run.model)]


def other_random_numbers(rank: int, folder: Path) -> Any:
    torch.manual_seed(0)
    run = together(network(dropout=0.5))
    next(run.batches())
    return torch.rand(4).tolist()


def different(rank: int, folder: Path) -> Any:
    def changed_data() -> TensorDataset:
        points, labels = dataset().tensors
        points[7, 2] += 1e-3 * rank
        return TensorDataset(points, labels)

    def changed_weights() -> Training:
        model = DistributedDataParallel(network())
        with torch.no_grad():
            model.module[0].bias[1] += 1e-6 * rank
        return training(model)

    odd: dict[str, Callable[[], Any]] = {
        "examples": lambda: together(data=dataset(30 - rank), batch_size=8),
        "data": lambda: together(data=changed_data()),
        "simulation": lambda: together(simulation=Simulation(seed=7 + rank)),
        "batch size": lambda: together(batch_size=8 + rank),
        "noise multiplier": lambda: together(noise_multiplier=20.0 + rank),
        "clip norm": lambda: together(clip_norm=1.0 + rank),
        "delta": lambda: together(delta=1e-6 / (1 + rank)),
        "budget": lambda: together(budget=10.0 + rank),
        "sampling": lambda: together(sampling=SAMPLING[rank]),
        "loss": lambda: together(loss=nn.CrossEntropyLoss(label_smoothing=0.1 * rank)),
        "loss ": lambda: together(loss=nn.CrossEntropyLoss(torch.tensor([1.0, 1.0 + rank]))),
        "planned epochs": lambda: together(epochs=1 + rank),
        "one by one": lambda: together(one_by_one=bool(rank)),
        "optimizer settings": lambda: together(rate=0.5 + rank),
        "validation": lambda: together(validation=dataset(5 + rank)),
        "weights": changed_weights,
        "nothing": lambda: together(noise_multiplier=20.0),
    }
    return {name: _caught(make) for name, make in odd.items()}


def one_fails(rank: int, folder: Path) -> Any:
    said = {"start": _caught(lambda: together(delta=-1.0 if rank else 1e-6))}
    said["simulation"] = _caught(lambda: together(simulation=7 if rank else Simulation(seed=7)))
    data = Failing(broken=False)
    run = together(data=data, batch_size=30)
    data.broken = rank == 1
    try:
        said["data"] = _caught(lambda: run.step(next(run.batches())))
    except OSError as error:
        said["data"] = ["OSError", str(error)]
    model = Mixing()
    other = together(model)
    model.mixes = rank == 1
    said["step"] = _caught(lambda: other.step(next(other.batches())))
    said["again"] = _caught(lambda: other.step(next(other.batches())))
    said["argument"] = _caught(lambda: run.step(next(run.batches())) if not rank else run.step(None))  # type: ignore[arg-type]
    spent = [run.epochs, other.epochs]
    data.broken = False
    run.step(next(run.batches()))  # nothing is broken for good
    said["fit"] = _caught(lambda: run.fit(epochs=3, checkpoint=folder / "no" / "file"))
    said["plan"] = _caught(lambda: run.fit(epochs=3 + rank))
    return [said, spent, run.epochs]


def apart(rank: int, folder: Path) -> Any:
    run = together()
    said = [_caught(lambda: run.step(next(run.batches())) if rank else run.fit())]
    with torch.no_grad():
        run.model[0].weight[0, 0] += rank  # type: ignore[index]
    said.append(_caught(run.fit))
    return [said, run.epochs]


def resumed(rank: int, folder: Path) -> Any:
    straight = network(dropout=0.5)
    together(straight).fit(epochs=2)
    path = folder / "training"
    run = together(network(dropout=0.5))
    for _ in range(5):  # one step into the second epoch
        run.step(next(run.batches()))
    run.save(path)
    dist.barrier()
    again = together(network(dropout=0.5, seed=9), resume=path)
    before = [again.epochs, again._step]
    again.fit(epochs=2, checkpoint=path)
    dist.barrier()
    later = together(network(dropout=0.5), resume=path)
    missing = _caught(lambda: together(network(dropout=0.5), resume=folder / "nowhere" if rank else path))
    return [weights(straight) == weights(again.model) == weights(later.model), before, later.epochs, missing]


def wrong_models(rank: int, folder: Path) -> Any:
    own = [dist.new_group([each]) for each in range(2)][rank]
    model = network(seed=rank + 1)
    alone = training(DistributedDataParallel(model, process_group=own), simulation=None).fit()
    loader = DataLoader(dataset(), batch_size=8, sampler=DistributedSampler(dataset()))
    return [
        _caught(lambda: training(network())),
        _caught(lambda: training(nn.DataParallel(network()))),
        _caught(lambda: together(data=loader)),
        weights(alone.model),
    ]


SCENARIOS = (
    same_as_alone,
    noise_is_added_once,
    shares,
    secret_keys,
    other_random_numbers,
    different,
    one_fails,
    apart,
    resumed,
    wrong_models,
)


def _killed(rank: int) -> None:
    """Train until the other process is killed, or stopped."""
    run = together(data=dataset(400), batch_size=4)
    for batch in run.batches():
        run.step(batch)
        print("step", flush=True)
        time.sleep(0.02)


def begin(folder: Path, what: str = "all") -> list[subprocess.Popen[str]]:
    """Start both processes."""
    script = f"from {__name__} import main; main()"
    return [
        subprocess.Popen(
            [sys.executable, "-c", script, str(rank), str(folder), what],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(2)
    ]


def results(folder: Path) -> dict[str, list[Any]]:
    """Run all scenarios in two processes, and return what each of them answers."""
    answers = []
    for process in begin(folder):
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        answers.append(json.loads(output.splitlines()[-1]))
    return {scenario.__name__: [answer[scenario.__name__] for answer in answers] for scenario in SCENARIOS}


def main() -> None:
    """Be one of two processes."""
    rank, folder, what = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    patience = timedelta(seconds=5 if what == "stop" else 120)
    backend = None if what == "all" else "gloo"  # None is what torchrun's users give: one for each kind of device
    dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=2, timeout=patience)
    if what == "all":
        print(json.dumps({scenario.__name__: scenario(rank, folder) for scenario in SCENARIOS}))
        dist.destroy_process_group()
    else:
        _killed(rank)
