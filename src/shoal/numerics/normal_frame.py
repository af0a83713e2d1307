"""A path of s, and the rays of t along it, that serve every ε of an interval: what bounds of δ of normal noise share.

On the first half of the blanket W = g·t − 1, on the other g − t, g = e^{−ε}. At another ε, e^{sW} differs by a factor
that does not depend on t, and on the first half s is multiplied by the ratio of both g. So the sums along the rays are
power series in s that serve neighbouring ε, too (docs/theory/numerics.md, section 2.7, e).
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.normal_disc import Disc
from shoal.numerics.normal_path import NormalPath
from shoal.numerics.normal_tilt import Effort
from shoal.rounding import slack

__all__ = ["Expansion", "NormalFrame", "ratio_less_one"]

_NEAR = 0.3
"""How far apart, in ε, those are that have power series of their own."""
_MOST, _CUT = 48, 1e-2
"""How many terms a power series has at most, and what may be cut off, as a part of what the effort leaves out."""
_GROUPS = 2
"""Into how many parts discs of similar sizes are divided, which go together."""

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class Expansion(NamedTuple):
    """Sums of e^{sW} along rays, without e^{(s − c)W} of where a ray begins, as power series in s − c, c the middle.

    Attributes
    ----------
    start, gain : float
        W = start + gain·(t − 1); the gain is −1 on the other half.
    reach : numpy.ndarray
        How far from the middle of each disc they serve, which is the unit of s − c.
    terms : numpy.ndarray
        The coefficients, a row for each disc of one half.
    wrong : numpy.ndarray
        By how much the sums may be wrong.
    """

    start: float
    gain: float
    reach: Array
    terms: Complex
    wrong: Array


class NormalFrame:
    """A path, its rays, and power series of the sums along them.

    Parameters
    ----------
    middle : NormalPath
        At the ε that the path is made for.
    ends : tuple of NormalPath
        At both ends of the interval that it serves; without them, that is this ε.
    effort : Effort
        What is done for the bounds.
    """

    def __init__(self, middle: NormalPath, ends: tuple[NormalPath, ...], effort: Effort) -> None:
        self.middle, self.effort = middle, effort
        self.path = path = middle.path(effort, max(ends, key=lambda one: one.gain, default=middle))
        count = len(path.centres)
        self.discs = Disc(
            np.tile(path.centres, 2),
            np.tile(path.radii, 2),
            np.concatenate((path.upper, path.lower)),
            np.concatenate(path.angles),
            _sides(middle, count)[0],
            _sides(middle, count)[1],
            tuple(_sides(one, count) for one in ends),
        )
        self.ending = None if path.end is None else middle.ending(path.end, ends)
        ray = middle.rays.along(self.discs.joined(self.ending) if self.ending else self.discs, effort.along)
        self.after, self.ray = ray.chosen(slice(2 * count, None)), ray.chosen(slice(0, 2 * count))
        # At the turn and next to zero, the ray of the first half is bounded otherwise.
        self.ray.weights[count - 2 : count] = 0.0
        self.ray.wrong[count - 2 : count] = 0.0
        self._wide = bool(ends)
        self._real = (np.tile(path.steps.imag, 2) == 0) & (self.discs.angles == 0)
        self._expansions: dict[int, Expansion] = {}

    def expansion(self, one: NormalPath) -> Expansion:
        """Return the power series of the first half that serve this ε."""
        index = round(-math.log(one.gain / self.middle.gain) / _NEAR)
        if index not in self._expansions:
            start, gain = self.middle.start, self.middle.gain
            if index:
                gain = gain * math.exp(-_NEAR * index)
                start = gain - 1
            # The ratio of two gains times s has to be within reach.
            away = math.expm1(0.51 * _NEAR) if self._wide else 0.0
            self._expansions[index] = self._expanded(slice(0, len(self.path.centres)), start, gain, away)
        return self._expansions[index]

    @cached_property
    def other(self) -> Expansion:
        """The power series of the other half, which serve every ε: e^{sW} differs by a factor without t."""
        count = len(self.path.centres)
        return self._expanded(slice(count, 2 * count), self.middle.start, -1.0, 0.0)

    def _expanded(self, half: slice, start: float, gain: float, away: float) -> Expansion:
        """Return the power series for this W, on one half."""
        discs, ray, cut_off = self.discs.chosen(half), self.ray.chosen(half), _CUT * self.effort.left_out
        reach = 0.5 * discs.radii * (1 + away) + away * np.abs(discs.centres)
        begins = self.middle.rays.real.reach[discs.edges]
        count = len(reach)
        terms, wrong = np.zeros((count, _MOST), dtype=np.complex128), np.full(count, 1e-300)
        on_axis = self._real[half]
        ranked = np.argsort(np.abs(discs.centres), kind="stable")
        kinds = [ranked[on_axis[ranked]], ranked[~on_axis[ranked]]]
        for rows in (some for kind in kinds for some in np.array_split(kind, _GROUPS) if len(some)):
            real = bool(on_axis[rows[0]])  # real numbers are faster
            excess, weights, centres = (
                part[rows].real if real else part[rows] for part in (ray.excess, ray.weights, discs.centres)
            )
            steps = (gain * reach)[rows][:, None] * (excess - begins[rows][:, None])
            pushed = (centres * gain)[:, None] * excess + (centres * start)[:, None]
            sizes = np.abs(steps)
            whole = np.abs(weights) * np.exp(np.minimum(pushed.real + sizes, 700.0))
            totals = whole.sum(axis=1)
            # Nodes at the far end of the rays hardly count.
            after = np.cumsum(whole[:, ::-1], axis=1)[:, ::-1]
            length = max(int((after > cut_off * totals[:, None]).any(axis=0).sum()), 1)
            wrong[rows] += slack(256 + 8 * _MOST) * totals
            if length < after.shape[1]:
                wrong[rows] += after[:, length]
            powers, steps = weights[:, :length] * np.exp(pushed[:, :length]), steps[:, :length]
            far, several = np.exp(sizes[:, :length]), [steps]
            while len(several) < 4:
                several.append(several[-1] * steps)
            for order in range(0, _MOST, 4):
                sums = [powers.sum(axis=1)] + [np.einsum("ij,ij->i", powers, each) for each in several[:3]]
                terms[rows, order : order + 4] = np.stack(sums, axis=1) / [
                    math.prod(range(order + 1, order + more + 1)) for more in range(4)
                ]
                powers *= several[3]
                powers /= math.prod(range(order + 1, order + 5))
                # What follows is at most |steps|^order/order!·e^|steps|.
                cut = np.einsum("ij,ij->i", np.abs(powers), far)
                if np.all(cut <= cut_off * totals):
                    break
            wrong[rows] += 1.01 * cut
        last = 1 + int(np.flatnonzero(terms.any(axis=0)).max(initial=0))
        return Expansion(start, gain, reach, terms[:, :last], wrong)


def _sides(one: NormalPath, count: int) -> tuple[Array, Array]:
    """Return starts and gains of the discs of both halves."""
    return np.full(2 * count, one.start), np.repeat([one.gain, -1.0], count)


def ratio_less_one(one: NormalPath, expansion: Expansion) -> float:
    """Return the ratio of both gains less one, from what is more accurate."""
    move = one.gain - expansion.gain if one.gain < 0.6 else one.start - expansion.start
    return move / expansion.gain
