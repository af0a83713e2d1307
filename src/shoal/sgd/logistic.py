"""Private logistic and softmax regression: the gradient of an example is (p − y)·xᵀ, and its length |p − y|·|x|.

So a batch is clipped without any gradient of its own for an example: the sum is a product of two matrices.
"""

import math
import sys
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.checks import non_negative, positive, whole
from shoal.errors import NotFiniteError, ParameterError
from shoal.progress import progress
from shoal.randomizers.coins import Simulation
from shoal.sgd.account import Account
from shoal.sgd.estimator import Estimator, checked_features, checked_labels, column_names, row_lengths
from shoal.sgd.gradient_noise import Noise, key_of, margin_for, noised
from shoal.sgd.guarantees import Guarantee
from shoal.sgd.noise_calibration import calibrate
from shoal.sgd.permutation import Permutation
from shoal.sgd.progress_label import Standing
from shoal.sgd.rate import MARKS, falling_rate
from shoal.sgd.run import Run

__all__ = ["LinearModel", "PrivateLogisticRegression"]

Floats = NDArray[np.float64]

_CHUNK = 1 << 18
"""About how many numbers are gathered at once."""
_REACH = 4.0
"""How far the noise alone may carry the weights, where nothing is known of them."""


class LinearModel:
    """Scores that are linear in the features: one for two classes, else one a class.

    Parameters
    ----------
    scores : int
        k, how many scores an example has.
    features : int
        d.
    intercept : bool
        Whether a constant is added to each score.
    """

    def __init__(self, *, scores: int, features: int, intercept: bool) -> None:
        size = scores * features
        self.flat = np.zeros(size + scores * intercept)
        self.weights = self.flat[:size].reshape(scores, features)
        self.constants = self.flat[size:, None] if intercept else None
        self._sum = np.empty_like(self.flat)

    def scores(self, rows: Floats) -> Floats:
        """Return the scores of examples, a column each."""
        found: Floats = self.weights @ rows.T
        if self.constants is not None:
            found += self.constants
        return found

    def residuals(self, rows: Floats, target: Floats) -> Floats:
        """Return probabilities less truth, a column an example; the target is 1 for the true class and else 0."""
        found = self.scores(rows)
        if len(found) == 1:
            found *= 0.5
            np.tanh(found, out=found)
            found *= 0.5
            found += 0.5
        else:
            found -= found.max(axis=0)
            np.exp(found, out=found)
            found /= found.sum(axis=0)
        found -= target
        return found

    def clipped_sum(self, rows: Floats, lengths: Floats, target: Floats, *, clip_norm: float) -> Floats:
        """Return the sum of the examples' gradients, each clipped to the norm; it holds until the next call.

        Parameters
        ----------
        rows : Floats
            The examples.
        lengths : Floats
            |x| of each, with the 1 of the intercept.
        target : Floats
            A column an example: 1 for its class and 0 for others.
        clip_norm : float
            C.
        """
        residuals = self.residuals(rows, target)
        norms = np.abs(residuals[0]) if len(residuals) == 1 else np.sqrt((residuals * residuals).sum(axis=0))
        norms *= lengths
        np.maximum(norms, clip_norm, out=norms)
        residuals *= np.divide(clip_norm, norms, out=norms)
        size = self.weights.size
        np.matmul(residuals, rows, out=self._sum[:size].reshape(self.weights.shape))
        if self.constants is not None:
            residuals.sum(axis=1, out=self._sum[size:])
        return self._sum

    def loss(self, rows: Floats, places: NDArray[np.intp]) -> float:
        """Return the mean of −ln of the probability of the true class."""
        scores = self.scores(rows)
        if len(scores) == 1:
            return float(np.logaddexp(0, np.where(places, -scores[0], scores[0])).mean())
        scores -= scores.max(axis=0)
        return float((np.log(np.exp(scores).sum(axis=0)) - scores[places, np.arange(len(places))]).mean())


class _Chunks:
    """The data in the order of a pass, some batches at a time."""

    def __init__(self, rows: NDArray[Any], lengths: Floats, places: NDArray[np.intp], scores: int) -> None:
        self._rows, self._lengths, self._places = rows, lengths, places
        self._numbers = np.arange(scores)[:, None] if scores > 1 else np.ones((1, 1), np.intp)

    def gather(self, batches: list[NDArray[np.int64]]) -> tuple[Floats, Floats, NDArray[np.intp], Floats, list[int]]:
        """Return the rows, lengths, labels, targets and the ends of these batches."""
        index = np.concatenate(batches)
        rows = self._rows.take(index, axis=0).astype(np.float64, copy=False)
        places = self._places.take(index)
        target = (places == self._numbers).astype(np.float64)
        return rows, self._lengths.take(index), places, target, np.cumsum([len(batch) for batch in batches]).tolist()


class PrivateLogisticRegression(Estimator):
    """Logistic regression by noisy SGD over random permutations; softmax regression for more than two classes.

    Every pass uses each example once, in a fresh random order. Gradients are clipped, the sum of each batch gets normal
    noise from a cipher, and the learning rate falls with 1/√(1 + 20·t), where t is the part of the training that is
    done. `guarantee_` says what one `fit` spends; a second one spends as much again, and so does each of a search over
    settings. What was done to the data before, such as scaling by their own mean, is not in it.

    Parameters
    ----------
    noise_multiplier : float, optional
        The standard deviation of the noise, in units of `clip_norm`; this or `epsilon` must be given.
    epsilon : float, optional
        ε of the guarantee; the noise is calibrated to it.
    delta : float
        δ of the guarantee.
    clip_norm : float
        The largest length of an example's gradient. Scale the features so that rows are about as long as this, or
        somewhat longer, with a scale that does not come from the data.
    epochs : int
        Passes over the data.
    batch_size : int
        Examples a step; all of them if there are fewer.
    learning_rate : float, optional
        Of the first step. None takes 4/max(C, C², W), where W is how far the noise alone would carry the weights at the
        rate 1: it does not look at the data.
    regularization : float
        λ of a penalty λ/2·|weights|² on the mean loss; the intercept is left out.
    average : bool
        Whether the model is the mean of all that came up in the second half of the steps, or the last.
    noise : str
        "batch", one draw a step; "example", one for every slot of it, drawn at once.
    adjacency : str
        "replace" or "zero-out": what may happen to one example.
    fit_intercept : bool
        Whether a constant is added to the scores.
    classes : array_like, optional
        All labels that can occur. Give them where the labels are not known to everybody: by default they are those in
        `y`, and which labels occur is something that the data tell.
    track_loss : bool
        Whether `loss_curve_` is kept without held-out data.
    verbose : bool
        Whether a line is written to standard error after every pass.
    simulation : Simulation, optional
        Coins such as ``Simulation(seed=7)``, to repeat a training in simulations and tests; **never** for the data of
        real people.

    Attributes
    ----------
    classes_ : numpy.ndarray
        The labels, sorted.
    coef_ : Floats
        Weights, a row a score.
    intercept_ : Floats
        Constants.
    guarantee_ : Guarantee
        The guarantee of this training.
    noise_multiplier_ : float
        The one that was used.
    learning_rate_ : float
        The first one that was used.
    n_features_in_, n_iter_ : int
        Features, epochs.
    loss_curve_ : list of (int, float)
        Pairs of steps done and mean loss: of held-out data if they are given to `fit`; else, if `track_loss`, of
        examples just before they are used. It is computed **without noise** from those data: do not publish it.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(1).normal(size=(20_000, 3))
    >>> y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> model = PrivateLogisticRegression(noise_multiplier=4, simulation=Simulation(seed=7)).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    classes_: NDArray[Any]
    coef_: Floats
    intercept_: Floats
    _account: Account
    _names: tuple[str, ...]

    _releases = "sums"

    def __init__(
        self,
        *,
        noise_multiplier: float | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        clip_norm: float = 1.0,
        epochs: int = 1,
        batch_size: int = 256,
        learning_rate: float | None = None,
        regularization: float = 0.0,
        average: bool = True,
        noise: str = "batch",
        adjacency: str = "replace",
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        track_loss: bool = False,
        verbose: bool = False,
        simulation: Simulation | None = None,
    ) -> None:
        self.noise_multiplier = noise_multiplier
        self.epsilon = epsilon
        self.delta = delta
        self.clip_norm = clip_norm
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.average = average
        self.noise = noise
        self.adjacency = adjacency
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.track_loss = track_loss
        self.verbose = verbose
        self.simulation = simulation

    def fit(self, X: ArrayLike, y: ArrayLike, *, validation: tuple[ArrayLike, ArrayLike] | None = None) -> Self:  # noqa: N803
        """Train, and return the estimator.

        Parameters
        ----------
        X : array_like
            One row of features an example.
        y : array_like
            One label an example.
        validation : tuple of array_like, optional
            held-out examples and labels, which are not protected: for `loss_curve_`.
        """
        rows, names = checked_features(X), column_names(X)
        kinds, places = checked_labels(y, examples=len(rows), classes=self.classes)
        lengths = row_lengths(rows, intercept=self.fit_intercept)
        held_out = None
        if validation is not None:
            seen = checked_features(validation[0], features=rows.shape[1]).astype(np.float64, copy=False)
            held_out = seen, checked_labels(validation[1], examples=len(seen), classes=kinds)[1]
        run = self._run(len(rows))
        account = Account(run, delta=self.delta)
        scores = len(kinds) if len(kinds) > 2 else 1
        model = LinearModel(scores=scores, features=rows.shape[1], intercept=self.fit_intercept)
        rate = self._rate(run, model.flat.size)
        curve: list[tuple[int, float]] = []
        data = _Chunks(rows, lengths, places, scores)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused by name
            flat = self._train(model=model, data=data, account=account, rate=rate, held_out=held_out, curve=curve)
        if not np.isfinite(flat).all():
            raise NotFiniteError("the weights are not finite; lower the learning rate, or scale the features")

        self.classes_ = kinds
        self.n_features_in_ = rows.shape[1]
        self._names = names
        self.n_iter_ = account.passes
        self.noise_multiplier_ = run.noise_multiplier
        self.learning_rate_ = rate
        self.coef_ = flat[: model.weights.size].reshape(model.weights.shape).copy()
        self.intercept_ = flat[model.weights.size :].copy() if self.fit_intercept else np.zeros(scores)
        self.loss_curve_ = curve
        self._account = account
        return self

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of the last `fit`, computed when it is first asked for."""
        self._check_fitted()
        found = self._account.guarantee()
        assert found is not None, "a training has at least one pass"
        return found

    def _run(self, examples: int) -> Run:
        if (self.noise_multiplier is None) == (self.epsilon is None):
            raise ParameterError("give either noise_multiplier= or epsilon=, and not both")
        positive(clip_norm=self.clip_norm)
        fields: dict[str, Any] = {
            "examples": examples,
            "batch_size": min(whole(batch_size=self.batch_size), examples),
            "epochs": self.epochs,
            "noise": self.noise,
            "adjacency": self.adjacency,
            "releases": self._releases,
        }
        multiplier = self.noise_multiplier
        if self.epsilon is not None:
            multiplier = calibrate(epsilon=self.epsilon, delta=self.delta, **fields)
        assert multiplier is not None, "one of the two is given"
        return Run(noise_multiplier=multiplier, clip_norm=self.clip_norm, **fields)

    def _rate(self, run: Run, size: int) -> float:
        if self.learning_rate is not None:
            return positive(learning_rate=self.learning_rate)
        walk = run.sum_deviation / run.batch_size * math.sqrt(size * run.steps * run.epochs)
        return _REACH / max(run.clip_norm, run.clip_norm**2, walk)

    def _train(
        self,
        *,
        model: LinearModel,
        data: _Chunks,
        account: Account,
        rate: float,
        held_out: tuple[Floats, NDArray[np.intp]] | None,
        curve: list[tuple[int, float]],
    ) -> Floats:
        run = account.run
        key = key_of(self.simulation)
        noise, permutation = Noise(key=key), Permutation(examples=run.examples, batch_size=run.batch_size, key=key)
        margin = margin_for(run.batch_size, single=False, parameters=model.flat.size)
        penalty = non_negative(regularization=self.regularization)
        steps, done = run.steps * run.epochs, 0
        mean, averaged = np.zeros_like(model.flat), 0
        width = max(1, _CHUNK // max(run.batch_size * model.weights.shape[1], model.flat.size))
        every = max(1, steps // MARKS)
        if held_out or self.track_loss:
            width = min(width, every)

        def chunks() -> Iterator[tuple[int, int, list[NDArray[np.int64]]]]:
            for number in range(run.epochs):
                batches = permutation.batches(number)
                for first in range(0, run.steps, width):
                    yield number, first, batches[first : first + width]

        parts, standing = run.epochs * -(-run.steps // width), Standing(account, curve)
        for number, first, batches in progress(chunks(), total=parts, label=standing):
            rows, lengths, places, target, ends = data.gather(batches)
            if (held_out or self.track_loss) and done >= every * len(curve):
                curve.append((done, model.loss(*(held_out or (rows, places)))))
            start = 0
            for place, end in enumerate(ends):
                part = slice(start, end)
                total = model.clipped_sum(rows[part], lengths[part], target[:, part], clip_norm=run.clip_norm)
                if not math.isfinite(total.sum()):
                    raise NotFiniteError(_culprit(model, rows[part], target[:, part], batches[place]))
                if place == 0:
                    if first == 0:
                        account.charge()
                    table = noise.table(total.size, pass_number=number, first_step=first, steps=len(batches))
                step = noised(total, table[place], deviation=run.sum_deviation, margin=margin)
                now = falling_rate(rate, done, steps)
                step *= now / run.batch_size
                model.flat -= step
                if penalty:
                    model.weights /= 1 + now * penalty
                done += 1
                if self.average and 2 * done > steps:
                    mean += model.flat
                    averaged += 1
                start = end
            if self.verbose and first + len(batches) == run.steps:
                sys.stderr.write(f"{standing}\n")
        found = mean / averaged if self.average else model.flat
        if held_out:
            model.flat[:] = found
            curve.append((done, model.loss(*held_out)))
        return found

    def _scores(self, values: ArrayLike) -> Floats:
        self._check_fitted()
        names = column_names(values)
        if names and self._names and names != self._names:
            raise ParameterError(f"the columns must be those of fit, in their order: {', '.join(self._names)}")
        rows = checked_features(values, features=self.n_features_in_, name=type(self).__name__)
        row_lengths(rows, intercept=False)
        return rows @ self.coef_.T + self.intercept_

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the scores: a number an example for two classes, else a row."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the probabilities of the classes, a row an example."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            half = np.tanh(scores / 2) / 2
            return np.hstack([0.5 - half, 0.5 + half])
        probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each example."""
        scores = self._scores(X)
        places = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_.take(places)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:  # noqa: N803
        """Return the part of the examples whose class is predicted right."""
        truth, found = np.asarray(y), self.predict(X)
        if truth.shape != found.shape:
            raise ParameterError(f"y must have one label an example, {len(found)} in all, got shape {truth.shape}")
        return float((found == truth).mean())


def _culprit(model: LinearModel, rows: Floats, target: Floats, indices: NDArray[np.int64]) -> str:
    """Return the message about the example whose gradient is not finite."""
    bad = ~np.isfinite(model.residuals(rows, target)).all(axis=0)
    name = f"the gradient of example {indices[bad.argmax()]}" if bad.any() else "a sum of gradients"
    return f"{name} is not finite; lower the learning rate, or scale the features"
