"""Train models with a privacy budget, by shoal's samplers and by Opacus: run by the study of accuracy.

Opacus lives in an environment of its own, where shoal is imported from its source. Every line of input is a training in
JSON, and every line of output its answer: the accuracy on held-out examples, and the ε that Opacus prints.
"""

import json
import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Task", "task", "train"]

_SIDE = 16
_STROKES = 3
_SHAKING = 0.55
"""By how many pixels both ends of a stroke move, in standard deviations."""
_GRAIN = 0.35
"""The noise of a pixel, where a stroke is 1."""
_GLYPHS, _IMAGES = 10, (20_000, 4_000)
_DIGITS = 1408
"""So many of the 1,797 digits are trained on, in full batches of 64: then all mean the same by the rate of sampling."""

Floats = NDArray[np.float32]


class Task(NamedTuple):
    """Examples to train on and to test, and how: the size of a batch, epochs, δ."""

    rows: Floats
    labels: NDArray[np.int64]
    test_rows: Floats
    test_labels: NDArray[np.int64]
    batch_size: int
    epochs: int
    delta: float


def glyphs(seed: int, count: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return images of ten glyphs of three strokes each, drawn with a shaking hand on grainy paper, and their names."""
    forms = np.random.default_rng(2026).uniform(2.5, _SIDE - 3.5, (_GLYPHS, _STROKES, 2, 2))
    numbers = np.random.default_rng(seed)
    labels = numbers.integers(_GLYPHS, size=count)
    moved = numbers.normal(0, 1.0, (count, 1, 1, 2))
    ends = forms[labels] + moved + numbers.normal(0, _SHAKING, (count, _STROKES, 2, 2))
    points = np.stack(np.meshgrid(np.arange(_SIDE), np.arange(_SIDE), indexing="ij"), axis=-1).reshape(-1, 2)
    images = np.zeros((count, _SIDE * _SIDE))
    for stroke in range(_STROKES):
        first, last = ends[:, stroke, 0, None], ends[:, stroke, 1, None]
        along = last - first
        share = ((points - first) * along).sum(-1) / (along**2).sum(-1)
        apart = points - first - np.clip(share, 0, 1)[..., None] * along
        images = np.maximum(images, np.exp(-(apart**2).sum(-1)))
    images += numbers.normal(0, _GRAIN, images.shape)
    return images.astype(np.float32).reshape(count, 1, _SIDE, _SIDE), labels


def digits() -> tuple[Floats, NDArray[np.int64]]:
    """Return the 1,797 handwritten digits that come with scikit-learn, in an order of their own."""
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(2026).permutation(len(labels))
    return (rows[order] / 16).astype(np.float32), labels[order].astype(np.int64)


@cache
def task(name: str) -> Task:
    """Return the examples by name: "glyphs" or "digits"."""
    if name == "digits":
        rows, labels = digits()
        return Task(rows[:_DIGITS], labels[:_DIGITS], rows[_DIGITS:], labels[_DIGITS:], 64, 20, 1e-5)
    return Task(*glyphs(1, _IMAGES[0]), *glyphs(2, _IMAGES[1]), 500, 5, 1e-5)


def _model(name: str) -> Any:
    from torch import nn

    if name == "digits":
        return nn.Linear(64, 10)
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def train(
    *, data: str, trainer: str, noise_multiplier: float, learning_rate: float, seed: int
) -> tuple[float, float | None]:
    """Return the accuracy of a trained model, and the ε that Opacus prints if it trained.

    Parameters
    ----------
    data : str
        What is trained on: the name of a task.
    trainer : str
        "opacus", "not private", or a sampler of shoal.
    noise_multiplier, learning_rate : float
        Of noisy stochastic gradient descent, with gradients clipped to a length of 1.
    seed : int
        Of the first weights, and in this study of sampling and noise.
    """
    import torch
    from torch import nn
    from torch.utils.data import TensorDataset

    from shoal.mechanisms.coins import Simulation
    from shoal.sgd import Run
    from shoal.sgd.torch import make_private

    torch.manual_seed(seed)
    examples, model = task(data), _model(data)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    dataset = TensorDataset(torch.from_numpy(examples.rows), torch.from_numpy(examples.labels))
    printed = None
    if trainer == "opacus":
        printed = _by_opacus(model, optimizer, dataset, examples, noise_multiplier)
    elif trainer == "not private":
        _without_noise(model, optimizer, dataset, examples)
    else:
        coins = Simulation(seed=seed)
        run = Run(
            examples=len(dataset),
            batch_size=examples.batch_size,
            noise_multiplier=noise_multiplier,
            epochs=examples.epochs,
            adjacency="zero-out",
            sampling=trainer,
        )
        loss = nn.CrossEntropyLoss()
        make_private(model, optimizer, dataset, run, loss=loss, delta=examples.delta, simulation=coins).fit()
    with torch.no_grad():
        guessed = model(torch.from_numpy(examples.test_rows)).argmax(1).numpy()
    return float((guessed == examples.test_labels).mean()), printed


def _without_noise(model: Any, optimizer: Any, data: Any, examples: Task) -> None:
    """Train as if there were no privacy, for twice as many epochs: what the model can do."""
    from torch import nn
    from torch.utils.data import DataLoader

    loss: Any = nn.CrossEntropyLoss()
    for _ in range(2 * examples.epochs):
        for rows, labels in DataLoader(data, batch_size=examples.batch_size, shuffle=True):
            optimizer.zero_grad()
            loss(model(rows), labels).backward()
            optimizer.step()


def _by_opacus(model: Any, optimizer: Any, data: Any, examples: Task, noise_multiplier: float) -> float:
    """Train as Opacus does it, by Poisson sampling and ghost clipping, and return the ε that it prints."""
    from opacus import PrivacyEngine
    from torch import nn
    from torch.utils.data import DataLoader

    engine = PrivacyEngine(accountant="prv")
    wrapped, stepping, loss, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        criterion=nn.CrossEntropyLoss(),
        data_loader=DataLoader(data, batch_size=examples.batch_size),
        noise_multiplier=noise_multiplier,
        max_grad_norm=1.0,
        poisson_sampling=True,
        grad_sample_mode="ghost",
    )
    for _ in range(examples.epochs):
        for rows, labels in loader:
            stepping.zero_grad()
            loss(wrapped(rows), labels).backward()
            stepping.step()
    return float(engine.get_epsilon(examples.delta))


def main() -> None:
    """Answer line by line."""
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        accuracy, printed = train(**json.loads(line))
        print(json.dumps({"accuracy": accuracy, "printed": printed}), flush=True)


if __name__ == "__main__":
    main()
