"""Arithmetic that the margin of the noise pays for: what a model does is its own affair, norms and sums are not."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from shoal.errors import ParameterError

__all__ = ["as_convolutions", "check_arithmetic", "exact", "not_rounded"]


def check_arithmetic(device: torch.device) -> None:
    """Refuse autocast to float16, in which gradients vanish, as no scale of the loss is kept for them."""
    if torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type) != torch.bfloat16:
        raise ParameterError(
            f"autocast to {torch.get_autocast_dtype(device.type)} is not supported, for small gradients vanish in it; "
            f'use torch.autocast("{device.type}", torch.bfloat16)'
        )


def not_rounded(device: torch.device) -> AbstractContextManager[object]:
    """Turn autocast off for a while."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


@contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def _exact(device: torch.device) -> Iterator[None]:
    with not_rounded(device), _matmul_precision("highest"):
        yield


def exact(device: torch.device) -> AbstractContextManager[object]:
    """Keep products of matrices in float32 from being rounded to ten bits (TF32), or to seven, for a while."""
    if torch.get_float32_matmul_precision() == "highest":
        return not_rounded(device)
    return _exact(device)


def as_convolutions(device: torch.device) -> AbstractContextManager[object]:
    """Let products of matrices on a graphics processor be rounded where convolutions may be, for a while."""
    if device.type == "cuda" and torch.backends.cudnn.allow_tf32 and torch.get_float32_matmul_precision() == "highest":
        return _matmul_precision("high")
    return nullcontext()
