"""A private training moves the parameters that it was made for, by noised gradients alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from shoal.errors import ParameterError
from shoal.sgd.torch import Training
from tests.sgd.torch_tests.trainings import dataset, network, training


def _layers(model: nn.Module) -> list[nn.Linear]:
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


def _backward(model: nn.Module, points: Tensor, labels: Tensor) -> None:
    loss: Any = nn.functional.cross_entropy(model(points), labels)
    loss.backward()


def _frozen_weights(points: Tensor, labels: Tensor) -> Tensor:
    """Return the frozen weights after a training, before which a backward pass left gradients."""
    model = network()
    run_optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    _backward(model, points, labels)
    frozen = _layers(model)[0].requires_grad_(False)
    training(model, TensorDataset(points, labels), optimizer=run_optimizer, epochs=2).fit()
    return frozen.weight.detach().clone()


def test_gradients_of_frozen_parameters_are_never_applied() -> None:
    points, labels = dataset().tensors
    neighbour = labels.clone()
    neighbour[0] = 1 - neighbour[0]
    before = _layers(network())[0].weight
    assert torch.equal(_frozen_weights(points, labels), before)
    assert torch.equal(_frozen_weights(points, neighbour), before)


def test_gradients_that_come_between_two_steps_are_never_applied() -> None:
    model, (points, labels) = network(), dataset().tensors
    frozen = _layers(model)[0].requires_grad_(False)
    before = frozen.weight.detach().clone()
    run = training(model)
    for batch in run.batches():
        frozen.weight.grad = torch.ones_like(frozen.weight)
        _backward(model, points, labels)
        run.step(batch)
        assert frozen.weight.grad is None
    assert torch.equal(frozen.weight, before)


def _unfreeze(run: Training) -> None:
    _layers(run.model)[1].bias.requires_grad_(True)


def _freeze(run: Training) -> None:
    _layers(run.model)[0].weight.requires_grad_(False)


def _assign(run: Training) -> None:
    state = {name: value.clone() for name, value in run.model.state_dict().items()}
    run.model.load_state_dict(state, assign=True)


def _replace_parameter(run: Training) -> None:
    layer = _layers(run.model)[0]
    layer.weight = nn.Parameter(layer.weight.detach().clone())


def _replace_module(run: Training) -> None:
    model: Any = run.model
    model[1] = nn.Tanh()


def _add_module(run: Training) -> None:
    run.model.add_module("extra", nn.BatchNorm1d(2, affine=False))


def _remove_module(run: Training) -> None:
    model: Any = run.model
    del model[2]


def _add_group(run: Training) -> None:
    run.optimizer.add_param_group({"params": [_layers(run.model)[1].bias]})


def _remove_group(run: Training) -> None:
    del run.optimizer.param_groups[0]["params"][0]


CHANGES: dict[Callable[[Training], None], str] = {
    _unfreeze: r"the parameter 3\.bias was unfrozen",
    _freeze: r"the parameter 0\.weight was frozen",
    _assign: r"the parameter 0\.weight was replaced",
    _replace_parameter: r"the parameter 0\.weight was replaced",
    _replace_module: "the module 1 was replaced",
    _add_module: "the module extra was added",
    _remove_module: "the module 2 was replaced",
    _add_group: "the optimizer has 4 parameters, and had 3",
    _remove_group: "the optimizer has 2 parameters, and had 3",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_changed_after_make_private_is_refused(
    change: Callable[[Training], None],
) -> None:
    model = network()
    _layers(model)[1].bias.requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    run = training(model, optimizer=torch.optim.SGD(trained, lr=0.5))
    batch = next(iter(run.batches()))
    change(run)
    with pytest.raises(ParameterError, match=CHANGES[change] + r".*Call make_private again"):
        run.step(batch)
    assert run.epochs == 0


def test_weights_that_are_loaded_into_the_same_parameters_are_trained() -> None:
    run = training()
    run.model.load_state_dict(network(seed=2).state_dict())
    assert run.fit().epochs == 1


def test_the_optimizer_does_not_step_by_raw_gradients() -> None:
    model, (points, labels) = network(), dataset().tensors
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    run = training(model, optimizer=optimizer)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    _backward(model, points, labels)
    with pytest.raises(ParameterError, match=r"optimizer\.step\(\) was called outside"):
        optimizer.step()
    assert all(map(torch.equal, before, model.parameters()))
    assert run.fit().epochs == 1
    again = training(model, optimizer=optimizer)  # which takes the optimizer over
    with pytest.raises(ParameterError, match="by another make_private, use another optimizer"):
        run.fit(epochs=2)
    assert again.fit().epochs == 1
