"""Random generators of torch that must never be in one state twice."""

import hashlib
from typing import Any

import torch

from shoal.errors import ParameterError

__all__ = ["SEEDED_AGAIN", "GeneratorStates"]

SEEDED_AGAIN = (
    "a generator was seeded again, and then the noise may be the same, too, which leaves no "
    "guarantee. Seed once, before the first epoch, and after a checkpoint with another number"
)
_BYTES = 8


class GeneratorStates:
    """Hashes of the states in which a generator was seen; it is refused in one of them again."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        """A hash of every state."""

    def check(self, generator: Any, device: torch.device) -> None:
        """Remember the state of a generator; refuse one that it was in before.

        Parameters
        ----------
        generator : torch.Generator or None
            The generator, or None for the default one of the device.
        device : torch.device
            A device. Only default generators of the CPU and of CUDA are known; others are not
            checked.
        """
        if generator is None and device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            generator = torch.cuda.default_generators[index]
        elif generator is None and device.type == "cpu":
            generator = torch.default_generator
        elif generator is None:
            return
        state = hashlib.sha256(generator.get_state().numpy().tobytes()).digest()
        digest = int.from_bytes(state[:_BYTES], "big")
        if digest in self.seen:
            raise ParameterError(
                f"the random numbers of this step come from a state that their generator was in before: {SEEDED_AGAIN}"
            )
        self.seen.add(digest)
