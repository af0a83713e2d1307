"""δ(ε) from both sides for a finite W, listed where the counts are few, else along a contour.

This is the only place that chooses between the two sums. Both are valid for every W. The choice is
by time:

| sum | nanoseconds |
|---|---|
| listing | 200,000 + 70 for each combination of counts + 25 for each entry of the table |
| contour | 400,000 + 100 for each node; one to three milliseconds for most W |
"""

import math

from shoal.numerics.contour import WIDE, node_count, positive_part
from shoal.numerics.listing import counts_of, listed
from shoal.numerics.summand import Summand

_DEPTH = 27.0
"""Counts outside of a window have a tilted probability of e^−27 = 2e-12: wider ones take longer."""
_QUICK = 2.5e6
"""Nanoseconds that listing may take: as many as most contours, which leave a wider bracket."""
_QUICK_COARSE = 1e6
"""Nanoseconds that listing may take for a coarse answer, where a contour needs few nodes."""
_SLOW = 3e7
"""Nanoseconds that listing may take where a contour leaves a bracket wider than `WIDE`."""


def divergence(summand: Summand, *, tolerance: float | None = None) -> tuple[float, float]:
    """Return a lower and an upper bound of δ = scale·E[(S)₊], about 1e-6 or `tolerance` apart."""
    depth = _DEPTH if tolerance is None else 8 - math.log(tolerance)
    cost = _listing_cost(summand, depth)
    quick = _QUICK if tolerance is None else _QUICK_COARSE
    if cost <= quick:
        ends = listed(summand, counts_of(summand, depth=depth))
        if ends is not None:
            return ends
    lower, upper = positive_part(summand, tolerance=tolerance)
    if tolerance is None and cost <= _SLOW and not lower >= upper * (1 - WIDE):
        ends = listed(summand, counts_of(summand, depth=depth))
        if ends is not None:
            return max(lower, ends[0]), min(upper, ends[1])
    return lower, upper


def listing_is_faster(summand: Summand, tolerance: float) -> bool:
    """Return whether listing is about as fast as a contour with shared nodes; it is narrower."""
    cost = _listing_cost(summand, _DEPTH)
    # Columns that share nodes need about twice as many, as most peaks are at other heights in each.
    return cost <= _QUICK_COARSE and cost <= 300 * node_count(summand, tolerance)


def _listing_cost(summand: Summand, depth: float) -> float:
    """Return about how many nanoseconds listing takes."""
    n = summand.reports
    tilted = summand.tilted.tilted[:, 0].tolist()
    widths = [0.0, 0.0]
    probabilities = (*summand.probabilities, summand.missing)
    for probability, share in zip(probabilities, tilted, strict=True):
        if probability > 0:
            deviation = math.sqrt(n * share * max(1 - share, 0.0))
            width = 2 * math.sqrt(2 * depth) * deviation + depth / 4
            widths.append(min(width, n + 1.0))
    # The two widest are not listed: the usual value, which has no window, and the one inside.
    *widths, inside, _ = sorted(widths)
    combinations = math.prod(1 + width for width in widths)
    entries = (1 + math.fsum(widths)) * (2 + inside)
    return 2e5 + 70 * combinations + 25 * entries
