"""How a training stands: ε and the loss so far, as the label of its progress bar."""

import time
from collections.abc import Sequence

from shoal.digits import rounded_up
from shoal.sgd.account import Account

__all__ = ["Standing"]

_SHARE = 0.1
"""Of the time, for computing ε on the way."""


class Standing:
    """A text that is made when it is looked at: on a bar, which few trainings last long enough to show.

    Parameters
    ----------
    account : Account
        The passes that were begun.
    curve : sequence of tuple of (int, float)
        Pairs of steps done and mean loss, which grows.

    Examples
    --------
    >>> from shoal.sgd.run import Run
    >>> account, curve = Account(Run(examples=1, noise_multiplier=4), delta=1e-6), []
    >>> standing = Standing(account, curve)
    >>> str(standing)
    'training'
    >>> account.charge()
    >>> curve.append((0, 0.6931))
    >>> str(standing)
    'training, pass 1 of 1: ε = 2.26 (epochs fixed beforehand), loss 0.6931'
    """

    def __init__(self, account: Account, curve: Sequence[tuple[int, float]]) -> None:
        self._account, self._curve = account, curve
        self._start, self._cost = time.monotonic(), 0.0
        self._known = (0, 0.0)

    def __str__(self) -> str:
        """Return the text of this moment."""
        account = self._account
        if not account.passes:
            return "training"
        passes, epsilon = self._latest()
        loss = f", loss {self._curve[-1][1]:.4f}" if self._curve else ""
        after = f"pass {passes}; " if passes < account.passes else ""
        told = f"pass {account.passes} of {max(account.run.epochs, account.passes)}"
        return f"training, {told}: ε = {rounded_up(epsilon, 3)} ({after}epochs fixed beforehand){loss}"

    def _latest(self) -> tuple[int, float]:
        """Return a number of passes and their ε: of all that were begun, unless that would hold up the training."""
        account, now = self._account, time.monotonic()
        if self._known[0] != account.passes and self._cost <= _SHARE * (now - self._start):
            self._known = account.passes, account.spent(account.passes)
            self._cost += time.monotonic() - now
        return self._known
