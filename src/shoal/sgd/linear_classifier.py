"""Classifiers with linear scores that noisy SGD trains: their arguments, `fit`, and what a model predicts."""

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.checks import non_negative, positive, whole
from shoal.errors import LabelsFromDataWarning, NotFiniteError, NotFiniteWarning, ParameterError
from shoal.mechanisms.coins import Simulation
from shoal.sgd.account import Account
from shoal.sgd.descent import Descent, TrainingData
from shoal.sgd.estimator import (
    Estimator,
    are_conventional,
    checked_features,
    checked_labels,
    column_names,
    row_lengths,
)
from shoal.sgd.gradient_noise import key_of
from shoal.sgd.guarantees import Guarantee
from shoal.sgd.linear_model import Floats, LinearModel
from shoal.sgd.noise_calibration import calibrate
from shoal.sgd.run import Run
from shoal.sgd.sampler import usual_sampling

__all__ = ["LinearClassifier"]

_REACH = 4.0
"""How far the noise alone may carry the weights, where nothing is known of them."""


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(Estimator, ABC):
    """A classifier with linear scores; subclasses say where the noise is added, and describe the arguments."""

    noise_multiplier: float | None = None
    epsilon: float | None = None
    delta: float = 1e-6
    clip_norm: float = 1.0
    epochs: int = 1
    batch_size: int = 256
    learning_rate: float | None = None
    regularization: float = 0.0
    average: bool = True
    adjacency: str = "replace"
    sampling: str | None = None
    public_steps: int | None = None
    fit_intercept: bool = True
    classes: ArrayLike | None = None
    track_loss: bool = False
    verbose: bool = False
    simulation: Simulation | None = None

    @abstractmethod
    def _seen(self) -> dict[str, str]:
        """Return `noise` and `releases` of the run."""

    def fit(self, X: ArrayLike, y: ArrayLike, *, validation: tuple[ArrayLike, ArrayLike] | None = None) -> Self:  # noqa: N803
        """Train, and return the estimator.

        Parameters
        ----------
        X : array_like
            Features, one row for each example.
        y : array_like
            Labels, one for each example.
        validation : tuple of array_like, optional
            Held-out examples and labels, which are not protected: for `loss_curve_`.
        """
        rows, names = checked_features(X), column_names(X)
        classes, labels = checked_labels(y, examples=len(rows), classes=self.classes)
        from_data = self.classes is None and not are_conventional(classes)
        if from_data:
            warnings.warn(
                "the classes are the labels that occur in y, and no guarantee protects which labels occur: one example "
                "with a rare label changes classes_ and the shape of coef_. Give all possible labels as classes=",
                LabelsFromDataWarning,
                stacklevel=2,
            )
        lengths = row_lengths(rows, intercept=self.fit_intercept)
        held_out = None
        if validation is not None:
            seen = checked_features(validation[0], features=rows.shape[1]).astype(np.float64, copy=False)
            held_out = seen, checked_labels(validation[1], examples=len(seen), classes=classes)[1]
        run = self._run(len(rows))
        account = Account(run, delta=self.delta)
        scores = len(classes) if len(classes) > 2 else 1
        model = LinearModel(scores=scores, features=rows.shape[1], intercept=self.fit_intercept)
        rate, penalty = self._rate(run, model.flat.size), non_negative(regularization=self.regularization)
        key, curve = key_of(self.simulation), list[tuple[int, float]]()
        descent = Descent(model, account, key=key, rate=rate, penalty=penalty, average=self.average)
        data = TrainingData(rows, lengths, labels, scores)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite counts as zero
            weights = descent.train(
                data, curve=curve, held_out=held_out, track_loss=self.track_loss, verbose=self.verbose
            )
        if not np.isfinite(weights).all():
            raise NotFiniteError("the weights are not finite; lower the learning rate, or scale the features")
        if model.not_finite:
            warnings.warn(
                f"{model.not_finite:,} gradients were not finite, and counted as zero; lower the learning rate, or "
                "scale the features. This tells of the data without noise: it is not private",
                NotFiniteWarning,
                stacklevel=2,
            )

        self.classes_ = classes
        self.n_features_in_ = rows.shape[1]
        self._names = names
        self.n_iter_ = account.epochs
        self.noise_multiplier_ = run.multiplier
        self.learning_rate_ = rate
        self.coef_ = weights[: model.weights.size].reshape(model.weights.shape).copy()
        self.intercept_ = weights[model.weights.size :].copy() if self.fit_intercept else np.zeros(scores)
        self.loss_curve_ = curve
        self._account, self._labels_from_data = account, from_data
        return self

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of the last `fit`, computed when it is first asked for."""
        self._check_fitted()
        result = self._account.guarantee()
        assert result is not None, "a training has at least one epoch"
        return replace(result, labels_from_data=self._labels_from_data)

    def _run(self, examples: int) -> Run:
        """Return what `fit` does to this many examples, with the noise that ε needs if ε is given."""
        if (self.noise_multiplier is None) == (self.epsilon is None):
            raise ParameterError("give either noise_multiplier= or epsilon=, and not both")
        size, seen = whole(batch_size=self.batch_size), self._seen()
        run = Run(
            examples=examples,
            # How many examples there are is a secret where one may be added.
            batch_size=size if self.adjacency == "add-remove" else min(size, examples),
            noise_multiplier=self.noise_multiplier,
            clip_norm=self.clip_norm,
            epochs=self.epochs,
            adjacency=self.adjacency,
            sampling=self.sampling or usual_sampling(seen["noise"]),
            public_steps=self.public_steps,
            noise=seen["noise"],
            releases=seen["releases"],
        )
        return run if self.epsilon is None else calibrate(run, epsilon=self.epsilon, delta=self.delta)

    def _rate(self, run: Run, size: int) -> float:
        if self.learning_rate is not None:
            return positive(learning_rate=self.learning_rate)
        walk = run.sum_deviation / run.batch_size * math.sqrt(size * run.steps * run.epochs)
        return _REACH / max(run.clip_norm, run.clip_norm**2, walk)

    def _scores(self, values: ArrayLike) -> Floats:
        self._check_fitted()
        names = column_names(values)
        if names and self._names and names != self._names:
            raise ParameterError(f"the columns must be those of fit, in their order: {', '.join(self._names)}")
        rows = checked_features(values, features=self.n_features_in_, name=type(self).__name__)
        row_lengths(rows, intercept=False)
        return rows @ self.coef_.T + self.intercept_

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the scores: one number for each example for two classes, else one row."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the probabilities of the classes, one row for each example."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            half = np.tanh(scores / 2) / 2
            return np.hstack([0.5 - half, 0.5 + half])
        probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each example."""
        scores = self._scores(X)
        indices = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_.take(indices)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:  # noqa: N803
        """Return the part of the examples whose class is predicted right."""
        truth, predicted = np.asarray(y), self.predict(X)
        if truth.shape != predicted.shape:
            raise ParameterError(
                f"y must have one label for each example, {len(predicted)} in all, got shape {truth.shape}", "y"
            )
        return float((predicted == truth).mean())
