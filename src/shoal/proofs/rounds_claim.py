"""A claim about several rounds, settled in advance: the losses of all of them, added up in balls."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flint import ctx

from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, above, ball
from shoal.proofs.claim import Claim, RoundClaim, Witness, claim_from, count, double, expect
from shoal.proofs.losses_in_balls import LossBalls, Tilt, dominating, summed, tilt_for
from shoal.proofs.words import FRESH, LOSSES

__all__ = ["RoundsClaim"]

_STALLED = 0.6
_MOST_MORE = 1e-3
"""What is proved may be larger than the printed ε by this part of it."""
_STEPS = ((16, 0.03), (80, 0.05), (math.inf, 0.06))
"""With so many values of W of all kinds of rounds, a step of this part of the deviation of a loss."""
_SLOW = 50
"""What δ of a kind that is no mean of a sum counts as, in values of W."""
_FINENESS = 0.008
_LEFT_OUT = 1e-4
"""The part of δ that may be spent on losses beyond the last point."""
_FAR = 5e-3
"""Of δ: if infinite losses have more than this, there is one more point at ε₀."""
_MOST_KINDS, _MOST_TIMES, _MOST_POINTS, _MOST_NODES = 1_000, 10**9, 60_000, 400_000


@dataclass(frozen=True)
class RoundsClaim(Claim, name="rounds"):
    """Different rounds, and how many there are of each."""

    parts: tuple[tuple[RoundClaim, int], ...]
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the rounds."""
        if not 1 <= len(self.parts) <= _MOST_KINDS:
            raise ParameterError(f"a composition has 1 to {_MOST_KINDS:,} kinds of rounds, got {len(self.parts):,}")
        for claim, times in self.parts:
            if not isinstance(claim, RoundClaim) or "name" not in vars(type(claim)) or type(claim).name is None:
                raise ParameterError("the parts of a composition are claims of one round")
            count(1, _MOST_TIMES, times=times)

    def to_dict(self) -> dict[str, Any]:
        """Return the rounds as plain values."""
        return {"name": self.name, "parts": [{"times": times, "claim": claim.to_dict()} for claim, times in self.parts]}

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Claim:
        """Return the claim of these rounds."""
        if set(content) != {"parts"} or not isinstance(content["parts"], list):
            raise ParameterError("a composition has parts, and nothing else")
        if len(content["parts"]) > _MOST_KINDS:
            raise ParameterError(f"a composition has at most {_MOST_KINDS:,} kinds of rounds")
        parts = []
        for part in content["parts"]:
            if not isinstance(part, Mapping) or set(part) != {"times", "claim"}:
                raise ParameterError("a part of a composition is a claim, and how many times")
            parts.append((claim_from(part["claim"]), part["times"]))
        return cls(tuple(parts))  # type: ignore[arg-type]

    def fitted(self, delta: float, *, coarse: bool = False) -> "RoundsClaim":
        """Return the same rounds, each discretised for its part of δ."""
        parts = ((claim.fitted(delta / self.rounds, coarse=True), times) for claim, times in self.parts)
        return RoundsClaim(tuple(parts))  # type: ignore[arg-type]

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return sum(times for _, times in self.parts)

    @property
    def theorem(self) -> str:
        """The theorem on losses, and that of each round."""
        return f"{LOSSES}; each round: {'; '.join(dict.fromkeys(claim.theorem for claim, _ in self.parts))}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What has to be true of all rounds, and of each."""
        return tuple(dict.fromkeys((FRESH, *(line for claim, _ in self.parts for line in claim.assumptions))))

    @property
    def subject(self) -> str:
        """The rounds, or some of them where there are many kinds."""
        shown = " + ".join(f"{times:,} × ({claim.subject})" for claim, times in self.parts[:3])
        more = f" + {len(self.parts) - 3} other kinds" if len(self.parts) > 3 else ""
        return f"{self.rounds:,} rounds, {shown}{more}"

    @property
    def ceiling(self) -> Ball:
        """The sum of all ε₀."""
        return sum((times * ball(claim.ceiling) for claim, times in self.parts), ball(0.0))

    @property
    def floor(self) -> Ball:
        """What is left of δ from there on."""
        return sum((times * ball(claim.floor) for claim, times in self.parts), ball(0.0))

    def losses(self, step: float, grid: list[list[int]], fineness: float) -> list[tuple[LossBalls, int]]:
        """Return losses that dominate each round, from δ at multiples of stride·step."""
        rounds = []
        for (claim, times), (stride, points, far) in zip(self.parts, grid, strict=True):
            key = (claim, step, stride, points, far, fineness, ctx.prec)
            if key not in self._known:
                multiples = [*range(points + 1), *((far,) if far else ())]
                heights = _heights(claim, step * stride, multiples, fineness)
                back = None if claim.reverse is None else _heights(claim.reverse, step * stride, multiples, fineness)
                self._known[key] = dominating(step, stride, multiples, heights, back)
            rounds.append((self._known[key], times))
        return rounds

    def upper(self, epsilon: float, witness: Witness) -> Ball:
        """Return a ball whose upper end is at least δ(ε) of all rounds together."""
        expect(witness, ("step", "grid", "fineness", "tilt", "nodes"))
        if not isinstance(witness["grid"], list) or len(witness["grid"]) != len(self.parts):
            raise ParameterError("the witness of a composition has a grid for each kind of round")
        if self.ceiling <= epsilon:
            return self.floor
        step = double(1e-100, 1e3, step=witness["step"])
        if step * 2**21 != short(step) * 2**21:
            raise ParameterError("the step of a grid has at most 32 digits, so that its multiples are doubles")
        for row in witness["grid"]:
            if not isinstance(row, list) or len(row) != 3:
                raise ParameterError("a grid is a stride, a number of points and one far beyond them, or 0")
            count(1, 2**20, stride=row[0])
            count(0, 2**20, points=row[1])
            count(0, 2**21, far=row[2])
            if 0 < row[2] <= row[1]:
                raise ParameterError("a far point lies beyond all others")
            count(0, 2**21, reach=row[0] * max(row[1], row[2]))
        count(0, _MOST_POINTS, points=sum(row[1] for row in witness["grid"]))
        fineness = double(1e-4, 1.0, fineness=witness["fineness"])
        tilt = Tilt(double(1e-100, 1e100, tilt=witness["tilt"]), count(3, _MOST_NODES, nodes=witness["nodes"]))
        if tilt.nodes % 2 == 0:
            raise ParameterError("the number of nodes is odd")
        if epsilon > step * 2**30:
            raise ParameterError("ε lies far beyond the grid")
        key = (epsilon, step, fineness, tilt, tuple(map(tuple, witness["grid"])), ctx.prec)
        if key not in self._known:
            self._known[key] = summed(self.losses(step, witness["grid"], fineness), step, tilt, epsilon)
        return self._known[key]

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield ever larger ε, all from the same losses."""
        step, grid = self._grid(delta)
        more = 0.0
        while more <= _MOST_MORE:
            larger = epsilon * (1 + more)
            tilt = tilt_for(self.losses(step, grid, _FINENESS), step, larger)
            witness = {"step": step, "grid": grid, "fineness": _FINENESS, "tilt": tilt.tilt, "nodes": tilt.nodes}
            yield larger, witness
            # The tilt is about the slope of ln δ, and says how much more of ε the proof needs.
            value = above(self.upper(larger, witness))
            missing = math.log(min(value, 1.0) / delta) / (tilt.tilt * larger) if larger else math.inf
            more = 1.1 * more + 1.1 * max(missing, 0.0) + 1e-7

    def _grid(self, delta: float) -> tuple[float, list[list[int]]]:
        """Return a step and, for each kind of round, how many lattice points there are from one of its own to the next.

        The step is a part of the deviation of an average loss; kinds with larger losses skip points.
        """
        spreads = []
        for claim, _ in self.parts:
            distance = min(above(claim.at(0.0, fineness=0.05)), 0.999)
            spreads.append(min(math.sqrt(2 * math.pi) * distance / (1 - distance) ** 0.25, claim.ceiling))
        square = sum(times * spread**2 for (_, times), spread in zip(self.parts, spreads, strict=True))
        kinds = [claim.summands(ball(1.0)) for claim, _ in self.parts]
        values = sum(sum(len(each.values) for each in kind) if kind else _SLOW for kind in kinds)
        part = next(part for most, part in _STEPS if values <= most)
        step = part * math.sqrt(square / self.rounds)
        largest = max(claim.ceiling for claim, _ in self.parts)
        if math.isfinite(largest):  # let a point lie just above the largest ε₀
            step = largest / max(1, math.floor(largest / step))
        step = short(max(step, 1e-90) * (1 + 2.0**-30))
        enough = _LEFT_OUT * delta / self.rounds
        grid = []
        for (claim, _), spread in zip(self.parts, spreads, strict=True):
            stride = max(1, math.floor(part * spread / step + 1e-6))
            width = step * stride
            most = math.ceil(claim.ceiling / width) if math.isfinite(claim.ceiling) else 2**20 // stride
            points = min(most, math.ceil(spread * math.sqrt(max(0.0, -2 * math.log(enough))) / width) + 1)
            height = claim.at(width * min(points, most), fineness=0.03)
            while points < most and not height <= enough:
                points, before = min(most, math.ceil(1.15 * points) + 1), height
                height = claim.at(width * points, fineness=0.03)
                if claim.floor and not height < _STALLED * before:  # a charge for δ₀ is left, which stays
                    break
            # The charge for δ₀ that is left is a loss of at most ε₀ instead of an infinite one, where that counts.
            left = claim.floor and not self.rounds * height <= _FAR * delta
            grid.append([stride, points, most if left and points < most <= 2**21 // stride else 0])
        return step, grid


def _heights(claim: RoundClaim, width: float, multiples: Sequence[int], fineness: float) -> list[Ball]:
    """Return upper ends of δ at these multiples of the width."""
    values = (claim.at(min(width * multiple, claim.ceiling), fineness=fineness) for multiple in multiples)
    return [value.upper().min(ball(1.0)) for value in values]


def short(step: float) -> float:
    """Return the step rounded down to 32 digits, so that all its multiples up to 2²¹ are doubles."""
    digits, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(digits, 32)), exponent - 32)
