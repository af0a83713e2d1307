"""Private logistic and softmax regression: against loops over examples."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shoal import ParameterError, Simulation
from shoal.errors import LabelsFromDataWarning, NotFiniteError, NotFiniteWarning
from shoal.sgd.account import Account
from shoal.sgd.gradient_noise import Noise, key_of, margin_for, noised
from shoal.sgd.guarantees import LABELS, guarantee
from shoal.sgd.logistic import Descent, LinearModel, PrivateLogisticRegression
from shoal.sgd.run import Run

pytestmark = pytest.mark.filterwarnings("ignore::shoal.errors.LabelsFromDataWarning")  # labels are made up
Floats = NDArray[np.float64]


def problem(examples: int = 400, features: int = 5, classes: int = 2, seed: int = 1) -> tuple[Floats, NDArray[Any]]:
    """Return points, and labels by a linear rule."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(examples, features))
    return points, (points @ generator.normal(size=(features, classes))).argmax(axis=1)


def private(**arguments: Any) -> PrivateLogisticRegression:
    """Return an estimator that can be repeated."""
    usual: dict[str, Any] = {"noise_multiplier": 0.5, "batch_size": 32, "simulation": Simulation(seed=7)}
    return PrivateLogisticRegression(**usual | arguments)


def gradient(weights: Floats, constants: Floats, point: Floats, label: int) -> Floats:
    """Return the gradient of −ln of the probability of one label, weights first: the textbook, one example at once."""
    scores = weights @ point + constants
    if len(scores) == 1:
        residual = np.array([1 / (1 + math.exp(-scores[0])) - label])
    else:
        probabilities = np.exp(scores) / np.exp(scores).sum()
        residual = probabilities - np.eye(len(scores))[label]
    return np.append(np.outer(residual, point).ravel(), residual)


def clipped(vector: Floats, norm: float) -> Floats:
    return vector / max(1.0, float(np.linalg.norm(vector)) / norm)


@given(
    seed=st.integers(0, 2**32),
    classes=st.sampled_from([2, 3, 10]),
    examples=st.integers(0, 12),
    intercept=st.booleans(),
    clip_norm=st.sampled_from([1e-3, 0.5, 1.0, 3.0, 1e3]),
)
def test_the_clipped_sum_is_that_of_a_loop(
    seed: int, classes: int, examples: int, intercept: bool, clip_norm: float
) -> None:
    generator, features, scores = np.random.default_rng(seed), 4, 1 if classes == 2 else classes
    points = generator.normal(size=(examples, features)) * generator.exponential(2, size=(examples, 1))
    labels = generator.integers(0, classes, examples)
    model = LinearModel(scores=scores, features=features, intercept=intercept)
    model.flat[:] = generator.normal(size=model.flat.size)
    constants = model.constants[:, 0] if model.constants is not None else np.zeros(scores)
    expected = np.zeros(model.flat.size)
    for point, label in zip(points, labels, strict=True):
        whole = gradient(model.weights, constants, point, int(label))
        expected += clipped(whole if intercept else whole[: scores * features], clip_norm)
    target = labels[None, :] == (np.arange(classes)[:, None] if classes > 2 else 1)
    lengths = np.sqrt((points**2).sum(axis=1) + intercept)
    found = model.clipped_sum(points, lengths, target.astype(np.float64), clip_norm=clip_norm)
    assert np.abs(found - expected).max() <= 1e-10 * max(1, clip_norm)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_gradient_is_that_of_the_loss(classes: int) -> None:
    points, labels = problem(classes=classes, examples=50)
    scores = 1 if classes == 2 else classes
    model = LinearModel(scores=scores, features=5, intercept=True)
    model.flat[:] = here = np.random.default_rng(2).normal(size=model.flat.size)
    target = (labels[None, :] == (np.arange(classes)[:, None] if classes > 2 else 1)).astype(np.float64)
    found = model.clipped_sum(points, np.zeros(50), target, clip_norm=1.0) / 50  # of length 0, so never clipped
    for place in range(len(here)):
        ends = []
        for step in (1e-5, -1e-5):
            model.flat[:] = here
            model.flat[place] += step
            ends.append(model.loss(points, labels))
        assert abs((ends[0] - ends[1]) / 2e-5 - found[place]) < 1e-8


def by_a_loop(run: Run, points: Floats, labels: NDArray[Any], *, classes: int, average: bool) -> Floats:
    """Train with rate 0.5 and penalty 0.1, example by example; noise and draws are those of the key."""
    scores, key, size = 1 if classes == 2 else classes, key_of(Simulation(seed=7)), run.batch_size
    flat, trail, source = np.zeros(scores * 6), list[Floats](), Noise(key=key)
    margin = margin_for(run.sampler.largest(run, 1e-6), single=False, parameters=len(flat))
    for number in range(run.epochs):
        for step, batch in enumerate(run.sampler.batches(run, key=key, epoch=number)):
            total = np.zeros_like(flat)
            for index in batch:
                weights, constants = flat[: 5 * scores].reshape(scores, 5), flat[5 * scores :]
                total += clipped(gradient(weights, constants, points[index], int(labels[index])), run.clip_norm)
            normals = source.normals(total.size, epoch=number, step=step)
            step_made = noised(total, normals, deviation=run.sum_deviation, margin=margin)
            rate = 0.5 / math.sqrt(1 + 20 * len(trail) / (run.steps * run.epochs))
            flat = flat - rate * step_made / size
            flat[: 5 * scores] /= 1 + rate * 0.1
            trail.append(flat)
    return np.asarray(np.mean(trail[len(trail) // 2 :], axis=0)) if average else flat


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "how",
    [
        ("batch", "permutation", 16),
        ("example", "permutation", 16),  # 50 examples in batches of 16 leave 14 slots empty
        ("batch", "allocation", 16),
        ("batch", "allocation", 2),  # some batches are empty
        ("batch", "poisson", 2),
        ("batch", "fixed-order", 16),
    ],
)
@pytest.mark.parametrize("average", [True, False])
def test_training_is_what_a_loop_over_examples_gives(
    classes: int, how: tuple[str, str, int], average: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise, sampling, size = how
    points, labels = problem(examples=50, classes=classes)
    chosen = {"epochs": 3, "batch_size": size, "clip_norm": 0.7, "learning_rate": 0.5, "regularization": 0.1}

    def trained() -> Floats:
        made = private(**chosen, noise=noise, sampling=sampling, average=average).fit(points, labels)
        assert made.n_iter_ == 3
        return np.append(made.coef_.ravel(), made.intercept_)

    run = Run(
        examples=50, batch_size=size, noise_multiplier=0.5, clip_norm=0.7, epochs=3, noise=noise, releases="sums",
        sampling=sampling,
    )  # fmt: skip
    expected = by_a_loop(run, points, labels, classes=classes, average=average)
    assert np.abs(trained() - expected).max() < 1e-5 / size  # a cell of the grid is 3e-7, times a rate of 0.5/b
    if size < 16:
        assert any(not len(batch) for batch in run.batches(key=key_of(Simulation(seed=7)), epoch=0))
        # A planted fault, a sum that is divided by how many examples are in it, is seen.
        noised_sums, step, present = Descent._noised_sums, Descent.step, list[int]()

        def watched(self: Descent, chunk: Any, epoch: int) -> Any:
            present.extend(np.diff([0, *chunk.ends]))
            return noised_sums(self, chunk, epoch)

        monkeypatch.setattr(Descent, "_noised_sums", watched)
        monkeypatch.setattr(Descent, "step", lambda self, total: step(self, total * (size / max(1, present.pop(0)))))
        assert np.abs(trained() - expected).max() > 0.01


def test_an_epoch_is_charged_before_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def watch(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def watched(*arguments: Any, **named: Any) -> Any:
            events.append(name)
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, watched)

    watch(LinearModel, "clipped_sum")
    watch(Account, "charge")
    watch(Noise, "table")
    points, labels = problem(examples=64)
    private(epochs=2).fit(points, labels)
    assert events == ["clipped_sum", "charge", "table", "clipped_sum"] * 2


@pytest.mark.parametrize(
    ("bad", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity"), (1e200, "numbers above 1e150")]
)
def test_nothing_is_spent_on_what_is_not_finite(bad: float, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Account, "charge", lambda self: pytest.fail("charged"))
    points, labels = problem()
    points[123, 2] = bad
    made = private()
    with pytest.raises(NotFiniteError, match=rf"X contains {what} in row 123; .* Nothing was spent"):
        made.fit(points, labels)
    assert not hasattr(made, "coef_")
    points[123, 2] = 0
    weird = labels.astype(float)
    weird[45] = np.nan
    with pytest.raises(NotFiniteError, match="y contains NaN or infinity in row 45"):
        made.fit(points, weird)


@pytest.mark.parametrize("size", [32, 400])
def test_a_training_that_runs_away_stops(size: int) -> None:
    """That the weights are not finite follows from noised sums; which example was the first to say so does not."""
    points, labels = problem()
    with pytest.raises(NotFiniteError, match="the weights are not finite; 1 epochs had begun"):
        private(learning_rate=1e308, clip_norm=1e3, batch_size=size).fit(points * 1e100, labels)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_gradient_that_is_not_finite_counts_as_zero(classes: int) -> None:
    """0·NaN is NaN: it has to be left out by choice, and not by a factor."""
    points, labels = problem(examples=20, classes=classes)
    points[[3, 8]] = 1e140
    model = LinearModel(scores=1 if classes == 2 else 3, features=5, intercept=True)
    model.weights[:] = [1e200, -1e200, 1e200, -1e200, 1e199]  # the scores of those two are infinity less infinity
    lengths = np.sqrt((points**2).sum(axis=1) + 1)
    target = (labels == np.arange(3)[:, None] if classes == 3 else labels[None] == 1).astype(np.float64)
    with np.errstate(all="ignore"):
        bad = ~np.isfinite(model.residuals(points, target)).all(axis=0)
        total = model.clipped_sum(points, lengths, target, clip_norm=1.0).copy()
        good = ~bad
        expected = model.clipped_sum(points[good], lengths[good], target[:, good], clip_norm=1.0)
    assert np.flatnonzero(bad).tolist() == [3, 8]
    assert np.isfinite(total).all()
    assert np.abs(total - expected).max() < 1e-12
    assert model.not_finite == bad.sum()


def test_that_gradients_were_not_finite_is_said_not_to_be_private() -> None:
    points, labels = problem(200, classes=3)
    points[7] = 1e140
    with pytest.warns(NotFiniteWarning, match=r"gradients were not finite, and counted as zero.*it is not private"):
        private(batch_size=10, learning_rate=1e300, epochs=2).fit(points, labels)


@pytest.mark.slow
def test_what_is_returned_is_guaranteed() -> None:
    points, labels = problem()
    usual: dict[str, Any] = {"noise": "batch", "epochs": 1, "adjacency": "replace", "batch_size": 32}
    cases: list[dict[str, Any]] = [
        {},
        {"noise": "example", "epochs": 2},
        {"adjacency": "zero-out", "delta": 1e-5},
        {"sampling": "fixed-order", "epochs": 2},
        {"sampling": "permutation"},
        {"sampling": "poisson", "noise_multiplier": 2.0},
        {"sampling": "allocation", "adjacency": "add-remove", "public_steps": 13},
        {"batch_size": 500},  # more than there are examples
    ]
    for chosen in cases:
        made = private(**chosen).fit(points, labels)
        fields = usual | chosen
        fields["batch_size"], delta = min(fields["batch_size"], 400), fields.pop("delta", 1e-6)
        fields.setdefault("sampling", "permutation" if fields["noise"] == "example" else "allocation")
        run = Run(**{"examples": 400, "noise_multiplier": 0.5, "releases": "sums", **fields})
        assert (made._account.run, made._account.delta) == (run, delta)
        assert run.epochs == made.n_iter_
    assert made.guarantee_ == guarantee(run, delta=1e-6)


@pytest.mark.slow
def test_noise_is_calibrated_to_epsilon() -> None:
    points, labels = problem()
    for noise in ("batch", "example"):
        made = private(noise_multiplier=None, epsilon=2.0, noise=noise).fit(points, labels)
        assert 1.99 < made.guarantee_.epsilon <= 2
        assert made.guarantee_.run.noise_multiplier == made.noise_multiplier_
        assert made.get_params()["noise_multiplier"] is None


def test_without_a_seed_every_training_is_another() -> None:
    points, labels = problem()
    first, second = (private(simulation=None).fit(points, labels).coef_ for _ in range(2))
    assert (first != second).all()


def test_no_key_and_no_data_stay_behind() -> None:
    """What is pickled is the model: its size does not grow with the data, and no key of 32 bytes is in it."""
    sizes = []
    for examples in (400, 4000):
        made = private(simulation=None).fit(*problem(examples))
        sizes.append(len(pickle.dumps(made)))
        assert not any(isinstance(value, bytes) for value in vars(made).values())
        assert made.loss_curve_ == []
    assert abs(sizes[0] - sizes[1]) < 100


@pytest.mark.parametrize(("classes", "least"), [(2, 0.97), (5, 0.9)])
def test_an_easy_problem_is_learned(classes: int, least: float) -> None:
    points, labels = problem(20_000, classes=classes)
    names = np.array(["ape", "bee", "cat", "dog", "eel"])[labels]
    made = private(noise_multiplier=2, batch_size=256, epochs=2).fit(points[:15_000], names[:15_000])
    assert made.score(points[15_000:], names[15_000:]) > least
    wrong = private(noise_multiplier=2, batch_size=256).fit(points[:15_000], np.roll(names[:15_000], 1))
    assert wrong.score(points[15_000:], names[15_000:]) < least


def test_shapes_and_probabilities() -> None:
    for classes, scores in ((2, 1), (3, 3)):
        points, labels = problem(classes=classes)
        made = private().fit(points, labels)
        assert made.coef_.shape == (scores, 5)
        assert made.intercept_.shape == (scores,)
        assert made.decision_function(points).shape == ((400,) if classes == 2 else (400, 3))
        probabilities = made.predict_proba(points)
        assert probabilities.shape == (400, classes)
        assert np.abs(probabilities.sum(axis=1) - 1).max() < 1e-12
        assert (made.classes_[probabilities.argmax(axis=1)] == made.predict(points)).all()
        assert made.score(points, labels) == (made.predict(points) == labels).mean()
        assert not private(fit_intercept=False).fit(points, labels).intercept_.any()
        made.predict_proba(points * 1e100)


@pytest.mark.parametrize(
    "kind", [list, np.float32, np.int64, np.asfortranarray, lambda points: points[::2].repeat(2, 0)]
)
def test_all_kinds_of_numbers(kind: Any) -> None:
    points, labels = problem()
    points = np.rint(points * 2)
    given = (
        kind(points)
        if callable(kind) and not isinstance(kind, type)
        else points.tolist()
        if kind is list
        else points.astype(kind)
    )
    same = np.array(given, np.float64)
    assert (private().fit(given, labels.tolist()).coef_ == private().fit(same, labels).coef_).all()


@pytest.mark.filterwarnings("error")
def test_labels_that_come_from_the_data_are_an_assumption() -> None:
    """One changed label changes the shape of the model, which no noise hides."""
    points, labels = problem()
    names = np.array(["no", "yes"])[labels]
    neighbour = names.copy()
    neighbour[0] = "rare"
    shapes = []
    for each in (names, neighbour):
        with pytest.warns(LabelsFromDataWarning, match="Give all possible labels as classes="):
            made = private().fit(points, each)
        shapes.append(made.coef_.shape)
        assert made.guarantee_.labels_from_data
        assert LABELS in map(str, made.guarantee_.assumptions)
        assert LABELS in made.guarantee_.explain()
        assert LABELS in made.guarantee_.to_dict()["assumptions"]
    assert shapes == [(1, 5), (3, 5)]
    conventional = (labels, labels.astype(bool), labels.astype(float))
    for each, classes in (*((each, None) for each in conventional), (names, ["no", "yes", "rare"])):
        made = private(classes=classes).fit(points, each)  # without a warning
        assert not made.guarantee_.labels_from_data
        assert LABELS not in map(str, made.guarantee_.assumptions)


def test_classes_can_be_given() -> None:
    points, labels = problem()
    made = private(classes=["b", "a", "c"]).fit(points, np.array(["a", "b"])[labels])
    assert made.classes_.tolist() == ["a", "b", "c"]
    assert made.coef_.shape == (3, 5)
    swapped = private(classes=["y", "n"]).fit(points, np.where(labels, "y", "n"))
    assert (swapped.coef_ == private().fit(points, labels).coef_).all()
    alone = private(classes=[0, 1]).fit(points, np.ones(400, int))
    assert (alone.predict(points) == 1).mean() > 0.9
    with pytest.raises(ParameterError, match=r"y has the label 'b', which is not one of classes=\['a', 'c'\]"):
        private(classes=["a", "c"]).fit(points, np.array(["a", "b"])[labels])


@pytest.mark.slow
def test_the_loss_falls(capsys: pytest.CaptureFixture[str]) -> None:
    points, labels = problem(4000)
    own = private(track_loss=True, epochs=2).fit(points, labels)
    told = private(epochs=2, verbose=True).fit(points, labels, validation=(points[:100], labels[:100]))
    assert (own.coef_ == told.coef_).all()
    for made in (own, told):
        steps, losses = zip(*made.loss_curve_, strict=True)
        assert steps[0] == 0
        assert losses[0] == pytest.approx(math.log(2))
        assert losses[-1] < 0.4
        assert list(steps) == sorted(set(steps))
    final = told.predict_proba(points[:100])[np.arange(100), labels[:100]]
    assert told.loss_curve_[-1][0] == 250
    assert told.loss_curve_[-1][1] == pytest.approx(-np.log(final).mean())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("training, epoch 2 of 2: ε = ")


def test_regularization_shrinks() -> None:
    points, labels = problem()
    lengths = [
        np.linalg.norm(private(regularization=part, epochs=5).fit(points, labels).coef_) for part in (0, 0.1, 10)
    ]
    assert lengths[0] > 1.2 * lengths[1] > 3 * lengths[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise_multiplier": None}, "give either noise_multiplier= or epsilon=, and not both"),
        ({"epsilon": 1.0}, "give either noise_multiplier= or epsilon=, and not both"),
        ({"noise_multiplier": 0}, "noise_multiplier must be greater than 0"),
        ({"noise_multiplier": -1}, "noise_multiplier must be greater than 0"),
        ({"noise_multiplier": None, "epsilon": 0}, "epsilon must be greater than 0"),
        ({"clip_norm": 0}, "clip_norm must be greater than 0"),
        ({"delta": 0}, "delta must be greater than 0"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"batch_size": 1.5}, "batch_size must be a whole number"),
        ({"learning_rate": 0}, "learning_rate must be greater than 0"),
        ({"regularization": -1}, "regularization must be at least 0"),
        ({"noise": "none"}, "noise must be one of batch, example"),
        ({"adjacency": "add-remove"}, "needs public_steps"),
        ({"adjacency": "add-remove", "sampling": "permutation"}, "a deletion shifts every later batch"),
        ({"sampling": "allocation", "noise": "example"}, "has batches without slots"),
        ({"simulation": 7}, "simulation must be None or coins"),
        ({"classes": ["only"]}, "at least 2 classes, got 1 class"),
    ],
)
def test_refused_arguments(arguments: dict[str, Any], message: str) -> None:
    made = private(**arguments)  # the constructor stores, and fit checks
    with pytest.raises(ParameterError, match=message):
        made.fit(*problem())
