"""Time training steps of shoal, of plain torch and of Opacus on a graphics processor: `python -m benchmarks.gpu`.

All take turns in one process, with torch's own settings: products of matrices in float32, convolutions in TF32. A step
is loading the batch from the processor's memory, gradients, noise and the optimizer, and shoal's tests for examples
that are mixed. Opacus is left out where it is not installed.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from shoal.sgd import Run
from shoal.sgd.gradient_noise import new_key
from shoal.sgd.torch import make_private
from shoal.sgd.torch.step_noise import StepNoise

__all__ = ["Block", "ResNet", "Transformer", "gpu"]

_SETTING = {"noise_multiplier": 1.0, "max_grad_norm": 1.0}
_TURNS = 5
_NAMES = {
    "torch": "plain torch, not private",
    "hooks": "Opacus, hooks",
    "ghost": "Opacus, ghost clipping",
    "shoal": "shoal",
    "allocation": "shoal, batches vary in size",
    "shoal bf16": "shoal, autocast to bfloat16",
}

Step = Callable[[], object]


class _Residual(nn.Module):
    """Two convolutions of 3×3 with group norms, and what goes past them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.GroupNorm(32, after) for _ in range(2))
        self.past: nn.Module = nn.Identity()
        if before != after:
            self.past = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.GroupNorm(32, after))

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(f(x) + past(x))."""
        y = functional.relu(self.norms[0](self.first(x)))
        y = self.norms[1](self.second(y))
        return functional.relu(y + self.past(x))


class ResNet(nn.Sequential):
    """ResNet-18 with group norms, 11.2 million parameters, for images of 32×32.

    Parameters
    ----------
    large : bool
        Whether it begins as for large images, so that the blocks see 8×8 and not 32×32.
    """

    def __init__(self, *, large: bool = False) -> None:
        widths = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        blocks = [
            block
            for before, after, stride in widths
            for block in (_Residual(before, after, stride), _Residual(after, after, 1))
        ]
        super().__init__(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False) if large else nn.Conv2d(3, 64, 3, 1, 1, bias=False),
            nn.GroupNorm(32, 64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1) if large else nn.Identity(),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(512, 10),
        )


class Block(nn.Module):
    """Attention and a network of two layers, each after a layer norm and added to what it got."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.heads = heads
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return what goes to the next block."""
        query, key, value = self.joint(self.norms[0](x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attention = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(attention.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.norms[1](x))))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Six blocks of 512 over 8,192 words and 128 positions; 23.2 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(8192, 512), nn.Embedding(128, 512)
        self.blocks = nn.Sequential(*(Block(512, 8) for _ in range(6)))
        self.norm, self.head = nn.LayerNorm(512), nn.Linear(512, 10)

    def forward(self, words: Tensor) -> Tensor:
        """Return ten scores."""
        positions = torch.arange(words.shape[1], device=words.device).repeat(len(words), 1)
        x = self.blocks(self.words(words) + self.positions(positions))
        return self.head(self.norm(x).mean(1))  # type: ignore[no-any-return]


def _network() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


class _Case(NamedTuple):
    """A model, the shape of an example, the batch size, the steps of a turn and what the speeds must be."""

    title: str
    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    batch: int
    steps: int
    musts: dict[str, float]


_CASES = {
    "network": _Case("784-128-10", _network, (784,), 1024, 128, {"torch": 0.5, "opacus": 1.3}),
    "resnet": _Case("ResNet-18, group norms, 32×32", ResNet, (3, 32, 32), 512, 32, {"torch": 0.35, "opacus": 2.0}),
    "resnet-large": _Case(
        "ResNet-18, group norms, 32×32, begun as for large images",
        partial(ResNet, large=True),
        (3, 32, 32),
        512,
        32,
        {"torch": 0.35, "opacus": 2.0},
    ),
    "transformer": _Case(
        "transformer, 6 × 512, 128 tokens", Transformer, (128,), 64, 32, {"torch": 0.5, "opacus": 1.2, "bf16": 1.5}
    ),
}


def _data(case: _Case) -> tuple[Tensor, Tensor]:
    many = case.batch * case.steps
    words = case.model is Transformer
    shape = (many, *case.shape)
    inputs = torch.randint(8192, shape, device="cuda") if words else torch.randn(shape, device="cuda")
    return inputs, torch.randint(10, (many,), device="cuda")


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def _loop(case: _Case, model: nn.Module, optimizer: Any, loss: Any) -> Step:
    """Return one step after another over new orders of the data."""
    inputs, target = _data(case)

    def batches() -> Iterator[Tensor]:
        while True:
            yield from torch.randperm(len(target), device="cuda").view(-1, case.batch)

    order = batches()

    def step() -> None:
        rows = next(order)
        optimizer.zero_grad()
        loss(model(inputs.index_select(0, rows)), target.index_select(0, rows)).backward()
        optimizer.step()

    return step


def _plain(case: _Case) -> Step:
    model = case.model().cuda()
    return _loop(case, model, _sgd(model), nn.CrossEntropyLoss())


def _hooks(case: _Case) -> Step:
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(case.model().cuda())
    optimizer = DPOptimizer(_sgd(model), expected_batch_size=case.batch, **_SETTING)
    return _loop(case, model, optimizer, nn.CrossEntropyLoss())


def _ghost(case: _Case) -> Step:
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
        GradSampleModuleFastGradientClipping,
    )
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    model = GradSampleModuleFastGradientClipping(case.model().cuda(), max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(_sgd(model), expected_batch_size=case.batch, **_SETTING)
    return _loop(case, model, optimizer, DPLossFastGradientClipping(model, optimizer, nn.CrossEntropyLoss()))


def _shoal(
    case: _Case, context: Callable[[], AbstractContextManager[Any]] = nullcontext, sampling: str = "permutation"
) -> Step:
    model = case.model().cuda()
    data = TensorDataset(*_data(case))
    training = make_private(
        model,
        _sgd(model),
        data,
        # Batches of one size, as the others have, or of sizes that vary.
        Run(examples=len(data), batch_size=case.batch, noise_multiplier=1.0, sampling=sampling),
        loss=nn.CrossEntropyLoss(),
    )
    assert training.route == "book-keeping"

    def batches() -> Iterator[Any]:
        while True:
            yield from training.batches()

    order = batches()

    def step() -> None:
        with context():
            training.step(next(order))

    return step


def _allocation(case: _Case) -> Step:
    return _shoal(case, sampling="allocation")


def _half(case: _Case) -> Step:
    return _shoal(case, lambda: torch.autocast("cuda", torch.bfloat16))


_MAKERS: dict[str, Callable[[_Case], Step]] = {
    "torch": _plain,
    "hooks": _hooks,
    "ghost": _ghost,
    "shoal": _shoal,
    "allocation": _allocation,
    "shoal bf16": _half,
}


def _milliseconds(step: Step, steps: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / steps


def _compare(case: _Case, names: list[str]) -> None:
    """Print milliseconds a step and the peak of memory of every trainer, and shoal's speed over theirs."""
    steps: dict[str, Step] = {}
    peaks: dict[str, float] = {}
    for name in names:
        gc.collect()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        try:
            step = _MAKERS[name](case)
        except ModuleNotFoundError as error:
            if error.name != "opacus":
                raise
            print(f"{_NAMES[name]:<28} is not here to compare with")
            continue
        _milliseconds(step, 4)
        peaks[name] = (torch.cuda.max_memory_allocated() - before) / 2**30
        steps[name] = step
    spans: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(_TURNS):
        for name, step in steps.items():
            spans[name].append(_milliseconds(step, case.steps))
    medians = {name: statistics.median(each) for name, each in spans.items()}
    count = sum(parameter.numel() for parameter in case.model().parameters())
    print(f"\n{case.title}, b = {case.batch}, {count / 1e6:.1f} million parameters")
    print(f"{'':<28} {'ms/step':>8} {'least…most':>15} {'GiB':>6} {'shoal is':>9}")
    for name, middle in medians.items():
        span = f"{min(spans[name]):.2f}…{max(spans[name]):.2f}"
        print(
            f"{_NAMES[name]:<28} {middle:>8.2f} {span:>15} {peaks[name]:>6.2f} "
            f"{medians.get('shoal', float('nan')) and middle / medians['shoal']:>9.2f}"
        )
    best = min((medians[name] for name in ("hooks", "ghost") if name in medians), default=float("nan"))
    print(f"shoal / plain {medians['torch'] / medians['shoal']:.3f} (must ≥ {case.musts['torch']})")
    print(f"shoal / best of Opacus {best / medians['shoal']:.2f} (must ≥ {case.musts['opacus']})")
    if "bf16" in case.musts and "shoal bf16" in medians:
        print(f"bfloat16 / float32 {medians['shoal'] / medians['shoal bf16']:.2f} (must ≥ {case.musts['bf16']})")


def _noise() -> None:
    """Print how long hash and noise take."""
    noise = StepNoise(key=new_key())
    print("\nNoise by a cipher: hash of the sum, key, normal numbers, added and rounded")
    for count in (11_200_000, 23_200_000, 125_000_000):
        total = torch.randn(count, device="cuda")
        spans = []
        for step in range(12):
            torch.cuda.synchronize()
            start = time.perf_counter()
            noise.add(total, margin=0.0, unit=1e-6, epoch=0, step=step)
            torch.cuda.synchronize()
            spans.append(1e3 * (time.perf_counter() - start))
        must = "(must ≤ 1)" if count < 100_000_000 else ""
        print(f"{count / 1e6:>6.1f} million parameters {statistics.median(spans[2:]):>8.3f} ms {must}")


def gpu(names: list[str]) -> None:
    """Print the table, or say why there is none."""
    if not torch.cuda.is_available():
        print("benchmarks.gpu needs a graphics processor that torch sees (torch.cuda.is_available() is False); skipped")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    torch.manual_seed(1)
    _noise()
    for name in names or list(_CASES):
        case = _CASES[name]
        _compare(case, [trainer for trainer in _MAKERS if trainer != "shoal bf16" or "bf16" in case.musts])


if __name__ == "__main__":
    gpu(sys.argv[1:])
