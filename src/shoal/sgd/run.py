"""What a run of noisy SGD does, in numbers: all that its guarantee depends on."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from shoal.checks import known, positive, whole
from shoal.errors import ParameterError

__all__ = ["Run"]

_MOST_EXAMPLES = 10**12
_MOST_EPOCHS = 10**6
_LEAST_NOISE, _MOST_NOISE = 1e-6, 1e12


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run: passes over a random permutation of the examples, a noised sum of clipped gradients a batch.

    A pass has ⌈n/b⌉ batches of b slots. The slots that no example fills are permuted with the others, and have the
    gradient zero, so that every slot is as likely as any other to hold a given example.

    Parameters
    ----------
    examples : int
        n.
    batch_size : int
        b, at most n.
    noise_multiplier : float
        The standard deviation of the noise, in units of `clip_norm`.
    clip_norm : float
        The largest length that a gradient has after clipping.
    epochs : int
        How many passes there are.
    noise : str
        "batch", one draw on the sum of a batch; "example", one draw for each of its slots.
    releases : str
        What is seen: "every-step", every noised vector; "sums", only what a batch adds up to. They differ for
        noise="example" only. Where every vector is seen, there is one for each example, and no slot is empty.
    adjacency : str
        Two datasets are neighbours if one example is replaced ("replace"), or its gradient is zero in one of them
        ("zero-out").
    order : str
        "fresh", a new permutation for every pass; "kept", any other order, such as one that is kept for ever.

    Examples
    --------
    >>> run = Run(examples=60_000, batch_size=64, noise_multiplier=1.5)
    >>> run.steps, run.slots, run.sum_deviation
    (938, 60032, 1.5)
    """

    examples: int
    batch_size: int = 1
    noise_multiplier: float
    clip_norm: float = 1.0
    epochs: int = 1
    noise: str = "batch"
    releases: str = "every-step"
    adjacency: str = "replace"
    order: str = "fresh"

    def __post_init__(self) -> None:
        """Check the arguments."""
        checked = {
            "examples": whole(examples=self.examples, most=_MOST_EXAMPLES),
            "batch_size": whole(batch_size=self.batch_size, most=_MOST_EXAMPLES),
            "noise_multiplier": positive(noise_multiplier=self.noise_multiplier),
            "clip_norm": positive(clip_norm=self.clip_norm),
            "epochs": whole(epochs=self.epochs, most=_MOST_EPOCHS),
            "noise": known(("batch", "example"), noise=self.noise),
            "releases": known(("every-step", "sums"), releases=self.releases),
            "order": known(("fresh", "kept"), order=self.order),
        }
        if self.adjacency in ("add-remove", "add/remove", "add", "remove"):
            raise ParameterError(
                'adjacency "add-remove" has no guarantee over a permutation: a deletion shifts every later batch; use '
                '"replace" or "zero-out"'
            )
        checked["adjacency"] = known(("replace", "zero-out"), adjacency=self.adjacency)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not _LEAST_NOISE <= self.noise_multiplier <= _MOST_NOISE:
            raise ParameterError(
                f"noise_multiplier must be between {_LEAST_NOISE:g} and {_MOST_NOISE:g}, got {self.noise_multiplier!r}"
            )
        if self.batch_size > self.examples:
            raise ParameterError(f"batch_size must be at most examples={self.examples}, got {self.batch_size}")

    @property
    def steps(self) -> int:
        """How many batches a pass has."""
        return -(-self.examples // self.batch_size)

    @property
    def slots(self) -> int:
        """How many slots a pass has, filled or empty."""
        return self.steps * self.batch_size

    @property
    def sums_only(self) -> bool:
        """Whether nothing but noised sums of batches is seen."""
        return self.noise == "batch" or self.releases == "sums"

    @property
    def sum_multiplier(self) -> float:
        """The standard deviation of the noise on the sum of a batch, in units of `clip_norm`."""
        return self.noise_multiplier * (math.sqrt(self.batch_size) if self.noise == "example" else 1.0)

    @property
    def slot_multiplier(self) -> float:
        """The same for one slot: noise on a sum is the sum of equal parts for its slots."""
        return self.noise_multiplier / (math.sqrt(self.batch_size) if self.noise == "batch" else 1.0)

    @property
    def sum_deviation(self) -> float:
        """The standard deviation of the noise on the sum of a batch."""
        return self.sum_multiplier * self.clip_norm

    @property
    def sensitivity(self) -> int:
        """How far one example moves a sum, in units of `clip_norm`."""
        return 2 if self.adjacency == "replace" else 1

    def to_dict(self) -> dict[str, Any]:
        """Return all arguments."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Run":
        """Return the run with these arguments."""
        return cls(**fields)
