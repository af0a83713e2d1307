"""Every example is used once a pass: a dataset that has one twice is refused, as far as it can be seen."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset, random_split

from shoal.errors import BudgetError, ParameterError
from shoal.sgd.account import Account
from shoal.sgd.run import Run
from shoal.sgd.torch import Training
from shoal.sgd.torch.checkpoint import account_of
from tests.sgd.torch_tests.test_training import Pairs
from tests.sgd.torch_tests.trainings import dataset, training


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
        training(data=data, batch_size=None if isinstance(data, DataLoader) else 2)


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
    with pytest.raises(ParameterError, match="budget= needs noise_multiplier="):
        training(noise_multiplier=None, epsilon=1.0, budget=1.0)


def test_epsilon_is_said_to_hold_for_a_fixed_number_of_epochs() -> None:
    assert "which holds if the number of epochs was fixed beforehand" in repr(training().fit())


def test_a_training_that_is_stopped_early_has_the_epsilon_of_its_plan(tmp_path: Path) -> None:
    def stop(run: Training) -> None:
        if run.epochs == 2:
            raise KeyboardInterrupt

    plain: dict[str, Any] = {"sampling": "fixed-order"}
    run = training(epochs=5, **plain)
    with pytest.raises(KeyboardInterrupt):
        run.fit(after_epoch=stop)
    found = run.guarantee()
    assert found is not None and found.at_most
    assert (run.epochs, found.run.epochs, run.epsilon) == (2, 5, run.account.spent(5))
    assert "which holds for any number of epochs up to 5" in repr(run)
    run.save(tmp_path / "training.shoal")
    again = training(epochs=1, resume=tmp_path / "training.shoal", **plain)  # by another plan
    assert again.epsilon == run.epsilon
    longer = training(epochs=1, **plain).fit(epochs=2)
    assert longer.epsilon == longer.account.spent(2)


def test_more_epochs_than_the_noise_was_chosen_for_are_refused() -> None:
    run = training(noise_multiplier=None, epsilon=1.0, epochs=2, sampling="fixed-order")
    with pytest.raises(BudgetError, match=r"6 epochs .* would have ε = 1\.\d+ .* ε = 1 covers 2 with this noise"):
        run.fit(epochs=6)
    assert run.epochs == 0
    run.fit(epochs=1)
    assert run.epsilon == run.account.spent(2) <= 1.0  # another epoch may follow
    run.fit()
    with pytest.raises(BudgetError, match="2 epochs are all that a budget of ε = 1"):
        next(run.batches())
    assert run.epochs == 2


def test_a_checkpoint_without_the_target_is_limited_by_it() -> None:
    """As shoal 0.2.0 wrote it."""
    run = Run(examples=100, noise_multiplier=9, sampling="fixed-order", epochs=2)
    begun = Account(run, delta=1e-6, budget=2.0, most=2)
    fields = {"account": Account(run, delta=1e-6, epochs=1).to_dict(), "epoch": 1, "step": 0}
    account = account_of(fields, begun)
    assert (account.most, account.epochs) == (2, 1)


def test_a_checkpoint_with_more_epochs_than_the_target_covers_is_refused() -> None:
    """Shoal 0.2.0 made them; they count as they are without the target, and ε was that of the planned two."""
    run = Run(examples=100, noise_multiplier=9, sampling="fixed-order", epochs=2)
    fields = {"account": Account(run, delta=1e-6, epochs=5).to_dict(), "epoch": 5, "step": 0}
    with pytest.raises(BudgetError, match=r"5 epochs have begun, .* covers 2"):
        account_of(fields, Account(run, delta=1e-6, budget=2.0, most=2))
    account = account_of(fields, Account(run, delta=1e-6))
    assert account.epsilon == account.spent(5) > account.spent(2)
