"""Training in the local model: who reports, what a report is, and what it guarantees."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.mechanisms.coins import Simulation
from shoal.sgd import logistic
from shoal.sgd.account import Account, ProgressLabel
from shoal.sgd.gradient_noise import noised
from shoal.sgd.guarantees import guarantee
from shoal.sgd.logistic import LinearModel, LocalLogisticRegression
from shoal.sgd.run import Run

pytestmark = pytest.mark.filterwarnings("ignore::shoal.errors.LabelsFromDataWarning")  # labels are made up

Floats = NDArray[np.float64]


def problem(examples: int, features: int = 4, classes: int = 2) -> tuple[Floats, NDArray[np.int64]]:
    """Return examples whose class is where a linear score is the highest."""
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(examples, features))
    return rows, (rows @ generator.normal(size=(features, classes))).argmax(axis=1)


class Watched:
    """Sees what the server sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reports: list[Floats] = []
        self.sizes: list[int] = []
        step = logistic.Descent.step

        def noted(total: Floats, normals: Floats, *, deviation: float, margin: float) -> Floats:
            reports = noised(total, normals, deviation=deviation, margin=margin)
            self.reports.append(reports.copy())
            return reports

        def stepped(server: logistic.Descent, total: Floats) -> None:
            self.sizes.append(sum(map(len, self.reports)) - sum(self.sizes))
            step(server, total)

        monkeypatch.setattr(logistic, "noised", noted)
        monkeypatch.setattr(logistic.Descent, "step", stepped)


def rounds(clients: int, size: int, epoch: int) -> list[NDArray[np.int64]]:
    """Return who is asked in each round."""
    run = Run(examples=clients, batch_size=size, noise="example", releases="every-step")
    return run.sampler.batches(run, key=bytes(32), epoch=epoch)


@pytest.mark.parametrize(("clients", "size"), [(10, 1), (10, 4), (12, 4), (10, 10), (1, 1), (999, 100)])
def test_every_client_is_asked_once_an_epoch(clients: int, size: int) -> None:
    for epoch in range(3):
        asked = rounds(clients, size, epoch)
        assert sorted(np.concatenate(asked).tolist()) == list(range(clients))
        assert [len(who) for who in asked[:-1]] == [size] * (len(asked) - 1)
        assert len(asked) == math.ceil(clients / size)
    orders = {tuple(np.concatenate(rounds(clients, size, epoch)).tolist()) for epoch in range(20)}
    assert len(orders) > 1 or clients == 1


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_gradient_is_that_of_one_example_clipped(classes: int, intercept: bool) -> None:
    rows, labels = problem(50, classes=classes)
    rows *= np.geomspace(0.01, 100, 50)[:, None]
    scores = classes if classes > 2 else 1
    target = (labels == (np.arange(scores)[:, None] if scores > 1 else 1)).astype(float)
    target = target.reshape(scores, -1)
    lengths = np.sqrt((rows**2).sum(axis=1) + intercept)
    model = LinearModel(scores=scores, features=4, intercept=intercept)
    model.flat[:] = np.random.default_rng(5).normal(size=model.flat.size)
    found = model.clipped_gradients(rows, lengths, target, clip_norm=0.5)
    for place in range(50):
        part = slice(place, place + 1)
        alone = model.clipped_sum(rows[part], lengths[part], target[:, part], clip_norm=0.5)
        np.testing.assert_allclose(found[place], alone, rtol=1e-12, atol=1e-15)
    norms = np.linalg.norm(found, axis=1)
    assert norms.max() <= 0.5 * (1 + 1e-14)
    assert (norms > 0.499).any()
    assert (norms < 0.4).any()


def test_what_the_server_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clipped gradients with the noise that was promised, on a grid, one for each client and epoch."""
    watched = Watched(monkeypatch)
    rows, labels = problem(10_050)
    trained = LocalLogisticRegression(
        noise_multiplier=3, clip_norm=0.5, epochs=2, batch_size=100, learning_rate=1e-9, simulation=Simulation(seed=1)
    ).fit(rows, labels)
    assert watched.sizes == ([100] * 100 + [50]) * 2
    reports = np.concatenate(watched.reports)
    assert reports.shape == (20_100, 5)
    grid = reports / (1.5 * 2.0**-20)
    assert np.array_equal(grid, np.rint(grid))
    # The model hardly moves: every gradient is (1/2 − y)·(x, 1), clipped. What is left of all reports is noise.
    signal = (0.5 - labels)[:, None] * np.hstack([rows, np.ones((len(rows), 1))])
    signal *= np.minimum(1, 0.5 / np.linalg.norm(signal, axis=1))[:, None]
    variance = (reports**2).mean() - (signal**2).mean()
    # The mean of 100,500 squares of deviation 1.5: six standard errors, a false alarm with a probability below 1e-8.
    assert abs(variance / 1.5**2 - 1) < 6 * math.sqrt(2 / reports.size)
    shift = reports.mean(axis=0) - signal.mean(axis=0)
    assert np.abs(shift).max() < 6 * 1.5 / math.sqrt(len(reports))
    for first, second in ((0, 1), (2, 4)):
        both = np.corrcoef(reports[:, first], reports[:, second])[0, 1]
        assert abs(both - np.mean(signal[:, first] * signal[:, second]) / 1.5**2) < 6 / math.sqrt(len(reports))
    again = np.corrcoef(reports[:10_050].ravel(), reports[10_050:].ravel())[0, 1]
    assert abs(again) < 6 / math.sqrt(50_250)  # the second epoch has noise and an order of its own
    assert trained.n_iter_ == 2


@pytest.mark.slow
def test_large_rounds_are_made_in_parts_and_small_ones_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reports are the same, but for rounding in sums, however many are made at once."""
    rows, labels = problem(1000, classes=3)
    for size in (1, 64, 300, 1000):
        models = []
        for numbers in (1, 15 * 7, 15 * 128, 1 << 18):
            monkeypatch.setattr(logistic, "_CHUNK", numbers)
            fresh = LocalLogisticRegression(noise_multiplier=1, batch_size=size, simulation=Simulation(seed=2))
            models.append(fresh.fit(rows, labels).coef_)
        for other in models[1:]:
            np.testing.assert_allclose(other, models[0], rtol=1e-9)


def test_the_guarantee_is_the_one_of_every_report() -> None:
    rows, labels = problem(3000)
    fields = {"noise_multiplier": 2.0, "epochs": 1, "batch_size": 128, "clip_norm": 0.7, "adjacency": "zero-out"}
    trained = LocalLogisticRegression(**fields, delta=1e-5).fit(rows, labels)  # type: ignore[arg-type]
    found = trained.guarantee_
    expected = guarantee(Run(examples=3000, **fields, noise="example", releases="every-step"), delta=1e-5)  # type: ignore[arg-type]
    assert found == expected
    assert found.local_epsilon == expected.local_epsilon
    assert found.epsilon < found.plain_epsilon
    single = guarantee(Run(examples=3000, **(fields | {"batch_size": 1})), delta=1e-5)  # type: ignore[arg-type]
    assert found.epsilon == pytest.approx(single.epsilon, rel=1e-9)  # a round only fixes the model


def test_noise_pays_for_the_rounding_of_long_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A norm of p numbers is off by p·2⁻⁵³ of itself, also where it is one client's own."""
    margins: list[float] = []

    def noted(total: Floats, normals: Floats, *, deviation: float, margin: float) -> Floats:
        margins.append(margin)
        return noised(total, normals, deviation=deviation, margin=margin)

    monkeypatch.setattr(logistic, "noised", noted)
    LocalLogisticRegression(noise_multiplier=1).fit(np.ones((4, 20_000)), [0, 1, 0, 1])
    assert min(margins) > 20_000 * 2.0**-53


def test_a_short_round_takes_a_shorter_step() -> None:
    """Eleven clients in rounds of ten: the last report alone moves the model by a tenth of a full round's mean."""
    rows, labels = np.ones((11, 1)), np.array([0, 1] * 5 + [0])
    trained = LocalLogisticRegression(
        noise_multiplier=1e-6, batch_size=10, clip_norm=10, learning_rate=1, average=False, fit_intercept=False
    ).fit(rows, labels)
    # 5 or 6 of 11 pull by ±1/2; the sum over all is (6 − 5)/2, each counted with weight 1/10 and a falling rate.
    assert abs(trained.coef_[0, 0]) < 0.11


def test_what_the_local_model_does_not_have() -> None:
    assert "noise" not in LocalLogisticRegression().get_params()
    with pytest.raises(TypeError, match="noise"):
        LocalLogisticRegression(noise_multiplier=1, noise="batch")  # type: ignore[call-arg]
    with pytest.raises(ParameterError, match="shifts every later batch"):
        LocalLogisticRegression(noise_multiplier=1, adjacency="add-remove").fit(*problem(20))


def test_the_bar_shows_the_loss_and_epsilon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shoal.progress._PATIENCE", -1.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    rows, labels = problem(2000)
    trained = LocalLogisticRegression(noise_multiplier=3, batch_size=20, track_loss=True).fit(rows, labels)
    drawn = capsys.readouterr().err
    shown = f"training, epoch 1 of 1: ε = {rounded_up(trained.guarantee_.epsilon, 3)} (epochs fixed "
    assert f"{shown}beforehand), loss 0." in drawn
    assert drawn.endswith("\r\x1b[2K")


def test_the_label_has_the_epsilon_of_the_plan() -> None:
    account = Account(Run(examples=10, noise_multiplier=9, epochs=3, sampling="fixed-order"), delta=1e-6)
    label = ProgressLabel(account, [])
    shown = f"ε = {rounded_up(account.spent(3), 3)}"
    for text in ("1 of 3: {} (up to 3 epochs)", "2 of 3: {} (up to 3 epochs)", "3 of 3: {} (epochs fixed beforehand)"):
        account.charge()
        assert str(label) == f"training, epoch {text.format(shown)}"
