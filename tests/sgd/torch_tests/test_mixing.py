"""No example touches another's gradient: what mixes them is refused, and collate cannot."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, TensorDataset

from shoal.errors import MixedError, ParameterError
from shoal.mechanisms.coins import Simulation
from shoal.sgd.torch.examples import Batch
from tests.sgd.torch_tests.models import clipped_loop
from tests.sgd.torch_tests.trainings import dataset, network, training

Items = list[tuple[Tensor, Tensor]]


def stacked(items: Items) -> tuple[Tensor, Tensor]:
    return torch.stack([point for point, _ in items]), torch.stack([label for _, label in items])


def centred(items: Items) -> tuple[Tensor, Tensor]:
    points, labels = stacked(items)
    return points - points.mean(0), labels


def scaled(items: Items) -> tuple[Tensor, Tensor]:
    points, labels = stacked(items)
    return points / points.abs().max(), labels


def mixed_up(items: Items) -> tuple[Tensor, Tensor]:
    points, labels = stacked(items)
    share, order = np.random.beta(0.4, 0.4), torch.randperm(len(items))  # noqa: NPY002
    hot = functional.one_hot(labels, 2).float()
    return share * points + (1 - share) * points[order], share * hot + (1 - share) * hot[order]


def cut_and_mixed(items: Items) -> tuple[Tensor, Tensor]:
    points, labels = stacked(items)
    start = random.randrange(3)
    mixed = points.clone()
    mixed[:, start : start + 2] = points.flip(0)[:, start : start + 2]
    return mixed, labels


def sorted_features(items: Items) -> tuple[Tensor, Tensor]:
    points, labels = stacked(items)
    return points.sort(0).values, labels


def filled_in(items: Items) -> tuple[Tensor, Tensor]:
    """Pad with something of the batch."""
    points, labels = stacked(items)
    return torch.cat([points[:, :3], points[:, 3:].mean(0).expand(len(items), 1)], 1), labels


def common_labels(items: Items) -> tuple[Tensor, Tensor]:
    points, labels = stacked(items)
    return points, 0.9 * functional.one_hot(labels, 2) + 0.1 * functional.one_hot(labels, 2).float().mean(0)


COLLATES = [centred, scaled, mixed_up, cut_and_mixed, sorted_features, filled_in, common_labels]


@pytest.mark.parametrize("collate", COLLATES)
def test_a_collate_that_mixes_examples_is_refused(collate: Callable[[Items], Any]) -> None:
    with pytest.raises(MixedError, match="collate mixes examples"):
        training(data=dataset(), collate=collate)
    with pytest.raises(MixedError, match="collate mixes examples"):
        training(data=DataLoader(dataset(), batch_size=8, collate_fn=collate))


@pytest.mark.parametrize("collate", [centred, mixed_up, cut_and_mixed])
def test_collate_gets_one_example_at_a_time(collate: Callable[[Items], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where nothing refuses it, one example moves the clipped sum by no more than its own two gradients."""
    monkeypatch.setattr("shoal.sgd.torch.examples.Examples.check_collate", lambda self: None)
    points, labels = dataset(8).tensors
    other = points.clone()
    other[0] = 1000.0
    sums = []
    for data in (points, other):
        run = training(nn.Linear(4, 2), TensorDataset(data, labels), collate=collate)
        torch.nn.init.ones_(next(run.model.parameters()))
        nn.init.zeros_(list(run.model.parameters())[1])
        (group,) = run._examples.load(np.arange(8))
        total, _ = run._clipping.total(Batch(0, 0, (group,)))
        sums.append(torch.cat([part.flatten() for part in total]))
    assert float((sums[0] - sums[1]).norm()) <= 2 * (1 + 1e-5)


def augmented(items: Items) -> tuple[Tensor, Tensor]:
    points, labels = stacked(items)
    return points + torch.randn_like(points), labels


OWN = np.random.default_rng(3)


def augmented_by_itself(items: Items) -> tuple[Tensor, Tensor]:
    points, labels = stacked(items)
    return points + torch.from_numpy(OWN.normal(size=points.shape)).float(), labels


@pytest.mark.parametrize("collate", [stacked, augmented, augmented_by_itself])
def test_a_collate_that_treats_each_by_itself_is_not_refused(collate: Callable[[Items], Any]) -> None:
    assert training(data=dataset(), collate=collate).fit().epochs == 1


class Attentive(nn.Module):
    """The mean of words; of padding too, unless it is masked."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.words, self.head = nn.Embedding(20, 5), nn.Linear(5, 2)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(torch.tanh(self.words(words)).mean(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_never_reaches_the_model(side: str) -> None:
    """Texts padded to the longest of a batch: a model that attends to padding would let one touch another."""
    torch.manual_seed(2)
    texts = [(torch.randint(1, 20, (length,)), torch.tensor(length % 2)) for length in [3, 5, 5, 7, 3, 9, 4, 5, 5, 3]]

    def collate(items: Items) -> tuple[Tensor, Tensor]:
        words = pad_sequence([text for text, _ in items], batch_first=True, padding_side=side)
        return words, torch.stack([label for _, label in items])

    model = Attentive()
    run = training(model, texts, collate=collate, batch_size=10, clip_norm=0.05)
    batch = next(run.batches())
    assert len(batch.groups) == 5 and len(batch) == 10
    with pytest.raises(ParameterError, match=r"5 different shapes; use batch\.groups"):
        _ = batch.inputs
    total, loss = run._clipping.total(batch)
    alone = [clipped_loop(model, nn.CrossEntropyLoss(), (text[None],), label[None], 0.05) for text, label in texts]
    losses = [functional.cross_entropy(model(text[None]), label[None]).item() for text, label in texts]
    assert loss == pytest.approx(sum(losses) / 10, rel=1e-5)
    for found, *parts in zip(total, *alone, strict=True):
        torch.testing.assert_close(found, torch.stack(parts).sum(0), rtol=1e-4, atol=1e-6)
    assert sorted(batch.indices.tolist()) == list(range(10))
    run.step(batch)


class Mixer(nn.Module):
    """A network with something in front of it."""

    def __init__(self, mix: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.mix, self.calls = network(), mix, 0
        self.mean: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.inner(self.mix(self, x))  # type: ignore[no-any-return]


def running(model: Any, x: Tensor) -> Tensor:
    """Statistics that no buffer holds."""
    mean = x.detach().mean(0)
    model.mean = mean if model.mean is None else 0.9 * model.mean + 0.1 * mean
    return x - model.mean  # type: ignore[no-any-return]


def attention(model: Any, x: Tensor) -> Tensor:
    return x + torch.softmax(x @ x.T, 1) @ x


MODELS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "mean": lambda model, x: x - x.mean(0),
    "detached mean": lambda model, x: x - x.mean(0).detach(),
    "a little of the mean": lambda model, x: x + 0.01 * x.mean(0),
    "norm": lambda model, x: x / x.norm(),
    "batch norm": lambda model, x: functional.batch_norm(x, None, None, training=True),
    "attention": attention,
    "cumulative": lambda model, x: x.cumsum(0),
    "rolled": lambda model, x: x.roll(1, 0),
    "largest": lambda model, x: x - x.amax(0),
    "running": running,
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("alike", [False, True])
def test_a_model_that_mixes_examples_is_refused(name: str, alike: bool) -> None:
    """Even if the first examples, or all of them, are the same."""
    points, labels = dataset().tensors
    data = TensorDataset(points[:1].repeat(30, 1) if alike else points, labels)
    with pytest.raises(MixedError, match=r"depends on the other examples of its batch|remembers what it has seen"):
        training(Mixer(MODELS[name]), data)


def test_a_model_of_words_that_mixes_them() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

        def forward(self, words: Tensor) -> Tensor:
            found = self.words(words).mean(1)
            return self.head(found - found.mean(0))  # type: ignore[no-any-return]

    for words in (torch.randint(0, 9, (30, 5)), torch.full((30, 5), 8)):
        with pytest.raises(MixedError):
            training(Words(), TensorDataset(words, torch.arange(30) % 2))


def contrastive(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output @ output.T, torch.arange(len(output)), reduction="none")


def balanced(output: Tensor, target: Tensor) -> Tensor:
    counts = torch.bincount(target, minlength=2).float()
    return functional.cross_entropy(output, target, reduction="none") / counts[target]


@pytest.mark.parametrize("loss", [contrastive, balanced])
def test_a_loss_that_mixes_examples_is_refused(loss: Callable[..., Any]) -> None:
    with pytest.raises(MixedError):
        training(loss=loss)


LATE: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "after some steps": lambda model, x: x - x.mean(0) if model.calls > 60 else x,
    "after some steps, detached": lambda model, x: x - x.mean(0).detach() if model.calls > 60 else x,
    "of one size": lambda model, x: x - x.mean(0) if len(x) == 8 else x,
    "of a smaller size": lambda model, x: x - x.mean(0) if len(x) == 7 else x,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_model_that_mixes_examples_later_is_found_out(name: str, seed: int) -> None:
    run = training(Mixer(LATE[name]), simulation=Simulation(seed=seed))
    assert run.route == "book-keeping"
    with pytest.raises(MixedError):
        run.fit(epochs=100)  # 400 steps: one in 16 is tested, and 340 that mix are all missed once in 10⁹ times


class Backwards(nn.Module):
    """The same values, and more than an example's own gradient: all of them from the start, or after some calls."""

    def __init__(self, calls: int, scaled: bool) -> None:
        super().__init__()
        self.first, self.second, self.left, self.scaled = nn.Linear(4, 5), nn.Linear(5, 2), calls, scaled

    def forward(self, x: Tensor) -> Tensor:
        self.left -= 1
        hidden = torch.tanh(self.first(x))
        if self.left < 0:
            if self.scaled:
                hidden = hidden + hidden.detach().mean(0) * (hidden - hidden.detach())
            else:
                hidden = hidden + hidden.mean(0) - hidden.mean(0).detach()
        return self.second(hidden)  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("calls", [0, 200])
def test_gradients_that_are_mixed_behind_the_same_values(calls: int, scaled: bool) -> None:
    model = Backwards(calls, scaled)
    run = training(model, optimizer=torch.optim.SGD(model.parameters(), lr=1e-3))
    if run.route == "per-example":  # where it was seen that a loss reaches other rows
        assert not scaled and calls == 0
        return
    with pytest.raises(MixedError):
        run.fit(epochs=100)


class Turned(torch.autograd.Function):
    """The same values, and gradients that are turned by an angle which depends on the whole batch: norms stay."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        context.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        (x,) = context.saved_tensors
        angle = x.sum()
        turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
        return gradient @ turn


def test_gradients_that_are_turned_together_are_refused() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Any:
            return Turned.apply(self.linear(x))  # type: ignore[no-untyped-call]

    run = training(Model())
    assert run.route == "book-keeping"
    with pytest.raises(MixedError):
        run.fit()
    assert run.epochs == 0


def test_a_training_that_was_refused_stays_refused() -> None:
    mixer = Mixer(lambda model, x: x - x.mean(0) if len(x) == 8 else x)
    run = training(mixer, dataset(16), batch_size=8, sampling="permutation")
    batch = next(run.batches())
    for _ in range(40):  # one in 16 would be tested
        with pytest.raises(MixedError):
            run.step(batch)
    assert run.epochs == 0


def test_nothing_is_spent_on_a_step_that_mixes() -> None:
    mixer = Mixer(lambda model, x: x - x.mean(0) if len(x) == 8 else x)
    run = training(mixer, dataset(16), batch_size=8, sampling="permutation")
    before = [parameter.clone() for parameter in run.model.parameters()]
    with pytest.raises(MixedError):
        run.step(next(run.batches()))
    assert run.epochs == 0 and all(map(torch.equal, before, run.model.parameters()))


def test_statistics_that_are_kept_later() -> None:
    class Late(Mixer):
        def __init__(self) -> None:
            super().__init__(lambda model, x: x)
            self.seen: Tensor
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            if self.calls > 40:
                self.seen += x.detach().mean(0)
            return super().forward(x)

    with pytest.raises(ParameterError, match="the model changes seen as it runs"):
        training(Late()).fit(epochs=100)


@pytest.mark.parametrize("part", ["inputs", "target"])
def test_a_batch_that_is_changed_in_place_is_refused(part: str) -> None:
    run = training()
    batch = next(run.batches())
    tensor = batch.inputs[0] if part == "inputs" else batch.target
    tensor.copy_(tensor.flip(0))
    with pytest.raises(ParameterError, match=r"changed in place, .* one by one"):
        run.step(batch)
    assert run.epochs == 0


@pytest.mark.parametrize("name", ["mean", "norm", "cumulative"])
def test_one_by_one_no_model_can_mix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients are those of examples that are alone."""
    monkeypatch.setattr("shoal.sgd.torch.clipping.Clipping._check_losses", lambda *others: None)
    model = Mixer(MODELS[name])
    run = training(model, one_by_one=True)
    assert run.route == "per-example"
    batch = next(run.batches())
    total, _ = run._clipping.total(batch)
    whole = clipped_loop(model, nn.CrossEntropyLoss(), batch.inputs, batch.target, 1.0)
    for found, expected in zip(total, whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_tests_change_nothing() -> None:
    """A training with dropout is the same whether its steps are tested or not."""
    weights = []
    for often in (0, 16, 256):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shoal.sgd.torch.clipping._OFTEN", often)
            model = network(dropout=0.5)
            run = training(model)
            torch.manual_seed(5)
            run.fit(epochs=4)
            weights.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    assert torch.equal(weights[0], weights[1]) and torch.equal(weights[0], weights[2])
