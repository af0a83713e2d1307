"""δ(ε) of several rounds, fixed in advance: their privacy losses, added up in balls, and the claim about them.

Like a pair, a composition has no name; the claim is about rounds of claims (docs/theory/certificates.md, section 4).
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from flint import ctx

from shoal.assumptions import FRESH, LOSSES, Assumption
from shoal.errors import ParameterError, RangeError
from shoal.proofs.balls import Ball, above, ball
from shoal.proofs.claim import Claim, DominatingPair, RoundClaim, Witness, claim_from, count, digest, double, expect
from shoal.proofs.lattice import LossBalls, dominating, short, summed, tilt_for
from shoal.proofs.work import keep, spend

_STALLED = 0.6  # with a δ₀, points are added while δ falls below this part of the one before
# Of the usual step, where rounds with an edge, such as dummies, are with others whose losses are smaller.
_FINER = 1.0, 0.25, 0.06
_MOST_MORE = 1e-3  # what is proved may be larger than the printed ε by this part of it
# With at most this many values of W in all, a step of this part of the deviation of a loss: a smaller one is slower.
_STEPS = ((16, 0.03), (80, 0.05), (math.inf, 0.06))
# More kinds of rounds than this have this step: each of them takes time, and a thousandth of ε is enough.
_MANY_KINDS = 30
_WIDEST = 0.085
_SLOW = 50  # the cost of δ of a kind without a W, in values of W
_FINENESS = 0.008  # how much δ of each round is smoothed: less takes longer, and lowers ε
_LEFT_OUT = 1e-4  # the part of δ that may be spent on losses beyond the last point
_FAR = 5e-3  # of δ: if infinite losses have more than this, there is one more point at ε₀
_COSTLY = 80  # with more values of W than this, losses beyond `_DENSE` deviations are ever farther apart, by a factor
# deviations with points on every multiple, and the most points beyond them
_DENSE = 5.0
_MOST_FAR = 400
_POINT = 60  # microseconds per point of a grid, for a δ in closed form; others announce more on their own
_REACH = 2**21  # the largest multiple of a step: all multiples up to it are exact in float64
# Limits of kinds of rounds, of rounds of a kind, of points of all grids and of nodes: a file beyond them is refused.
_MOST_KINDS = 1_000
_MOST_TIMES = 10**9
_MOST_POINTS = 60_000
_MOST_NODES = 400_000
_SHOWN = 3  # so many kinds of rounds are described in the sentence; a digest identifies the others


@dataclass(frozen=True)
class Composition:
    """Different pairs, and how many there are of each."""

    parts: tuple[tuple[DominatingPair, int], ...]
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """Intermediate results, which compositions that have pairs in common can share."""

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return sum(times for _, times in self.parts)

    @property
    def ceiling(self) -> Ball:
        """The sum of all ε₀."""
        return sum((times * ball(pair.ceiling) for pair, times in self.parts), ball(0.0))

    @property
    def floor(self) -> Ball:
        """The δ that remains from `ceiling` on."""
        return sum((times * ball(pair.floor) for pair, times in self.parts), ball(0.0))

    def losses(self, step: float, grid: Sequence[Sequence[Any]], fineness: float) -> list[tuple[LossBalls, int]]:
        """Return losses that dominate each round, from δ at multiples of stride·step."""
        rounds = []
        for (pair, times), (stride, points, far) in zip(self.parts, grid, strict=True):
            multiples = (*range(points + 1), *far)
            key = (pair, step, stride, multiples, fineness, ctx.prec)
            if key not in self.known:
                ways = [pair] if pair.reverse is None else [pair, pair.reverse]
                heights = [self._heights(each, step * stride, multiples, fineness) for each in ways]
                self.known[key] = dominating(step, stride, multiples, *heights)
            rounds.append((self.known[key], times))
        return rounds

    def _heights(self, pair: DominatingPair, width: float, multiples: tuple[int, ...], fineness: float) -> list[Ball]:
        """Return upper ends of δ at these multiples of the width."""
        key = (pair, width, multiples, fineness, ctx.prec)
        if key not in self.known:
            spend(_POINT * len(multiples))
            keep(2 * len(multiples))
            values = (pair.at(min(width * multiple, pair.ceiling), fineness=fineness) for multiple in multiples)
            self.known[key] = [value.upper().min(ball(1.0)) for value in values]
        return self.known[key]  # type: ignore[no-any-return]

    def upper(self, epsilon: float, witness: Witness) -> Ball:
        """Return a ball whose upper end is at least δ(ε) of all rounds together."""
        expect(witness, ("step", "grid", "fineness", "tilt", "nodes"))
        grid = witness["grid"]
        if not isinstance(grid, list) or len(grid) != len(self.parts):
            raise ParameterError("the witness of a composition has a grid for each kind of round")
        if self.ceiling <= epsilon:  # basic composition
            return self.floor
        step = double(1e-100, 1e3, step=witness["step"])
        if step * _REACH != short(step) * _REACH:
            raise ParameterError("the step of a grid has at most 32 binary digits, so that its multiples are exact")
        for row in grid:
            if not isinstance(row, list) or len(row) != 3:
                raise ParameterError("a grid is a stride, a number of points, and a list of others beyond them")
            stride, points, far = row
            count(1, _REACH // 2, stride=stride)
            count(0, _REACH // 2, points=points)
            if not isinstance(far, list) or len(far) > _MOST_FAR:
                raise ParameterError(f"points beyond the others are a list of at most {_MOST_FAR}")
            for before, point in pairwise((points, *far)):
                count(before + 1, _REACH, far=point)
            count(0, _REACH, reach=stride * (points, *far)[-1])
        count(0, _MOST_POINTS, points=sum(row[1] for row in grid))
        fineness = double(1e-4, 1.0, fineness=witness["fineness"])
        theta = double(1e-100, 1e100, tilt=witness["tilt"])
        nodes = count(3, _MOST_NODES, nodes=witness["nodes"])
        if nodes % 2 == 0:
            raise ParameterError("the number of nodes is odd")
        if epsilon > step * 2**30:
            raise ParameterError("ε lies far beyond the grid")
        key = (self.parts, epsilon, step, fineness, theta, nodes, repr(grid), ctx.prec)
        if key not in self.known:
            losses = self.losses(step, grid, fineness)
            self.known[key] = summed(losses, step, theta, nodes, epsilon)
        return self.known[key]

    def repeated(self, epsilon: float, witness: Witness) -> Ball:
        """Return the same for the rounds of one pair; a single round has a fineness only."""
        ((pair, times),) = self.parts
        if times > 1:
            return self.upper(epsilon, witness)
        expect(witness, ("fineness",))
        return pair.at(epsilon, fineness=double(0.0, 1.0, fineness=witness["fineness"]))

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield ever larger ε, all from the same losses; and again from finer ones, where kinds are unlike."""
        for part in _FINER if self._edged and len(self.parts) > 1 else _FINER[:1]:
            step, grid = self._grid(delta, part)
            frame = {"step": step, "grid": grid, "fineness": _FINENESS}
            more = 0.0
            while more <= _MOST_MORE:
                larger = epsilon * (1 + more)
                witness = self.retilted(larger, frame)
                yield larger, witness
                # The tilt is about the slope of ln δ, and says how much more of ε the proof needs.
                value = above(self.upper(larger, witness))
                missing = math.log(min(value, 1.0) / delta) / (witness["tilt"] * larger) if larger else math.inf
                more = 1.1 * more + 1.1 * max(missing, 0.0) + 1e-7

    @property
    def _edged(self) -> list[DominatingPair]:
        """The pairs in closed form, whose largest loss has a positive probability."""
        return [pair for pair, _ in self.parts if not pair.summands(ball(1.0))]

    def retilted(self, epsilon: float, witness: Witness) -> dict[str, Any]:
        """Return a witness on the same grid, with about the best tilt at ε."""
        losses = self.losses(witness["step"], witness["grid"], witness["fineness"])
        tilt, nodes = tilt_for(losses, witness["step"], epsilon)
        if nodes > _MOST_NODES:
            raise RangeError(f"{self.rounds:,} rounds need {nodes:,} nodes, and a certificate has {_MOST_NODES:,}")
        return {**witness, "tilt": tilt, "nodes": nodes}

    def _grid(self, delta: float, finer: float) -> tuple[float, list[list[Any]]]:
        """Return a step and, for each kind of round, the stride of its points on the lattice."""
        # The step is a part of the deviation of an average loss; kinds with larger losses skip points.
        spreads = []
        for pair, _ in self.parts:
            distance = min(above(pair.at(0.0, fineness=0.05)), 0.999)
            spreads.append(min(math.sqrt(2 * math.pi) * distance / (1 - distance) ** 0.25, pair.ceiling))
        square = sum(times * spread**2 for (_, times), spread in zip(self.parts, spreads, strict=True))
        kinds = [pair.summands(ball(1.0)) for pair, _ in self.parts]
        values = sum(sum(len(each.values) for each in kind) if kind else _SLOW for kind in kinds)
        part = next(part for most, part in _STEPS if values <= most) if len(kinds) <= _MANY_KINDS else _WIDEST
        part *= finer
        step = part * math.sqrt(square / self.rounds)
        edges = [pair.ceiling for pair in self._edged] if finer < 1 else []
        largest = max(edges or [pair.ceiling for pair, _ in self.parts])
        if math.isfinite(largest):  # let a point lie just above the largest ε₀
            step = largest / max(1, math.floor(largest / step))
        step = short(max(step, 1e-90) * (1 + 2.0**-30))  # so that multiples are exact
        enough = _LEFT_OUT * delta / self.rounds
        grid = []
        for (pair, _), spread in zip(self.parts, spreads, strict=True):
            stride = max(1, math.floor(part * spread / step + 1e-6))  # kinds with larger losses skip points
            width = step * stride
            most = math.ceil(pair.ceiling / width) if math.isfinite(pair.ceiling) else 2**20 // stride
            points = min(most, math.ceil(spread * math.sqrt(max(0.0, -2 * math.log(enough))) / width) + 1)
            height = pair.at(width * min(points, most), fineness=0.03)
            while points < most and not height <= enough:
                points = min(most, math.ceil(1.15 * points) + 1)
                before = height
                height = pair.at(width * points, fineness=0.03)
                if pair.floor and not height < _STALLED * before:  # a charge for δ₀ is left, which stays
                    break
            # The charge for δ₀ that is left is a loss of at most ε₀ instead of an infinite one, where that counts.
            left = pair.floor and not self.rounds * height <= _FAR * delta
            far = [most] if left and points < most <= 2**21 // stride else []
            if values > _COSTLY and not far:
                points, far = _thinned(points, math.ceil(_DENSE * spread / width), pair.apart)
            grid.append([stride, points, far])
        return step, grid


def repeated(pair: DominatingPair, times: int, known: dict[Any, Any]) -> Composition:
    """Return this many rounds of a pair; those of an equal pair before share their results through `known`."""
    return Composition(((known.setdefault(pair, pair), times),), known)


def _thinned(last: int, dense: int, apart: float) -> tuple[int, list[int]]:
    """Return how many neighbours there are, and then ever fewer points up to the last: what is there is rare."""
    far = []
    point = dense
    while point < last:
        point = min(last, math.ceil(apart * point))
        far.append(point)
    return min(dense, last), far


@dataclass(frozen=True)
class RoundsClaim(Composition, Claim, name="rounds"):
    """Different rounds, each with its claim, and how many there are of each."""

    parts: tuple[tuple[RoundClaim, int], ...]

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
    def theorem(self) -> str:
        """The theorem on losses, and that of each round."""
        return f"{LOSSES}; each round: {'; '.join(dict.fromkeys(claim.theorem for claim, _ in self.parts))}"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true of all rounds, and of each."""
        return tuple(dict.fromkeys((FRESH, *(line for claim, _ in self.parts for line in claim.assumptions))))

    @property
    def subject(self) -> str:
        """The rounds; where there are many kinds, some of them and a digest of the others."""
        shown = " + ".join(f"{times:,} × ({claim.subject})" for claim, times in self.parts[:_SHOWN])
        if others := self.to_dict()["parts"][_SHOWN:]:
            shown += f" + {len(others)} other kinds (sha256 {digest(json.dumps(others))})"
        return f"{self.rounds:,} round{'' if self.rounds == 1 else 's'}, {shown}"
