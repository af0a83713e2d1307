"""Training in the local model: every client clips and noises the gradient of its own example, and then sends it.

A shuffler asks the clients in random order, each once an epoch, and hands their reports to the server without names. A
round only fixes the model for some reports; what is seen is every report.
"""

from dataclasses import dataclass

from shoal.sgd.linear_classifier import LinearClassifier

__all__ = ["LocalLogisticRegression"]


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

    def _seen(self) -> dict[str, str]:
        return {"noise": "example", "releases": "every-step"}
