"""The state of all random generators, saved and restored, so that the same numbers can be drawn again."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["Randomness"]


class Randomness:
    """The state of the random numbers of torch, numpy and Python at one moment.

    Parameters
    ----------
    device : torch.device
        On which torch draws, as well as on the processor.
    torch_alone : bool
        Leave numpy and Python out, which takes a fiftieth of the time.
    """

    def __init__(self, device: torch.device, *, torch_alone: bool = False) -> None:
        self._device, self._alone = device, torch_alone
        self._states = self._now()

    def _now(self) -> tuple[object, ...]:
        device = torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else None
        if self._alone:
            return torch.get_rng_state(), device
        return torch.get_rng_state(), device, np.random.get_state(), random.getstate()  # noqa: NPY002

    def _go_to(self, states: tuple[object, ...]) -> None:
        processor, device, *others = states
        torch.set_rng_state(processor)  # type: ignore[arg-type]
        if device is not None:
            torch.cuda.set_rng_state(device, self._device)  # type: ignore[arg-type]
        if others:
            np.random.set_state(others[0])  # type: ignore[arg-type] # noqa: NPY002
            random.setstate(others[1])  # type: ignore[arg-type]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Draw from that moment on, and afterwards as if nothing had been drawn."""
        before = self._now()
        self._go_to(self._states)
        try:
            yield
        finally:
            self._go_to(before)
