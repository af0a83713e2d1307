"""A learning-rate scheduler that a training steps, and that its checkpoint remembers."""

from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from shoal.checks import known
from shoal.errors import ParameterError

__all__ = ["Schedule"]


class Schedule:
    """A scheduler of torch, stepped after every epoch or after every step; or none.

    The learning rate then is a function of how many steps were made, which everybody knows.

    Parameters
    ----------
    scheduler : LRScheduler or None
        Of torch.optim.lr_scheduler, over the optimizer of the training.
    optimizer : torch.optim.Optimizer
        That one.
    per : str
        "epoch" or "step".
    """

    def __init__(self, scheduler: LRScheduler | None, optimizer: Optimizer, per: str) -> None:
        self._scheduler, self._per = scheduler, known(("epoch", "step"), scheduler_per=per)
        if scheduler is None:
            return
        if not isinstance(scheduler, LRScheduler):
            raise ParameterError(
                f"scheduler must be one of torch.optim.lr_scheduler, got {type(scheduler).__name__}",
                parameter="scheduler",
            )
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ParameterError(
                "ReduceLROnPlateau goes by a loss, which tells of the data without noise; use a scheduler that goes by "
                "the number of steps, such as CosineAnnealingLR"
            )
        if scheduler.optimizer is not optimizer:
            raise ParameterError("the scheduler has another optimizer; make it from the one that make_private is given")

    @property
    def name(self) -> str | None:
        """What it is, for a checkpoint to compare."""
        return None if self._scheduler is None else f"{type(self._scheduler).__qualname__} per {self._per}"

    def after(self, *, last: bool) -> None:
        """Count a step, the last of its epoch or not."""
        if self._scheduler is not None and (last or self._per == "step"):
            self._scheduler.step()

    def state(self) -> dict[str, Any] | None:
        """Return what `restore` takes."""
        return None if self._scheduler is None else self._scheduler.state_dict()

    def restore(self, state: dict[str, Any] | None) -> None:
        """Go on from there."""
        if self._scheduler is not None and state is not None:
            self._scheduler.load_state_dict(state)
