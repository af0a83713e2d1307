"""Time training steps of plain torch, of Opacus and of shoal in one process, in turns: run by the benchmark.

Opacus lives in an environment of its own, where shoal is imported from its source. The model comes as an argument, and
the answer is one line of JSON: the examples a CPU second of each trainer, one number a turn.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["rates"]

_BATCH = 256
_FEATURES = {"network": 784, "softmax": 64}
_STEPS = {
    "network": {"shoal": 60, "torch": 60, "ghost": 40, "hooks": 6},
    "softmax": {"shoal": 2000, "torch": 200, "ghost": 60, "hooks": 60},
}
"""Steps of a turn, which is one epoch of this many batches."""
_TURNS = 15
_SETTING = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": _BATCH}

Step = Callable[[Any, Any], object]
Turn = Callable[[], object]


def _model(kind: str) -> Any:
    from torch import nn

    if kind == "softmax":
        return nn.Linear(64, 10)
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def _sgd(model: Any) -> Any:
    import torch

    return torch.optim.SGD(model.parameters(), lr=0.1)


def _step(model: Any, optimizer: Any, loss: Any) -> Step:
    def step(features: Any, labels: Any) -> None:
        optimizer.zero_grad()
        loss(model(features), labels).backward()
        optimizer.step()

    return step


def _plain(kind: str) -> Step:
    from torch import nn

    model = _model(kind)
    return _step(model, _sgd(model), nn.CrossEntropyLoss())


def _hooks(kind: str) -> Step:
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from torch import nn

    model = GradSampleModule(_model(kind))
    return _step(model, DPOptimizer(_sgd(model), **_SETTING), nn.CrossEntropyLoss())


def _ghost(kind: str) -> Step:
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
        GradSampleModuleFastGradientClipping,
    )
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
    from torch import nn

    model = GradSampleModuleFastGradientClipping(_model(kind), max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(_sgd(model), **_SETTING)
    return _step(model, optimizer, DPLossFastGradientClipping(model, optimizer, nn.CrossEntropyLoss()))


def _shuffled(step: Step, features: Any, labels: Any) -> Turn:
    """Return an epoch over a new order, in a loop of torch's fastest calls and no loader."""
    import torch

    def turn() -> None:
        for batch in torch.randperm(len(labels)).view(-1, _BATCH):
            step(features.index_select(0, batch), labels.index_select(0, batch))

    return turn


def _network(features: Any, labels: Any) -> Turn:
    """Return an epoch of shoal's own: permutation, clipping, account, noise of a cipher, and the step."""
    from torch import nn
    from torch.utils.data import TensorDataset

    from shoal.sgd import Run
    from shoal.sgd.torch import make_private

    model = _model("network")
    training = make_private(
        model,
        _sgd(model),
        TensorDataset(features, labels),
        Run(examples=len(features), batch_size=_BATCH, noise_multiplier=1.0, sampling="allocation"),
        loss=nn.CrossEntropyLoss(),
    )

    def turn() -> None:
        for batch in training.batches():
            training.step(batch)

    return turn


def _regression(features: Any, labels: Any) -> Turn:
    """Return all of shoal's `fit` on arrays of numpy, the guarantee included."""
    from shoal.sgd.logistic import PrivateLogisticRegression

    rows, classes = features.numpy(), labels.numpy()
    return lambda: PrivateLogisticRegression(noise_multiplier=1.0, batch_size=_BATCH).fit(rows, classes)


def _turns(kind: str) -> dict[str, Turn]:
    import torch

    steps = _STEPS[kind]
    most = max(steps.values()) * _BATCH
    features, labels = torch.randn(most, _FEATURES[kind]), torch.randint(10, (most,))
    found: dict[str, Turn] = {}
    makers: dict[str, Callable[[Any, Any], Turn]] = {
        "shoal": _network if kind == "network" else _regression,
        "torch": lambda *data: _shuffled(_plain(kind), *data),
        "ghost": lambda *data: _shuffled(_ghost(kind), *data),
        "hooks": lambda *data: _shuffled(_hooks(kind), *data),
    }
    for name, make in makers.items():
        examples = steps[name] * _BATCH
        try:
            found[name] = make(features[:examples], labels[:examples])
        except ModuleNotFoundError as error:
            if error.name != "opacus":
                raise
    return found


def rates(kind: str) -> dict[str, list[float]]:
    """Return the examples a CPU second of every trainer, one number a turn, after an unmeasured one."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    turns = _turns(kind)
    found: dict[str, list[float]] = {name: [] for name in turns}
    for turn in turns.values():
        turn()
    for _ in range(_TURNS):
        for name, turn in turns.items():
            start = time.process_time()
            turn()
            found[name].append(_STEPS[kind][name] * _BATCH / (time.process_time() - start))
    return found


if __name__ == "__main__":
    print(json.dumps(rates(sys.argv[1])))
