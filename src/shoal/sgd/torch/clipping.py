"""Per-example clipping: the sum of a batch's gradients, each clipped to the same norm over all parameters together.

Gradients come from book-keeping where the model allows it. Otherwise torch.func differentiates the loss of one example,
and maps that over a batch (`PerExample`), for any model.

**Padding.** Where every batch has a size of its own, libraries choose and compile functions anew, memory falls into
pieces, and nothing recorded can be replayed. So on a graphics processor batches are filled up to sizes that are public:
b, what a batch is expected to have, and steps of about √b from it, which is about the deviation of a batch's size. What
they are filled with are copies of an example, whose weight is zero.

**Replaying.** A small model that is computed faster than it is launched waits for the central processor. What it does
can be recorded once (a CUDA graph) and replayed, if it is the same every time (`StepGraph`). That is known of chains of
torch's own layers that have no state, no random numbers and no hooks, at the same places in memory, for examples of the
same shapes.
"""

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from shoal.errors import MixedError, NotFiniteError, NotFiniteWarning, ParameterError
from shoal.sgd.sampler import Indices
from shoal.sgd.torch.book_keeping import BookKeeping, Part, UnfitError
from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.examples import Batch, Examples
from shoal.sgd.torch.kernels import clip_weights, takes
from shoal.sgd.torch.mixing import MIXED, Randomness, kept_rows, replaced, same_rows, same_sums, unchanged
from shoal.sgd.torch.precision import exact

_PLAIN = (
    nn.AdaptiveAvgPool2d,
    nn.AvgPool2d,
    nn.Conv1d,
    nn.Conv2d,
    nn.Flatten,
    nn.GELU,
    nn.GroupNorm,
    nn.Identity,
    nn.LayerNorm,
    nn.Linear,
    nn.MaxPool2d,
    nn.ReLU,
    nn.Sequential,
    nn.Sigmoid,
    nn.SiLU,
    nn.Tanh,
)
"""Layers whose output depends on their input and parameters alone."""
_LOSSES = (nn.BCEWithLogitsLoss, nn.CrossEntropyLoss, nn.L1Loss, nn.MSELoss, nn.NLLLoss)
_MOST_REPLAYED = 1 << 22
"""Larger inputs, or more parameters, keep a device busy by themselves."""
_SEEN = 3
"""A shape is recorded when it is seen so many times."""
_MOST_GRAPHS = 12
_MOST_SHAPES = 64
"""Batches of more shapes would be recorded again and again."""
Report = Tensor | tuple[Tensor, Tensor]
"""The sums of all squared norms and of all losses; or a table of two columns whose sums they are."""
_TRIAL = 3
_TRIALS = 4
_MADE_UP = 24
_OFTEN = 16
"""How many of 256 steps are tested."""
_MOST_SIZES = 8
"""How many numbers of examples are tested when they first come up: batches of varying size have very many."""
_REFUSED = (ArithmeticError, AssertionError, IndexError, RuntimeError, ValueError)
"""What a model may say to examples that were made up."""
_MOST_NUMBERS = 1 << 26
"""The most numbers that the gradients of all examples formed at once may have."""


class Sums(NamedTuple):
    """Gradients of examples, their weighted sums, and the sums of all squared norms and losses."""

    part: Part
    sums: list[Tensor]
    report: Report


class _Recorded(NamedTuple):
    graph: Any
    tensors: tuple[Tensor, ...]
    result: Sums


class StepGraph:
    """Records and replays the clipped sums of a model, where that is safe.

    `compute` returns the sums for inputs, the target last.
    """

    def __init__(self, model: nn.Module, loss: object, compute: Callable[[tuple[Tensor, ...]], Sums]) -> None:
        self._model = model
        self._compute = compute
        small = sum(parameter.numel() for parameter in model.parameters()) <= _MOST_REPLAYED
        self._safe = small and type(loss) in _LOSSES and not _hooked(loss) and self._plain()
        self._seen: dict[tuple[object, ...], int] = {}
        self._recorded: dict[tuple[object, ...], _Recorded] = {}

    def _plain(self) -> bool:
        return type(self._model) is nn.Sequential and all(
            type(module) in _PLAIN and "forward" not in module.__dict__ and not _hooked(module)
            for module in self._model.modules()
        )

    def sums(self, tensors: tuple[Tensor, ...]) -> Sums | None:
        """Return the sums for inputs, the target last, or None; the next call overwrites them."""
        if not (self._safe and tensors[0].is_cuda and tensors[0].numel() <= _MOST_REPLAYED and self._plain()):
            return None
        key = self._key(tensors)
        if key not in self._recorded:
            self._seen[key] = self._seen.get(key, 0) + 1
            if len(self._seen) > _MOST_SHAPES:
                self._safe = False  # batches of all sizes: hardly any would be replayed
            if self._seen[key] < _SEEN:
                return None
            if len(self._recorded) >= _MOST_GRAPHS:
                self._recorded.clear()
            self._recorded[key] = self._record(tensors)
        recorded = self._recorded[key]
        for own, given in zip(recorded.tensors, tensors, strict=True):
            own.copy_(given)
        recorded.graph.replay()
        return recorded.result

    def _key(self, tensors: tuple[Tensor, ...]) -> tuple[object, ...]:
        """Return all that must be the same for what was recorded to be what would be computed."""
        kind = tensors[0].device.type
        return (
            *((each.shape, each.dtype, each.device) for each in tensors),
            *(id(module) for module in self._model.modules()),
            *((each.data_ptr(), each.requires_grad) for each in self._model.parameters()),
            torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind),
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
            torch.are_deterministic_algorithms_enabled(),
        )

    def _record(self, tensors: tuple[Tensor, ...]) -> _Recorded:
        own = tuple(each.clone() for each in tensors)
        with torch.cuda.device(tensors[0].device):
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._compute(own)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                result = self._compute(own)
        return _Recorded(graph, own, result)


def _hooked(module: Any) -> bool:
    """Say whether something else is done when a module is called."""
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name, None) for name in names)


class Clipping:
    """Sums of clipped gradients: by book-keeping where the model allows it, else with every example's gradient formed.

    On a GPU, batches of other sizes than the expected `batch_size` are padded to few sizes near
    it. `virtual_batch_size` examples are computed at once; all of a batch, or as many as fit,
    if it is None.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        trained: dict[str, nn.Parameter],
        *,
        clip_norm: float,
        batch_size: int | None = None,
        virtual_batch_size: int | None = None,
        one_by_one: bool = False,
    ) -> None:
        self._model = model
        self._loss = loss
        self._trained = trained
        self._clip_norm = clip_norm
        self._virtual = virtual_batch_size
        self._expected = virtual_batch_size or batch_size
        self._pads = next(iter(trained.values())).is_cuda
        self._real: Tensor | None = None
        self._formed = PerExample(model, loss, trained)
        self._books: BookKeeping | None = None
        self._sizes: set[int] = set()
        self._mixed = self._warned = False
        self._fixed = _fixed_batch_norms(model)
        self._graphs: dict[float, StepGraph] = {}
        self.why = "it was asked for" if one_by_one else ""
        try:
            self._books = None if one_by_one else BookKeeping(model, loss, trained)
        except UnfitError as error:
            self.why = str(error)

    @property
    def route(self) -> str:
        """How gradients are clipped: "book-keeping" or "per-example"; `why` says why not the former."""
        return "per-example" if self._books is None else "book-keeping"

    def total(
        self,
        batch: Batch,
        *,
        scale: float = 1.0,
        room: list[Tensor] | None = None,
        draw: bytes | None = None,
    ) -> tuple[list[Tensor], float]:
        """Return the sum of clipped gradients times `scale`, parameter by parameter, and the mean loss of the batch.

        The sums are put into `room`, one tensor a parameter, if it is given; of a batch without examples they are zero,
        and its loss is NaN. A gradient that is not finite counts as zero: its example is left out, as a factor of zero
        would leave NaN. With random bytes as `draw`, one step in 16, and the first eight numbers of examples, are
        tested for examples that are mixed.

        Raises
        ------
        MixedError
            if the loss of an example, or its gradient, depends on others.
        """
        for name, module in self._fixed:
            if module.training:
                raise ParameterError(
                    f"{name} is a batch normalization that is now in training mode, where it mixes examples and "
                    "changes its statistics without noise; call eval() on it after train() on the model"
                )
        sums = [torch.empty_like(each) for each in self._trained.values()] if room is None else room
        losses = 0.0
        counted = 0
        first = True
        for group in batch.groups:
            start = 0
            end = len(group.indices)
            while start < end:
                size = self._virtual or (end if self._books else self._formed.most)
                rows = slice(start, min(start + size, end))
                start = rows.stop
                own = sums if first else [torch.empty_like(each) for each in sums]
                tensors = (*group.inputs, group.target)
                if size < end:
                    tensors = tuple([each[rows] for each in tensors])
                randomness = Randomness(tensors[-1].device, torch_alone=True)
                count = rows.stop - rows.start
                if self._pads:
                    tensors = self._padded(tensors, alone=len(batch.groups) == 1)
                part, report = self._summed(tensors, own, scale, draw)
                # All is on its way: a graphics processor is waited for once.
                length, loss = _read(report)
                if not math.isfinite(length):
                    loss, count = self._without(
                        part, tensors, group.indices[rows], own, scale=scale, randomness=randomness
                    )
                    if not count:
                        continue
                if not first:
                    for whole, more in zip(sums, own, strict=True):
                        whole.add_(more)
                losses = losses + loss
                counted = counted + count
                first = False
        if first:
            for each in sums:
                each.zero_()
        return sums, losses / counted if counted else math.nan

    def _padded(self, tensors: tuple[Tensor, ...], *, alone: bool) -> tuple[Tensor, ...]:
        """Return tensors of a public size, where that helps, and note how many rows are real.

        Groups of different shapes may be of an example each, and are left alone.
        """
        if self._books is None or self._expected is None or not alone:
            self._real = None
            return tensors
        if self._real is None:
            self._real = torch.zeros(1, dtype=torch.int32, device=tensors[0].device)
        self._real.fill_(len(tensors[0]))
        return padded(tensors, self._expected)

    def _without(
        self,
        part: Part,
        tensors: tuple[Tensor, ...],
        indices: Indices,
        own: list[Tensor],
        *,
        scale: float,
        randomness: Randomness,
    ) -> tuple[float, int]:
        """Put the clipped sum of those gradients that are finite into memory; return the sum of losses, and how many.

        Others stand in for the examples that are left out, with a weight of 0, and the same random numbers are drawn:
        so nothing changes for the rest. With fewer rows, libraries might compute them in another way.
        """
        out = torch.arange(len(part.squares), device=part.squares.device) >= len(indices)
        for attempt in range(2 * len(indices) + 1):
            finite = torch.isfinite(part.squares)
            if finite.all():  # at once, if only their sum is not
                weights, _ = self._weights(part, scale)
                part.totals(torch.where(out, 0, weights).to(own[0].dtype), own)
                loss = torch.where(out, 0, part.losses).sum()
                return float(loss), int((~out).sum())
            out |= ~finite
            self._warn(indices[out[: len(indices)].cpu().numpy()])
            kept = torch.nonzero(~out).flatten()
            if not len(kept):
                return 0.0, 0
            own_rows = torch.arange(len(out), device=out.device)
            chosen = torch.where(out, kept[attempt % len(kept)], own_rows)
            inputs, target = rows_of(tensors, chosen)
            if not attempt:  # zeros first, as a copy may not be finite with the random numbers of another row
                inputs = tuple(zeroed(value, out) for value in inputs)
            with randomness.again():
                part = self._part(inputs, target)
        raise NotFiniteError(
            f"the gradient of example {indices[int(kept[0])]} is finite or not by the random numbers of the model; "
            "look at the example for huge values, or use no dropout. Nothing was spent or changed"
        )

    def _summed(
        self, tensors: tuple[Tensor, ...], own: list[Tensor], scale: float, draw: bytes | None
    ) -> tuple[Part, Report]:
        """Put the clipped sum into memory; return the gradients, and what `_weights` returns of them."""
        replayed = tensors[0].is_cuda and self._books is not None and not self._mixed
        if replayed and not self._due(len(tensors[-1]), draw):
            graph = self._graphs.get(scale)
            if graph is None:
                graph = StepGraph(self._model, self._loss.given, functools.partial(self._computed, scale))
                self._graphs = {scale: graph}
            done = graph.sums(tensors)
            if done is not None:
                torch._foreach_copy_(own, done.sums)
                return done.part, done.report
        part = self._tested(tensors[:-1], tensors[-1], draw, own)
        weights, report = self._weights(part, scale)
        part.totals(weights.to(own[0].dtype), own)
        return part, report

    def _computed(self, scale: float, tensors: tuple[Tensor, ...]) -> Sums:
        assert self._books is not None
        part = self._books.part(tensors[:-1], tensors[-1])
        weights, report = self._weights(part, scale)
        sums = [torch.empty_like(each, memory_format=torch.contiguous_format) for each in self._trained.values()]
        part.totals(weights.to(sums[0].dtype), sums)
        return Sums(part, sums, report)

    def _due(self, size: int, draw: bytes | None) -> bool:
        """Say whether examples are tested for being mixed; formed one by one, an example meets no other."""
        if self._books is None or size == 1 or draw is None:
            return False
        return self._new(size) or draw[0] < _OFTEN

    def _new(self, size: int) -> bool:
        return size not in self._sizes and len(self._sizes) < _MOST_SIZES

    def _weights(self, part: Part, scale: float) -> tuple[Tensor, Report]:
        """Return the examples' weights, and the sums of all squared norms and all losses."""
        if part.squares.is_cuda and takes(part.squares):
            return clip_weights(part.squares, part.losses, clip_norm=self._clip_norm, scale=scale, real=self._real)
        weights = part.squares.rsqrt().mul_(self._clip_norm * scale).clamp_max_(scale)
        losses = part.losses
        if self._real is not None:
            there = torch.arange(len(losses), device=losses.device) < self._real
            weights = torch.where(there, weights, 0)
            losses = torch.where(there, losses, 0)
        return weights, (part.squares.sum(), losses.sum())

    def _tested(self, inputs: tuple[Tensor, ...], target: Tensor, draw: bytes | None, room: list[Tensor]) -> Part:
        """Return the gradients of these examples; where that is due, test that none depends on another.

        A sum is kept in `room` meanwhile.
        """
        if self._mixed:
            raise MixedError(MIXED)
        size = len(target)
        new = self._new(size)
        if draw is None or not self._due(size, draw):
            return self._part(inputs, target)
        generator = torch.Generator().manual_seed(int.from_bytes(draw[1:8], "big"))
        kept = kept_rows(size, generator)
        signs = torch.randint(2, (size,), generator=generator).to(target.device) * 2.0 - 1
        randomness = Randomness(target.device)
        others: list[tuple[Tensor, Tensor, Tensor]] = []
        with unchanged(self._model):
            for rows in (kept, ~kept) if new else (kept,):
                with randomness.again():
                    other = self._with_others((*inputs, target), rows, generator)
                if others:
                    torch._foreach_add_(room, self._sum(other, signs, rows))
                else:
                    self._sum(other, signs, rows, room)
                others.append((rows, other.losses, other.squares))
                del other
            part = self._part(inputs, target)
        same = all(
            same_rows(part.losses, losses, rows) and same_rows(part.squares, squares, rows)
            for rows, losses, squares in others
        )
        # Norms may stay where directions do not: sums with random signs show that.
        rows = torch.ones_like(kept) if new else kept
        if not (same and same_sums(self._sum(part, signs, rows), room, part.squares, rows)):
            self._mixed = True
            raise MixedError(MIXED)
        self._sizes.add(size)
        return part

    def _sum(self, part: Part, signs: Tensor, rows: Tensor, room: list[Tensor] | None = None) -> list[Tensor]:
        """Return the sum of the gradients of some rows with these signs, in the memory of `room` if it is given."""
        sums = [torch.empty_like(each) for each in self._trained.values()] if room is None else room
        weights = torch.where(rows.to(signs.device), signs, 0.0)
        part.totals(weights.to(sums[0].dtype), sums)
        return sums

    def _with_others(self, tensors: tuple[Tensor, ...], kept: Tensor, generator: torch.Generator) -> Part:
        """Return the gradients of a batch in which all but the kept examples are others."""
        try:
            *inputs, target = replaced(tensors, kept, generator, new=True)
            return self._part(tuple(inputs), target)
        except _REFUSED:
            *inputs, target = replaced(tensors, kept, generator, new=False)
            return self._part(tuple(inputs), target)

    def _part(self, inputs: tuple[Tensor, ...], target: Tensor) -> Part:
        if self._books is not None:
            try:
                return self._books.part(inputs, target)
            except UnfitError as error:
                self._books = None
                self.why = str(error)
        return self._formed.part(inputs, target)

    def _warn(self, indices: Indices) -> None:
        """Say once that gradients are not finite: to those who may see the data."""
        if len(indices) and not self._warned:
            self._warned = True
            warnings.warn(
                f"the gradient of example {indices[0]} is not finite, and counts as zero, as all such do: look at the "
                "example for missing or huge values, or make the learning rate smaller. This warning comes from the "
                "data without noise: it is not private",
                NotFiniteWarning,
                stacklevel=4,
            )

    def try_out(self, examples: Examples) -> None:
        """Refuse what mixes examples or keeps statistics; find out which route is right. Nothing is changed."""
        examples.check_collate()
        numbers = np.random.default_rng()
        generator = torch.Generator().manual_seed(int(numbers.integers(1 << 60)))
        for trial in range(_TRIALS):
            indices = numbers.integers(examples.count, size=_TRIAL) if trial else np.arange(_TRIAL) % examples.count
            # Examples of one shape, some of them twice if there are too few.
            group = examples.load(indices)[0]
            inputs, target = rows_of((*group.inputs, group.target), torch.arange(_TRIAL) % len(group.indices))
            with unchanged(self._model), Randomness(target.device).again():
                self._check_losses(inputs, target, generator)
                self._check_made_up(inputs, target, generator)
                if self._books is not None:
                    try:
                        self._books.check(inputs, target)
                    except UnfitError as error:
                        self._books = None
                        self.why = str(error)
                if self._books is None:
                    self._try_formed(inputs, target)

    def _check_losses(
        self,
        inputs: tuple[Tensor, ...],
        target: Tensor,
        generator: torch.Generator,
        weights: dict[str, Tensor] | None = None,
    ) -> None:
        """Refuse a model, or a loss, that makes something else of an example if the others are not the same."""
        randomness = Randomness(target.device)

        def losses(inputs: tuple[Tensor, ...], target: Tensor) -> Tensor:
            with randomness.again(), torch.no_grad():
                return self._loss(torch.func.functional_call(self._model, weights or {}, inputs), target)

        before = losses(inputs, target)
        half = kept_rows(len(target), generator)
        for kept, new in itertools.product((half, ~half), (False, True)):
            *others, other_target = replaced((*inputs, target), kept, generator, new=new)
            try:
                after = losses(tuple(others), other_target)
            except _REFUSED:
                if new:
                    continue
                raise
            if not same_rows(before, after, kept):
                raise MixedError(MIXED)
        if not same_rows(before, losses(inputs, target), half | ~half):
            raise MixedError(
                "the loss of an example is another one the second time, so the model remembers what it has seen, or "
                "has random numbers of its own; use layers that keep no statistics, and random numbers of torch"
            )

    def _check_made_up(self, inputs: tuple[Tensor, ...], target: Tensor, generator: torch.Generator) -> None:
        """Refuse the same for made-up examples and other weights: a few real ones may all be where it is flat."""
        inputs, target = rows_of((*inputs, target), torch.arange(_MADE_UP) % len(target))
        first = torch.arange(_MADE_UP) < _TRIAL
        *made, made_target = replaced((*inputs, target), first, generator, new=True)
        try:
            weights = {}
            for name, each in self._trained.items():
                noise = torch.randn(each.shape, generator=generator).to(each)
                weights[name] = each.detach() + noise * each.detach().abs().mean().clamp_min(0.1)
            self._check_losses(tuple(made), made_target, generator, weights)
        except MixedError:
            raise
        except _REFUSED:
            return

    def _try_formed(self, inputs: tuple[Tensor, ...], target: Tensor) -> None:
        try:
            self._formed.part(inputs, target)
        except ParameterError:
            raise
        except Exception as error:
            kinds = sorted({type(module).__name__ for module in self._model.modules() if not list(module.children())})
            raise ParameterError(
                f"torch.func cannot differentiate this model example by example ({str(error).splitlines()[0]}); its "
                f"layers are {', '.join(kinds)}. Recurrent layers, choices that depend on an example, and operations "
                "in place are the usual reasons: use others, torch.where, and operations out of place"
            ) from error


def _read(report: Report) -> tuple[float, float]:
    """Return the sum of squared norms, and that of losses."""
    if isinstance(report, tuple):
        return report[0].item(), report[1].item()
    length, loss = (sum(each) for each in zip(*report.tolist(), strict=True))
    return length, loss


class PerExample:
    """Gradients that are formed for every example: shared parameters and layers used twice are right as well."""

    def __init__(self, model: nn.Module, loss: Loss, trained: dict[str, nn.Parameter]) -> None:
        self._trained = trained
        self.most = max(1, _MOST_NUMBERS // max(1, sum(parameter.numel() for parameter in trained.values())))

        def one(parameters: dict[str, Tensor], target: Tensor, *inputs: Tensor) -> Tensor:
            output: Any = torch.func.functional_call(model, parameters, tuple(value.unsqueeze(0) for value in inputs))
            return loss(output, target.unsqueeze(0))[0]

        self._one = torch.func.grad_and_value(one)

    def part(self, inputs: tuple[Tensor, ...], target: Tensor) -> Part:
        """Return the gradients of these examples."""
        parameters = {name: parameter.detach() for name, parameter in self._trained.items()}
        each = torch.func.vmap(self._one, in_dims=(None, 0, *(0 for _ in inputs)), randomness="different")
        with sdpa_kernel(SDPBackend.MATH):  # the others cannot be mapped, and would be run one by one
            gradients, losses = each(parameters, target, *inputs)
        flat = [gradients[name].reshape(len(losses), -1) for name in self._trained]  # a parameter may be a number
        squares = torch.zeros_like(losses, dtype=flat[0].dtype)  # a loss may be shorter
        for gradient in flat:
            squares += (gradient * gradient).sum(1)

        def totals(weights: Tensor, room: list[Tensor]) -> None:
            with exact(weights.device):
                for gradient, memory in zip(flat, room, strict=True):
                    memory.copy_((weights.to(gradient.dtype) @ gradient).view_as(memory))

        return Part(squares, losses.detach(), totals)


def public_size(size: int, expected: int) -> int:
    """Return the least size that is not smaller, among those that differ from what is expected by whole steps."""
    step = 1 << ((expected - 1).bit_length() + 1) // 2
    return size + (expected - size) % step


def padded(tensors: tuple[Tensor, ...], expected: int) -> tuple[Tensor, ...]:
    """Return tensors with copies of their first row behind the others, of a public size."""
    size = len(tensors[0])
    more = public_size(size, expected) - size
    if not more:
        return tensors
    copies = [each[:1].expand(more, *each.shape[1:]) for each in tensors]
    return tuple(map(torch.cat, zip(tensors, copies, strict=True)))


def rows_of(tensors: tuple[Tensor, ...], indices: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return these rows of the inputs, and of the target, which comes last."""
    *inputs, target = (tensor[indices.to(tensor.device)] for tensor in tensors)
    return tuple(inputs), target


def zeroed(value: Tensor, rows: Tensor) -> Tensor:
    """Return an input with zeros in these rows; whole numbers stay, as zero may not be allowed."""
    if not value.is_floating_point():
        return value
    ones = [1] * (value.dim() - 1)
    return torch.where(rows.to(value.device).view(-1, *ones), 0, value)


def _fixed_batch_norms(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the batch normalizations of a checked model, which have to stay in eval mode, by name."""
    return [
        (name, module) for name, module in model.named_modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)
    ]
