"""What kernels are written in: functions that Triton compiles for a graphics processor, and plain ones without it."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

__all__ = ["constexpr", "jit", "launch", "runs_on", "tl"]

_TRITON: Any = import_module("triton") if find_spec("triton") is not None else None

tl: Any = _TRITON and import_module("triton.language")
"""The language of kernels."""
constexpr: Any = tl.constexpr if tl else int
"""The type of an argument that a kernel is compiled for."""

_DIRECT = _TRITON is not None and _TRITON.__version__.startswith("3.6.")
_MOST_COMPILED = 1 << 12
_compiled: dict[tuple[Any, ...], Any] = {}


def jit(function: Callable[..., Any]) -> Any:
    """Make a function a kernel, which is compiled when it is first launched."""
    return _TRITON.jit(function) if _TRITON else function


def runs_on(tensor: Tensor) -> bool:
    """Say whether kernels can be launched where this tensor is."""
    return _TRITON is not None and tensor.is_cuda


def launch(
    kernel: Any, grid: tuple[int, int, int], tensors: tuple[Tensor | None, ...], *numbers: float | str, warps: int = 4
) -> None:
    """Launch so many programs of a kernel, which takes tensors and then numbers, on the device of its first tensor.

    Triton looks at every argument again at each launch, which takes longer than many kernels. What it compiled for the
    same numbers, and for tensors of the same kinds and alignment, is launched directly, if its version is known to
    take the arguments as they are.
    """
    assert tensors[0] is not None
    device = tensors[0].get_device()
    if torch.cuda.current_device() != device:
        with torch.cuda.device(device):
            launch(kernel, grid, tensors, *numbers, warps=warps)
        return
    if not _DIRECT:
        kernel[grid](*tensors, *numbers, num_warps=warps)
        return
    kinds = [each if each is None else (each.dtype, each.data_ptr() & 15) for each in tensors]
    key = (kernel, device, warps, numbers, *kinds)
    compiled = _compiled.get(key)
    if compiled is None:
        if len(_compiled) > _MOST_COMPILED:
            _compiled.clear()
        compiled = _compiled[key] = kernel[grid](*tensors, *numbers, num_warps=warps)
        return
    run = compiled.run
    if run.global_scratch_size or run.profile_scratch_size:
        compiled[grid](*tensors, *numbers)
        return
    stream = torch._C._cuda_getCurrentRawStream(device)
    flags = (run.launch_cooperative_grid, run.launch_pdl, None, None, compiled.packed_metadata, None, None, None)
    run.launch(*grid, stream, compiled.function, *flags, *tensors, *numbers)
