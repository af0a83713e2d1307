"""Arithmetic that the margin of the noise pays for: float32 or float64, and nothing shorter."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from shoal.errors import ParameterError

__all__ = ["check_arithmetic", "exact"]


def check_arithmetic(device: torch.device) -> None:
    """Check that gradients are computed in the precision that the noise's margin pays for."""
    if torch.is_autocast_enabled(device.type):
        raise ParameterError("autocast rounds gradients more than the noise pays for; run step() outside of it")
    if torch.get_float32_matmul_precision() != "highest":
        raise ParameterError(
            "products of matrices are rounded more than the noise pays for; use "
            'torch.set_float32_matmul_precision("highest")'
        )


@contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """Keep convolutions on a graphics processor from being rounded to ten bits, as they are by default."""
    if device.type != "cuda":
        yield
        return
    convolutions = torch.backends.cudnn
    before = convolutions.allow_tf32
    convolutions.allow_tf32 = False
    try:
        yield
    finally:
        convolutions.allow_tf32 = before
