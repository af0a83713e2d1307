"""Small trainings for tests."""

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from shoal.mechanisms.coins import Simulation
from shoal.sgd import Run, calibrate
from shoal.sgd.torch import Training, make_private
from shoal.sgd.torch.step_noise import StepNoise


def dataset(examples: int = 30, features: int = 4) -> TensorDataset:
    """Return points that two classes divide."""
    points = torch.randn(examples, features, generator=torch.Generator().manual_seed(3))
    return TensorDataset(points, (points[:, 0] > 0).long())


def double(examples: int = 30) -> TensorDataset:
    """Return points in float64."""
    points, labels = dataset(examples).tensors
    return TensorDataset(points.double(), labels)


def network(dropout: float = 0.0, seed: int = 1) -> nn.Module:
    """Return a network of three layers."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Dropout(dropout), nn.Linear(5, 2))


def training(model: nn.Module | None = None, data: Any = None, **changed: Any) -> Training:
    """Return a training of a small network; `changed` are settings of its run, ε, or arguments of `make_private`."""
    model = network() if model is None else model
    data = dataset() if data is None else data
    optimizer = changed.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    counted = data.dataset if isinstance(data, DataLoader) else data
    settings: dict[str, Any] = {
        "examples": (len(counted) if hasattr(counted, "__len__") else 0) or 30,
        "batch_size": 8,
        "noise_multiplier": 20.0,
        "sampling": "permutation" if changed.get("noise") == "example" else "allocation",
    }
    settings |= {name: changed.pop(name) for name in [*changed] if name in Run.__dataclass_fields__}
    epsilon = changed.pop("epsilon", None)
    run = Run(**settings)
    if epsilon is not None:
        run = calibrate(run, epsilon=epsilon, delta=changed.get("delta", 1e-6))
    arguments = {"loss": nn.CrossEntropyLoss(), "simulation": Simulation(seed=7), **changed}
    return make_private(model, optimizer, data, run, **arguments)


class Quiet(StepNoise):
    """No noise, so that the sums can be compared."""

    def add(self, total: torch.Tensor, *, margin: float, unit: float, epoch: int, step: int) -> torch.Tensor:
        return total.mul_(unit)
