"""scikit-learn's interface: what is refused, arguments, copies, and the checks of scikit-learn itself."""

import copy
import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from shoal import ParameterError, Simulation
from shoal.errors import NotFiniteError, NotFittedError
from shoal.sgd.estimator import EXPECTED_FAILED_CHECKS
from shoal.sgd.logistic import LocalLogisticRegression, PrivateLogisticRegression
from tests.sgd.test_logistic import private, problem


@pytest.mark.parametrize(
    ("points", "labels", "message"),
    [
        (np.zeros(4), [0, 1, 0, 1], r"Reshape your data: X.reshape\(-1, 1\)"),
        (np.zeros((2, 2, 2)), [0, 1], "X must be 2-dimensional"),
        (np.zeros((0, 3)), [], r"0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.zeros((3, 0)), [0, 1, 0], r"0 feature\(s\) \(shape=\(3, 0\)\)"),
        ([["a"], ["b"]], [0, 1], "X must be an array of numbers"),
        ([[1, 2], [3]], [0, 1], "X must be an array of numbers"),
        (np.zeros((2, 1), complex), [0, 1], "Complex data not supported"),
        (np.zeros((3, 1)), [0, 1], "X has 3 examples and y has 2"),
        (np.zeros((2, 1)), [1, 1], "at least 2 classes, got 1 class"),
        (np.zeros((2, 1)), [0.5, 1], "Unknown label type"),
        (np.zeros((2, 1)), [[0, 1], [1, 0]], "one label for each example"),
        (np.zeros((2, 1)), None, "y is None"),
    ],
)
def test_refused_data(points: Any, labels: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        private().fit(points, labels)


def test_refused_questions() -> None:
    points, labels = problem()
    made = private()
    for ask in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError, match=r"call fit\(X, y\) first"):
            getattr(made, ask)(points)
    assert not hasattr(made, "guarantee_")
    made.fit(points, labels)
    with pytest.raises(ParameterError, match="X has 4 features, but PrivateLogisticRegression is expecting 5 features"):
        made.predict(points[:, :4])
    with pytest.raises(ParameterError, match="Reshape your data"):
        made.predict(points[0])
    with pytest.raises(NotFiniteError, match="row 0"):
        made.predict(points * np.nan)
    with pytest.raises(ParameterError, match="400 in all"):
        made.score(points, labels[:7])


def test_arguments_can_be_read_and_set() -> None:
    made = PrivateLogisticRegression(noise_multiplier=2)
    arguments = made.get_params()
    assert arguments["noise_multiplier"] == 2
    assert PrivateLogisticRegression(**arguments).get_params() == arguments
    assert vars(made) == arguments  # nothing else is stored
    assert made.set_params(epochs=3, noise="example") is made
    assert (made.epochs, made.noise) == (3, "example")
    with pytest.raises(
        ParameterError, match="'sigma' is no argument of PrivateLogisticRegression; there are 'adjacency'"
    ):
        made.set_params(epochs=9, sigma=1)
    assert made.epochs == 3
    assert repr(made) == "PrivateLogisticRegression(epochs=3, noise='example', noise_multiplier=2)"


def test_fitting_changes_neither_the_data_nor_the_arguments() -> None:
    points, labels = problem()
    before, made = (points.copy(), labels.copy()), private(classes=(0, 1))
    arguments = made.get_params()
    assert made.fit(points, labels) is made
    assert made.get_params() == arguments
    assert (points == before[0]).all()
    assert (labels == before[1]).all()
    found = made.coef_.copy()
    made.predict(points)
    assert (made.fit(points, labels).coef_ == found).all()  # the same seed, the same training
    assert made.fit(points[:, :3], labels).coef_.shape == (1, 3)  # and nothing is left of the last one
    for array in (points, labels):
        array.flags.writeable = False
    made.fit(points, labels)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_copies_are_the_same(copied: Any) -> None:
    points, labels = problem()
    made = private().fit(points, labels)
    other = copied(made)
    assert (other.predict(points) == made.predict(points)).all()
    assert other.guarantee_ == made.guarantee_
    assert (other.fit(points, labels).coef_ == made.coef_).all()
    assert made.simulation is not None
    assert other.simulation.seed == 7
    unseeded = copied(private(simulation=None))
    assert unseeded.simulation is None


@pytest.mark.slow
def test_it_works_inside_scikit_learn() -> None:
    base = pytest.importorskip("sklearn.base")
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    selection = pytest.importorskip("sklearn.model_selection")
    points, labels = problem(2000)
    made = private().fit(points, labels)
    clone = base.clone(made)
    assert not hasattr(clone, "coef_")
    assert repr(clone.get_params()) == repr(made.get_params())
    assert base.is_classifier(made)
    whole = pipeline.make_pipeline(preprocessing.Normalizer(), private())
    assert whole.fit(points, labels).score(points, labels) > 0.9
    assert selection.cross_val_score(whole, points, labels, cv=3).min() > 0.9
    search = selection.GridSearchCV(private(), {"epochs": [1, 2]}, cv=2).fit(points, labels)
    assert search.best_estimator_.n_iter_ in (1, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimator [A-Za-z]*LogisticRegression does not inherit")
@pytest.mark.filterwarnings("ignore::shoal.errors.LabelsFromDataWarning")
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, LocalLogisticRegression])
@pytest.mark.parametrize("seeded", [True, False])
def test_the_checks_of_scikit_learn(kind: Any, seeded: bool) -> None:
    """With a seed all pass; without one, all but those that compare two fits, whose noise differs."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    made = kind(noise_multiplier=0.1, epochs=20, simulation=Simulation(seed=7) if seeded else None)
    expected = {} if seeded else EXPECTED_FAILED_CHECKS
    answers = checks.check_estimator(made, expected_failed_checks=expected, on_skip=None, on_fail=None)
    assert {each["check_name"]: each["exception"] for each in answers if each["status"] == "failed"} == {}
    assert sum(each["status"] == "passed" for each in answers) >= 48
    skipped = {each["check_name"] for each in answers if each["status"] == "skipped"}
    assert skipped == {"check_pipeline_consistency", "check_array_api_input"}
    if not seeded:
        assert next(each for each in answers if each["check_name"] == "check_fit_idempotent")["status"] == "xfail"


@dataclass(kw_only=True, eq=False, repr=False)
class _Counting(PrivateLogisticRegression):
    """It remembers the number of examples of every fit."""

    fits: ClassVar[list[int]] = []

    def fit(self, X: Any, y: Any, **more: Any) -> Any:  # noqa: N803
        self.fits.append(len(X))
        return super().fit(X, y, **more)


@pytest.mark.slow
def test_what_a_search_costs() -> None:
    """As docs/training.md counts: every example is in all fits but those that hold its fold out, and in the last."""
    selection = pytest.importorskip("sklearn.model_selection")
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    points, labels = problem(1200)
    whole = pipeline.make_pipeline(preprocessing.Normalizer(), _Counting(noise_multiplier=2, batch_size=100))
    grid = {"_counting__clip_norm": [0.5, 1.0]}
    _Counting.fits.clear()
    search = selection.GridSearchCV(whole, grid, cv=selection.KFold(3)).fit(points, labels)
    assert _Counting.fits == [800] * 6 + [1200]
    assert 2 * (3 - 1) + 1 == (6 * 800 + 1200) / 1200  # fits of one example
    assert search.predict(points).shape == (1200,)
    # With held-out examples that need no protection: one fit for each setting, and the last.
    _Counting.fits.clear()
    folds = selection.PredefinedSplit(np.repeat([-1, 0], [1000, 200]))
    selection.GridSearchCV(whole, grid, cv=folds, refit=False).fit(points, labels)
    assert _Counting.fits == [1000] * 2


def test_a_column_of_labels_is_flattened() -> None:
    points, labels = problem()
    with pytest.warns(UserWarning, match="A column-vector y was passed when a 1d array was expected"):
        made = private().fit(points, labels[:, np.newaxis])
    assert (made.coef_ == private().fit(points, labels).coef_).all()


def test_errors_are_those_of_scikit_learn_too() -> None:
    exceptions = pytest.importorskip("sklearn.exceptions")
    with pytest.raises(exceptions.NotFittedError) as caught:
        private().predict(np.zeros((2, 2)))
    assert isinstance(caught.value, NotFittedError)
    with pytest.raises(TypeError, match="must be a string or a real number") as kind:
        private().fit(np.array([[{}], [1.0]], object), [0, 1])
    assert isinstance(kind.value, ParameterError)


def test_columns_keep_their_order() -> None:
    import pandas as pd

    points, labels = problem()
    frame = pd.DataFrame(points, columns=[f"x{place}" for place in range(points.shape[1])])
    made = private().fit(frame, labels)
    assert made.score(frame, labels) == made.score(points, labels)
    with pytest.raises(ParameterError, match="the columns must be those of fit, in their order: x0, x1"):
        made.predict(frame[frame.columns[::-1]])


def test_labels_that_are_numbers() -> None:
    points = np.zeros((3000, 1))
    with pytest.raises(ParameterError, match="3,000 different labels; is it a number"):
        private().fit(points, np.arange(3000))
    with pytest.raises(ParameterError, match="labels of one kind"):
        private().fit(points, np.array([None, 1] * 1500, object))
