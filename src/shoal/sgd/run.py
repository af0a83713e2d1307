"""What a run of noisy SGD does, in numbers: all that its guarantee depends on."""

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.checks import known, positive, whole
from shoal.errors import ParameterError
from shoal.sgd.sampler import Indices, Sampler, sampler_of

_MOST_EXAMPLES = 10**12
_MOST_EPOCHS = 10**6
_LEAST_NOISE = 1e-6
_MOST_NOISE = 1e12
_LEAST_CLIP = 1e-6
_MOST_CLIP = 1e12
"""Far from these, squares of numbers in float32 vanish or overflow, and no norm can be measured."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of noisy SGD: every step adds normal noise to a sum of clipped gradients.

    It is what `guarantee`, `calibrate`, `lower_bound`, `poisson_comparison` and `Account` take, and what trainers build
    from their arguments. An epoch has ⌈n/b⌉ steps; the sampler draws the examples of each.

    Parameters
    ----------
    examples : int
        n. With adjacency="add-remove" it is a secret, and no guarantee depends on it: 0 where it is not said.
    batch_size : int
        b, at most n; what sums are divided by, however many examples are in them.
    noise_multiplier : float, optional
        The standard deviation of the noise, in units of `clip_norm`; None where `calibrate` is to choose it.
    clip_norm : float
        The largest length that a gradient has after clipping, between 1e-6 and 1e12.
    epochs : int
        How many epochs there are.
    noise : str
        "batch", one draw on the sum of a batch; "example", one draw for each of its slots.
    releases : str
        What is seen: "every-step", every noised vector; "sums", only what a batch adds up to. They differ for
        noise="example" only. Where every vector is seen, there is one for each example, and no slot is empty.
    adjacency : str
        Two datasets are neighbours if one example is replaced ("replace"), if its gradient is zero in one of them
        ("zero-out"), or if one has an example more ("add-remove").
    sampling : str
        The name of the sampler (subsampling): "permutation", a fresh random permutation for every epoch; "allocation",
        every example in a random step of its own; "poisson", every example in every step by a coin; "fixed-order", any
        order that is kept. `shoal.sgd.sampler.SAMPLERS` has all of them. It says what *is done*. A loader with
        shuffle=True is at best a permutation, and never an allocation, so a run is a permutation by default.
        `shoal.sgd.torch.make_private` draws by the sampler of the run, for which "allocation" is usually the best.
    participations : int
        k, in how many steps of an epoch an example takes part, with "allocation": one of each of k blocks of the steps.
        The bound also holds for k of t steps drawn without replacement.
    public_steps : int, optional
        t, the steps of an epoch, for "allocation" and "poisson"; ⌈kn/b⌉ if it is None. With adjacency="add-remove" it
        must be given, for it must not be computed from n. Poisson's coins then have the probability 1/t, else b/n.

    Examples
    --------
    >>> run = Run(examples=60_000, batch_size=64, noise_multiplier=1.5)
    >>> run.steps, run.slots, run.sum_deviation
    (938, 60032, 1.5)
    >>> run = Run(batch_size=256, public_steps=235, adjacency="add-remove", sampling="allocation", noise_multiplier=1)
    >>> run.steps, run.examples
    (235, 0)
    """

    examples: int = 0
    batch_size: int = 1
    noise_multiplier: float | None = None
    clip_norm: float = 1.0
    epochs: int = 1
    noise: str = "batch"
    releases: str = "every-step"
    adjacency: str = "replace"
    sampling: str = "permutation"
    public_steps: int | None = None
    participations: int = 1

    def __post_init__(self) -> None:
        """Check the arguments."""
        secret = self.adjacency == "add-remove"
        checked = {
            "examples": whole(examples=self.examples, least=0 if secret else 1, most=_MOST_EXAMPLES),
            "batch_size": whole(batch_size=self.batch_size, most=_MOST_EXAMPLES),
            "clip_norm": positive(clip_norm=self.clip_norm),
            "epochs": whole(epochs=self.epochs, most=_MOST_EPOCHS),
            "participations": whole(participations=self.participations, most=_MOST_EPOCHS),
            "noise": known(("batch", "example"), noise=self.noise),
            "releases": known(("every-step", "sums"), releases=self.releases),
        }
        if self.noise_multiplier is not None:
            checked["noise_multiplier"] = multiplier = positive(noise_multiplier=self.noise_multiplier)
            if not _LEAST_NOISE <= multiplier <= _MOST_NOISE:
                raise ParameterError(
                    f"noise_multiplier must be between {_LEAST_NOISE:g} and {_MOST_NOISE:g}, got "
                    f"{self.noise_multiplier!r}",
                    "noise_multiplier",
                )
        if not _LEAST_CLIP <= self.clip_norm <= _MOST_CLIP:
            raise ParameterError(
                f"clip_norm must be between {_LEAST_CLIP:g} and {_MOST_CLIP:g}, got {self.clip_norm!r}; multiply the "
                "loss by a number instead",
                "clip_norm",
            )
        if self.public_steps is not None:
            checked["public_steps"] = whole(public_steps=self.public_steps, most=_MOST_EXAMPLES)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.batch_size > self.examples and not secret:
            raise ParameterError(
                f"batch_size must be at most examples={self.examples}, got {self.batch_size}", "batch_size"
            )
        self.sampler.check(self)
        if secret and self.examples > self.most_examples:
            raise ParameterError(
                f'with adjacency="add-remove" there may be at most {self.most_examples:,} examples, which is public: '
                "2·batch_size·public_steps/participations; use a larger batch_size or more public_steps"
            )

    @property
    def sampler(self) -> Sampler:
        """What draws the examples of a step, and knows what is proved of that."""
        return sampler_of(self.sampling)

    def batches(self, *, key: bytes, epoch: int) -> list[Indices]:
        """Return the examples of each step of an epoch; refuse draws that the sampler's own words do not describe.

        Parameters
        ----------
        key : bytes
            32 secret bytes, which decide.
        epoch : int
            Counted from 0.
        """
        if not self.examples:
            raise ParameterError("the run does not say how many examples there are; give Run examples= to draw them")
        batches = self.sampler.batches(self, key=key, epoch=epoch)
        if len(batches) != self.steps:
            raise ParameterError(
                f'sampling="{self.sampling}" drew {len(batches):,} batches for an epoch of {self.steps:,} steps'
            )
        once = self.usage == Sampler.usage
        for drawn in map(np.sort, [np.concatenate(batches)] if once else batches):
            if len(drawn) and (drawn[0] < 0 or drawn[-1] >= self.examples or (drawn[1:] == drawn[:-1]).any()):
                raise ParameterError(
                    f'sampling="{self.sampling}" drew an example more than once in {"an epoch" if once else "a step"}, '
                    f"or one that is not among the {self.examples:,}; its `usage` must say how often an epoch uses one"
                )
        return batches

    @property
    def usage(self) -> str:
        """How often an epoch uses an example, in words."""
        return self.sampler.usage if self.participations == 1 else f"in {self.participations:,} steps of an epoch"

    @property
    def steps(self) -> int:
        """How many steps an epoch has."""
        joined = self.examples * self.participations
        return -(-joined // self.batch_size) if self.public_steps is None else self.public_steps

    @property
    def blocks(self) -> list[int]:
        """How many steps each of the blocks has in which an example joins one: as equal as they can be."""
        least, more = divmod(self.steps, self.participations)
        return [least + 1] * more + [least] * (self.participations - more)

    @property
    def rate(self) -> Fraction:
        """The probability of the coins of Poisson sampling."""
        return Fraction(self.batch_size, self.examples) if self.public_steps is None else Fraction(1, self.public_steps)

    @property
    def most_examples(self) -> int:
        """How many examples there are at most, a public number; `examples`, where that is public."""
        most = -(-2 * self.batch_size * self.steps // self.participations)
        return most if self.adjacency == "add-remove" else self.examples

    @property
    def public(self) -> "Run":
        """The run without what is secret: with adjacency="add-remove", without the number of examples."""
        return replace(self, examples=0) if self.adjacency == "add-remove" else self

    @property
    def slots(self) -> int:
        """How many slots the batches of an epoch have, filled or empty."""
        return self.steps * self.batch_size

    @property
    def sums_only(self) -> bool:
        """Whether nothing but noised sums of batches is seen; else, every example's noised gradient (local model)."""
        return self.noise == "batch" or self.releases == "sums"

    @property
    def multiplier(self) -> float:
        """`noise_multiplier`, or an error where there is none yet."""
        if self.noise_multiplier is None:
            raise ParameterError(
                "the run has no noise_multiplier; give Run one, or let calibrate(run, epsilon=, delta=) choose it"
            )
        return self.noise_multiplier

    @property
    def sum_multiplier(self) -> float:
        """The standard deviation of the noise on the sum of a batch, in units of `clip_norm`."""
        return self.multiplier * (math.sqrt(self.batch_size) if self.noise == "example" else 1.0)

    @property
    def slot_multiplier(self) -> float:
        """The same for one slot: noise on a sum is the sum of equal parts for its slots."""
        return self.multiplier / (math.sqrt(self.batch_size) if self.noise == "batch" else 1.0)

    @property
    def seen_multiplier(self) -> float:
        """The same for each vector that is seen: a sum, or the gradient of one example."""
        return self.sum_multiplier if self.sums_only else self.multiplier

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
