"""How much noise Opacus has to be given for a true ε."""

from typing import Any

from shoal.checks import positive, probability, whole
from shoal.sgd.noise_calibration import calibrate
from shoal.sgd.opacus.coin_steps import coins_epsilon
from shoal.sgd.opacus.loader_draws import LoaderDraws, check_adjacency, coin_probability
from shoal.sgd.run import Run

__all__ = ["noise_multiplier_for"]

_MORE = 1 + 1e-5


def noise_multiplier_for(
    loader: Any,
    *,
    epsilon: float,
    delta: float,
    epochs: int,
    poisson_sampling: bool = True,
    adjacency: str = "zero-out",
) -> float:
    """Return a `noise_multiplier` for `make_private` with which the account has at most this ε.

    It is within 0.2 % of the smallest. `make_private_with_epsilon` does not know how batches are drawn.

    Parameters
    ----------
    loader : torch.utils.data.DataLoader
        The one that `make_private` is given.
    epsilon, delta : float
        The guarantee.
    epochs : int
        How many are made, to their end.
    poisson_sampling : bool
        As `make_private` is given it.
    adjacency : str
        "zero-out" or "replace".

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> loader = DataLoader(TensorDataset(torch.zeros(6_000, 1)), batch_size=64, shuffle=True)
    >>> round(noise_multiplier_for(loader, epsilon=2, delta=1e-6, epochs=1, poisson_sampling=False), 1)
    2.2
    """
    target, delta, epochs = positive(epsilon=epsilon), probability(delta=delta), whole(epochs=epochs)
    check_adjacency(adjacency)
    draws = LoaderDraws.of(loader)
    if draws.order is not None and not poisson_sampling:
        run = draws.run(noise_multiplier=None, epochs=epochs, adjacency=adjacency)
        return calibrate(run, epsilon=target, delta=delta).multiplier
    # Opacus makes coins of a loader: one batch of t has the rate 1/t, and an epoch about as many batches.
    rate = coin_probability(1 / draws.steps) if draws.order is not None else draws.rate
    steps = max(draws.steps, 1)
    run = Run(
        examples=draws.examples,
        batch_size=min(draws.batch_size, draws.examples),
        epochs=epochs,
        adjacency=adjacency,
        sampling="poisson",
        public_steps=steps,
    )
    noise = calibrate(run, epsilon=target, delta=delta).multiplier
    more = _MORE
    while coins_epsilon(rate, [(noise, steps * epochs)], delta=delta, adjacency=adjacency) > target:
        noise, more = noise * more, more * more
    return noise
