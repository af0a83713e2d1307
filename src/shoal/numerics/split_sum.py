"""E[(X₁ + … + Xₙ)₊] of a finite X with a heavy tail, from both sides: split by the largest copy.

No single tilt serves both the usual sums and the sums that one large copy makes positive. The sums
whose largest copy lies in (b, c] form a measure with the transform φ_cⁿ − φ_bⁿ, where
φ_c(s) = E[e^{sX}; X ≤ c]. Each such measure is a `Piece` with a separate tilt, period, smoothing
and choice of values (docs/theory/numerics.md, section 2.7). Every choice of them is valid.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import Array, Complex
from shoal.checks import SMALLEST_DELTA
from shoal.numerics.contour import log_one_plus
from shoal.rounding import LARGEST_POWER, slack

_CAP_RATIO = 0.15
"""The ratio of neighbouring caps: if smaller, more pieces; if larger, tilts suit them less."""
_TILT_RATIO = 1.25
"""The ratio of neighbouring tilts that are tried: a smaller one takes longer for little."""
_PLENTY = 400
"""About how many values pieces are chosen from: more take longer, fewer are too rough."""
_NEGLIGIBLE = 0.05
"""A piece with this part of the precision is charged Chernoff's bound, which takes no nodes."""
_COARSEST = 0.25
"""The most that a piece is smoothed, relative to its deviation and to 1/θ, where estimates hold."""
_MOST_MERGED = 16
"""The most values that thinning replaces by one: more of them may differ much in density."""
_CLEAR = 13.0
"""Aliases are to be below e^−13 of the answer: more makes longer periods with more nodes."""
_CUT = 4.5
"""Nodes end where the smoothing factor is e^(−4.5²/2) = 4e-5: fewer nodes, or a larger charge."""
_DROPPED = 1e-10
"""Rows of nodes below this part of the first node are charged instead of being summed."""
_MOST_NODES = 1 << 16
"""More nodes would take longer than a second: the piece is charged."""
_GONE = 60.0
"""Values that the tilt reduces by more than e^−60 become one value, and nothing is lost."""


class Piece(NamedTuple):
    """The sums whose largest copy lies in (low, high], and where to invert their transform.

    Sums without a positive copy add nothing, so that the first `low` is zero.
    """

    low: float
    high: float
    tilt: float  # θ of (N2)
    period: float  # L of (N2)
    smoothing: float  # τ of (N2)
    log_size: float  # roughly log E[(S)₊] of the piece
    charged: bool  # whether the piece is so small that Chernoff's bound is enough


def split(values: Array, masses: Array, copies: int, precision: float) -> tuple[Piece, ...]:
    """Return pieces, ascending, for which Chernoff's bounds together are about the least.

    The values of X ascend, and the probability that is missing is at zero. Smoothing may add the
    part `precision` to E[(S)₊] of n copies. Nothing is returned if the values are too far apart for
    float64.
    """
    values, masses = _coarse(values, masses)
    bulk = float((masses * np.minimum(np.abs(values), 1.0)).sum() / masses.sum())
    top = float(values[-1])
    spread = math.sqrt(copies * float((masses * values**2).sum()))
    least = min(0.05 / top, 0.2 / spread)
    most = max(3e3 / bulk, 100 / top)
    if not 0 < most / max(least, 1e-300) < math.inf:
        return ()
    number = math.ceil(math.log(most / least) / math.log(_TILT_RATIO))
    tilts = np.asarray(least * _TILT_RATIO ** np.arange(number), dtype=np.float64)
    count = math.ceil(math.log(max(top / (0.03 * bulk), 1.5)) / -math.log(_CAP_RATIO))
    caps = top * _CAP_RATIO ** np.arange(count)[::-1]
    ends = np.unique(np.searchsorted(values, caps, side="right"))
    ends = ends[values[ends - 1] > 0]
    first, later = _log_moments(values, masses, copies, tilts=tilts, ends=ends)
    # Chernoff's bounds M̂(θ)/θ of the first piece up to each cap, and of all later ones.
    heights = -np.log(tilts)[:, None]
    after = np.logaddexp.accumulate((later + heights).min(axis=0)[::-1])[::-1]
    totals = np.logaddexp((first + heights).min(axis=0), np.append(after[1:], -math.inf))
    begin = int(np.flatnonzero(totals <= totals.min() + precision)[-1])
    limits = values[ends - 1]
    limits[-1] = math.inf
    rough = [_aimed(tilts, first[:, begin], 0.0, limits[begin])]
    for at in range(begin + 1, len(ends)):
        rough.append(_aimed(tilts, later[:, at], limits[at - 1], limits[at]))
    return _shared_out(rough, precision)


def _coarse(values: Array, masses: Array) -> tuple[Array, Array]:
    """Return fewer values with about the same distribution, from which the pieces are chosen."""
    starts = np.arange(0, len(values), 1 + len(values) // _PLENTY)
    sums = np.add.reduceat(masses, starts)
    means = np.add.reduceat(masses * values, starts) / np.maximum(sums, 1e-300)
    return means, sums


def _log_moments(
    values: Array, masses: Array, copies: int, *, tilts: Array, ends: NDArray[np.intp]
) -> tuple[Array, Array]:
    """Return log M̂(θ) for pieces from zero to each cap, and from each cap to the next."""
    zero = int(np.searchsorted(values, 0.0, side="right"))
    rest = max(1 - float(masses.sum()), 0.0)
    starts = np.concatenate(([zero], ends[:-1]))
    with np.errstate(over="ignore"):
        exponents = np.clip(np.multiply.outer(tilts, values), -_GONE, LARGEST_POWER)
    powers = masses * np.exp(exponents)
    parts = np.add.reduceat(powers[:, : ends[-1]], starts, axis=1)
    sums = np.cumsum(parts, axis=1)
    whole = sums + powers[:, :zero].sum(axis=1, keepdims=True) + rest
    logs = copies * np.log(np.maximum(whole, 1e-300))
    # Of each piece, the tilted probability that some copy is large: 1 − (1 − j)ⁿ.
    shares = np.minimum(np.stack((sums, parts)) / whole, 1.0)
    with np.errstate(divide="ignore"):
        first, later = logs + np.log(-np.expm1(copies * np.log1p(-shares)))
    return first, later


def _aimed(tilts: Array, logs: Array, low: float, high: float) -> Piece:
    """Return a piece at the tilt with the least M̂(θ)/θ²; its `smoothing` is the deviation."""
    least = int(np.argmin(logs - 2 * np.log(tilts)))
    at = min(max(least, 1), len(tilts) - 2)
    tilt = float(tilts[at])
    # The second derivative of log M̂ is the variance of the tilted piece.
    around = slice(at - 1, at + 2)
    slopes = np.diff(np.maximum(logs[around], -1e300)) / np.diff(tilts[around])
    variance = 2 * float(slopes[1] - slopes[0]) / float(tilts[at + 1] - tilts[at - 1])
    deviation = math.sqrt(max(variance, (0.05 / tilt) ** 2))
    wide = max(deviation, 1 / tilt)
    log_size = float(logs[at]) - 2 * math.log(tilt) - math.log(2.6 * wide)
    # At the least tilt M̂ is about the mass of the piece, which (2.7) multiplies.
    log_mass = min(float(logs[0]), 0.0)
    cut = max(0.0, math.log(20 * wide) + log_mass - log_size) + _CLEAR
    period = cut / tilt
    if tilt * deviation > 9:
        period = min(period, 9 * deviation)
    period = max(period, 8 * deviation)
    return Piece(low, high, tilt, period, deviation, log_size, charged=False)


def _shared_out(rough: Sequence[Piece], precision: float) -> tuple[Piece, ...]:
    """Return the pieces with the smoothings for which nodes are fewest.

    Smoothing adds (τθ)²/2 of a piece, all pieces together `precision`. Nodes are as 1/τ.
    """
    total = rough_log_sum(rough)
    negligible = _NEGLIGIBLE * precision
    shares = [math.exp(piece.log_size - total) for piece in rough]
    scale = precision / sum(math.cbrt(share) for share in shares if share > negligible)
    found = []
    for piece, share in zip(rough, shares, strict=True):
        added = scale / max(share, negligible) ** (2 / 3)
        coarsest = _COARSEST * min(piece.smoothing, 1 / piece.tilt)
        smoothing = min(math.sqrt(2 * added) / piece.tilt, coarsest)
        nodes = _CUT / max(smoothing, 1e-300) * piece.period / (2 * math.pi)
        charged = share <= negligible or nodes > _MOST_NODES
        found.append(piece._replace(smoothing=smoothing, charged=charged))
    return tuple(found)


def rough_log_sum(pieces: Sequence[Piece]) -> float:
    """Return roughly log E[(S)₊]."""
    return float(np.logaddexp.reduce([piece.log_size for piece in pieces]))


def upper_sum(values: Array, masses: Array, copies: int, pieces: Sequence[Piece]) -> float:
    """Return an upper bound of E[(S)₊]; the probability that `masses` lack is at zero."""
    if not pieces:
        return math.inf
    ends = [_upper(_tilted(values, masses, copies, piece, side=1)) for piece in pieces]
    return math.fsum(ends) * (1 + slack(64))


def lower_sum(values: Array, masses: Array, copies: int, pieces: Sequence[Piece]) -> float:
    """Return a lower bound of E[(S)₊]; the probability that `masses` lack is at zero."""
    kept = [piece for piece in pieces if not piece.charged]
    ends = [_lower(_tilted(values, masses, copies, piece, side=-1)) for piece in kept]
    return math.fsum(ends) * (1 - slack(64))


class _Tilted(NamedTuple):
    """A piece of the distribution of X, tilted by e^{θX}/φ(θ), φ = φ_high."""

    piece: Piece
    copies: int  # n
    values: Array  # up to `high`
    masses: Array  # the probabilities of the values
    weights: Array  # the same after tilting
    errors: Array  # bounds of the errors of the weights, with that of adding them up
    inner: int  # how many of the values are at most `low`
    beyond: float  # the probability of values that do not belong to the piece
    counted: float  # the relative error of sums of masses
    log_moment: float  # n·log φ(θ)
    log_error: float  # the error of `log_moment`

    @property
    def largest(self) -> float:
        """The tilted probability of the values above `low`."""
        return float(self.weights[self.inner :].sum()) * (1 + slack(2048))

    @property
    def whole(self) -> float:
        """An upper bound of the measure of the piece over φ(θ)ⁿ: some copy is above `low`."""
        return min(1.0, self.copies * self.largest)


def _tilted(
    values: Array,
    masses: Array,
    copies: int,
    piece: Piece,
    *,
    side: int,
) -> _Tilted | None:
    """Return the piece of X, tilted, for an upper bound (side 1) or a lower one (side −1).

    Nothing is returned where e^{θX} is not representable as float64.
    """
    counted = slack(len(values) + 128)
    outer = int(np.searchsorted(values, piece.high, side="right"))
    inner = int(np.searchsorted(values, piece.low, side="right"))
    gone = max(int(np.searchsorted(values, -_GONE / piece.tilt)) - 1, 0)
    beyond = float(masses[outer:].sum())
    lowest = float(masses[:gone].sum())
    values = values[gone:outer]
    masses = masses[gone:outer].copy()
    inner -= gone
    if not len(values) or piece.tilt * values[-1] > LARGEST_POWER:
        return None
    if side > 0:
        masses[0] += lowest  # raised to the largest of them
    else:
        beyond += lowest  # sums with such a copy are not counted
    if not piece.charged:
        values, masses, inner = _thinned(values, masses, inner, copies, piece=piece, side=side)
    excess, error = _excess(values, masses, beyond, tilt=piece.tilt, counted=counted)
    moment = 1 + excess
    if not 1e-9 < moment < 1e200:
        return None
    log_moment = copies * math.log1p(excess)
    log_error = copies * error + slack(16) * abs(log_moment)
    exponents = piece.tilt * values
    weights = masses * np.exp(exponents) / moment
    own = slack(64) * (4 + np.abs(exponents)) + slack(2 * len(values) + 256)
    errors = weights * (own + error)
    return _Tilted(
        piece,
        copies,
        values,
        masses,
        weights,
        errors,
        inner,
        beyond,
        counted,
        log_moment,
        log_error,
    )


def _excess(
    values: Array,
    masses: Array,
    beyond: float,
    *,
    tilt: float,
    counted: float,
) -> tuple[float, float]:
    """Return φ(θ) − 1, with its digits where it is small, and the error of log φ(θ)."""
    exponents = tilt * values
    changes = masses * np.expm1(exponents)
    excess = float(changes.sum()) - beyond
    # An exponent z has a relative error, and |z|·e^z ≤ |e^z − 1|·(1 + max(z, 0)).
    roundings = slack(32) * (4 + np.maximum(exponents, 0.0)) + counted
    error = float((np.abs(changes) * roundings).sum()) + counted * beyond
    return excess, 1.01 * error / max(1 + excess, 1e-300)


def _thinned(
    values: Array, masses: Array, inner: int, copies: int, *, piece: Piece, side: int
) -> tuple[Array, Array, int]:
    """Return fewer values, such that the variance of the tilted sum changes by about τ²."""
    weights = masses * np.exp(piece.tilt * values)
    missing = max(1 - float(masses.sum()), 0.0)
    weights /= float(weights.sum()) + missing
    # In the piece some copy is above `low`.
    weights[inner:] /= max(min(copies * float(weights[inner:].sum()), 1.0), 1e-300)
    # For a given number of cells, Σ weight·gap²/6 is least if each has the same share of this.
    shares = np.cumsum(np.cbrt(weights * np.diff(values, append=values[-1]) ** 2))
    whole = float(shares[-1])
    cells = math.sqrt(copies * whole / 6) * whole / piece.smoothing
    if not cells < 2 * len(values):
        return values, masses, inner
    places = shares * (cells / max(whole, 1e-300))
    # No cell is wider than 1/θ, or has many values: the rule assumes a nearly constant density.
    places += piece.tilt * (values - values[0]) + np.arange(len(values)) / _MOST_MERGED
    kept = np.diff(np.floor(places), prepend=-1.0) > 0
    last = len(values) - 1
    kept[[0, max(inner - 1, 0), min(inner, last), last]] = True
    fewer = int(np.count_nonzero(kept[:inner]))
    merged = _at_edges if side > 0 else _at_means
    found, sums = merged(values, masses, kept)
    return found, sums, fewer


def _at_edges(values: Array, masses: Array, kept: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the values that are kept; other masses go to both neighbours, with their means."""
    edges = values[kept]
    group = np.cumsum(kept) - 1
    left = edges[group]
    right = edges[np.minimum(group + 1, len(edges) - 1)]
    widths = right - left
    # Both shares are relatively accurate.
    ahead = np.divide(values - left, widths, out=np.zeros_like(values), where=widths > 0)
    behind = np.divide(right - values, widths, out=np.ones_like(values), where=widths > 0)
    sums = np.bincount(group, masses * behind, len(edges)).astype(np.float64)
    sums[1:] += np.bincount(group, masses * ahead, len(edges))[:-1]
    return edges, sums


def _at_means(values: Array, masses: Array, kept: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the mean of each group that begins with a kept value, rounded down, and its mass."""
    starts = np.flatnonzero(kept)
    sums = np.add.reduceat(masses, starts)
    units = np.maximum(sums, 1e-300)
    means = np.add.reduceat(masses * values, starts) / units
    sizes = np.add.reduceat(masses * np.abs(values), starts) / units
    lowered = means - slack(2 * len(values) + 16) * sizes
    # Products of smaller masses may underflow.
    return np.where(sums < 1e-280, values[starts], lowered), sums


def _upper(tilted: _Tilted | None) -> float:
    """Return an upper bound of E[(S)₊] of one piece."""
    if tilted is None or not tilted.log_moment + tilted.log_error < LARGEST_POWER:
        return math.inf
    piece = tilted.piece
    # A smaller size would lose digits to underflow.
    size = math.exp(max(tilted.log_moment + tilted.log_error, math.log(SMALLEST_DELTA)))
    if piece.charged:  # (1.2)
        return 1.001 * size * tilted.whole / (math.e * piece.tilt)
    total, margin, _ = _inverted(tilted)
    return (total + margin) / piece.period * size


def _lower(tilted: _Tilted | None) -> float:
    """Return a lower bound of E[(S)₊] of one piece."""
    if tilted is None:
        return 0.0
    piece = tilted.piece
    total, margin, density = _inverted(tilted)
    smoothed = 1.001 * piece.smoothing**2 * max(density, 0.0)  # (N4)
    size = math.exp(min(tilted.log_moment - tilted.log_error, LARGEST_POWER)) / piece.period
    aliases = _aliases(tilted, (total + margin) * size)
    return max(0.0, (total - margin - smoothed) * size - aliases)


def _aliases(tilted: _Tilted, upper: float) -> float:
    """Return an upper bound of the terms j ≠ 0 of (N2)."""
    piece = tilted.piece
    copies = tilted.copies
    inner = tilted.inner
    values = tilted.values
    masses = tilted.masses
    turns = piece.tilt * piece.period
    if turns <= 5:
        return math.inf
    mass = min(1.0, 1.01 * copies * float(masses[inner:].sum()))
    below = 1.02 * math.exp(-turns) * (1.01 * upper + piece.period * mass)  # (2.7)
    above = math.inf
    for share in 0.5 ** np.arange(6):
        tilt = float(1 + share) * piece.tilt
        if tilt * float(values[-1]) > LARGEST_POWER or share * turns < 4.7:
            continue
        excess, error = _excess(values, masses, tilted.beyond, tilt=tilt, counted=tilted.counted)
        heavy = float((masses[inner:] * np.exp(tilt * values[inner:])).sum())
        some = min(1.0, 1.01 * copies * heavy / (1 + excess))
        exponent = copies * (math.log1p(excess) + error) - share * turns
        exponent += (piece.smoothing * tilt) ** 2 / 2
        if exponent < LARGEST_POWER:
            above = min(above, 1.02 * some * math.exp(exponent) / (math.e * tilt))  # (2.6)
    return below + above


def _inverted(tilted: _Tilted) -> tuple[float, float, float]:
    """Return L times (N2) relative to φ(θ)ⁿ, its error, and L times a bound of the density at 0."""
    piece = tilted.piece
    inner = tilted.inner
    step = 2 * math.pi / piece.period
    last = math.ceil(_CUT / (piece.smoothing * step))
    half = max(2, math.ceil(0.5 * math.sqrt(last)))
    offsets = step * np.arange(-half, half + 1)
    # The first row has its middle at zero, and its first half is the conjugate of the second.
    rows = last // len(offsets) + 2
    middles = np.asarray(step * len(offsets) * np.arange(rows), dtype=np.float64)
    far = _turns(step * len(offsets) * tilted.values, rows) * tilted.weights
    near = _turns(step * tilted.values, half + 1)
    near = np.concatenate((near[:0:-1].conj(), near))
    # Rows whose nodes are negligible are charged.
    starts = np.maximum(middles - step * half, 0.0)
    bounds = _row_bounds(tilted, far, middles, step * (half + 1))
    densities = 2 * len(offsets) * bounds * _lift(piece, starts)
    sizes = densities / (starts**2 + piece.tilt**2)
    kept = sizes >= _DROPPED * tilted.whole / piece.tilt**2
    kept[0] = True
    # Beyond the last row, sums of e^{−τ²y²/2} and of the same over y² are at most integrals (2.2).
    end = middles[-1:] + step * half
    beyond = 2 * tilted.whole * float((_lift(piece, end) / (step * end))[0])
    far = far[kept]
    inside = _products(far[:, :inner], near[:, :inner], tilted.weights[:inner])[half:]
    jumps = _products(far[:, inner:], near[:, inner:], tilted.weights[inner:])[half:]
    heights = np.add.outer(middles[kept], offsets).ravel()[half:]
    terms, errors = _powers(tilted, heights, inside, jumps)
    points = np.asarray(piece.tilt + 1j * heights, dtype=np.complex128)
    factor = np.exp(0.5 * piece.smoothing**2 * points**2)
    factor[1:] *= 2  # a node and its conjugate
    terms = terms * factor
    errors = errors * np.abs(factor)
    total = float((terms / points**2).real.sum())
    margin = float((errors / np.abs(points) ** 2).sum()) + float(sizes[~kept].sum()) + beyond
    density = float(terms.real.sum()) + float(errors.sum()) + float(densities[~kept].sum())
    return total, 1.001 * margin, density + beyond / piece.smoothing**2


def _products(far: Complex, near: Complex, weights: Array) -> Complex:
    """Return Σ weight·(e^{i(a + b)x} − 1) for all a of `far` and b of `near`.

    Both are factors less one, and those of `far` are weighted. Nothing cancels near a + b = 0.
    """
    sums = far.sum(axis=1)[:, None] + near @ weights
    return np.asarray(sums + far @ near.T).ravel()


def _turns(angles: Array, count: int) -> Complex:
    """Return e^{i·angle·k} − 1 for k below `count`, by doubling; accurate but for the angle."""
    table = np.zeros((count, len(angles)), dtype=np.complex128)
    known = 1
    while known < count:
        turn = np.expm1(1j * known * angles)
        following = min(2 * known, count)
        before = table[: following - known]
        # (1 + a)(1 + b) − 1
        table[known:following] = before * turn + (before + turn)
        known = following
    return table


def _lift(piece: Piece, heights: Array) -> Array:
    """Return |e^{τ²s²/2}| at s = θ + iy for each height y."""
    return np.asarray(np.exp(0.5 * piece.smoothing**2 * (piece.tilt**2 - heights**2)))


def _row_bounds(tilted: _Tilted, far: Complex, heights: Array, radius: float) -> Array:
    """Return upper bounds of |Aⁿ − Bⁿ| within a radius of the heights of `far`."""
    mean = float((tilted.weights * tilted.values).sum())
    variance = float((tilted.weights * tilted.values**2).sum()) - mean**2 * (1 - slack(256))
    # √(1 − |A|²) changes by at most √Var(X)·r within r (N5).
    errors, _ = _errors(tilted, heights)
    moduli = np.minimum(np.abs(1 + far.sum(axis=1)) + errors + slack(8), 1.0)
    losses = np.sqrt((1 - moduli) * (1 + moduli)) * (1 - 1e-9)
    least = np.maximum(losses - 1.001 * math.sqrt(max(variance, 0.0)) * radius, 0.0)
    most = np.minimum(np.sqrt(1 - least**2) + slack(8), 1.0)
    # |B| is at most |A| + |J|, and at most what it is at the real axis.
    part = np.minimum(most + tilted.largest, max(1 - tilted.largest, 0.0) + 1e-9)
    power = np.maximum(most, np.minimum(part, 1.0)) ** (tilted.copies - 1)
    return np.asarray(1.01 * min(tilted.copies * tilted.largest, 2.0) * power)


def _errors(tilted: _Tilted, heights: Array) -> tuple[Array, Array]:
    """Return bounds of the errors of A and of J at these heights."""
    inner = tilted.inner
    errors = tilted.errors
    sizes = np.abs(tilted.values)
    distances = tilted.weights * sizes
    # A rounded angle turns e^{iyx} by up to 9u·y|x|, however far y|x| is from zero.
    turns = slack(16) * heights
    # |F| + |G| + |FG| ≤ 5y|x| for the two tables F and G, because F is zero in the first row.
    linear = 5 * heights * float((errors * sizes).sum())
    whole = np.minimum(8 * float(errors.sum()) + turns * float(distances.sum()), linear)
    jumps = 9 * float(errors[inner:].sum()) + turns * float(distances[inner:].sum())
    return whole, jumps


def _powers(
    tilted: _Tilted,
    heights: Array,
    inside: Complex,
    jumps: Complex,
) -> tuple[Complex, Array]:
    """Return Aⁿ − Bⁿ at these heights, and bounds of its errors.

    A = φ_high/φ_high(θ) and B = A − J = φ_low/φ_high(θ). `inside` and `jumps` are the sums of
    weight·(e^{iyx} − 1) over the values up to `low` and above.
    """
    copies = tilted.copies
    outer = float(tilted.weights[tilted.inner :].sum())
    change = inside + jumps
    log_a = log_one_plus(change)
    log_b = log_one_plus(inside - outer)
    a_power = np.exp(copies * log_a)
    b_power = np.exp(copies * log_b)
    # Where both powers are close, Aⁿ − Bⁿ = −Aⁿ·((1 − J/A)ⁿ − 1) keeps its digits (N3).
    with np.errstate(all="ignore"):
        exponent = copies * log_one_plus(-(outer + jumps) / (1 + change))
        close = np.abs(exponent) < 1
        terms = np.where(close, -a_power * np.expm1(exponent), a_power - b_power)
    # Errors of A and J change it by n(e_A·|Aⁿ⁻¹ − Bⁿ⁻¹| + e_J·|B|ⁿ⁻¹) at most (N6).
    error, jump_error = _errors(tilted, heights)
    most_a = np.log1p(np.expm1(log_a.real) + error)
    most_b = np.log1p(np.expm1(log_b.real) + error + jump_error)
    most = np.maximum(most_a, most_b)
    rare = copies * tilted.largest * np.exp(-np.maximum(most, -LARGEST_POWER))
    changed = error * np.minimum(rare, 2.0) * np.exp((copies - 1) * most)
    changed += jump_error * np.exp((copies - 1) * most_b)
    # Rounding of the powers and, where they are close, of their difference (N7).
    own = np.abs(a_power) * (32 + copies * np.abs(log_a))
    own += np.abs(b_power) * (32 + copies * np.abs(log_b))
    own *= np.where(close, np.abs(exponent), 1.0)
    return terms, 1.01 * copies * changed + slack(64) * own
