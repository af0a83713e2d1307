"""Reviews from files: models of `shoal train`, checkpoints, plans; and files that are none of these."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import shoal
from shoal.cli import main
from shoal.digits import rounded_up
from shoal.errors import FormatError, ParameterError, ShoalError
from shoal.review.notice import notice
from shoal.review.registry_entry import registry_entry
from shoal.review.sources import of_plan, of_training
from shoal.review.statement import Table
from shoal.sgd.account import Account

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model that `shoal train` wrote, by the sampler whose guarantee is proved in the least time."""
    return _trained(tmp_path_factory.mktemp("model"), "--sampling", "poisson")


def _trained(folder: Path, *more: str) -> Path:
    table, path = folder / "people.csv", folder / "model.npz"
    table.write_text("age,income\n" + "".join(f"{i % 7},{'low' if i % 7 < 3 else 'high'}\n" for i in range(399)))
    words = ["train", str(table), "--target", "income", "--noise-multiplier", "4", "--batch-size", "32"]
    assert main([*words, "--output", str(path), *more]) == 0
    return path


def _guarantee(path: Path) -> dict[str, object]:
    with np.load(path) as arrays:
        content: dict[str, object] = json.loads(str(arrays["guarantee"]))
    return content


def _with(model: Path, path: Path, **changed: object) -> Path:
    """Write a model with another guarantee in it."""
    with np.load(model) as arrays:
        others = {name: arrays[name] for name in arrays.files if name != "guarantee"}
    np.savez(path, **others, guarantee=np.array(json.dumps(_guarantee(model) | changed)))
    return path


def test_a_model_of_the_command_line_is_reviewed(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "review.html"
    assert main(["review", "--training", str(model), "--output", str(page)]) == 0
    assert main(["verify", str(page)]) == 0
    assert rounded_up(_guarantee(model)["epsilon"]) in page.read_text()  # type: ignore[arg-type]


def test_epsilon_in_a_model_is_not_believed(model: Path, tmp_path: Path) -> None:
    forged = _with(model, tmp_path / "forged.npz", epsilon=0.0001)
    assert of_training(forged, title="x") == of_training(model, title="x")


def test_people_who_noise_their_own_gradients_are_told_of_the_shuffler(tmp_path: Path) -> None:
    review = of_training(_trained(tmp_path, "--local"), title="local")
    assert "with its sender, its noise alone protects" in review.to_html()
    assert "they see the data" not in review.to_html()
    for writer in (notice, registry_entry):
        with pytest.raises(ParameterError, match="their own gradients"):
            writer(review, training=True)


def test_a_simulation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="coins of a seed"):
        of_training(_trained(tmp_path, "--simulation", "7"), title="x")


@pytest.mark.parametrize("changed", [{"run": 7}, {"run": {"examples": -1}}, {"delta": 2}, {"delta": "x"}, {"run": {}}])
def test_a_model_that_makes_no_sense_is_refused(model: Path, tmp_path: Path, changed: dict[str, object]) -> None:
    with pytest.raises(ShoalError):
        of_training(_with(model, tmp_path / "odd.npz", **changed), title="x")


def test_a_file_that_is_no_training_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    np.savez(path, coef=np.zeros(3))
    with pytest.raises(ShoalError, match="is no training"):
        of_training(path, title="x")
    for data in (b"", b"PK", path.read_bytes()[:-30], bytes(1000)):
        path.write_bytes(data)
        with pytest.raises(ShoalError):
            of_training(path, title="x")
    with pytest.raises(ShoalError, match="cannot read"):
        of_training(tmp_path / "nothing.npz", title="x")


def test_a_checkpoint_is_reviewed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.sgd.torch_tests.trainings import dataset, training

    run, path = training(data=dataset(512), noise_multiplier=4.0, sampling="poisson"), tmp_path / "training.shoal"
    run.save(path)
    with pytest.raises(ParameterError, match="has not begun"):
        of_training(path, title="x")
    run.fit(epochs=2)
    run.save(path)
    review = of_training(path, title="a network")
    account: Account = run.account
    result = account.guarantee()
    assert result is not None
    assert rounded_up(result.epsilon) in review.to_html()
    assert review.objection() == ""


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", '{"schema": {}, "reports": 1, "delta": 1, "rounds": 1}', '"x"'])
def test_a_plan_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ShoalError, match=r"plan\.json is not a plan"):
        of_plan(text, "plan.json", title="x")


@pytest.mark.exhaustive  # the plan takes ten seconds
def test_a_plan_after_a_ledger_names_what_was_counted_before() -> None:
    """The target is for all rounds, those of the ledger included, and the page is about the plan alone."""
    ledger = shoal.Ledger()
    curve = shoal.amplify(local_epsilon=1, reports=10_000)
    with ledger.budget(curve, epsilon=1, delta=1e-6, rounds=20, planned=True):
        pass
    plan = shoal.plan(categories=5, reports=20_000, ledger=ledger, rounds=2)
    page = of_plan(json.dumps(plan.to_dict()), "next.json", title="next").to_html()
    spent = rounded_up(ledger.spent(1e-6))
    assert f"It includes earlier rounds, of which a ledger had counted ε = {spent}." in page


def test_a_plan_of_many_rounds_is_proved_as_a_whole() -> None:
    """The certificate of all rounds comes first and keeps the target; that of one round is second."""
    plan = shoal.plan(categories=40, reports=300_000, epsilon=1, rounds=52)
    review = of_plan(json.dumps(plan.to_dict()), "weekly.json", title="weekly")
    together, one = map(shoal.Certificate.from_json, review.certificates)
    assert (together.epsilon <= 1, together.delta) == (True, 1e-6)
    assert together.claim.subject.startswith("52 rounds, ")
    assert one.epsilon == pytest.approx(plan.best.round_epsilon, rel=1e-3)
    assert [sentence.partition(" at ")[0] for sentence in review.proved] == [
        f"ε = {rounded_up(each.epsilon)}" for each in (together, one)
    ]
    assert review.objection() == ""
    page = review.to_html()
    assert "The target of the plan is ε = 1 at δ = 1e-06 for all 52 rounds together" in page
    local = plan.mechanism.local_epsilon
    assert f"ε₀ = {rounded_up(local)} for one report, ε₀ = {rounded_up(52 * local)} for all 52" in page
    table = next(each for each in review.sections if each.title == "If the same people are asked again").items[1]
    assert isinstance(table, Table)
    assert ("52", rounded_up(plan.best.epsilon)) in [row[1:] for row in table.rows]
    assert f"ε = {rounded_up(together.epsilon)}" in notice(review)
    assert "52 rounds together" in notice(review)


def test_a_plan_whose_rounds_cannot_be_proved_together_is_not_proved_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with 10⁹ rounds, which need more nodes than a certificate has: notices and entries must not name one round."""
    monkeypatch.setattr("shoal.proofs.rounds_claim._MOST_NODES", 100)
    plan = shoal.plan(categories=4, reports=1000, epsilon=1, rounds=52)
    review = of_plan(json.dumps(plan.to_dict()), "weekly.json", title="weekly")
    assert (review.proved, review.certificates) == ((), ())
    page = review.to_html()
    assert "It has no certificate" in page and "One of the 52 rounds alone" in page
    for words in (notice, registry_entry):
        with pytest.raises(ParameterError, match="certificate"):
            words(review)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such pipes")
def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    """A device, and a pipe that nobody writes into."""
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(FormatError, match="is a device or a pipe"):
            of_training(path, title="x")
