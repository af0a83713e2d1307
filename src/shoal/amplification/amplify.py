"""One door to all bounds: run what applies, keep the tightest."""

from typing import Any

from shoal.amplification.catalogue import CATALOGUE, Entry, entry
from shoal.amplification.lower_bounds import lower_bound
from shoal.amplification.setting import Setting
from shoal.checks import known, probability
from shoal.curve import Comparison, LowerBound, PrivacyCurve
from shoal.errors import ParameterError, RangeError, ShoalError, UnreachableError
from shoal.randomizers import Decomposition, Randomizer

__all__ = ["BOUNDS", "amplify", "compare"]

BOUNDS = ("tightest", *(row.name for row in CATALOGUE if row.proven))
_ONLY_COMPARED = tuple(row.name for row in CATALOGUE if not row.proven)
_REFERENCE_DELTA = 1e-6


def amplify(
    randomizer: Randomizer | None = None,
    *,
    reports: Any,
    local_epsilon: Any = None,
    local_delta: Any = 0.0,
    bound: str = "tightest",
) -> PrivacyCurve:
    """Return the central guarantee of n shuffled reports.

    Parameters
    ----------
    randomizer : Randomizer, optional
        A description such as ``RandomizedResponse(categories=10, local_epsilon=2)``; or nothing, for any randomizer
        with the given `local_epsilon` (and `local_delta`).
    reports : int or float
        n; 1e6 will do for 1,000,000.
    local_epsilon : float
        ε₀, with no randomizer.
    local_delta : float
        δ₀.
    bound : str
        "tightest", or the name of a bound (`shoal explain` lists them).

    Returns
    -------
    PrivacyCurve

    Examples
    --------
    >>> amplify(local_epsilon=2, reports=1e6)
    PrivacyCurve(ε=0.00951724 at δ=1e-06, n=1,000,000, ε₀=2, strong-clones)
    >>> from shoal.randomizers import RandomizedResponse
    >>> amplify(RandomizedResponse(categories=100, local_epsilon=2), reports=1e6)
    PrivacyCurve(ε=0.00234563 at δ=1e-06, n=1,000,000, ε₀=2, blanket)
    """
    setting = Setting.checked(randomizer, reports=reports, local_epsilon=local_epsilon, local_delta=local_delta)
    if bound in _ONLY_COMPARED:
        raise ParameterError(f"{bound} is for comparison only, and no guarantee; `compare` shows it")
    if known(BOUNDS, bound=bound) != "tightest":
        return _guarantee(entry(bound), setting)
    for better in ("blanket", "decomposition"):  # the blanket is never above the others: it knows most
        if entry(better).applies(setting):
            curves = [_guarantee(entry(better), setting)]
            break
    else:
        return _guarantee(entry("strong-clones"), setting)
    if better == "decomposition":
        curves.append(_guarantee(entry("strong-clones"), setting))
    return min(curves, key=lambda curve: float(curve.epsilon(_REFERENCE_DELTA))) if len(curves) > 1 else curves[0]


def compare(
    randomizer: Randomizer | None = None,
    *,
    reports: Any,
    delta: Any,
    local_epsilon: Any = None,
    local_delta: Any = 0.0,
) -> list[PrivacyCurve | Comparison]:
    """Return a curve for every bound that applies here and says something at this δ, the tightest first.

    What is shown for comparison only is a `Comparison`, not a `PrivacyCurve`.

    Examples
    --------
    >>> for curve in compare(local_epsilon=1, reports=10_000, delta=1e-6):
    ...     print(f"{curve.bound:<25} {curve.epsilon(1e-6):.6f}{'' if curve.proven else '  (comparison only)'}")
    strong-clones             0.043206
    clones                    0.053005
    koskela                   0.053022
    strong-clones-sharp-form  0.070728
    clones-sharp-form         0.086299
    bassily                   0.090609  (comparison only)
    girgis                    0.119744
    blanket-bennett           0.166166
    blanket-hoeffding         0.166634
    clones-closed-form        0.214026
    check-ins                 0.407760  (comparison only)
    """
    delta = probability(delta=delta)
    setting = Setting.checked(randomizer, reports=reports, local_epsilon=local_epsilon, local_delta=local_delta)
    found: list[tuple[float, PrivacyCurve | Comparison]] = []
    refused = ShoalError("no bound applies")
    for row in CATALOGUE:
        if not _applies(row, setting):
            continue
        curve = _guarantee(row, setting) if row.proven else _comparison(row, setting)
        try:
            found.append((float(curve.epsilon(delta)), curve))
        except (RangeError, UnreachableError) as error:
            refused = error
    if not found:
        raise refused
    return [curve for _, curve in sorted(found, key=lambda pair: pair[0])]


def _applies(row: Entry, setting: Setting) -> bool:
    return row.applies(setting) and (not setting.local_delta or row.approximate is not None)


def _guarantee(row: Entry, setting: Setting) -> PrivacyCurve:
    if setting.local_delta and row.approximate is None:
        raise ParameterError(
            f'{row.name} needs local_delta=0; use bound="strong-clones" or bound="clones" for approximate DP'
        )
    if not row.applies(setting):
        raise ParameterError(
            f"{row.name} needs {row.needs}: amplify(RandomizedResponse(categories=…, local_epsilon=…), reports=…)"
        )
    theorem, assumptions = row.theorem, row.assumptions
    if setting.local_delta and row.approximate is not None:
        theorem, assumptions = (
            f"{theorem}; {row.approximate}",
            ("every randomizer is (ε₀, δ₀)-DP", *assumptions[1:]),
        )
    return PrivacyCurve(
        bound=row.name,
        theorem=theorem,
        assumptions=assumptions,
        reports=setting.reports,
        local_epsilon=setting.local_epsilon,
        local_delta=setting.local_delta,
        profile=row.make(setting),
        lower=_lower(setting),
        randomizer=setting.randomizer,
    )


def _comparison(row: Entry, setting: Setting) -> Comparison:
    return Comparison(
        bound=row.name,
        theorem=row.theorem,
        assumptions=row.assumptions,
        reports=setting.reports,
        local_epsilon=setting.local_epsilon,
        local_delta=setting.local_delta,
        profile=row.make(setting),
    )


def _lower(setting: Setting) -> LowerBound | None:
    if setting.local_epsilon == 0 or isinstance(setting.randomizer, Decomposition):
        return None
    if setting.randomizer is not None:
        return lower_bound(setting.randomizer, reports=setting.reports)
    return lower_bound(local_epsilon=setting.local_epsilon, reports=setting.reports)
