"""Models whose gradients can be got wrong, each with examples for it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

BOOKS, FORMED = "book-keeping", "per-example"


class Twice(nn.Module):
    """A layer that is used twice: norms of its two gradients do not add up."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(torch.tanh(self.layer(x))))  # type: ignore[no-any-return]


class Tied(nn.Module):
    """One weight in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 5), nn.Linear(5, 9)
        self.head.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.words(x).mean(1))  # type: ignore[no-any-return]


class Borrowed(nn.Module):
    """A weight that is used outside of its layer too."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 5)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(self.words(x).mean(1), self.words.weight)


class Own(nn.Module):
    """Parameters of its own: a scale, a gate that is a number, and one that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.scale, self.gate = nn.Parameter(torch.ones(3)), nn.Parameter(torch.tensor(0.5))
        self.idle = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(x)) * self.scale * self.gate


class Token(nn.Module):
    """A class token and positions that all examples share, as a vision transformer has them."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.places = nn.Parameter(torch.randn(1, 1, 4)), nn.Parameter(torch.randn(1, 4, 4))
        self.rows, self.head = nn.Embedding(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        whole = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.places
        rows = self.rows(torch.arange(4, device=x.device)[None])
        return self.head(torch.tanh(whole * rows).mean(1))  # type: ignore[no-any-return]


class Matrix(nn.Module):
    """A parameter of its own that is not broadcast, and a gate: only one by one are they right."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.gate = nn.Parameter(torch.randn(6, 3)), nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.weight) * self.gate


class Turned(nn.Module):
    """A layer whose input has the examples on its second axis."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.layer(x.transpose(0, 1))).mean(0))  # type: ignore[no-any-return]


class Places(nn.Module):
    """Rows of an embedding that all examples share."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(9, 5), nn.Embedding(3, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        places = self.places(torch.arange(x.shape[1], device=x.device))
        return self.head(torch.tanh(self.words(x) + places).mean(1))  # type: ignore[no-any-return]


class Residual(nn.Module):
    """Changes in place of what layers return, a layer without use, and one whose output is added twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.idle = nn.Linear(6, 6), nn.Linear(6, 3), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        y.mul_(2).sub_(1)
        y.relu_()
        z: Tensor = self.two(x + y + y)
        z += 1
        return z


class Encoder(nn.Module):
    """Attention."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).mean(1)  # type: ignore[no-any-return]


class Mean(nn.Module):
    """The mean over all axes but the first and the last."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1, -2).mean(1)


class Case(NamedTuple):
    """A model, the shape of an example, how its gradients are clipped; words are whole numbers."""

    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    route: str
    words: bool = False

    def make(self, dtype: torch.dtype, examples: int) -> tuple[nn.Module, Tensor, Tensor]:
        """Return the model, inputs and targets."""
        torch.manual_seed(5)
        model = self.model().to(dtype)
        shape = (examples, *self.shape)
        inputs = torch.randint(0, 9, shape) if self.words else torch.randn(shape, dtype=dtype)
        return model, inputs, torch.randint(0, 3, (examples,))


def _chain(*layers: Any) -> Callable[[], nn.Module]:
    """Return what makes a chain of layers; a layer is (type, arguments, options) or has no parameters."""
    return lambda: nn.Sequential(*(make() for make in layers))


def _frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    model[0].requires_grad_(False)
    model[2].bias.requires_grad_(False)
    return model


def _image(make: Callable[[], nn.Module], channels: int) -> Callable[[], nn.Module]:
    return _chain(make, nn.Tanh, lambda: nn.AdaptiveAvgPool2d(2), nn.Flatten, lambda: nn.Linear(4 * channels, 3))


CASES: dict[str, Case] = {
    "linear": Case(_chain(lambda: nn.Linear(6, 5), nn.ReLU, lambda: nn.Linear(5, 3, bias=False)), (6,), BOOKS),
    "linear, positions, formed": Case(
        _chain(lambda: nn.Linear(3, 4), nn.Tanh, Mean, lambda: nn.Linear(4, 3)), (7, 3), BOOKS
    ),
    "linear, positions, paired": Case(
        _chain(lambda: nn.Linear(40, 30), nn.Tanh, Mean, lambda: nn.Linear(30, 3)), (2, 40), BOOKS
    ),
    "linear, two axes": Case(_chain(lambda: nn.Linear(3, 4), nn.Tanh, Mean, lambda: nn.Linear(4, 3)), (2, 3, 3), BOOKS),
    "conv": Case(_image(lambda: nn.Conv2d(2, 3, 3), 3), (2, 8, 8), BOOKS),
    "conv, stride": Case(_image(lambda: nn.Conv2d(2, 3, (3, 2), stride=(2, 3), padding=(1, 2)), 3), (2, 8, 9), BOOKS),
    "conv, dilation": Case(_image(lambda: nn.Conv2d(2, 3, 3, dilation=(1, 2), padding=1), 3), (2, 8, 8), BOOKS),
    "conv, groups": Case(_image(lambda: nn.Conv2d(4, 6, 3, groups=2), 6), (4, 6, 6), BOOKS),
    "conv, depthwise": Case(_image(lambda: nn.Conv2d(4, 4, 3, groups=4, bias=False), 4), (4, 6, 6), BOOKS),
    "conv, same": Case(_image(lambda: nn.Conv2d(2, 3, (4, 3), padding="same"), 3), (2, 6, 6), BOOKS),
    "conv, paired": Case(_image(lambda: nn.Conv2d(16, 32, 3), 32), (16, 4, 4), BOOKS),
    "conv, circular": Case(
        _image(lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), 3), (2, 6, 6), FORMED
    ),
    "conv of one axis": Case(
        _chain(
            lambda: nn.Conv1d(2, 4, 3, stride=2, padding=2, dilation=2, groups=2), nn.Flatten, lambda: nn.Linear(20, 3)
        ),
        (2, 9),
        BOOKS,
    ),
    "embedding": Case(
        _chain(lambda: nn.Embedding(9, 5, padding_idx=2), Mean, lambda: nn.Linear(5, 3)), (6,), BOOKS, True
    ),
    "embedding of one word": Case(
        _chain(lambda: nn.Embedding(9, 5), nn.Tanh, lambda: nn.Linear(5, 3)), (), BOOKS, True
    ),
    "layer norm": Case(_chain(lambda: nn.Linear(6, 5), lambda: nn.LayerNorm(5), lambda: nn.Linear(5, 3)), (6,), BOOKS),
    "layer norm, positions": Case(
        _chain(lambda: nn.LayerNorm((3, 4)), lambda: nn.LayerNorm(4, bias=False), Mean, lambda: nn.Linear(4, 3)),
        (2, 3, 4),
        BOOKS,
    ),
    "group norm": Case(_image(lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4)), 4), (2, 6, 6), BOOKS),
    "mixed": Case(
        _chain(
            lambda: nn.Embedding(9, 6),
            lambda: nn.LayerNorm(6),
            lambda: nn.Conv1d(5, 4, 3),
            lambda: nn.GroupNorm(2, 4),
            lambda: nn.ReLU(inplace=True),
            lambda: nn.Linear(4, 4),
            nn.Flatten,
            lambda: nn.Linear(16, 3),
        ),
        (5,),
        BOOKS,
        True,
    ),
    "in place": Case(Residual, (6,), BOOKS),
    "frozen": Case(_frozen, (6,), BOOKS),
    "a layer used twice": Case(Twice, (6,), FORMED),
    "tied weights": Case(Tied, (4,), FORMED, True),
    "a borrowed weight": Case(Borrowed, (4,), FORMED, True),
    "a parameter of its own": Case(Own, (6,), BOOKS),
    "a token": Case(Token, (3, 4), BOOKS),
    "a matrix of its own": Case(Matrix, (6,), FORMED),
    "rms norm": Case(_chain(lambda: nn.Linear(6, 5), lambda: nn.RMSNorm(5), lambda: nn.Linear(5, 3)), (6,), BOOKS),
    "rms norm, positions": Case(_chain(lambda: nn.RMSNorm((3, 4)), Mean, lambda: nn.Linear(4, 3)), (2, 3, 4), BOOKS),
    "examples on the second axis": Case(Turned, (3, 6), FORMED),
    "examples on the second of unequal axes": Case(Turned, (4, 6), FORMED),
    "shared rows": Case(Places, (3,), FORMED, True),
    "attention": Case(Encoder, (4, 6), FORMED),
    "instance norm": Case(_image(lambda: nn.InstanceNorm2d(2, affine=True), 2), (2, 6, 6), FORMED),
}


def clipped_loop(
    model: nn.Module, loss: Callable[..., Tensor], inputs: tuple[Tensor, ...], target: Tensor, clip: float
) -> list[Tensor]:
    """Return the clipped sum as the definition has it, by a loop over examples."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    sums = [torch.zeros_like(parameter) for parameter in trained]
    for i in range(len(target)):
        value = loss(model(*(each[i : i + 1] for each in inputs)), target[i : i + 1]).sum()
        found = torch.autograd.grad(value, trained, allow_unused=True, materialize_grads=True)
        norm = float(torch.cat([gradient.double().flatten() for gradient in found]).norm())
        for total, gradient in zip(sums, found, strict=True):
            total.add_(gradient, alpha=clip / max(clip, norm))
    return sums
