"""The label of a training's progress bar: the epoch, ε and the loss so far."""

import time
from collections.abc import Sequence

from shoal.digits import rounded_up
from shoal.sgd.account import Account

__all__ = ["ProgressLabel"]

_SHARE = 0.1
"""Of the time, for computing ε on the way."""


class ProgressLabel:
    """A text that is composed when it is looked at: on a bar, which few trainings last long enough to show.

    Parameters
    ----------
    account : Account
        The accountant of the training.
    losses : sequence of tuple
        It grows; the loss is the last entry of the last tuple.

    Examples
    --------
    >>> from shoal.sgd.run import Run
    >>> account, losses = Account(Run(examples=1, noise_multiplier=4), delta=1e-6), []
    >>> label = ProgressLabel(account, losses)
    >>> str(label)
    'training'
    >>> account.charge()
    >>> losses.append((0, 0.6931))
    >>> str(label)
    'training, epoch 1 of 1: ε = 2.26 (epochs fixed beforehand), loss 0.6931 (not private)'
    """

    def __init__(self, account: Account, losses: Sequence[tuple[float, ...]]) -> None:
        self._account, self._losses = account, losses
        self._start, self._cost = time.monotonic(), 0.0
        self._known = (0, 0.0)

    def __str__(self) -> str:
        """Return the text of this moment."""
        account = self._account
        if not account.epochs:
            return "training"
        covered, epsilon = self._latest()
        notes = [f"epoch {covered}"] if covered < account.epochs else []
        if account.epochs < covered:
            notes.append(f"up to {covered:,} epochs")
        elif account.most is None:
            notes.append("epochs fixed beforehand")
        note = f" ({'; '.join(notes)})" if notes else ""
        loss = f", loss {self._losses[-1][-1]:.4f} (not private)" if self._losses else ""
        of = max(account.run.epochs, account.epochs)
        return f"training, epoch {account.epochs} of {of}: ε = {rounded_up(epsilon, 3)}{note}{loss}"

    def _latest(self) -> tuple[int, float]:
        """Return a number of epochs and their ε: of all that it covers, unless that would hold up the training."""
        account, now = self._account, time.monotonic()
        if self._known[0] != account.covered and self._cost <= _SHARE * (now - self._start):
            self._known = account.covered, account.epsilon
            self._cost += time.monotonic() - now
        return self._known
