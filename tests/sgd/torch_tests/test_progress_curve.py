"""The picture of a training has the ε of its account, and says what of it is not private."""

import sys
from typing import Any

import numpy as np
import pytest

from figures import palette
from shoal.digits import rounded_up
from shoal.errors import MissingExtraError
from shoal.sgd.account import Account
from shoal.sgd.run import Run
from shoal.sgd.torch import progress_curve as module
from shoal.sgd.torch.progress_curve import progress_curve
from tests.sgd.torch_tests.trainings import dataset, training

RUN = Run(examples=1000, batch_size=100, noise_multiplier=8, epochs=5, sampling="allocation")


def texts(axes: Any) -> str:
    written = [each for panel in axes.figure.axes for each in panel.texts]
    return "\n".join([axes.figure.get_suptitle(), axes.figure.get_supxlabel(), *(each.get_text() for each in written)])


@pytest.mark.slow
def test_spent_and_planned() -> None:
    account = Account(RUN, delta=1e-6, epochs=2)
    axes = progress_curve(account)
    (_, spent, planned), (left, right) = (each.get_data() for each in axes.patches), axes.get_xlim()
    assert spent.values.tolist() == [account.spent(1), account.spent(2)] and spent.edges.tolist() == [0, 1, 2]
    assert planned.values.tolist() == [account.spent(count) for count in (3, 4, 5)]
    assert planned.edges.tolist() == [2, 3, 4, 5] and (left, right) == (0, 5)
    said = texts(axes)
    plan, made = rounded_up(account.spent(5), 4), rounded_up(account.spent(2), 4)
    assert f"the plan has ε = {plan} at δ = 1e-06, for any number of epochs up to 5" in said
    assert f"after 2 epochs: ε = {made} holds if exactly 2 were fixed in advance" in said
    assert "1,000 examples in batches of 100" in said and "private, do not publish" not in said
    assert len(axes.figure.axes) == 1


@pytest.mark.slow
def test_the_budget_is_a_line() -> None:
    account = Account(RUN, delta=1e-6, epochs=3, budget=2.0)
    axes = progress_curve(account)
    (line,) = axes.lines
    assert set(line.get_ydata()) == {2.0}
    for patch in axes.patches:
        values = patch.get_data().values
        assert (values == account.epsilon).all() and account.epsilon <= 2.0
    assert f"budget: ε = 2 (dotted) covers any number of epochs up to {account.most:,}" in texts(axes)


@pytest.mark.slow
def test_before_the_first_epoch_and_after_more_than_planned() -> None:
    assert "spent: nothing yet" in texts(progress_curve(Account(RUN, delta=1e-6)))
    account = Account(RUN, delta=1e-6, epochs=40)
    axes = progress_curve(account)
    assert axes.get_xlim() == (0, 40) and "the plan has" not in texts(axes)
    values = axes.patches[-1].get_data().values
    assert len(values) == 16 and values[-1] == account.epsilon and (np.diff(values) > 0).all()


@pytest.mark.slow
def test_losses_are_drawn_when_asked_for() -> None:
    run = training(epochs=3, validation=dataset(7)).fit(epochs=2)
    axes = run.plot()
    above = axes.figure.axes[0]
    (validation,) = above.lines
    assert list(zip(*validation.get_data(), strict=True)) == run.validation_losses
    assert "not protected" in texts(axes) and "not private" not in texts(axes)
    drawn = run.plot(batch_losses=True)
    batches, means, _ = drawn.figure.axes[0].lines
    np.testing.assert_array_equal(batches.get_ydata(), [entry["loss"] for entry in run.history])
    assert batches.get_xdata()[[0, -1]].tolist() == [0.25, 2.0]
    assert means.get_ydata()[1] == pytest.approx(np.nanmean([entry["loss"] for entry in run.history[4:]]))
    assert "they are not private, do not publish them" in texts(drawn)
    labels = [text.get_text() for text in drawn.figure.axes[0].get_legend().get_texts()]
    assert labels == ["batches (not private)", "their mean in each epoch (not private)", "validation"]
    without = training(epochs=3).fit(epochs=1)
    assert len(without.plot().figure.axes) == 1
    assert len(without.plot(batch_losses=True).figure.axes) == 2


def test_a_secret_number_of_examples_is_not_drawn() -> None:
    run = Run(
        examples=1234, batch_size=100, noise_multiplier=8, sampling="allocation", adjacency="add-remove",
        public_steps=10,
    )  # fmt: skip
    said = texts(progress_curve(Account(run, delta=1e-6, epochs=1)))
    assert "examples in batches of 100" in said and "1,234" not in said


def test_colours_are_those_of_the_figures() -> None:
    assert (module._BLUE, module._VERMILION) == (palette.BLUE, palette.VERMILION)
    assert (module._GREY, module._BLACK) == (palette.GREY, palette.BLACK)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="pip install"):
        progress_curve(Account(RUN, delta=1e-6))
