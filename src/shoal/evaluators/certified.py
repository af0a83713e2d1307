"""δ(ε) in ball arithmetic: a proof, not an estimate.

The same sums as in floating point (`binomial`, `counted`, `contour`), carried out with Arb's midpoint–radius balls:
every operation encloses its exact result. Floating point only chooses where to sum, and every such choice gives a valid
bound; what is left out is bounded in balls too. So the upper end of the returned ball is a theorem about the pair.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import flint

from shoal.checks import SMALLEST_DELTA
from shoal.evaluators.binomial import Clones, Window, clone_window
from shoal.evaluators.contour import default_tolerance, heights_of, plan
from shoal.evaluators.counted import Listing, listing
from shoal.evaluators.distribution import Distribution

__all__ = ["Ball", "DistributionBalls", "ball", "certified_clones", "certified_delta", "grow", "precision"]

Ball = Any
"""A real ball of python-flint, which has no type stubs."""

_MOST_NODES = 1_000_000
_FINER = 0.5
"""Smoothing may cost this share of what floating point allows itself, so that its answers are proved."""


def ball(value: float) -> Ball:
    """Return a double as a ball of radius zero."""
    return flint.arb(value)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Run a block at this many bits."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


class DistributionBalls(NamedTuple):
    """A distribution of W in balls; see `shoal.evaluators.distribution`."""

    scale: Ball
    values: tuple[Ball, ...]
    probabilities: tuple[Ball, ...]


class _CloneBalls(NamedTuple):
    """The numbers of clones at ε in balls; the notation is that of `shoal.evaluators.binomial`."""

    up: Ball
    down: Ball
    share: Ball
    probability: Ball
    scale: Ball


def certified_delta(floats: Distribution, balls: DistributionBalls) -> Ball:
    """Return a ball whose upper end is at least δ of a distribution, given in floating point and in balls.

    Only the balls are proved of: the floats choose where to sum.
    """
    few = listing(floats)
    return _inverted(floats, balls) if few is None else _counted(floats.reports, balls, few)


def certified_clones(pair: Clones, epsilon: float, probability: Ball) -> Ball:
    """Return a ball whose upper end is at least δ(ε), for ε ≥ 0, of clones of which each has this probability.

    Of the pair, `reports` and `local_epsilon` are taken as they are; what else it says only chooses where to sum.
    """
    if epsilon >= pair.local_epsilon:
        return flint.arb(0)
    balls = _clone_balls(pair, epsilon, probability)
    if not pair.hides:
        return balls.up
    window = clone_window(pair, epsilon)
    if window.log_whole < math.log(SMALLEST_DELTA):
        return _whole(pair, balls, flint.arb(window.tilt))[0]
    if window.is_short:
        return _summed(pair, balls, window)
    half = balls.probability / 2
    distribution = DistributionBalls(balls.scale, (balls.share, balls.share - 1), (half, half))
    return _inverted(pair.distribution(epsilon), distribution).min(balls.up)


def _clone_balls(pair: Clones, epsilon: float, probability: Ball) -> _CloneBalls:
    local, central = flint.arb(pair.local_epsilon).exp(), flint.arb(epsilon).exp()
    up = (local - central) / (local + 1)
    share = (local - central) / ((local - 1) * (1 + central))
    scale = 2 * (1 + central) * (local - 1) / ((local + 1) * probability * pair.reports)
    return _CloneBalls(up, central - 1, share, probability, scale)


def _tail(reports: int, count: int, probability: Ball) -> Ball:
    """Return Chernoff's bound exp(−n·KL(count/n ‖ probability)) of a binomial tail that starts at count."""
    share = flint.arb(count) / reports
    entropy = share * (share / probability).log()
    if count < reports:
        entropy += (1 - share) * ((1 - share) / (1 - probability)).log()
    return (-reports * entropy).exp()


def _whole(pair: Clones, balls: _CloneBalls, tilt: Ball) -> tuple[Ball, Ball]:
    """Return Chernoff's bound of δ at this tilt, and the probability of a clone after tilting."""
    survival = ((tilt * balls.share).exp() + (tilt * (balls.share - 1)).exp()) / 2
    moment = 1 - balls.probability + balls.probability * survival
    return balls.scale * moment**pair.reports / (flint.arb(1).exp() * tilt), balls.probability * survival / moment


def _neglected(pair: Clones, balls: _CloneBalls, window: Window) -> Ball:
    """Return a bound of what the numbers of clones outside the window contribute to δ."""
    whole, tilted = _whole(pair, balls, flint.arb(window.tilt))
    rest = flint.arb(0)
    if window.first > 0:
        outside = window.first
        rest += _tail(pair.reports, outside, tilted) if flint.arb(outside) < pair.reports * tilted else 1
    if window.last + 1 < pair.reports:
        outside = window.last + 2
        rest += _tail(pair.reports, outside, tilted) if flint.arb(outside) > pair.reports * tilted else 1
    return rest * whole


def _summed(pair: Clones, balls: _CloneBalls, window: Window) -> Ball:
    """Return δ(ε) as the sum over the window, from the largest number of clones down."""
    trials, up, down, share = pair.reports - 1, balls.up, balls.down, balls.share
    odds = balls.probability / (1 - balls.probability)
    last = window.last

    wrong, slack = _largest_wrong(share, last)
    probabilities = last * balls.probability.log() + (trials - last) * (1 - balls.probability).log()
    weight = (_log_binomial(trials, last) + probabilities).exp()
    half = (_log_binomial(last, wrong) - last * flint.arb(2).log()).exp()
    tail = half * _tail_ratio(last, wrong)
    total = weight * (up * half - down * tail + slack * half)
    for clones in range(last - 1, window.first - 1, -1):
        before = wrong
        wrong, slack = _largest_wrong(share, clones)
        weight = weight * (clones + 1) / (odds * (trials - clones))
        if wrong < before:
            half = half * (2 * before) / (clones + 1)
            tail = tail - half / 2
        else:
            stay = clones + 1 - wrong
            half = half * (2 * stay) / (clones + 1)
            tail = tail + half * wrong / (2 * stay)
        total += weight * (up * half - down * tail + slack * half)
    return total + _neglected(pair, balls, window)


def _largest_wrong(share: Ball, clones: int) -> tuple[int, Ball]:
    """Return k = ⌈β(c + 1)⌉ − 1, and what it costs, per b_c(k), if the ball of β(c + 1) contains an integer.

    There k and k − 1 give the same sum up to the width of the ball, times 2·(up/β)·b_{c+1}(k)/(c + 1) ≤ 4·b_c(k)/β.
    """
    edge = share * (clones + 1)
    if not edge.is_finite():  # too few bits for so small an ε₀: nothing is proved
        return 0, flint.arb("inf")
    least, most = int(edge.lower().ceil().unique_fmpz()), int(edge.upper().ceil().unique_fmpz())
    if least == most:
        return max(most - 1, 0), flint.arb(0)
    return max(most - 1, 0), 8 * edge.rad() / share if edge.rad() < 0.125 else flint.arb("inf")


def _log_binomial(count: int, part: int) -> Ball:
    """Return log(count choose part)."""
    return (flint.arb(count) + 1).lgamma() - (flint.arb(part) + 1).lgamma() - (flint.arb(count - part) + 1).lgamma()


def _tail_ratio(clones: int, wrong: int) -> Ball:
    """Return F_c(k − 1)/b_c(k) for Bin(c, 1/2): its terms from the largest down, and a geometric bound of the rest."""
    total, term = flint.arb(0), flint.arb(1)
    for step in range(wrong):
        ratio = flint.arb(wrong - step) / (clones - wrong + 1 + step)
        term *= ratio
        total += term
        if step % 64 == 63 and term < total * 2.0**-100:
            return total + (term * ratio / (1 - ratio)).union(0)
    return total


def _counted(reports: int, distribution: DistributionBalls, chosen: Listing) -> Ball:
    """Return the sum over all listed counts and a bound of the rest; the notation is that of `counted`."""
    values, probabilities = (
        (*distribution.values, flint.arb(0)),
        (*distribution.probabilities, 1 - sum(distribution.probabilities, flint.arb(0))),
    )
    indices = [index for index, most in enumerate(chosen.most) if most]
    usual_value, usual_probability = values[chosen.usual], probabilities[chosen.usual]
    together = min(chosen.together, reports)
    ladders = {}
    for index in indices:
        ladder = [flint.arb(1)]
        for count in range(1, chosen.most[index] + 1):
            ladder.append(ladder[-1] * probabilities[index] / (usual_probability * count))
        ladders[index] = ladder
    falling = [usual_probability**reports]
    for count in range(together):
        falling.append(falling[-1] * (reports - count))

    def summed(position: int, weight: Ball, total: Ball, used: int) -> Ball:
        if position == len(indices):
            height = total + usual_value * (reports - used)
            return weight * falling[used] * height.max(0)
        index = indices[position]
        result = flint.arb(0)
        for count in range(min(chosen.most[index], together - used) + 1):
            further = weight * ladders[index][count]
            result += summed(position + 1, further, total + values[index] * count, used + count)
        return result

    first = sum(
        (
            probability * value.max(0)
            for probability, value in zip(distribution.probabilities, distribution.values, strict=True)
        ),
        flint.arb(0),
    )
    rest = flint.arb(0)
    bounds = [(together, sum((probabilities[index] for index in indices), flint.arb(0)))]
    bounds += [(chosen.most[index], probabilities[index]) for index in indices]
    for index, probability in enumerate(probabilities):
        if index != chosen.usual and index not in indices:
            rest += reports * probability.abs_upper()  # a value so unlikely that floating point took it for impossible
    for count, probability in bounds:
        if count < reports:
            rest += _tail(reports - 1, count, probability) if flint.arb(count) > (reports - 1) * probability else 1
    return distribution.scale * (summed(0, flint.arb(1), flint.arb(0), 0) + reports * first * rest)


def _inverted(floats: Distribution, distribution: DistributionBalls) -> Ball:
    """Return the smoothed inversion sum, an upper bound of δ; the notation is that of `shoal.evaluators.contour`."""
    nodes = plan(floats, _FINER * default_tolerance(floats))
    if nodes.size > _MOST_NODES:
        return flint.arb("inf")
    tilt, smoothing, period = flint.arb(nodes.tilt), flint.arb(nodes.smoothing), flint.arb(nodes.period)
    step = 2 * flint.arb.pi() / period
    missing = 1 - sum(distribution.probabilities, flint.arb(0))

    # Everything relative to M(θ)ⁿ.
    weights = [
        probability * (tilt * value).exp()
        for probability, value in zip(distribution.probabilities, distribution.values, strict=True)
    ]
    moment = sum(weights, missing)
    # The event that every copy is zero adds nothing, and must not be smoothed. With gaps it is negligible.
    nothing = (missing / moment) ** floats.reports if nodes.reach == math.pi else 0
    total = flint.arb(0)
    for height in heights_of(2 * math.pi / nodes.period, nodes.reach, nodes.peaks):
        index = round(height * nodes.period / (2 * math.pi))
        angle = index * step
        turn = missing / moment
        for value, weight in zip(distribution.values, weights, strict=True):
            turn = turn + flint.acb(0, value * angle).exp() * (weight / moment)
        point = flint.acb(tilt, angle)
        term = ((floats.reports * turn.log()).exp() - nothing) * (smoothing**2 * point**2 / 2).exp() / point**2
        total += term.real if index == 0 else 2 * term.real

    steepness = floats.reports * weights[0] * weights[1] / ((weights[0] + weights[1]) * moment)
    lift = ((smoothing * tilt) ** 2 / 2).exp()
    reach, last = flint.arb(nodes.reach), 2 * flint.arb.pi() * nodes.peaks + nodes.reach - 2 * step
    omitted = lift * (-((smoothing * last) ** 2) / 2).exp() / (step * last)
    if nodes.reach < math.pi:
        reach = reach - step
        omitted += lift * (-2 * steepness * (reach / 2).sin() ** 2).exp() / (step * (reach - step))
    return distribution.scale * moment**floats.reports * (total + 2 * omitted) / period


def grow(epsilon: float, ceiling: float) -> Iterator[float]:
    """Yield ε, then slightly larger ones, up to 1e-9 relative, for a proof that needs a little room."""
    yield epsilon
    for share in (1e-13, 1e-12, 1e-11, 1e-10, 1e-9):
        yield min(ceiling, max(epsilon * (1 + share), math.nextafter(epsilon, math.inf)))
