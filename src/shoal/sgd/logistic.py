"""Private logistic and softmax regression by a trusted trainer, who adds the noise to sums of clipped gradients."""

from dataclasses import dataclass

from shoal.sgd.linear_classifier import LinearClassifier

__all__ = ["PrivateLogisticRegression"]


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
    adjacency : str
        "replace" or "zero-out": what may happen to one example. Or "add-remove", with `public_steps`.
    sampling : str, optional
        How the steps of an epoch are drawn: "allocation", every example in a random step of its own, "permutation",
        "poisson", or another of `shoal.sgd.SAMPLERS`. The guarantee is that of the sampler that ran. None is
        "allocation", whose ε is proved to be no larger than any that holds for a permutation; with noise="example",
        where it has nothing to hide among, it is "permutation".
    public_steps : int, optional
        How many steps an epoch has; ⌈examples/batch_size⌉ if it is None. With adjacency="add-remove" it must be given,
        and not be computed from the number of examples, which is a secret.
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

    noise: str = "batch"

    def _seen(self) -> dict[str, str]:
        return {"noise": self.noise, "releases": "sums"}
