"""E[(X₁ + … + Xₙ)₊] of a finite X with a heavy tail, from both sides: split by the largest copy.

No single tilt serves both the usual sums and those that one large copy makes positive. With φ_c(s) = E[e^{sX}; X ≤ c],
the sums whose largest copy lies in (b, c] form a measure with the transform φ_cⁿ − φ_bⁿ. Each such measure, a `Piece`,
has a tilt, a period and a smoothing of its own (docs/theory/numerics.md, section 2.7). Every choice of them is valid.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import slack

__all__ = ["Piece", "lower_sum", "rough_log_sum", "split", "upper_sum"]

_COARSEST, _STEEP = 0.2, 0.5
"""The most that a piece is smoothed, in standard deviations and relative to 1/θ: then its own estimate still holds."""
_CAP_RATIO = 0.4
"""The ratio of neighbouring caps: a smaller one makes fewer pieces, each of which suits its tilt less."""
_TILT_RATIO = 1.25
"""The ratio of neighbouring tilts that are tried: a smaller one takes longer and hardly moves the minimum."""
_GROUP, _SINGLE = 4, 48
"""So many neighbouring values are one when pieces are chosen, which need not be precise; the largest stay single."""
_GAIN = 1e-3
"""One piece fewer is worth this much in the logarithm of the sum of Chernoff's bounds."""
_NEGLIGIBLE = 0.05
"""A piece that is roughly this part of the precision is charged Chernoff's bound instead of being summed."""
_CLEAR = 15.0
"""Aliases are to be below e^−15 of the answer: more makes longer periods with more nodes."""
_CUT = 7.0
"""Nodes end where the smoothing factor is e^(−7²/2) = 2e-11; what lies beyond is charged."""
_PRECISE, _MANY = 48, 10**7
"""For more than so many copies, the first nodes are relatively accurate in A − 1, because errors of A count n times."""
_DROPPED = 1e-11
"""Rows that are proved to be below this part of the first node are charged instead of being summed."""
_GONE = 60.0
"""Values that the tilt reduces by more than e^−60 are raised to one value: fewer values, and nothing is lost."""
_MOST_NODES = 1 << 16
"""More nodes would take longer than a second: the piece is charged, or smoothed more."""
_STEEPEST = 600.0
"""Exponents beyond it overflow soon."""
_ALIAS_TILTS = (1.03, 1.06, 1.1, 1.2, 1.35, 1.6, 2.0, 3.0)
"""Tilts, relative to that of a piece, for Chernoff's bound of its aliases."""

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class Piece(NamedTuple):
    """The sums whose largest copy lies in (low, high], and where to invert their transform.

    Attributes
    ----------
    low, high : float
        The caps; sums without a positive copy add nothing, so that the first `low` is zero.
    tilt, period, smoothing : float
        θ, L and τ of (N2).
    log_size : float
        Roughly log E[(S)₊] of the piece.
    charged : bool
        Whether the piece is so small that Chernoff's bound is enough.
    """

    low: float
    high: float
    tilt: float
    period: float
    smoothing: float
    log_size: float
    charged: bool


def split(values: Array, masses: Array, copies: int, precision: float) -> tuple[Piece, ...]:
    """Return pieces for which Chernoff's bounds together are about the least.

    Parameters
    ----------
    values, masses : numpy.ndarray
        The distribution of X, with ascending values; the probability that is missing is at zero.
    copies : int
        n.
    precision : float
        How much smoothing may add to E[(S)₊], relatively.

    Returns
    -------
    tuple of Piece
        Ascending, from zero to infinity; nothing if the values are too far apart for float64.
    """
    rest = max(1 - float(masses.sum()), 0.0)
    values, masses = _coarse(values, masses)
    bulk = float((masses * np.minimum(np.abs(values), 1.0)).sum() / masses.sum())
    top = float(values[-1])
    count = max(1, math.ceil(math.log(max(top / (0.03 * bulk), 1.0)) / -math.log(_CAP_RATIO)))
    caps = top * _CAP_RATIO ** np.arange(count)[::-1]
    ends = np.unique(np.searchsorted(values, caps, side="right"))
    ends = ends[values[ends - 1] > 0]
    spread = math.sqrt(copies * float((masses * values**2).sum()))
    least = min(0.05 / top, 0.2 / spread)
    most = max(3e3 / bulk, 100 / top)
    if not 0 < most / max(least, 1e-300) < math.inf:
        return ()
    number = math.ceil(math.log(most / least) / math.log(_TILT_RATIO))
    tilts = np.asarray(least * _TILT_RATIO ** np.arange(number), dtype=np.float64)
    zero = int(np.searchsorted(values, 0.0, side="right"))
    starts = np.concatenate(([zero], ends[:-1]))
    with np.errstate(over="ignore"):
        exponents = np.clip(np.multiply.outer(tilts, values), -_GONE, _STEEPEST)
    powers = masses * np.exp(exponents)
    parts = np.add.reduceat(powers[:, : ends[-1]], starts, axis=1)
    sums = np.cumsum(parts, axis=1)
    whole = sums + powers[:, :zero].sum(axis=1, keepdims=True) + rest
    logs = copies * np.log(np.maximum(whole, 1e-300))
    with np.errstate(divide="ignore"):
        first = logs + np.log(-np.expm1(copies * np.log1p(-np.minimum(sums / whole, 1.0))))
        later = logs + np.log(-np.expm1(copies * np.log1p(-np.minimum(parts / whole, 1.0))))
    heights = -np.log(tilts)
    best_first = (first + heights[:, None]).min(axis=0)
    best_later = (later + heights[:, None]).min(axis=0)
    after = np.append(np.logaddexp.accumulate(best_later[::-1])[::-1][1:], -math.inf)
    totals = np.logaddexp(best_first, after)
    begin = int(np.flatnonzero(totals <= totals.min() + _GAIN)[-1])
    limits = values[ends - 1]
    limits[-1] = math.inf
    rough = [_aimed(tilts, first[:, begin], 0.0, limits[begin])]
    rough += [_aimed(tilts, later[:, at], limits[at - 1], limits[at]) for at in range(begin + 1, len(ends))]
    total = rough_log_sum(rough)
    shares = [math.exp(piece.log_size - total) for piece in rough]
    negligible = _NEGLIGIBLE * precision
    counted = sum(share > negligible for share in shares)
    found = []
    for piece, share in zip(rough, shares, strict=True):
        found.append(_smoothed(piece, max(share, negligible), precision / counted, charged=share <= negligible))
    return tuple(found)


def _coarse(values: Array, masses: Array) -> tuple[Array, Array]:
    """Return fewer values with about the same distribution, from which the pieces are chosen."""
    single = max(len(values) - _SINGLE, 0)
    starts = np.concatenate((np.arange(0, single, _GROUP), np.arange(single, len(values))))
    sums = np.add.reduceat(masses, starts)
    return np.add.reduceat(masses * values, starts) / np.maximum(sums, 1e-300), sums


def rough_log_sum(pieces: Sequence[Piece]) -> float:
    """Return roughly log E[(S)₊]."""
    return float(np.logaddexp.reduce([piece.log_size for piece in pieces]))


def _aimed(tilts: Array, logs: Array, low: float, high: float) -> Piece:
    """Return a piece at the tilt θ where log(M̂(θ)/θ²) is least; `smoothing` is still the deviation."""
    least = int(np.argmin(logs - 2 * np.log(tilts)))
    at = min(max(least, 1), len(tilts) - 2)
    tilt = float(tilts[at])
    before, here, after = np.maximum(logs[at - 1 : at + 2], -1e300).tolist()
    rise = (after - here) / (tilts[at + 1] - tilt)
    fall = (here - before) / (tilt - tilts[at - 1])
    bend = 2 * float(rise - fall) / float(tilts[at + 1] - tilts[at - 1])
    deviation = math.sqrt(max(bend, (0.05 / tilt) ** 2))
    wide = max(deviation, 1 / tilt)
    log_size = float(logs[at]) - 2 * math.log(tilt) - math.log(2.6 * wide)
    mass = min(float(logs[0]), 0.0)  # at the least tilt M̂ is about the mass of the piece
    period = (max(0.0, math.log(20 * wide) + mass - log_size) + _CLEAR) / tilt
    if tilt * deviation > 9:
        period = min(period, 9 * deviation)
    return Piece(low, high, tilt, max(period, 8 * deviation), deviation, log_size, charged=False)


def _smoothed(piece: Piece, share: float, precision: float, *, charged: bool) -> Piece:
    """Return the piece with its smoothing τ, which adds (τθ)²/2 of this share: at most `precision` of the whole."""
    deviation = piece.smoothing
    smoothing = math.sqrt(2 * precision / share) / piece.tilt
    smoothing = min(smoothing, _COARSEST * deviation, _STEEP / piece.tilt)
    nodes = _CUT / max(smoothing, 1e-300) * piece.period / (2 * math.pi)
    return piece._replace(smoothing=smoothing, charged=charged or nodes > _MOST_NODES)


def upper_sum(values: Array, masses: Array, copies: int, pieces: Sequence[Piece]) -> float:
    """Return an upper bound of E[(S)₊]; the probability that `masses` lack is at zero."""
    if not pieces:
        return math.inf
    return math.fsum(_upper(_Tilted.of(values, masses, copies, piece)) for piece in pieces) * (1 + slack(64))


def lower_sum(values: Array, masses: Array, copies: int, pieces: Sequence[Piece]) -> float:
    """Return a lower bound of E[(S)₊]; the probability that `masses` lack is at zero."""
    ends = (_lower(_Tilted.of(values, masses, copies, piece)) for piece in pieces if not piece.charged)
    return math.fsum(ends) * (1 - slack(64))


class _Tilted(NamedTuple):
    """A piece of the distribution of X, tilted by e^{θX}/φ(θ), φ = φ_high.

    Attributes
    ----------
    values, weights : numpy.ndarray
        The values up to `high`, and their tilted probabilities.
    inner : int
        How many of them are at most `low`.
    log_moment, log_error : float
        n·log φ(θ), and its error.
    rel_errors : numpy.ndarray
        Relative errors of the weights.
    masses : numpy.ndarray
        The probabilities before tilting.
    beyond : float
        The probability of values above `high`.
    """

    piece: Piece
    copies: int
    values: Array
    weights: Array
    inner: int
    log_moment: float
    log_error: float
    rel_errors: Array
    masses: Array
    beyond: float

    @classmethod
    def of(cls, values: Array, masses: Array, copies: int, piece: Piece) -> "_Tilted":
        """Tilt the distribution."""
        outer = int(np.searchsorted(values, piece.high, side="right"))
        inner = int(np.searchsorted(values, piece.low, side="right"))
        beyond = float(masses[outer:].sum())
        values, masses = values[:outer], masses[:outer]
        tilted = piece.tilt * values
        changes = masses * np.expm1(np.minimum(tilted, _STEEPEST))
        excess = float(changes.sum()) - beyond  # φ(θ) − 1, which keeps its digits when it is small
        moment = 1 + excess
        if not 1e-9 < moment < 1e200 or not len(values) or tilted[-1] > _STEEPEST:
            return cls(piece, copies, values, masses, inner, math.inf, 0.0, masses, masses, beyond)
        own = slack(16) * (4 + np.maximum(tilted, 0.0))  # |z|·e^z ≤ 1 for z < 0
        counted = slack(len(values) + 32)
        error = float((np.abs(changes) * (own + counted)).sum()) + counted * beyond
        error = 1.01 * error / moment
        weights = masses * np.exp(tilted) / moment
        log_moment = copies * math.log1p(excess)
        log_error = copies * error + slack(16) * abs(log_moment)
        rel_errors = slack(32) * (4 + np.abs(tilted)) + error
        return cls(piece, copies, values, weights, inner, log_moment, log_error, rel_errors, masses, beyond)

    @property
    def largest(self) -> float:
        """The tilted probability of the values above `low`."""
        return float(self.weights[self.inner :].sum()) * (1 + slack(2048))

    @property
    def whole(self) -> float:
        """An upper bound of the measure of the piece, relative to φ(θ)ⁿ: some copy is above `low`."""
        return min(1.0, self.copies * self.largest)


class _Nodes(NamedTuple):
    """The transform of a piece at s = θ + iy, relative to φ(θ)ⁿ, times e^{τ²s²/2}.

    Attributes
    ----------
    points, terms : numpy.ndarray
        The nodes s that are summed, with y ≥ 0, and the terms; a node stands for its conjugate, too.
    errors : numpy.ndarray
        Bounds of the errors of the terms.
    omitted, omitted_density : float
        Bounds of the sum of |term/s²| and of |term| over all other nodes.
    """

    points: Complex
    terms: Complex
    errors: Array
    omitted: float
    omitted_density: float


def _upper(tilted: _Tilted) -> float:
    """Return an upper bound of E[(S)₊] of one piece."""
    piece = tilted.piece
    if not tilted.log_moment < math.inf:
        return math.inf
    size = math.exp(min(tilted.log_moment + tilted.log_error, _STEEPEST))
    if piece.charged:  # x₊ ≤ e^{θx}/(eθ)
        return 1.001 * size * tilted.whole / (math.e * piece.tilt)
    total, margin = _inverted(_nodes(tilted))
    return (total + margin) / piece.period * size


def _inverted(nodes: _Nodes) -> tuple[float, float]:
    """Return L times the inversion sum (N2), relative to φ(θ)ⁿ, and its error."""
    kernel = 1 / nodes.points**2
    total = float((nodes.terms * kernel).real.sum())
    margin = float((nodes.errors * np.abs(kernel)).sum()) + nodes.omitted
    return total, 1.001 * margin


def _lower(tilted: _Tilted) -> float:
    """Return a lower bound of E[(S)₊] of one piece."""
    piece = tilted.piece
    if not tilted.log_moment < math.inf:
        return 0.0
    nodes = _nodes(tilted)
    total, margin = _inverted(nodes)
    # (N4): smoothing adds at most τ² times the density at zero.
    density = float(nodes.terms.real.sum()) + float(nodes.errors.sum()) + nodes.omitted_density
    smoothed = 1.001 * piece.smoothing**2 * max(density, 0.0)
    size = math.exp(min(tilted.log_moment - tilted.log_error, _STEEPEST)) / piece.period
    return max(0.0, (total - margin - smoothed) * size - _aliases(tilted, (total + margin) * size))


def _aliases(tilted: _Tilted, upper: float) -> float:
    """Return an upper bound of the terms j ≠ 0 of (N2)."""
    piece = tilted.piece
    turned = piece.tilt * piece.period
    outer = float(tilted.masses[tilted.inner :].sum())
    mass = min(1.0, 1.01 * tilted.copies * outer)
    below = 1.02 * math.exp(-turned) * (1.01 * upper + piece.period * mass) if turned > 5 else math.inf
    above = math.inf
    for ratio in _ALIAS_TILTS:
        tilt = ratio * piece.tilt
        if tilt * float(tilted.values[-1]) > _STEEPEST or (ratio - 1) * turned < 4.7:
            continue
        powers = tilted.masses * np.expm1(tilt * tilted.values)
        excess = float(powers.sum()) - tilted.beyond
        jumps = float((powers + tilted.masses)[tilted.inner :].sum()) / (1 + excess)
        share = min(1.0, 1.01 * tilted.copies * jumps)
        exponent = tilted.copies * math.log1p(excess) + (piece.smoothing * tilt) ** 2 / 2
        exponent += (piece.tilt - tilt) * piece.period
        above = min(above, 1.02 * share * math.exp(min(exponent, _STEEPEST)) / (math.e * tilt))
    return below + above


def _nodes(tilted: _Tilted) -> _Nodes:
    """Return (φ_high(s)ⁿ − φ_low(s)ⁿ)·e^{τ²s²/2} at the nodes, relative to φ_high(θ)ⁿ (N3)."""
    piece = tilted.piece
    step = 2 * math.pi / piece.period
    last = max(8, math.ceil(_CUT / (piece.smoothing * step)))
    width = 64 if tilted.copies > _MANY else 1 << max(3, round(math.log2(last) / 2))
    rows = last // width + 1
    begin = int(np.searchsorted(tilted.values, -_GONE / piece.tilt))
    weights = tilted.weights[begin:]
    inner = max(tilted.inner - begin, 0)
    far = _turns(step * width * tilted.values[begin:], rows) * weights[:, None]
    bounds = _row_bounds(tilted, begin, far, step * width)
    kept = np.flatnonzero(bounds > _DROPPED * bounds[0])
    starts = np.asarray(step * width * np.arange(rows), dtype=np.float64)
    left_out = np.where(bounds > _DROPPED * bounds[0], 0.0, 2 * width * bounds * _lift(piece, starts))
    with np.errstate(divide="ignore"):
        omitted = float((left_out / np.maximum(starts, step) ** 2).sum())
    # Beyond the last row, sums of e^{−τ²y²/2} and of the same over y² are at most integrals (2.2).
    end = step * (rows * width - 1)
    beyond = 2 * tilted.whole * float(_lift(piece, np.array([end]))[0]) / (step * end)
    omitted += beyond
    omitted_density = float(left_out.sum()) + beyond / piece.smoothing**2
    near = _turns(step * tilted.values[begin:], width)
    change = far[:inner, kept].T @ near[:inner]
    jumps = far[inner:, kept].T @ near[inner:]
    numbers = (width * kept[:, None] + np.arange(width)).ravel()
    heights = np.asarray(step * numbers, dtype=np.float64)
    terms, errors = _powers(tilted, begin, heights, change.ravel(), jumps.ravel())
    points = np.asarray(piece.tilt + 1j * heights, dtype=np.complex128)
    factor = np.exp(0.5 * piece.smoothing**2 * points**2)
    factor[1:] *= 2  # a node and its conjugate
    return _Nodes(points, terms * factor, np.abs(factor) * errors, omitted, omitted_density)


def _lift(piece: Piece, heights: Array) -> Array:
    """Return |e^{τ²s²/2}| at s = θ + iy for each height y."""
    return np.asarray(np.exp(0.5 * piece.smoothing**2 * (piece.tilt**2 - heights**2)))


def _row_bounds(tilted: _Tilted, begin: int, far: Complex, width: float) -> Array:
    """Return upper bounds of |Aⁿ − Bⁿ| over rows of nodes of this width, from A and its slope in the middle."""
    copies = tilted.copies
    values, weights = tilted.values[begin:], tilted.weights[begin:]
    middle = np.exp(0.5j * width * values)
    nothing = max(1 - float(weights.sum()), 0.0)
    centre = middle @ far + nothing
    slope = 1j * ((middle * values) @ far)
    mean = float((weights * values).sum())
    variance = float((weights * values**2).sum()) - mean**2 * (1 - slack(256))
    radius = 0.5 * width
    # |A|² changes by at most |slope|·r + Var·r² within r.
    squares = np.abs(centre) ** 2 + 2 * np.abs((centre.conj() * slope).real) * radius + variance * radius**2
    most = np.minimum(np.sqrt(squares) * (1 + 1e-9) + 1e-9, 1.0)
    # |B| is at most |A| + |J|, and at most what it is at the real axis.
    part = np.minimum(most + tilted.largest, max(1 - tilted.largest, 0.0) + 1e-9)
    log_most = np.log(np.minimum(np.maximum(most, part), 1.0))
    rare = copies * tilted.largest * np.exp((copies - 1) * log_most)
    bounds = np.minimum(rare, 2 * np.exp(copies * log_most))
    bounds[0] = tilted.whole
    return np.asarray(1.01 * bounds)


def _powers(tilted: _Tilted, begin: int, heights: Array, inside: Complex, jumps: Complex) -> tuple[Complex, Array]:
    """Return Aⁿ − Bⁿ at these heights, and bounds of its errors.

    A = φ_high/φ_high(θ) and B = A − J = φ_low/φ_high(θ); `inside` is B without the probability of zero, `jumps` is J.
    """
    copies = tilted.copies
    inner = max(tilted.inner - begin, 0)
    values, weights = tilted.values[begin:], tilted.weights[begin:]
    change = inside + jumps - float(weights.sum())
    distances = weights * np.abs(values)
    rel_errors = tilted.rel_errors[begin:] + slack(2 * len(values) + 128)
    flat = float((weights * rel_errors).sum())
    linear = float((distances * rel_errors).sum()) + slack(64) * float(distances.sum())
    gone = 2 * float(tilted.weights[:begin].sum())
    error = gone + flat + heights * linear
    count = _PRECISE if copies > _MANY else 1
    change[:count] = _precise(values, weights, heights[:count])
    error[:count] -= flat
    large_flat = float((weights * rel_errors)[inner:].sum())
    large_error = large_flat + heights * slack(64) * float(distances[inner:].sum())
    logs = _log1p(change)
    whole = 1 + change
    part = whole - jumps
    part_error = error + large_error
    log_part = np.log(np.maximum(np.abs(part), 1e-300))
    most_whole = np.log1p(np.expm1(logs.real) + error)
    most_part = np.log1p(np.expm1(log_part) + part_error)
    log_most = np.maximum(most_whole, most_part)
    # Errors of A and J change Aⁿ − (A − J)ⁿ by at most either of these.
    rare = large_error + copies * error * tilted.largest * np.exp(-np.maximum(log_most, -_STEEPEST))
    rare = rare * np.exp((copies - 1) * log_most)
    apart = error * np.exp((copies - 1) * most_whole) + part_error * np.exp((copies - 1) * most_part)
    errors = 1.01 * copies * np.minimum(rare, apart)
    # Aⁿ − Bⁿ = −Aⁿ·((1 − J/A)ⁿ − 1), without a difference where J is rare.
    power = np.exp(copies * logs)
    part_power = np.exp(copies * (log_part + 1j * np.angle(part)))
    ratio = jumps / np.where(np.abs(whole) > 1e-300, whole, 1.0)
    near = (np.abs(ratio) < 0.5) & (copies * np.abs(ratio) < 30)
    exponent = copies * _log1p(np.where(near, -ratio, 0.0))
    terms = np.where(near, -power * _expm1(exponent), power - part_power)
    grown = np.abs(power) * np.abs(exponent) * np.exp(np.maximum(exponent.real, 0.0))
    sizes = np.where(near, grown, np.abs(power) + np.abs(part_power))
    own = slack(64) * (32 + copies * (np.abs(logs.real) + np.abs(logs.imag)))
    return terms, errors + sizes * own


def _precise(values: Array, weights: Array, heights: Array) -> Complex:
    """Return Σ weights·(e^{iyx} − 1) at each height y, with an error relative to y·|x|."""
    halves = np.multiply.outer(0.5 * heights, values)
    sines = np.sin(halves)
    return np.asarray((2j * sines * np.cos(halves) - 2 * sines * sines) @ weights)


def _turns(angles: Array, count: int) -> Complex:
    """Return e^{i·angle·k} for k below `count`, by doubling."""
    table = np.empty((len(angles), count), dtype=np.complex128)
    table[:, 0] = 1.0
    known = 1
    while known < count:
        turn = np.exp(1j * (known * angles))
        following = min(2 * known, count)
        table[:, known:following] = table[:, : following - known] * turn[:, None]
        known = following
    return table


def _log1p(change: Complex) -> Complex:
    """Return log(1 + change), relatively accurate near zero."""
    real, imaginary = change.real, change.imag
    squared = np.maximum(real * (2 + real) + imaginary * imaginary, -1 + 1e-300)
    with np.errstate(divide="ignore"):
        size = np.maximum(0.5 * np.log1p(squared), -_STEEPEST)
    return np.asarray(size + 1j * np.arctan2(imaginary, 1 + real))


def _expm1(exponent: Complex) -> Complex:
    """Return e^exponent − 1, relatively accurate near zero."""
    half = np.sin(0.5 * exponent.imag)
    growth = np.exp(exponent.real)
    real = np.expm1(exponent.real) - 2 * growth * half * half
    return np.asarray(real + 1j * growth * np.sin(exponent.imag))
