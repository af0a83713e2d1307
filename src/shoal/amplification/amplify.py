"""One door to all bounds: run what applies, keep the tightest."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.amplification.approximate import ApproximateProfile
from shoal.amplification.catalogue import CATALOGUE, entry
from shoal.amplification.clones import clones
from shoal.amplification.closed_form import decomposition_form, sharp_form, theorem_3_1
from shoal.amplification.decomposition import decomposed
from shoal.amplification.lower_bounds import lower_bound
from shoal.checks import known, non_negative, probability, whole
from shoal.curve import LowerBound, PrivacyCurve, Profile
from shoal.divergence.pair import ClonePair, Family
from shoal.errors import ParameterError, RangeError, ShoalError, UnreachableError
from shoal.randomizers import Decomposition, RandomizedResponse, Randomizer

__all__ = ["BOUNDS", "amplify", "compare"]

BOUNDS = ("tightest", *(row.name for row in CATALOGUE))
_REFERENCE_DELTA = 1e-6


@dataclass(frozen=True)
class _Setting:
    """The checked arguments of `amplify`."""

    randomizer: Randomizer | None
    reports: int
    local_epsilon: float
    local_delta: float


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
    randomizer : a description such as ``RandomizedResponse(categories=10, local_epsilon=2)``; or nothing, for any
        randomizer with the given `local_epsilon` (and `local_delta`).
    reports : n; 1e6 will do for 1,000,000.
    local_epsilon : ε₀, with no randomizer.
    local_delta : δ₀.
    bound : "tightest", or the name of a bound (`shoal explain` lists them).

    Returns
    -------
    PrivacyCurve

    Examples
    --------
    >>> amplify(local_epsilon=2, reports=1e6)
    PrivacyCurve(ε=0.00951724 at δ=1e-06, n=1,000,000, ε₀=2, strong-clones)
    >>> amplify(RandomizedResponse(categories=100, local_epsilon=2), reports=1e6)
    PrivacyCurve(ε=0.00235958 at δ=1e-06, n=1,000,000, ε₀=2, decomposition)
    """
    setting = _checked(randomizer, reports, local_epsilon, local_delta)
    name = known(BOUNDS, bound=bound)
    if name != "tightest":
        return _curve(name, setting)
    curves = [_curve("strong-clones", setting)]
    if setting.randomizer is not None and _applies("decomposition", setting):
        curves.append(_curve("decomposition", setting))
    return min(curves, key=lambda curve: float(curve.epsilon(_REFERENCE_DELTA))) if len(curves) > 1 else curves[0]


def compare(
    randomizer: Randomizer | None = None,
    *,
    reports: Any,
    delta: Any,
    local_epsilon: Any = None,
    local_delta: Any = 0.0,
) -> list[PrivacyCurve]:
    """Return a curve for every bound that applies here and holds at this δ, the tightest first.

    Examples
    --------
    >>> for curve in compare(local_epsilon=1, reports=10_000, delta=1e-6):
    ...     print(f"{curve.bound:<25} {curve.epsilon(1e-6):.6f}")
    strong-clones             0.043206
    clones                    0.053005
    strong-clones-sharp-form  0.070728
    clones-sharp-form         0.086299
    clones-closed-form        0.214026
    """
    delta = probability(delta=delta)
    setting = _checked(randomizer, reports, local_epsilon, local_delta)
    found: list[tuple[float, PrivacyCurve]] = []
    refused = ShoalError("no bound applies")
    for row in CATALOGUE:
        if _applies(row.name, setting):
            curve = _curve(row.name, setting)
            try:
                found.append((float(curve.epsilon(delta)), curve))
            except (RangeError, UnreachableError) as error:
                refused = error
    if not found:
        raise refused
    return [curve for _, curve in sorted(found, key=lambda pair: pair[0])]


def _checked(randomizer: Randomizer | None, reports: Any, local_epsilon: Any, local_delta: Any) -> _Setting:
    if (randomizer is None) == (local_epsilon is None):
        raise ParameterError(
            "give either a randomizer or local_epsilon: amplify(local_epsilon=1, reports=10_000), or "
            "amplify(RandomizedResponse(categories=10, local_epsilon=1), reports=10_000)"
        )
    if randomizer is not None and not isinstance(randomizer, Randomizer):
        raise ParameterError(f"randomizer must be a RandomizedResponse or a Decomposition, got {randomizer!r}")
    checked = probability(local_delta=local_delta, zero=True)
    if randomizer is not None and checked:
        raise ParameterError(
            f"local_delta must be 0 with a {type(randomizer).__name__}, which is pure; got {local_delta!r}"
        )
    local = randomizer.local_epsilon if randomizer is not None else non_negative(local_epsilon=local_epsilon)
    return _Setting(randomizer, whole(reports=reports), local, checked)


def _parts(setting: _Setting) -> Decomposition:
    """Return how the randomizer decomposes; `_applies` has made sure that it does."""
    randomizer = setting.randomizer
    if isinstance(randomizer, RandomizedResponse):
        return randomizer.decomposition
    if isinstance(randomizer, Decomposition):
        return randomizer
    raise ParameterError("this bound needs a randomizer that is known to decompose")


def _applies(name: str, setting: _Setting) -> bool:
    row = entry(name)
    if setting.local_delta:
        return row.approximate is not None
    return not name.startswith("decomposition") or (setting.randomizer is not None and setting.local_epsilon < 600)


def _curve(name: str, setting: _Setting) -> PrivacyCurve:
    row = entry(name)
    if setting.local_delta and row.approximate is None:
        raise ParameterError(
            f'{name} needs local_delta=0; use bound="strong-clones" or bound="clones" for approximate DP'
        )
    if not _applies(name, setting):
        raise ParameterError(
            f"{name} needs a randomizer that is known to decompose, with local_epsilon < 600: "
            "amplify(RandomizedResponse(categories=…, local_epsilon=…), reports=…)"
        )
    theorem, assumptions = row.theorem, row.assumptions
    if setting.local_delta and row.approximate is not None:
        theorem, assumptions = (
            f"{theorem}; {row.approximate}",
            ("every randomizer is (ε₀, δ₀)-DP", *assumptions[1:]),
        )
    return PrivacyCurve(
        bound=name,
        theorem=theorem,
        assumptions=assumptions,
        reports=setting.reports,
        local_epsilon=setting.local_epsilon,
        local_delta=setting.local_delta,
        profile=_profile(name, setting),
        lower=_lower(setting),
    )


def _profile(name: str, setting: _Setting) -> Profile:
    reports, local_epsilon = setting.reports, setting.local_epsilon
    if setting.local_delta:
        family: Family = "clones" if name == "clones" else "strong-clones"
        return ApproximateProfile(ClonePair(reports, local_epsilon, family), setting.local_delta)
    makers: dict[str, Callable[[], Profile]] = {
        "strong-clones": lambda: clones("strong-clones", reports=reports, local_epsilon=local_epsilon),
        "clones": lambda: clones("clones", reports=reports, local_epsilon=local_epsilon),
        "clones-closed-form": lambda: theorem_3_1(reports=reports, local_epsilon=local_epsilon),
        "clones-sharp-form": lambda: sharp_form("clones", reports=reports, local_epsilon=local_epsilon),
        "strong-clones-sharp-form": lambda: sharp_form("strong-clones", reports=reports, local_epsilon=local_epsilon),
        "decomposition": lambda: decomposed(_parts(setting), reports=reports),
        "decomposition-closed-form": lambda: decomposition_form(_parts(setting), reports=reports),
    }
    return makers[name]()


def _lower(setting: _Setting) -> LowerBound | None:
    if setting.local_epsilon == 0 or isinstance(setting.randomizer, Decomposition):
        return None
    categories = setting.randomizer.categories if setting.randomizer is not None else None
    return lower_bound(local_epsilon=setting.local_epsilon, reports=setting.reports, categories=categories)
