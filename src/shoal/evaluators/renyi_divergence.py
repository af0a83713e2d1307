"""The Rényi divergence of clones, for any real order.

Given m − 1 clones, P = B·(1 + y) and Q = B·(1 − y) with B = Bin(m, 1/2) and y = tanh(ε₀/2)·(2X/m − 1). Put η = artanh
y. By the symmetry of B, and with no subtraction left,

    exp((α − 1)·D_α) − 1  =  E[ s_α(y) ],        s_α(y) = 2·sinh(αη)·sinh((α − 1)η)/cosh η,

so that every term is positive. Three facts make the sum short, each one erring upward:

* s_α is convex in X, so moving the mass between two nodes to these nodes, keeping its mean, only adds;
* binomial probabilities are log-concave, so the mass between nodes is at most geometric;
* s_α is an even power series with non-negative coefficients, and m·E[(2X/m − 1)^2k] falls with m once m ≥ 2k − 2, so
  that E_m := E[s_α] ≤ (a/m)·E_a + (a remainder that is bounded by powers above a) for all m ≥ a: one evaluation
  serves a whole bucket.

docs/theory/numerics.md has the proofs.
"""

import math
import sys

import numpy as np
from numpy.typing import NDArray

from shoal.evaluators.binomial import Clones, log_probability, relative_entropy
from shoal.rounding import up

__all__ = ["renyi_upper"]

Array = NDArray[np.float64]

_DROPPED = 42.0
_ROUNDING = 2e-14
"""Times √n: the error of the logarithms of probabilities within a dozen standard deviations."""
_SAFETY = 1 + 1e-9
"""Covers the rounding of sums whose terms are all positive."""
_NODES_PER_DEVIATION = 96
_MOST_NODES = 4_000_000
_LEAST, _MOST = 1e-150, 680.0
"""Of ε₀: beyond, squares underflow or exponentials overflow."""


def renyi_upper(pair: Clones, orders: Array) -> Array:
    """Return upper bounds of the Rényi divergence D_α(P‖Q) at each order α > 1, at most 1e-4 above.

    (More near orders where the divergence leaps to ε₀.) It never exceeds ε₀, which is all that is said of extremes.
    """
    if not _LEAST < pair.local_epsilon < _MOST:
        return np.full_like(orders, pair.local_epsilon)
    result = np.empty_like(orders)
    ranking = np.argsort(orders)
    start = 0
    while start < len(orders):
        stop = int(np.searchsorted(orders[ranking], 4 * orders[ranking[start]], side="right"))
        group = ranking[start : max(stop, start + 1)]
        result[group] = _divergence(pair, orders[group])
        start = max(stop, start + 1)
    return np.minimum(np.maximum(result, sys.float_info.min), pair.local_epsilon)


def _divergence(pair: Clones, orders: Array) -> Array:
    log_excess = _log_excess(pair, orders) + _ROUNDING * math.sqrt(pair.reports)
    small = np.log1p(np.exp(np.minimum(log_excess, 30.0)))
    return np.where(log_excess < 30, small, log_excess + 1e-13) / (orders - 1) * _SAFETY


def _log_excess(pair: Clones, orders: Array) -> Array:
    """Return log(exp((α − 1)·D_α) − 1), averaged over the number of clones."""
    reports, probability, complement = pair.reports, pair.clone_probability, pair.other_probability
    angle = pair.local_epsilon / 2
    mean = reports * probability
    if mean < 1e-12:
        return _log_moments(1.0, angle, orders)
    deviation = math.sqrt(mean * complement)
    curvature = 2 * min(max(float(orders.max()) * math.tanh(angle), 1e-100), 1e100) ** 2
    half = math.floor(deviation / 128)

    def width(clones: float) -> int:
        # Wide where the terms are small, or hardly depend on the number of clones.
        leeway = math.exp(min(9.0, max(0.0, (clones - mean) / deviation)) ** 2 / 4)
        size = math.floor(min(0.75 * deviation, 1.5e-4 * leeway * clones * max(1.0, clones / curvature)))
        return max(1, size - size % (2 * half + 1) if size > 2 * half else size)

    # To the right the terms fall; to the left they may rise with the order, so go on until they do not matter.
    high = min(reports, math.ceil(mean + math.sqrt(2 * _DROPPED) * deviation + _DROPPED))
    beyond = high < reports
    total = np.full_like(orders, -np.inf)
    last, check = float(high), mean - 6 * deviation
    log_edge = _log_symmetric(orders, angle) + math.log(2)
    while last >= 1:
        first = max(1.0, last - width(last) + 1)
        log_moments = _log_moments(first, angle, orders)
        remainder = log_edge + first * math.log((1 + math.exp(-2)) / 2)
        scaled = np.minimum(
            log_moments + math.log(last),
            np.logaddexp(log_moments + math.log(first), remainder + math.log(last)),
        )
        mass = _log_mass(reports, first, last, probability, complement)
        total = np.logaddexp(total, scaled + mass - math.log(mean))
        if beyond:
            total = np.logaddexp(
                total, log_moments - (reports - 1) * relative_entropy(high / (reports - 1), probability, complement)
            )
            beyond = False
        last = first - 1
        if last >= 1 and last < check:
            check = last - 2 * deviation
            rest = _log_left_tail(pair, last, orders)
            if np.all(rest < total - _DROPPED + 14):
                return np.logaddexp(total, rest)
    return total


def _log_left_tail(pair: Clones, last: float, orders: Array) -> Array:
    """Return a rough upper bound of the logarithm of what at most `last` − 1 clones contribute."""
    total = np.full_like(orders, -np.inf)
    while last >= 1:
        first = math.floor(last / 1.25)
        reached = -pair.reports * relative_entropy(last / pair.reports, pair.clone_probability, pair.other_probability)
        total = np.logaddexp(total, reached + _log_moments(max(first, 1.0), pair.local_epsilon / 2, orders))
        last = first - 1
    return total


def _log_mass(reports: int, first: float, last: float, probability: float, complement: float) -> float:
    """Return an upper bound of log Pr(first ≤ Bin(n, p) ≤ last), from cells around a few nodes."""
    half = math.floor(math.sqrt(reports * probability * complement) / 128)
    if (last - first + 1) % (2 * half + 1):
        half = 0
    centres = np.arange(first + half, last + 1, 2 * half + 1)
    logs = np.array([log_probability(reports, centre, probability, complement) for centre in centres])
    if half:
        with np.errstate(divide="ignore"):
            up = np.log((reports - centres) / (centres + 1) * (probability / complement))
            down = np.log(centres / (reports - centres + 1) * (complement / probability))
        steps = np.arange(1, half + 1)[:, None]
        logs = logs + np.log1p((np.exp(up * steps) + np.exp(down * steps)).sum(axis=0))
    peak = float(logs.max())
    if peak == -math.inf:
        return peak
    return min(0.0, peak + math.log(float(np.exp(logs - peak).sum())) + 1e-9)


def _log_symmetric(orders: Array, angle: float | Array) -> Array:
    """Return log s_α at η = angle > 0."""
    return (
        math.log(2)
        + _log_sinh(np.multiply.outer(orders, angle))
        + _log_sinh(np.multiply.outer(orders - 1, angle))
        - _log_cosh(angle)
    )


def _log_sinh(x: Array) -> Array:
    return x + np.log(-np.expm1(-2 * x)) - math.log(2)


def _log_cosh(x: float | Array) -> Array:
    return np.asarray(x + np.log1p(np.exp(-2 * np.asarray(x))) - math.log(2))


def _log_moments(count: float, angle: float, orders: Array) -> Array:
    """Return upper bounds of log E_m for m = count, where y = tanh(angle)·(2X/m − 1)."""
    nodes, log_weights = _fair_nodes(count, math.tanh(angle), float(orders.max()))
    if len(nodes) > _MOST_NODES:
        return _log_symmetric(orders, angle)
    keep = 2 * nodes > count
    # artanh y = ½·log1p(2y/(1 − y)), with 1 − y = (1 − tanh) + tanh·2(m − x)/m, so that nothing cancels.
    tilt, small = math.tanh(angle), math.exp(-2 * angle)
    lean = tilt * (2 * nodes[keep] / count - 1)
    gap = 2 * small / (1 + small) + tilt * 2 * (count - nodes[keep]) / count
    angles = np.minimum(up(0.5 * np.log1p(2 * lean / np.maximum(gap, 1e-300)), roundings=8), angle)
    logs = np.empty_like(orders)
    rows = max(1, _MOST_NODES // len(angles))
    for start in range(0, len(orders), rows):
        terms = _log_symmetric(orders[start : start + rows], angles) + log_weights[keep]
        peak = terms.max(axis=1)
        logs[start : start + rows] = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
    return logs + math.log(2)


def _fair_nodes(count: float, tilt: float, order: float) -> tuple[Array, Array]:
    """Return nodes x ≥ m/2 and logs of weights that replace half of Bin(m, 1/2) from above, for convex functions.

    Each probability between two nodes is split between them as the mean demands; the sums of these hat-shaped parts
    are bounded through the log-concavity of the probabilities.
    """
    centre = math.ceil(count / 2)
    if count <= 4096:
        nodes = np.arange(centre, count + 1)
        return nodes, _fair_logs(count, nodes)
    deviation = math.sqrt(count) / 2
    spacing = max(1, math.floor(deviation / _NODES_PER_DEVIATION))
    shift = order * tilt / deviation
    lean = tilt * min(1.0, (shift + 6) / (2 * deviation))
    shift = min(2 * deviation, shift / max(1 - lean**2, 1e-300))
    dense = np.arange(centre, min(count, centre + (13 + shift) * deviation), spacing)
    if len(dense) > _MOST_NODES:
        return dense, dense
    far = [float(dense[-1])]
    while far[-1] < count:
        far.append(min(count, far[-1] + max(spacing, math.floor((far[-1] - centre) / 16))))
    nodes = np.concatenate((dense[:-1], far))
    gaps = np.diff(nodes)
    falling = np.minimum(np.log(np.maximum(count - nodes, 0.5) / (nodes + 1)), 0.0)
    rising = np.maximum(np.log(nodes / (count - nodes + 1)), 0.0)
    logs = _fair_logs(count, nodes)
    right = logs + _log_hat(np.append(gaps, 1.0), falling, 0.0)
    left = logs + _log_hat(np.append(1.0, gaps), rising, 1.0)
    left[1:] = np.minimum(left[1:], logs[:-1] + np.log(gaps))
    return nodes, np.logaddexp(right, left)


def _log_hat(width: Array, rate: Array, start: float) -> Array:
    """Return an upper bound of log Σ (1 − j/w)·exp(rate·j) over j = start, …, w − 1, where start is zero or one."""
    square, exponent = width**2 - 1, rate * width
    flat = np.abs(exponent) < 0.5
    slope = np.where(flat, rate, 0.0)
    series = (width + 1) / 2 - start + slope * square / 6 + slope**2 * width * square / 24
    series += np.maximum(slope, 0.0) ** 3 * width**2 * square * (math.exp(0.5) / 120)
    with np.errstate(divide="ignore"):
        return np.where(flat, np.log(series), np.log(width) + np.maximum(exponent, 0.0))


def _fair_logs(count: float, nodes: Array) -> Array:
    """Return log Pr(Bin(m, 1/2) = x) at each node."""
    balance = 2 * nodes / count - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = (1 + balance) * np.log1p(balance) + np.where(balance < 1, (1 - balance) * np.log1p(-balance), 0.0)
    rest = count - nodes
    half_log = 0.5 * (math.log(count) - np.log(nodes) - np.log(np.maximum(rest, 1)) - math.log(2 * math.pi))
    logs = _remainder(np.array(count)) - _remainder(nodes) - _remainder(rest) - 0.5 * count * entropy + half_log
    return np.where(rest > 0, logs, -count * math.log(2))


def _remainder(count: Array) -> Array:
    """Return log(count!) minus Stirling's formula: within 1e-9 above 8, and exact below."""
    large = np.maximum(count, 8.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * large**2)) / large**2) / large**2) / large
    first = np.array(
        [
            0.0,
            *(math.lgamma(m + 1) - (m + 0.5) * math.log(m) + m - 0.5 * math.log(2 * math.pi) for m in range(1, 8)),
        ]
    )
    return np.where(count < 8, first[np.minimum(count, 7).astype(np.int64)], series)
