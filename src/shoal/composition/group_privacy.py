"""Group privacy: ε of a person who has several reports (docs/theory/composition.md, section 10)."""

import math
from fractions import Fraction

from shoal.checks import probability, whole
from shoal.curve import PrivacyCurve
from shoal.documentation import linked
from shoal.errors import ParameterError, RangeError, UnreachableError

GROUP_PRIVACY = linked("group privacy for several reports of one person (docs/theory/composition.md, section 10)")
"""The theorem behind the ε of a person with several reports."""

_STEPS = 200
"""Most of the curve's ε that are computed. Two to twenty are enough where there is an answer."""
_SHORTER = 1 - 1e-7
"""By how much δ of one report is chosen below the last estimate: the search ends once two agree."""
_ROUNDING = 1 + 1e-12
"""Factor that covers the rounding in `_weights`, where e^(mε) with mε ≤ 700 is off by less than 1e-13."""


def group_epsilon(curve: PrivacyCurve, *, rows_per_person: int, delta: float) -> float:
    """Return ε at δ for a person with at most `rows_per_person` of the reports of a curve, rounded up.

    Parameters
    ----------
    curve : PrivacyCurve
        The guarantee if one report is replaced; of several rounds, one report in each.
    rows_per_person : int
        Most reports that one person has in a round, m.
    delta : float
        δ of the guarantee that is returned.

    Raises
    ------
    UnreachableError
        If the reports have no finite ε₀, and no ε follows from the curve at this δ.

    Examples
    --------
    >>> import shoal
    >>> curve = shoal.amplify(local_epsilon=1, reports=10_000)
    >>> curve.epsilon(1e-6), group_epsilon(curve, rows_per_person=3, delta=1e-6)
    (0.0409..., 0.1336...)
    """
    if not isinstance(curve, PrivacyCurve):
        raise ParameterError(f"curve must be a guarantee, as `shoal.amplify` returns it, got {curve!r}")
    size = whole(rows_per_person=rows_per_person)
    target = probability(delta=delta, zero=True)
    if size == 1:
        return float(curve.epsilon(target))
    pure = multiplied(curve.local_epsilon, size) if not curve.local_delta else math.inf
    one_delta = target / size
    for _ in range(_STEPS):
        try:
            epsilon = float(curve.epsilon(one_delta))
        except (RangeError, UnreachableError):
            break
        weights = _weights(epsilon, size)
        if not weights < math.inf:
            break
        if one_delta * weights <= target:
            return min(multiplied(epsilon, size), pure)
        one_delta = target / weights * _SHORTER
    if pure < math.inf:
        return pure
    raise UnreachableError(
        f"no ε at δ = {target!r} follows for a person with {size:,} rows; ask for a larger δ, or keep fewer rows"
    )


def multiplied(epsilon: float, rows_per_person: int) -> float:
    """Return m·ε, rounded up: of ε₀, the guarantee of all reports of a person together before the shuffle."""
    product = rows_per_person * epsilon
    if math.isinf(product) or Fraction(product) >= rows_per_person * Fraction(epsilon):
        return product
    return math.nextafter(product, math.inf)


def _weights(epsilon: float, size: int) -> float:
    """Return 1 + e^ε + … + e^((m − 1)ε), rounded up; (10.1)."""
    if epsilon == 0:
        return float(size)
    if size * epsilon > 700:
        return math.inf
    return math.expm1(size * epsilon) / math.expm1(epsilon) * _ROUNDING
