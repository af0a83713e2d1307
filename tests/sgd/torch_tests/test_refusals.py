"""Models, optimizers, data and numbers that are refused; repeated examples; and more epochs than were planned."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    IterableDataset,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)

from shoal.errors import BudgetError, ParameterError
from shoal.sgd.torch import make_private
from tests.sgd.torch_tests.test_training import Pairs
from tests.sgd.torch_tests.trainings import dataset, network, training


class Stream(IterableDataset[int]):
    """Data without numbers."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Centred(nn.Module):
    """A layer after the mean of the batch was taken away."""

    def __init__(self, *, detached: bool) -> None:
        super().__init__()
        self.layer, self.detached = nn.Linear(4, 2), detached

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(0)
        return self.layer(x - (mean.detach() if self.detached else mean))  # type: ignore[no-any-return]


class Counting(nn.Module):
    """A running statistic of the data."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.seen: Tensor
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += x.detach().mean(0)
        return self.layer(x)  # type: ignore[no-any-return]


class Undecided(nn.Module):
    """What torch.func cannot do: a choice that depends on an example, here in vain."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x) + self.layer(2 * x)  # twice, so that its gradients are formed
        return y if float(x.detach().square().sum()) >= 0 else -y


class Spoilt(nn.Module):
    """The input of a layer is changed after the layer has seen it: plain torch cannot differentiate that either."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        y: Tensor = self.layer(x)
        x.zero_()
        return y


class Recurrent(nn.Module):
    """What torch.func cannot map."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(1, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.unsqueeze(2))[0][:, -1]  # type: ignore[no-any-return]


MODELS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "batch norm": (
        lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)),
        r"BatchNorm1d \(1\) mixes.*GroupNorm\(2, 6\).*call eval\(\) on it",
    ),
    "sync": (lambda: nn.Sequential(nn.Linear(4, 32), nn.SyncBatchNorm(32)), r"use nn.GroupNorm\(32, 32\)"),
    "instance norm": (
        lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2, affine=True, track_running_stats=True)),
        "use track_running_stats=False",
    ),
    "embedding": (lambda: nn.Embedding(4, 2, max_norm=1.0), "max_norm changes weights without noise"),
    "frozen": (lambda: nn.Linear(4, 2).requires_grad_(False), "no parameter to train"),
    "half": (lambda: nn.Linear(4, 2).bfloat16(), r"got torch.bfloat16 on cpu; use model.float\(\)"),
    "unequal": (lambda: nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 2).double()), "all be float32, or all float64"),
    "mixed examples": (lambda: Centred(detached=False), "depends on the other examples of its batch"),
    "mixed examples, hidden": (lambda: Centred(detached=True), "depends on the other examples of its batch"),
    "softmax of the batch": (
        lambda: nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=0)),
        "operations along its first axis",
    ),
    "statistics": (Counting, "the model changes seen as it runs"),
    "recurrent": (Recurrent, "Recurrent layers"),
    "a spoilt input": (Spoilt, "operations in place"),
    "undecided": (Undecided, r"torch.func cannot differentiate.*its layers are Linear"),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_models(name: str) -> None:
    make, message = MODELS[name]
    model = make()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(list(model.parameters()), lr=0.1)
    with pytest.raises(ParameterError, match=message):
        training(model, optimizer=optimizer)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_frozen_batch_norm_stays_in_eval_mode() -> None:
    """Its statistics are public and fixed; a model that is put into training mode would mix examples by them."""
    norm = nn.BatchNorm1d(6)
    model = nn.Sequential(nn.Linear(4, 6), norm, nn.Linear(6, 2))
    assert norm.running_mean is not None
    norm.running_mean.normal_()
    norm.requires_grad_(False)
    with pytest.raises(ParameterError, match="mixes the examples"):
        training(model)
    norm.eval()
    run = training(model)
    before = norm.running_mean.clone()
    batches = run.batches()
    run.step(next(batches))
    model.train()
    batch = next(batches)
    with pytest.raises(ParameterError, match="1 is a batch normalization that is now in training mode"):
        run.step(batch)
    norm.eval()
    run.step(batch)
    assert torch.equal(norm.running_mean, before) and not norm.weight.requires_grad
    with pytest.raises(ParameterError, match="mixes the examples"):
        training(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, track_running_stats=False).eval(), nn.Linear(6, 2)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own, of its compiler
def test_compiled_models() -> None:
    model = network()
    with pytest.raises(ParameterError, match=r"the module that torch\.compile was given"):
        training(torch.compile(model), optimizer=torch.optim.SGD(model.parameters()))  # type: ignore[arg-type]
    assert isinstance(model, nn.Sequential)
    model[3].compile(backend="eager")
    with pytest.raises(ParameterError, match=r"Linear \(3\) is compiled, and what its layers do is not seen"):
        training(model)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own, of its compiler
def test_a_compiled_model_evaluates_what_is_trained() -> None:
    model, points = network(), dataset().tensors[0]
    compiled = torch.compile(model, backend="eager")
    run = training(model)
    for batch in run.batches():
        before = compiled(points)
        torch.testing.assert_close(before, model(points))
        run.step(batch)
        torch.testing.assert_close(compiled(points), model(points))
        assert not torch.equal(compiled(points), before)
    assert run.route == "book-keeping"


def test_optimizers() -> None:
    model, other = network(), network()
    wrong: list[tuple[Any, str]] = [
        (torch.optim.SGD(other.parameters()), "parameters that are not the model's"),
        (torch.optim.SGD(model[0].parameters()), r"3\.weight is trainable.*requires_grad_\(False\)"),  # type: ignore[index]
        (torch.optim.LBFGS(model.parameters()), "LBFGS computes the loss more than once"),
        (7, "must be one of torch.optim, got int"),
    ]
    for optimizer, message in wrong:
        with pytest.raises(ParameterError, match=message):
            training(model, optimizer=optimizer)
    with pytest.raises(ParameterError, match=r"must be a torch\.nn\.Module"):
        training("model", optimizer=torch.optim.SGD(model.parameters()))  # type: ignore[arg-type]


def test_datasets() -> None:
    weights = [1.0] * 30
    wrong: list[tuple[Any, str]] = [
        (
            DataLoader(dataset(), batch_size=8, sampler=WeightedRandomSampler(weights, 30)),
            "own sampler.*dataset itself",
        ),
        (DataLoader(dataset(), batch_sampler=[[0, 1], [2, 3]]), "own sampler"),
        (DataLoader(dataset(), sampler=torch.utils.data.RandomSampler(dataset(), num_samples=9)), "own sampler"),
        (DataLoader(dataset(), batch_size=None), "own sampler"),
        (DataLoader(Stream()), "Stream has no examples by number"),
        (Stream(), "cannot be permuted"),
        (iter([1]), "cannot be permuted"),
        ([], "the dataset is empty"),
        (DataLoader(dataset(), batch_size=5), "batch_size=8, and the loader has 5; give both the same"),
        (DataLoader(dataset(), batch_size=8, drop_last=True), "leave out 6 of 30 examples.*examples=24"),
        ([{"x": 1.0}] * 9, "a batch must be two or more tensors, got dict"),
        ([(torch.ones(4), "a")] * 9, "got tuple|got list|tensors of 3 rows"),
        (TensorDataset(torch.ones(9, 4)), "two or more tensors"),
    ]
    for data, message in wrong:
        with pytest.raises(ParameterError, match=message):
            training(data=data)


def test_numbers() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"virtual_batch_size": 0}, "virtual_batch_size must be at least 1"),
        ({"delta": 1}, "delta must be greater than 0 and less than 1"),
        ({"data": DataLoader(dataset(), batch_size=8, drop_last=True), "examples": 25}, "examples=24"),
        ({"examples": 31}, "the run has 31 examples, and the dataset 30"),
        ({"simulation": 7}, "simulation must be"),
        ({"loss": lambda output, target: output.sum()}, "one value for each of 3 examples"),
    ]
    for changed, message in wrong:
        with pytest.raises(ParameterError, match=message):
            training(**changed)


def test_short_arithmetic() -> None:
    run = training()
    batch = next(run.batches())
    with torch.autocast("cpu", torch.float16), pytest.raises(ParameterError, match=r"use torch\.autocast"):
        run.step(batch)
    assert run.epochs == 0
    with torch.autocast("cpu", torch.bfloat16):
        run.step(batch)


@pytest.mark.slow
def test_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from shoal.errors import MissingExtraError\n"
        "try:\n    import shoal.sgd.torch\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "shoal-dp[torch]"' in done.stdout


def test_a_model_that_returns_a_dictionary() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, points: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.inner(points)}

    with pytest.raises(ParameterError, match="the model returns a dict, and CrossEntropyLoss takes a tensor"):
        training(Named())
    functional = nn.functional.cross_entropy
    run = training(Named(), loss=lambda output, target: functional(output["logits"], target, reduction="none"))
    assert run.fit(epochs=1).epochs == 1


@pytest.mark.slow
def test_noise_or_epsilon() -> None:
    made = training(noise_multiplier=None, epsilon=1.0, epochs=2)
    assert made.fit().guarantee().epsilon == pytest.approx(1.0, rel=0.01)  # type: ignore[union-attr]
    assert made.epsilon <= 1.0
    with pytest.raises(ParameterError, match="the run has no noise_multiplier"):
        training(noise_multiplier=None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"batch_size": 5, "epsilon": 1.0, "epochs": 3, "delta": 1e-5},
            r"sgd\.calibrate\(sgd\.Run\(examples=len\(dataset\), sampling='allocation', batch_size=5, epochs=3\), "
            r"epsilon=1\.0, delta=1e-05\), loss=loss\)$",
        ),
        ({"noise": "example", "noise_multiplier": 2}, "sampling='permutation', noise='example', noise_multiplier=2"),
        ({}, r"make_private\(model, optimizer, dataset, sgd\.Run\("),
        ({"run": {"batch_size": 5}}, r"run must be a shoal\.sgd\.Run, got dict"),
        ({"clip": 3.0}, "make_private has no argument 'clip'"),
    ],
)
def test_settings_of_a_run_are_shown_where_they_belong(given: dict[str, Any], message: str) -> None:
    model = network()
    with pytest.raises(TypeError, match=message):
        make_private(model, torch.optim.SGD(model.parameters()), dataset(), loss=nn.CrossEntropyLoss(), **given)


def split(first: TensorDataset, start: int, end: int) -> TensorDataset:
    return TensorDataset(*(tensor[start:end] for tensor in first.tensors))


WHOLE = dataset()

REPEATED: dict[str, Callable[[], Any]] = {
    "a subset": lambda: Subset(WHOLE, [0] * 20 + list(range(1, 11))),
    "a subset of others": lambda: Subset(Pairs(), [3, 4, 5, 3]),
    "from the end": lambda: Subset(WHOLE, [0, 1, 29, -1]),
    "tensors as indices": lambda: Subset(WHOLE, torch.tensor([0, 1, 1])),  # type: ignore[arg-type]
    "twice": lambda: ConcatDataset([WHOLE, WHOLE]),
    "twice, others": lambda: ConcatDataset(2 * [Pairs()]),
    "nested": lambda: ConcatDataset([Subset(WHOLE, [0, 1, 2]), Subset(Subset(WHOLE, [5, 4, 3, 2]), [0, 3])]),
    "a subset of both": lambda: Subset(ConcatDataset([WHOLE, WHOLE]), [0, 1, 2, 31]),
    "the same memory": lambda: ConcatDataset([split(WHOLE, 0, 20), split(WHOLE, 19, 30)]),
    "one row": lambda: TensorDataset(torch.ones(1, 4).expand(30, 4), torch.ones(1).long().expand(30)),
    "in a loader": lambda: DataLoader(ConcatDataset([WHOLE, WHOLE]), batch_size=2),
}


@pytest.mark.parametrize("name", REPEATED)
def test_an_example_that_is_there_twice_is_refused(name: str) -> None:
    data = REPEATED[name]()
    with pytest.raises(ParameterError, match=r"entries \d+ and \d+ of the dataset are the same example.*once an epoch"):
        training(data=data, batch_size=2)


def test_the_message_names_the_entries() -> None:
    with pytest.raises(ParameterError, match="entries 1 and 3 of the dataset are the same example, and 2 in all"):
        training(data=Subset(WHOLE, [7, 8, 9, 8, 8]), batch_size=2)


SINGLE: dict[str, Callable[[], Any]] = {
    "a subset": lambda: Subset(WHOLE, range(5, 25)),
    "a split": lambda: ConcatDataset(random_split(WHOLE, [10, 20])),
    "others": lambda: ConcatDataset([WHOLE, dataset()]),
    "parts": lambda: ConcatDataset([split(WHOLE, 0, 20), split(WHOLE, 20, 30)]),
    "nested": lambda: ConcatDataset([Subset(WHOLE, [0, 1, 2]), Subset(Subset(WHOLE, [5, 4, 3, 2]), [0, 1])]),
    "equal rows": lambda: TensorDataset(torch.ones(30, 4), torch.ones(30).long()),
    "one label": lambda: TensorDataset(torch.ones(30, 4), torch.ones(1).long().expand(30)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SINGLE)
def test_different_examples_are_not_refused(name: str) -> None:
    assert training(data=SINGLE[name](), batch_size=2).fit().epochs == 1


def test_what_is_not_used_may_be_repeated() -> None:
    assert training(data=Subset(WHOLE, [0, 1, 2, 0]), examples=3, batch_size=2).fit().epochs == 1


@pytest.mark.slow
def test_a_training_with_a_budget_may_end_at_any_time(tmp_path: Any) -> None:
    run = training(noise_multiplier=20.0, budget=1.0)
    most = run.account.most
    assert most is not None and most > 2
    run.step(next(run.batches()))
    whole = run.account.spent(most)
    assert run.epsilon == whole <= 1.0
    assert f"which holds for any number of epochs up to {most}" in repr(run)
    assert run.history[0]["epsilon"] == whole
    run.save(tmp_path / "training.shoal")
    again = training(noise_multiplier=20.0, budget=1.0, resume=tmp_path / "training.shoal")
    assert again.account.most == most and again.epsilon == whole
    with pytest.raises(ParameterError, match="another budget"):
        training(noise_multiplier=20.0, resume=tmp_path / "training.shoal")
    with pytest.raises(BudgetError, match=rf"{most + 1} epochs were asked for.*ε = 1 covers {most} with this noise"):
        again.fit(epochs=most + 1)
    again.fit(epochs=most)
    with pytest.raises(BudgetError, match="all that a budget"):
        next(again.batches())
    found = again.guarantee()
    assert found is not None and found.at_most and found.epsilon <= 1.0
