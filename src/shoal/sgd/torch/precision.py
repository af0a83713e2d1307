"""Arithmetic that the margin of the noise pays for: what a model does is its own affair, norms and sums are not."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from shoal.errors import ParameterError

_SETTINGS = [
    "torch.backends",
    "torch.backends.cuda.matmul",
    "torch.backends.cudnn",
    "torch.backends.mkldnn",
    "torch.backends.mkldnn.conv",
    "torch.backends.mkldnn.matmul",
    "torch.backends.mkldnn.rnn",
]
"""What has a precision of its own since torch 2.9; convolutions of cudnn are `whole_convolutions`."""


def check_arithmetic(device: torch.device, *, fixed_shapes: bool) -> None:
    """Refuse autocast to float16, in which gradients vanish, as no scale of the loss is kept for them.

    Refuse a precision of products that was set by name too, for it cannot be put back to what it was.

    Where shapes depend on the data, whatever rounds more than float32 is refused: with one example more a library may
    compute all the others in another way, and they would all change by more than the noise pays for.
    """
    if not fixed_shapes:
        _check_whole(device)
    try:
        torch.get_float32_matmul_precision()
    except RuntimeError:
        raise ParameterError(
            "the precision of float32 was set by name (torch.backends.….fp32_precision), and sums of gradients have to "
            'be computed without it; use torch.set_float32_matmul_precision("high"), which does the same for the model'
        ) from None
    if torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type) != torch.bfloat16:
        raise ParameterError(
            f"autocast to {torch.get_autocast_dtype(device.type)} is not supported, for small gradients vanish in it; "
            f'use torch.autocast("{device.type}", torch.bfloat16)'
        )


def _check_whole(device: torch.device) -> None:
    why = "while the shapes of batches depend on the data (adjacency='add-remove', or collate=)"
    if torch.is_autocast_enabled(device.type):
        raise ParameterError(
            f"autocast rounds gradients more than the noise pays for {why}; call step() outside of it, or use "
            'adjacency="replace" without collate='
        )
    try:
        products = torch.get_float32_matmul_precision()
    except RuntimeError:  # it was set by names, which are looked at below
        products = "highest"
    if products != "highest":
        raise ParameterError(
            f"products of matrices are rounded more than the noise pays for {why}; use "
            'torch.set_float32_matmul_precision("highest"), or adjacency="replace" without collate='
        )
    for name in _SETTINGS:
        setting: object = torch
        for word in name.split(".")[1:]:
            setting = getattr(setting, word, None)
        if getattr(setting, "fp32_precision", "none") not in {"none", "ieee"}:
            raise ParameterError(
                f"float32 is rounded more than the noise pays for {why}; use "
                f'{name}.fp32_precision = "ieee", or adjacency="replace" without collate='
            )


@contextmanager
def whole_convolutions(device: torch.device) -> Iterator[None]:
    """Keep convolutions on a graphics processor from being rounded to ten bits, as they are by default, for a while."""
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


_NOTHING = nullcontext()


def not_rounded(device: torch.device) -> AbstractContextManager[object]:
    """Turn autocast off for a while."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else _NOTHING


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
    return _NOTHING
