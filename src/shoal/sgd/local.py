"""Training in the local model: every client clips and noises the gradient of its own example, and then sends it.

A shuffler asks the clients in random order, each once a pass, and hands their reports to the server without names. A
round only fixes the model for some reports; what is seen is every report.
"""

import math
import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.checks import non_negative
from shoal.errors import NotFiniteError
from shoal.progress import progress
from shoal.randomizers.coins import Simulation
from shoal.sgd.account import Account
from shoal.sgd.gradient_noise import Noise, key_of, margin_for, noised
from shoal.sgd.logistic import LinearModel, PrivateLogisticRegression, _Chunks
from shoal.sgd.permutation import Permutation
from shoal.sgd.progress_label import Standing
from shoal.sgd.rate import MARKS, falling_rate
from shoal.sgd.run import Run

__all__ = ["Clients", "LocalLogisticRegression", "Server", "Shuffler"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_NUMBERS = 1 << 18
"""About so many numbers of reports are made at once."""
_MARGIN = margin_for(1, single=False)


class Clients:
    """Some clients, each with one example: they work on their own, and are together here for speed only.

    Parameters
    ----------
    rows : Floats
        The features, a row a client.
    lengths : Floats
        |x| of each, with the 1 of an intercept.
    target : Floats
        A column a client: 1 for its class and 0 for others.

    Examples
    --------
    >>> model = LinearModel(scores=1, features=2, intercept=False)
    >>> clients = Clients(np.array([[3.0, 4.0], [0.6, 0.0]]), np.array([5.0, 0.6]), np.array([[1.0, 0.0]]))
    >>> clients.gradients(model, clip_norm=1).round(2).tolist()
    [[-0.6, -0.8], [0.3, 0.0]]
    """

    def __init__(self, rows: Floats, lengths: Floats, target: Floats) -> None:
        self._rows, self._lengths, self._target = rows, lengths, target

    def gradients(self, model: LinearModel, *, clip_norm: float) -> Floats:
        """Return each client's own gradient, clipped to the norm: a row a client."""
        residuals = model.residuals(self._rows, self._target)
        norms = np.sqrt(np.einsum("kc,kc->c", residuals, residuals)) * self._lengths
        residuals *= clip_norm / np.maximum(norms, clip_norm)
        found = np.empty((len(self._rows), model.flat.size))
        size = model.weights.size
        np.multiply(residuals.T[:, :, None], self._rows[:, None, :], out=_shaped(found[:, :size], model))
        if model.constants is not None:
            found[:, size:] = residuals.T
        return found


def _shaped(part: Floats, model: LinearModel) -> Floats:
    """Return a view of the weights' part of gradients: client, score, feature."""
    view = part.view()
    view.shape = (len(part), *model.weights.shape)  # unlike reshape, this never copies
    return view


class Shuffler:
    """Asks every client once a pass, in an order that is uniformly random, fresh and secret.

    The reports of a round come in that order, and without names: nobody can tell whose a report is.

    Parameters
    ----------
    clients : int
        n.
    round_size : int
        How many clients get the same model; the last round of a pass has those that are left.
    key : bytes
        32 secret bytes.

    Examples
    --------
    >>> rounds = Shuffler(clients=10, round_size=4, key=bytes(32)).rounds(0)
    >>> [len(who) for who in rounds], sorted(np.concatenate(rounds).tolist())
    ([4, 4, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    def __init__(self, *, clients: int, round_size: int, key: bytes) -> None:
        # One batch of all: no slot is empty here, for a short last round tells nothing of who is in it.
        self._order = Permutation(examples=clients, batch_size=clients, key=key)
        self._size = round_size

    def rounds(self, number: int) -> list[Indices]:
        """Return who is asked in each round of a pass, counted from 0."""
        (order,) = self._order.batches(number)
        return [order[start : start + self._size] for start in range(0, len(order), self._size)]


class Server:
    """Adds reports to the model: it sees nothing else.

    Parameters
    ----------
    model : LinearModel
        To be trained, in place.
    run : Run
        What is done.
    rate : float
        The learning rate of the first round.
    penalty : float
        λ of a penalty λ/2·|weights|².
    """

    def __init__(self, model: LinearModel, run: Run, *, rate: float, penalty: float) -> None:
        self.model, self.done = model, 0
        self._run, self._rate, self._penalty = run, rate, penalty
        self._sum, self._averaged = np.zeros_like(model.flat), 0
        self._total = np.zeros_like(model.flat)

    def add(self, reports: Floats) -> None:
        """Take reports of this round."""
        self._total += reports.sum(axis=0)

    def step(self) -> None:
        """End the round. A short one takes a shorter step: the sum is divided by the size of a full one."""
        rounds = self._run.steps * self._run.epochs
        now = falling_rate(self._rate, self.done, rounds)
        self.model.flat -= self._total * (now / self._run.batch_size)
        if self._penalty:
            self.model.weights /= 1 + now * self._penalty
        self._total[:] = 0
        self.done += 1
        if 2 * self.done > rounds:
            self._sum += self.model.flat
            self._averaged += 1

    @property
    def mean(self) -> Floats:
        """The mean of the models of the second half of all rounds."""
        return self._sum / self._averaged


class LocalLogisticRegression(PrivateLogisticRegression):
    """Logistic or softmax regression in the local model: a client for every row, all of them in memory.

    It has the manners of `PrivateLogisticRegression`, and another promise: nobody but the client sees a gradient
    without noise. `guarantee_.local_epsilon` is what each report guarantees by itself, whoever sees it and with a name
    on it; `guarantee_.epsilon` is what all of them guarantee to whoever gets them from the shuffler.

    Parameters
    ----------
    batch_size : int
        How many clients get the same model; the last round of a pass has those that are left.
    noise_multiplier : float, optional
        The standard deviation of the noise in a report, in units of `clip_norm`; this or `epsilon`.
    epsilon, delta, clip_norm, epochs, learning_rate, regularization, average : float, optional, float, int, bool
        As for `PrivateLogisticRegression`.
    adjacency, fit_intercept, classes, track_loss, verbose, simulation : str, bool or array_like, optional
        As there, too.

    Examples
    --------
    >>> X = np.random.default_rng(1).normal(size=(20_000, 3))
    >>> y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> model = LocalLogisticRegression(noise_multiplier=2, simulation=Simulation(seed=7)).fit(X, y)
    >>> found = model.guarantee_
    >>> model.score(X, y) > 0.9, found.epsilon < 0.6, round(found.local_epsilon, 2)
    (True, True, 4.89)
    """

    _releases = "every-step"

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
        adjacency: str = "replace",
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        track_loss: bool = False,
        verbose: bool = False,
        simulation: Simulation | None = None,
    ) -> None:
        super().__init__(
            noise_multiplier=noise_multiplier,
            epsilon=epsilon,
            delta=delta,
            clip_norm=clip_norm,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            regularization=regularization,
            average=average,
            noise="example",
            adjacency=adjacency,
            fit_intercept=fit_intercept,
            classes=classes,
            track_loss=track_loss,
            verbose=verbose,
            simulation=simulation,
        )

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
        run, key = account.run, key_of(self.simulation)
        deviation = run.noise_multiplier * run.clip_norm
        noise = Noise(key=key)
        shuffler = Shuffler(clients=run.examples, round_size=run.batch_size, key=key)
        server = Server(model, run, rate=rate, penalty=non_negative(regularization=self.regularization))
        every = max(1, run.steps * run.epochs // MARKS)
        height = max(1, _NUMBERS // model.flat.size)
        width = max(1, height // run.batch_size)
        if held_out or self.track_loss:
            width = min(width, every)

        def groups() -> Iterator[tuple[int, int, list[Indices]]]:
            for number in range(run.epochs):
                rounds = shuffler.rounds(number)
                for first in range(0, run.steps, width):
                    yield number, first * run.batch_size, rounds[first : first + width]

        label = Standing(account, curve)
        for number, first, group in progress(groups(), total=run.epochs * -(-run.steps // width), label=label):
            rows, lengths, places, target, ends = data.gather(group)
            if (held_out or self.track_loss) and server.done >= every * len(curve):
                curve.append((server.done, model.loss(*(held_out or (rows, places)))))
            for who, end in zip(group, ends, strict=True):
                start = end - len(who)
                for low in range(start, end, height):
                    part = slice(low, min(low + height, end))
                    clients = Clients(rows[part], lengths[part], target[:, part])
                    gradients = clients.gradients(model, clip_norm=run.clip_norm)
                    if not math.isfinite(gradients.sum()):
                        raise NotFiniteError(_culprit(gradients, who[low - start :], account.passes))
                    if first + low == 0:
                        account.charge()
                    if low % height == 0:  # a group has at most `height` clients, or is one large round
                        many = min(height, ends[-1] - low)
                        normals = noise.table(model.flat.size, pass_number=number, first_step=first + low, steps=many)
                    own = normals[low % height :][: len(gradients)]
                    server.add(noised(gradients, own, deviation=deviation, margin=_MARGIN))
                server.step()
            if self.verbose and first + ends[-1] == run.examples:
                sys.stderr.write(f"{label}\n")
        found = server.mean if self.average else model.flat
        if held_out:
            model.flat[:] = found
            curve.append((server.done, model.loss(*held_out)))
        return found


def _culprit(gradients: Floats, who: Indices, passes: int) -> str:
    client = who[np.isfinite(gradients).all(axis=1).argmin()]
    told = f"; {passes} pass{'es' * (passes > 1)} had begun" if passes else "; nothing was spent"
    return f"the gradient of client {client} is not finite{told}: lower the learning rate, or scale the features"
