"""Ghost clipping by book-keeping: one backward pass gives the clipped sum, from inputs and output gradients."""

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.layers import PRODUCTS, Formed, Ghost, Share, fits, formed_rows, layer_of, separate, together
from shoal.sgd.torch.mixing import Randomness, same_rows
from shoal.sgd.torch.precision import exact, not_rounded

_NOTHING = nullcontext()
_MOST_KEPT = 1 << 22
"""If layers put out more numbers, their gradients are used as they come: to keep them all would take much memory."""


class UnfitError(Exception):
    """The model does something with its parameters that layers alone do not tell."""


class Part:
    """The gradients of some examples: their squared norms, losses, and how to put weighted sums of them into memory."""

    def __init__(self, squares: Tensor, losses: Tensor, totals: Callable[[Tensor, list[Tensor]], None]) -> None:
        self.squares = squares
        self.losses = losses
        self.totals = totals


class _Record:
    """What one layer saw."""

    def __init__(self, module: nn.Module) -> None:
        layer = layer_of(module)
        assert layer is not None
        self.module = module
        self.layer = layer
        self.expanded = False
        self.parameters = module._parameters
        self.short: list[Tensor] = []
        self.measure: Callable[[Tensor], None] | None = None
        self.kept = True
        self.clear()

    def clear(self) -> None:
        self.calls = 0
        self.version = 0
        self.value: Tensor | None = None
        self.output: Tensor | None = None
        self.output_version = 0
        self.gradient: Tensor | None = None
        self.shares: list[Share | Formed | Ghost] | None = None


class _Copies:
    """The parameters of a module that broadcasts them: each example gets a copy, whose gradient is the example's own.

    Gates, scales, class tokens and position embeddings are such parameters. That the module computes the same with
    copies, and that no example reaches another one's, is checked by `BookKeeping.check`.

    `own` has the numbers of its trained parameters, by name.
    """

    def __init__(self, module: nn.Module, own: dict[str, int]) -> None:
        self.module = module
        self.own = own
        self._axes: int | None = None
        self.clear()

    def clear(self) -> None:
        self.calls = 0
        self.copies: dict[str, Tensor] = {}
        self.gradients: dict[str, Tensor] = {}

    def forward(self, examples: int, *inputs: Any, **named: Any) -> Any:
        """Run the module with a copy of each parameter for each example."""
        self.calls += 1
        given = [each for each in (*inputs, *named.values()) if isinstance(each, Tensor)]
        axes = [each.dim() for each in given if each.shape[:1] == (examples,)]
        if self._axes is None:  # once: what was checked must not change where another axis is as long as the batch
            self._axes = max(axes, default=0)
        if self._axes not in axes:
            raise UnfitError("the first axis of a layer is not that of the examples")
        for name in self.own:
            parameter = self.module._parameters[name]
            assert parameter is not None
            self.copies[name] = self.module.__dict__[name] = _copied(parameter.detach(), examples, self._axes)
        try:
            return type(self.module).forward(self.module, *inputs, **named)
        finally:
            for name in self.own:
                self.module.__dict__.pop(name, None)


def _copied(parameter: Tensor, examples: int, axes: int) -> Tensor:
    """Return a copy of a parameter for each example along the first axis.

    A first axis of length 1, as that of a class token, is already the examples' axis. Any other parameter gets as many
    axes of length 1 after the examples' as its input of `axes` axes has more than it.
    """
    if parameter.dim() > 1 and len(parameter) == 1:
        return parameter.expand(examples, *parameter.shape[1:]).requires_grad_()
    ones = (1,) * (axes - 1 - parameter.dim())
    copied = parameter.reshape(1, *ones, *parameter.shape)
    return copied.expand(examples, *ones, *parameter.shape).requires_grad_()


class _InPlaceError(Exception):
    """The output of a layer was changed in place, so that its gradient is only known on the way back."""


class _Tap(torch.autograd.Function):
    """The identity, in place, that notes the gradient on its way back."""

    @staticmethod
    def forward(context: Any, output: Tensor, anchor: Tensor, record: _Record) -> Tensor:
        """Let through; the anchor makes all outputs depend on something that wants a gradient."""
        context.mark_dirty(output)
        context.record = record
        return output

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        """Note the gradient."""
        record = context.record
        record.gradient = gradient if record.gradient is None else record.gradient + gradient
        return gradient, None, None


class BookKeeping:
    """Gradients of a model whose parameters all belong to known layers, each used once."""

    def __init__(self, model: nn.Module, loss: Loss, trained: dict[str, nn.Parameter]) -> None:
        self._model = model
        self._loss = loss
        self._trained = list(trained.values())
        numbers = {id(parameter): number for number, parameter in enumerate(self._trained)}
        self._records: list[tuple[_Record, dict[str, int]]] = []
        self._copies: list[_Copies] = []
        self._taps = self._all = self._many = self._hooked = self._rounded = False
        self._short: list[Tensor] = []
        seen: set[int] = set()
        for module in model.modules():
            own = {name: numbers[id(p)] for name, p in module.named_parameters(recurse=False) if id(p) in numbers}
            if not own:
                continue
            if seen & set(own.values()):
                raise UnfitError("a parameter is shared by layers")
            seen |= set(own.values())
            if fits(module):
                self._records.append((_Record(module), own))
            elif "forward" not in module.__dict__ and type(module).__module__.partition(".")[0] != "torch":
                self._copies.append(_Copies(module, own))
            else:
                raise UnfitError(f"{type(module).__name__} is not a layer that book-keeping knows")

    def part(self, inputs: tuple[Tensor, ...], target: Tensor) -> Part:
        """Return the gradients of these examples."""
        losses = self._backward(inputs, target)
        shares: list[tuple[list[int], Share]] = []
        small: list[tuple[list[int], Formed]] = []
        ghosts: dict[object, list[tuple[list[int], Ghost]]] = {}
        with not_rounded(losses.device):
            for record, own in self._records:
                if record.gradient is not None:
                    self._measure(record, own, record.gradient)
                for share in record.shares or ():
                    numbers = [own[name] for name in share.names]
                    if isinstance(share, Share):
                        shares.append((numbers, share))
                    elif isinstance(share, Ghost):
                        ghosts.setdefault(self._joint(share), []).append((numbers, share))
                    elif losses.is_cuda and all(self._trained[number].dim() == 1 for number in numbers):
                        small.append((numbers, share))
                    else:
                        shares.append((numbers, share.share()))
                record.clear()
            for copies in self._copies:
                for name, gradient in copies.gradients.items():
                    shares.append(([copies.own[name]], formed_rows(name, gradient).share()))
                copies.clear()
            for group in ghosts.values():
                numbers = [number for numbers, _ in group for number in numbers]
                shares.append((numbers, together([ghost for _, ghost in group])))
        if small:  # many small gradients are as fast as one
            names = tuple(name for _, each in small for name in each.names)
            joint = Formed(names, torch.cat([each.rows for _, each in small], 1)).share()
            shares.append(([number for numbers, _ in small for number in numbers], joint))
        reached = {number for numbers, _ in shares for number in numbers}

        def totals(weights: Tensor, room: list[Tensor]) -> None:
            if len(reached) < len(room):
                for number in set(range(len(room))) - reached:
                    room[number].zero_()
            left: dict[int, list[Tensor]] = {}
            with exact(weights.device):
                for numbers, share in shares:
                    for total, more in share.into(weights, *[room[number] for number in numbers]) or ():
                        left.setdefault(id(total), [total]).append(more)
            if left:
                _add_rest(left)

        return Part(_added([share.squares for _, share in shares] or [torch.zeros_like(losses)]), losses, totals)

    @staticmethod
    def _joint(ghost: Ghost) -> object:
        """Return what is the same for layers that are computed together; what is recorded can have no new table."""
        return id(ghost) if torch.cuda.is_current_stream_capturing() else ghost.kind

    @staticmethod
    def _measure(record: _Record, own: dict[str, int], gradient: Tensor) -> None:
        """Compute what a layer contributes, on the way back, so that little is kept for later."""
        if record.value is None or record.value._version != record.version:
            return  # which is refused in the end
        value = record.value
        if value.dtype != gradient.dtype and value.is_floating_point():
            value = value.to(gradient.dtype)
        record.shares = list(record.layer.shares(record.module, value, gradient, own))
        record.value = None

    def check(self, inputs: tuple[Tensor, ...], target: Tensor) -> None:
        """Raise `UnfitError` unless the loss of the first example reaches only the first row of every layer."""
        try:
            self._backward(inputs, target, first=True)
        except (UnfitError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            if not self._copies:
                raise
            kinds = ", ".join(sorted({type(each.module).__name__ for each in self._copies}))
            raise UnfitError(f"{kinds} does not broadcast its parameters") from error
        for record, _ in self._records:
            if record.gradient is not None and torch.count_nonzero(record.gradient[1:]):
                raise UnfitError("the first axis of a layer is not that of the examples")
            record.clear()
        for copies in self._copies:
            if any(torch.count_nonzero(gradient[1:]) for gradient in copies.gradients.values()):
                raise UnfitError("a parameter is not used example by example")
            copies.clear()
        if self._copies or any(record.expanded for record, _ in self._records):
            self._check_losses(inputs, target)

    def _check_losses(self, inputs: tuple[Tensor, ...], target: Tensor) -> None:
        """Raise `UnfitError` if a loss is another one with what was expanded to the examples."""
        randomness = Randomness(target.device)
        with randomness.again():
            expanded = self._backward(inputs, target)
        with randomness.again(), torch.no_grad():
            plain = self._loss(self._model(*inputs), target)
        if not same_rows(plain, expanded, torch.ones(len(target), dtype=torch.bool)):
            raise UnfitError("a layer or a parameter is not used example by example")

    def _backward(self, inputs: tuple[Tensor, ...], target: Tensor, *, first: bool = False) -> Tensor:
        if not self._taps:
            try:
                return self._run(inputs, target, first)
            except _InPlaceError:
                self._taps = True  # a little slower, and right for all
        return self._run(inputs, target, first)

    def _run(self, inputs: tuple[Tensor, ...], target: Tensor, first: bool) -> Tensor:
        anchor = torch.zeros((), device=target.device, requires_grad=True) if self._taps else None
        hooked = self._many and anchor is None and not first
        if hooked or self._hooked:
            self._hook(hooked)
        rounded = torch.is_autocast_enabled(target.device.type)
        if rounded or self._rounded:
            self._round(target.device)
        with self._watched(anchor, target.shape[0]):
            losses = self._loss(self._model(*inputs), target)
            if not losses.requires_grad:
                raise UnfitError("the loss does not depend on the layers")
            reached, outputs, twice = self._reached()
            if anchor is not None:
                outputs = [anchor]
            named = [(each, name) for each in self._copies for name in each.copies]
            leaves = [each.copies[name] for each, name in named]
            if twice:
                raise UnfitError("a layer is used twice")
            chosen = torch.zeros_like(losses) if first else torch.ones_like(losses)
            if first:
                chosen[0] = 1
            if not hooked:
                self._many = sum([each.numel() for each in outputs]) > _MOST_KEPT
            with not_rounded(losses.device) if rounded else _NOTHING:
                wanted = [*outputs, *leaves, *self._trained]
                gradients = torch.autograd.grad(losses, wanted, chosen, allow_unused=True)
        own = len(outputs) + len(leaves)
        if gradients[own:] != (None,) * len(self._trained):
            raise UnfitError("a parameter is used outside of its layer")
        for (copies, name), gradient in zip(named, gradients[len(outputs) : own], strict=True):
            if gradient is not None:
                copies.gradients[name] = gradient
        if not hooked:
            for record, gradient in zip(reached, gradients, strict=False):
                record.gradient = gradient
        for record, _ in self._records:
            if record.value is not None and record.value._version != record.version:
                raise UnfitError("the input of a layer was changed in place")
        if hooked and not self._all and any(each.calls and each.shares is None for each, _ in self._records):
            self._all = True  # some layer is not used, or depends on something else that wants a gradient
            return self._run(inputs, target, first)
        return losses.detach()

    def _hook(self, hooked: bool) -> None:
        """Let layers compute what they contribute on the way back, or no longer."""
        for record, own in self._records:
            if hooked != self._hooked:
                record.measure = functools.partial(self._measure, record, own) if hooked else None
            record.kept = self._all or not hooked
        self._hooked = hooked

    def _reached(self) -> tuple[list[_Record], list[Tensor], bool]:
        """Return the layers whose outputs are kept, these outputs, and whether a layer was used twice."""
        reached = list[_Record]()
        outputs = list[Tensor]()
        twice = False
        for record, _ in self._records:
            if record.output is not None:
                if record.output._version != record.output_version:
                    raise _InPlaceError
                reached.append(record)
                outputs.append(record.output)
            twice = twice or record.calls > 1
        twice = twice or any(copies.calls > 1 for copies in self._copies)
        return reached, outputs, twice

    def _round(self, device: torch.device) -> None:
        """Round the weights that the layers meet under autocast, all at once and not one by one."""
        self._rounded = torch.is_autocast_enabled(device.type)
        met: list[tuple[_Record, list[Tensor]]] = []
        for record, _ in self._records:
            record.short = []
            weights = [each.detach() for each in record.module._parameters.values() if each is not None]
            if self._rounded and isinstance(record.module, PRODUCTS) and weights[0].dtype == torch.float32:
                met.append((record, weights))
        if not met:
            return
        if not self._short:
            dtype = torch.get_autocast_dtype(device.type)
            self._short = [torch.empty_like(each, dtype=dtype) for _, weights in met for each in weights]
        torch._foreach_copy_(self._short, [each for _, weights in met for each in weights])
        short = iter(self._short)
        for record, weights in met:
            record.short = [next(short) for _ in weights]

    @contextmanager
    def _watched(self, anchor: Tensor | None, examples: int) -> Iterator[None]:
        try:
            for record, _ in self._records:
                record.clear()
                record.module.__dict__["forward"] = functools.partial(_forward, record, anchor, examples)
            for copies in self._copies:
                copies.clear()
                copies.module.__dict__["forward"] = functools.partial(copies.forward, examples)
            yield
        except RuntimeError as error:
            if anchor is None:  # torch does not say by type that an output was changed in place; the second try tells
                raise _InPlaceError from error
            raise
        finally:
            for module in (*(record.module for record, _ in self._records), *(each.module for each in self._copies)):
                module.__dict__.pop("forward", None)


def _forward(record: _Record, anchor: Tensor | None, examples: int, value: Tensor) -> Tensor:
    if value.dim() and len(value) == 1 < examples:  # positions, say, which are the same for all examples
        value = value.expand(examples, *value.shape[1:])
        record.expanded = True
    if not separate(record.module, value) or value.shape[0] != examples:
        raise UnfitError("the first axis of a layer is not that of the examples")
    record.calls += 1
    if record.short:  # as autocast does; what the layer meets is what is noted
        value = value.to(record.short[0].dtype)
        weight, *rest = record.short
        bias = rest[0] if rest else None
    else:
        weight = record.parameters["weight"].detach()  # type: ignore[union-attr]
        bias = record.parameters.get("bias")
        bias = None if bias is None else bias.detach()
    record.value = value.detach()
    record.version = value._version
    output = record.layer.run(record.module, value, weight, bias)
    if not torch.is_grad_enabled():
        return output
    if anchor is None:
        output = output if output.requires_grad else output.requires_grad_()
        if record.measure is not None:  # it stays with what the output is now, whatever is done to it in place
            output.register_hook(record.measure)  # type: ignore[no-untyped-call]
        if record.kept or output.is_leaf:  # others depend on those; gradients that are asked for are kept to the end
            record.output = output
            record.output_version = output._version
        return output
    return _Tap.apply(output, anchor, record)  # type: ignore[no-any-return,no-untyped-call]


def _add_rest(left: dict[int, list[Tensor]]) -> None:
    """Add to every tensor those that come after it, to the first ones of all at once, and so on."""
    for parts in itertools.zip_longest(*(parts[1:] for parts in left.values())):
        both = [(each[0], part) for each, part in zip(left.values(), parts, strict=True) if part is not None]
        torch._foreach_add_([total for total, _ in both], [part for _, part in both])


def _added(squares: list[Tensor]) -> Tensor:
    """Return the sum of all squared norms, of which some are rows that are to be added up, on a graphics processor."""
    if squares[0].is_cuda and any(each.dim() == 2 for each in squares):
        return torch.cat([each.view(len(each), -1) for each in squares], 1).sum(1)
    return functools.reduce(torch.add, squares)
