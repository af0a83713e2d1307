"""Private logistic and softmax regression, trained by noisy SGD in numpy.

`PrivateLogisticRegression` has a trusted trainer, who adds the noise to sums of clipped gradients. In
`LocalLogisticRegression` every client clips and noises the gradient of its own example before it sends it: a shuffler
asks the clients in random order, each once an epoch, and hands their reports to the server without names. There is one
training loop (`Descent`) for both, and the `Run` says where the noise is added.

The scores are linear, and the gradient of an example is (p − y)·xᵀ, with the length |p − y|·|x|. So a batch is clipped
without any gradient of its own for an example, because the sum is a product of two matrices (`LinearModel`). A gradient
that is not finite counts as zero.
"""

import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.checks import non_negative, positive, whole
from shoal.errors import LabelsFromDataWarning, NotFiniteError, NotFiniteWarning, ParameterError
from shoal.mechanisms.coins import Simulation
from shoal.progress import progress
from shoal.sgd.account import Account, ProgressLabel
from shoal.sgd.estimator import (
    Estimator,
    are_conventional,
    checked_features,
    checked_labels,
    column_names,
    row_lengths,
)
from shoal.sgd.gradient_noise import Noise, key_of, margin_for, noised
from shoal.sgd.guarantees import Guarantee, calibrate
from shoal.sgd.run import Run
from shoal.sgd.sampler import Indices, usual_sampling

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

_CHUNK = 1 << 18
"""About how many numbers are gathered or drawn at once."""
_MARKS = 100
"""About how often the loss is noted."""
_DECAY = 20.0
"""The learning rate falls with 1/√(1 + 20·t), where t is the part of the steps that is done."""
_REACH = 4.0
"""How far the noise alone may carry the weights, where nothing is known of them."""


class LinearModel:
    """Scores that are linear in the features: one for two classes, else one for each class."""

    def __init__(self, *, scores: int, features: int, intercept: bool) -> None:
        size = scores * features
        self.flat = np.zeros(size + scores * intercept)
        self.weights = self.flat[:size].reshape(scores, features)
        self.constants = self.flat[size:, None] if intercept else None
        self._sum = np.empty_like(self.flat)
        self.not_finite = 0
        """How many gradients were not finite, and counted as zero; a number that tells of the data."""

    def scores(self, rows: Floats) -> Floats:
        """Return the scores, one column for each example."""
        scores: Floats = self.weights @ rows.T
        if self.constants is not None:
            scores += self.constants
        return scores

    def residuals(self, rows: Floats, target: Floats) -> Floats:
        """Return probabilities less truth, one column for each example; the target is 1 for the true class, else 0."""
        values = self.scores(rows)
        if len(values) == 1:
            values *= 0.5
            np.tanh(values, out=values)
            values *= 0.5
            values += 0.5
        else:
            values -= values.max(axis=0)
            np.exp(values, out=values)
            values /= values.sum(axis=0)
        values -= target
        return values

    def clipped_sum(self, rows: Floats, lengths: Floats, target: Floats, *, clip_norm: float) -> Floats:
        """Return the sum of the examples' gradients, each clipped to the norm; it holds until the next call.

        `lengths` has |x| of each example, with the 1 of the intercept, and `target` one
        column for each example: 1 for its class and 0 for others.
        """
        residuals = self._clipped_residuals(rows, lengths, target, clip_norm)
        size = self.weights.size
        np.matmul(residuals, rows, out=self._sum[:size].reshape(self.weights.shape))
        if self.constants is not None:
            residuals.sum(axis=1, out=self._sum[size:])
        return self._sum

    def clipped_gradients(self, rows: Floats, lengths: Floats, target: Floats, *, clip_norm: float) -> Floats:
        """Return every example's own gradient, clipped to the norm, one row for each; arguments as of `clipped_sum`."""
        residuals = self._clipped_residuals(rows, lengths, target, clip_norm).T
        size = self.weights.size
        gradients = np.empty((len(rows), self.flat.size))
        of_weights = gradients[:, :size].view()
        of_weights.shape = (len(rows), *self.weights.shape)  # unlike reshape, this never copies
        np.multiply(residuals[:, :, None], rows[:, None, :], out=of_weights)
        if self.constants is not None:
            gradients[:, size:] = residuals
        return gradients

    def _clipped_residuals(self, rows: Floats, lengths: Floats, target: Floats, clip_norm: float) -> Floats:
        residuals = self.residuals(rows, target)
        norms = np.abs(residuals[0]) if len(residuals) == 1 else np.sqrt((residuals * residuals).sum(axis=0))
        norms *= lengths
        if not math.isfinite(norms.sum()):
            bad = ~np.isfinite(norms)
            self.not_finite += int(bad.sum())
            residuals[:, bad] = 0.0  # and not a factor of 0, which would leave what is not a number
            norms[bad] = 0.0
        np.maximum(norms, clip_norm, out=norms)
        residuals *= np.divide(clip_norm, norms, out=norms)
        return residuals

    def loss(self, rows: Floats, labels: NDArray[np.intp]) -> float:
        """Return the mean of −ln of the probability of the true class, by its index."""
        scores = self.scores(rows)
        if len(scores) == 1:
            wrong = np.where(labels, -scores[0], scores[0])
            return float(np.logaddexp(0, wrong).mean())
        scores -= scores.max(axis=0)
        right = scores[labels, np.arange(len(labels))]
        return float((np.log(np.exp(scores).sum(axis=0)) - right).mean())


class _Chunk(NamedTuple):
    """The examples of some steps, one after the other, and where each step ends."""

    rows: Floats
    lengths: Floats
    labels: Labels
    target: Floats
    ends: list[int]


class TrainingData:
    """Rows and labels, gathered in the order of training some steps at a time.

    `lengths` has |x| of each example, with the 1 of an intercept; `labels` has the index of its
    class.
    """

    def __init__(self, rows: NDArray[Any], lengths: Floats, labels: Labels, scores: int) -> None:
        self._rows = rows
        self._lengths = lengths
        self._labels = labels
        self._classes = np.arange(scores)[:, None] if scores > 1 else np.ones((1, 1), np.intp)

    def gather(self, batches: list[Indices]) -> _Chunk:
        """Return the examples of these batches."""
        indices = np.concatenate(batches)
        labels = self._labels.take(indices)
        return _Chunk(
            self._rows.take(indices, axis=0).astype(np.float64, copy=False),
            self._lengths.take(indices),
            labels,
            (labels == self._classes).astype(np.float64),
            np.cumsum([len(batch) for batch in batches]).tolist(),
        )


class Descent:
    """Noisy gradient descent on a linear model, in place.

    The account is charged for every epoch before its first noise is drawn. `rate` is the
    learning rate of the first step, `penalty` the λ of λ/2·|weights|², and `average` whether
    the models of the second half of the steps are averaged.
    """

    def __init__(
        self, model: LinearModel, account: Account, *, key: bytes, rate: float, penalty: float, average: bool
    ) -> None:
        run = account.run
        self.model = model
        self.done = 0
        self._account = account
        self._run = run
        self._key = key
        self._rate = rate
        self._penalty = penalty
        self._average = average
        self._steps = run.steps * run.epochs
        self._sum = np.zeros_like(model.flat)
        self._averaged = 0
        self._noise = Noise(key=key)
        self._normals = np.empty((0, 0))
        self._vector = 0
        self._deviation = run.seen_multiplier * run.clip_norm
        # For as many as there can be, and not for as many as there are, which nobody may know.
        together = run.sampler.largest(run, account.delta) if run.sums_only else 1
        self._margin = margin_for(together, single=False, parameters=model.flat.size)

    @property
    def weights(self) -> Floats:
        """The result: the mean of the models of the second half of all steps, or the last model."""
        return self._sum / self._averaged if self._average else self.model.flat

    def train(
        self,
        data: TrainingData,
        *,
        curve: list[tuple[int, float]],
        held_out: tuple[Floats, Labels] | None = None,
        track_loss: bool = False,
        verbose: bool = False,
    ) -> Floats:
        """Make all epochs, and return the result.

        `curve` gets pairs of steps done and mean loss: of `held_out` rows and labels or,
        with `track_loss`, of the next examples.
        """
        run = self._run
        model = self.model
        features = model.weights.shape[1]
        vectors = 1 if run.sums_only else run.batch_size
        width = max(1, _CHUNK // max(run.batch_size * features, vectors * model.flat.size))
        every = max(1, self._steps // _MARKS)
        noted = held_out is not None or track_loss
        if noted:
            width = min(width, every)
        chunks = run.epochs * -(-run.steps // width)
        label = ProgressLabel(self._account, curve)
        for epoch, first, batches in progress(self._drawn(width), total=chunks, label=label):
            chunk = data.gather(batches)
            if noted and self.done >= every * len(curve) and (held_out or len(chunk.labels)):
                curve.append((self.done, model.loss(*(held_out or (chunk.rows, chunk.labels)))))
            if first == 0:
                self._vector = 0
            for total in self._noised_sums(chunk, epoch):
                self.step(total)
            if not math.isfinite(model.flat.sum()):  # which says no more than the noised sums do
                raise NotFiniteError(
                    f"the weights are not finite; {self._account.epochs:,} epochs had begun. Lower the "
                    "learning rate, or scale the features"
                )
            if verbose and first + len(batches) == run.steps:
                sys.stderr.write(f"{label}\n")
        if held_out is not None:
            model.flat[:] = self.weights
            curve.append((self.done, model.loss(*held_out)))
        return self.weights

    def _drawn(self, width: int) -> Iterator[tuple[int, int, list[Indices]]]:
        """Yield the epoch, the first step and the batches of some steps at a time."""
        for epoch in range(self._run.epochs):
            batches = self._run.batches(key=self._key, epoch=epoch)
            for first in range(0, self._run.steps, width):
                yield epoch, first, batches[first : first + width]

    def _noised_sums(self, chunk: _Chunk, epoch: int) -> Iterator[Floats]:
        """Yield the noised sum of every step, at the model as it is when the sum is asked for."""
        start = 0
        height = max(1, _CHUNK // self.model.flat.size)
        for step, end in enumerate(chunk.ends):
            if self._run.sums_only:
                ahead = min(height, len(chunk.ends) - step)
                yield self._noised(chunk, slice(start, end), epoch, ahead)[0]
            else:
                total = np.zeros_like(self.model.flat)
                for low in range(start, end, height):
                    part = slice(low, min(low + height, end))
                    ahead = min(height, chunk.ends[-1] - low)
                    total += self._noised(chunk, part, epoch, ahead).sum(axis=0)
                yield total
            start = end

    def _noised(self, chunk: _Chunk, part: slice, epoch: int, ahead: int) -> Floats:
        """Return the vectors of some examples, clipped and noised: one for their sum, or one for each of them.

        Noise is drawn for `ahead` vectors at once, for a sum without examples too. An epoch is charged before that.
        """
        rows = chunk.rows[part]
        lengths = chunk.lengths[part]
        target = chunk.target[:, part]
        if self._run.sums_only:
            vectors = self.model.clipped_sum(rows, lengths, target, clip_norm=self._run.clip_norm)[None]
        else:
            vectors = self.model.clipped_gradients(rows, lengths, target, clip_norm=self._run.clip_norm)
        if self._account.epochs == epoch:
            self._account.charge()
        count, size = vectors.shape
        if not len(self._normals):
            self._normals = self._noise.table(size, epoch=epoch, first_step=self._vector, steps=ahead)
        normals = self._normals[:count]
        self._normals = self._normals[count:]
        self._vector += count
        return noised(vectors, normals, deviation=self._deviation, margin=self._margin)

    def step(self, total: Floats) -> None:
        """Take a step along a noised sum. It is divided by b, however many examples are in it."""
        now = self._rate / math.sqrt(1 + _DECAY * self.done / self._steps)
        total *= now / self._run.batch_size
        self.model.flat -= total
        if self._penalty:
            self.model.weights /= 1 + now * self._penalty
        self.done += 1
        if self._average and 2 * self.done > self._steps:
            self._sum += self.model.flat
            self._averaged += 1


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(Estimator):
    """A classifier with linear scores; subclasses say where the noise is added, and describe the arguments."""

    noise: ClassVar[str]
    _releases: ClassVar[str]

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
        rows = checked_features(X)
        names = column_names(X)
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
        rate = self._rate(run, model.flat.size)
        penalty = non_negative(regularization=self.regularization)
        key = key_of(self.simulation)
        curve = list[tuple[int, float]]()
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
        self._account = account
        self._labels_from_data = from_data
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
        size = whole(batch_size=self.batch_size)
        run = Run(
            examples=examples,
            # How many examples there are is a secret where one may be added.
            batch_size=size if self.adjacency == "add-remove" else min(size, examples),
            noise_multiplier=self.noise_multiplier,
            clip_norm=self.clip_norm,
            epochs=self.epochs,
            adjacency=self.adjacency,
            sampling=self.sampling or usual_sampling(self.noise),
            public_steps=self.public_steps,
            noise=self.noise,
            releases=self._releases,
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
        truth = np.asarray(y)
        predicted = self.predict(X)
        if truth.shape != predicted.shape:
            raise ParameterError(
                f"y must have one label for each example, {len(predicted)} in all, got shape {truth.shape}", "y"
            )
        return float((predicted == truth).mean())


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(LinearClassifier):
    """Logistic regression by noisy SGD; softmax regression for more than two classes.

    It has scikit-learn's interface. Every epoch uses each example once, by default in a random step of its own.
    Gradients are clipped, the sum of each batch gets normal noise from a cipher, and the learning rate falls with
    1/√(1 + 20·t), where t is the part of the training that is done. `guarantee_` says what one `fit` spends; a second
    one spends as much again, and so does each of a search over settings. What was done to the data before, such as
    scaling by their own mean, is not in it.

    Parameters
    ----------
    noise_multiplier, epsilon : float, optional
        One of both: the standard deviation of the noise, in units of `clip_norm`, or ε, to which it is calibrated.
    delta : float
        δ of the guarantee.
    clip_norm : float
        The largest length of an example's gradient. Scale the features so that rows are about as long as this, or
        somewhat longer, with a scale that does not come from the data.
    epochs : int
        Epochs, passes over the data.
    batch_size : int
        Examples in a step, on average where the sampler has batches of varying size; all of them if there are fewer.
    learning_rate : float, optional
        Of the first step. None takes 4/max(C, C², W), where W is how far the noise alone would carry the weights at the
        rate 1: it does not look at the data.
    regularization : float
        λ of a penalty λ/2·‖weights‖² on the mean loss; the intercept is left out.
    average : bool
        Whether the model is the mean of all that came up in the second half of the steps, or the last.
    noise : str
        "batch", one draw for each step; "example", one for every slot of it, drawn at once.
    adjacency, public_steps : str, int, optional
        As of `Run`.
    sampling : str, optional
        As of `Run`. None is "allocation", whose ε is proved to be no larger than any that holds for a permutation; with
        noise="example", where it has nothing to hide among, it is "permutation".
    fit_intercept : bool
        Whether a constant is added to the scores.
    classes : array_like, optional
        All labels that can occur. By default they are the labels in `y`, and no guarantee protects which labels occur:
        unless they are 0 and 1, or False and True, `fit` warns (`LabelsFromDataWarning`) and `guarantee_` assumes that
        the set of labels is public.
    track_loss : bool
        Whether `loss_curve_` is kept without held-out data.
    verbose : bool
        Whether a line is written to standard error after every epoch.
    simulation : Simulation, optional
        Coins such as ``Simulation(seed=7)``, to repeat a training in simulations and tests; **never** for the data of
        real people.

    Attributes
    ----------
    classes_ : numpy.ndarray
        The labels, sorted.
    coef_ : Floats
        Weights, one row for each score.
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
    >>> from shoal import Simulation
    >>> X = np.random.default_rng(1).normal(size=(20_000, 3))
    >>> y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> model = PrivateLogisticRegression(noise_multiplier=4, classes=["no", "yes"], simulation=Simulation(seed=7))
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    """

    noise: str = "batch"  # type: ignore[misc]
    _releases = "sums"


@dataclass(kw_only=True, eq=False, repr=False)
class LocalLogisticRegression(LinearClassifier):
    """Logistic or softmax regression in the local model: a client for every row, all of them in memory.

    It has the interface of `PrivateLogisticRegression` without `noise`, and another promise: nobody but the client sees
    a gradient without noise. `guarantee_.local_epsilon` is what each report guarantees by itself, whoever sees it and
    with a name on it; `guarantee_.epsilon` is what all of them guarantee to whoever gets them from the shuffler.

    Parameters
    ----------
    batch_size : int
        How many clients get the same model; the last round of an epoch has those that are left.
    noise_multiplier : float, optional
        The standard deviation of the noise in a report, in units of `clip_norm`; this or `epsilon`.
    epsilon, delta, clip_norm, epochs, learning_rate, regularization, average : float, optional, float, int, bool
        As for `PrivateLogisticRegression`.
    adjacency, sampling, fit_intercept, classes, track_loss, verbose, simulation : str, bool or array_like, optional
        As there, too; the sampler is "permutation", if it is not given.
    public_steps : int, optional
        Not for the local model, whose rounds are cut from a permutation.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal import Simulation
    >>> X = np.random.default_rng(1).normal(size=(20_000, 3))
    >>> y = X[:, 0] > X[:, 1]
    >>> model = LocalLogisticRegression(noise_multiplier=2, simulation=Simulation(seed=7)).fit(X, y)
    >>> result = model.guarantee_
    >>> model.score(X, y) > 0.9, result.epsilon < 0.6, round(result.local_epsilon, 2)
    (True, True, 4.89)
    """

    noise = "example"
    _releases = "every-step"
