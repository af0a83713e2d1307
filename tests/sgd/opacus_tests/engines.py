"""Engines of Opacus with a small model, and loops that train it as people do."""

import warnings
from typing import Any, NamedTuple

import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from shoal.sgd.opacus import EngineAccount, account


class Made(NamedTuple):
    """What make_private returns, its engine and its account."""

    engine: Any
    model: Any
    optimizer: Any
    loader: Any
    account: EngineAccount

    def train(self, epochs: int = 1, *, steps: int | None = None, loader: Any = None) -> "Made":
        """Train for some epochs, each broken off after some steps."""
        for _ in range(epochs):
            for step, (points, labels) in enumerate(self.loader if loader is None else loader):
                if step == steps:
                    break
                self.step(points, labels)
        return self

    def step(self, points: Any, labels: Any) -> None:
        """Make one step."""
        self.optimizer.zero_grad()
        if isinstance(self.optimizer, DPOptimizerFastGradientClipping):
            criterion = nn.CrossEntropyLoss()
            DPLossFastGradientClipping(self.model, self.optimizer, criterion)(self.model(points), labels).backward()
        else:
            loss_of(self.model, points, labels).backward()
        self.optimizer.step()


def loss_of(model: Any, points: Any, labels: Any) -> Any:
    return nn.functional.cross_entropy(model(points), labels)


def dataset(examples: int) -> TensorDataset:
    return TensorDataset(torch.randn(examples, 2), torch.randint(2, (examples,)))


def prepared(
    data: Any, *, accountant: str = "shoal", noise: float = 2.0, poisson: bool = False, engine: Any = None, **more: Any
) -> tuple[Any, Any, Any, Any]:
    """Return an engine and what its make_private returns, for a loader or a dataset in batches of 16."""
    model = nn.Linear(2, 2)
    loader = data if isinstance(data, DataLoader) else DataLoader(data, batch_size=16, shuffle=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = PrivacyEngine(accountant=accountant) if engine is None else engine
        model, optimizer, *_, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=loader,
            noise_multiplier=noise,
            max_grad_norm=more.pop("max_grad_norm", 1.0),
            poisson_sampling=poisson,
            **more,
        )
    return engine, model, optimizer, loader


def made(data: Any, **more: Any) -> Made:
    """Return the same with its account."""
    engine, model, optimizer, loader = prepared(data, **more)
    theirs = None if more.get("accountant", "shoal") == "shoal" else optimizer
    clips = model if more.get("grad_sample_mode") == "ghost" else None
    return Made(engine, model, optimizer, loader, account(engine, loader, theirs, clips))
