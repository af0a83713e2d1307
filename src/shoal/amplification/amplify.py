"""Privacy amplification by shuffling, `amplify` and `compare`: run every bound that applies, and keep the tightest."""

import math
from collections.abc import Sequence
from functools import partial

from shoal.amplification.lower_bounds import lower_bound
from shoal.amplification.setting import BOUNDS, LARGEST_LOCAL_EPSILON, Setting, ShufflingBound
from shoal.assumptions import APPROXIMATE, Assumption
from shoal.checks import Number, known, non_negative, probability, whole
from shoal.curve import BoundTable, Comparison, PrivacyCurve
from shoal.errors import ParameterError, RangeError, ShoalError, UnreachableError
from shoal.lazy_names import gather
from shoal.lower_limit import LowerBound
from shoal.pairs.randomizer import Randomizer, ability, check_likelihoods, check_randomizer, registration_of
from shoal.privacy_profile import Profile

_REFERENCE_DELTA = 1e-6
"""Where bounds with the same preference are compared."""

_NEARLY = 1 - 1e-6
"""Of that δ: δ at its ε has as much, unless it leaps there."""

gather("shoal.amplification")


def proven_bounds() -> tuple[str, ...]:
    """Return every name that `amplify(bound=…)` takes."""
    return ("tightest", *(row.name for row in BOUNDS.values() if row.proven))


def amplify(
    randomizer: Randomizer | None = None,
    *,
    reports: Number,
    local_epsilon: Number | None = None,
    local_delta: Number = 0.0,
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
        "tightest", or the name of a bound (`shoal.theorems("shuffling")` lists them).

    Returns
    -------
    PrivacyCurve
        Its `epsilon(delta)` and `delta(epsilon)` are upper bounds.

    Examples
    --------
    >>> amplify(local_epsilon=2, reports=1e6)
    PrivacyCurve(ε=0.00923964 at δ=1e-06, n=1,000,000, ε₀=2, swap-chains)
    >>> from shoal.mechanisms import RandomizedResponse
    >>> amplify(RandomizedResponse(categories=100, local_epsilon=2), reports=1e6)
    PrivacyCurve(ε=0.00234563 at δ=1e-06, n=1,000,000, ε₀=2, blanket)
    """
    setting = setting_of(randomizer, reports=reports, local_epsilon=local_epsilon, local_delta=local_delta)
    for row in BOUNDS.values():
        if row.name == bound and not row.proven:
            raise ParameterError(f"{bound} is for comparison only, and no guarantee; `compare` shows it")
    if known(proven_bounds(), bound=bound) != "tightest":
        return _guarantee(BOUNDS[bound], setting)
    rows = _preferred(setting)
    if not rows:
        raise ParameterError(
            f"no bound applies to {setting.randomizer!r}; `shoal explain` says what each of them needs"
        )
    return _tightest(_improved(rows, setting))


def _preferred(setting: Setting) -> list[ShufflingBound]:
    """Return the bounds with the best preference that apply; the catalogue is in the order of preference."""
    rows: list[ShufflingBound] = []
    for row in BOUNDS.values():
        if rows and row.preference != rows[0].preference:
            break
        if row.proven and row.preference is not None and _applies(row, setting):
            rows.append(row)
    return rows


def _improved(rows: Sequence[ShufflingBound], setting: Setting) -> list[PrivacyCurve]:
    """Return the curves of all bounds; of two bounds, one of which improves the other, only the one that decides."""
    left_out: set[str] = set()
    curves: dict[str, PrivacyCurve] = {}
    for row in rows:
        if row.improves is None or row.improves not in [other.name for other in rows]:
            continue
        curves[row.name] = _guarantee(row, setting)
        better = curves[row.name].profile.improves(_REFERENCE_DELTA)  # type: ignore[attr-defined]
        left_out.add(row.improves if better else row.name)
    return [curves.get(row.name) or _guarantee(row, setting) for row in rows if row.name not in left_out]


def _tightest(curves: Sequence[PrivacyCurve]) -> PrivacyCurve:
    """Return the first one whose ε at the reference δ no other is below."""
    best = curves[0]
    for curve in curves[1:]:
        epsilon = best.epsilon(_REFERENCE_DELTA)
        here = best.delta(epsilon)
        there = curve.delta(epsilon)
        if here > _NEARLY * _REFERENCE_DELTA:  # then δ there says which ε is less, and no search is needed
            better = epsilon > 0 and there < here
        else:
            better = there <= _REFERENCE_DELTA and curve.epsilon(_REFERENCE_DELTA) < epsilon
        best = curve if better else best
    return best


def compare(
    randomizer: Randomizer | None = None,
    *,
    reports: Number,
    delta: Number,
    local_epsilon: Number | None = None,
    local_delta: Number = 0.0,
) -> BoundTable:
    """Return a curve for every bound that applies and says something at this δ, the tightest first.

    It is a tuple of curves that has a picture and a data frame of them. What is shown for comparison only is a
    `Comparison`, not a `PrivacyCurve`.

    Parameters
    ----------
    randomizer : Randomizer, optional
        What each person runs; or nothing, for any randomizer with the given `local_epsilon` (and `local_delta`).
    reports : int or float
        n.
    delta : float
        δ at which the bounds are compared.
    local_epsilon, local_delta : float
        ε₀ and δ₀, with no randomizer.

    Examples
    --------
    >>> for curve in compare(local_epsilon=1, reports=10_000, delta=1e-6):
    ...     print(f"{curve.bound:<25} {curve.epsilon(1e-6):.6f}{'' if curve.proven else '  (comparison only)'}")
    swap-chains               0.040951
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
    setting = setting_of(randomizer, reports=reports, local_epsilon=local_epsilon, local_delta=local_delta)
    curves: list[tuple[float, PrivacyCurve | Comparison]] = []
    refused = ShoalError("no bound applies")
    for row in BOUNDS.values():
        if not _applies(row, setting):
            continue
        curve = _guarantee(row, setting) if row.proven else Comparison(*_facts(row, setting))
        try:
            curves.append((curve.epsilon(delta), curve))
        except (RangeError, UnreachableError) as error:
            refused = error
    if not curves:
        raise refused
    return BoundTable((curve for _, curve in sorted(curves, key=lambda pair: pair[0])), delta=delta)


def setting_of(
    randomizer: Randomizer | None,
    *,
    reports: Number,
    local_epsilon: Number | None = None,
    local_delta: Number = 0.0,
) -> Setting:
    """Return the setting that is asked about, or say what is wrong with it."""
    if (randomizer is None) == (local_epsilon is None):
        raise ParameterError(
            "give either a randomizer or local_epsilon: amplify(local_epsilon=1, reports=10_000), or "
            "amplify(RandomizedResponse(categories=10, local_epsilon=1), reports=10_000)"
        )
    delta = probability(local_delta=local_delta, zero=True)
    if randomizer is None:
        return Setting(None, whole(reports=reports), non_negative(local_epsilon=local_epsilon), delta)
    check_randomizer(randomizer)
    if delta:
        raise ParameterError(
            f"local_delta must be 0 with a {type(randomizer).__name__}, which says itself what it is; "
            f"got {local_delta!r}",
            "local_delta",
        )
    epsilon = randomizer.local_epsilon
    if epsilon != math.inf:
        epsilon = non_negative(local_epsilon=epsilon)
    elif ability(randomizer, "profile") is None:
        raise ParameterError(
            f"{randomizer!r} has an infinite local_epsilon, and no `profile` of its own: nothing can be said of it"
        )
    delta = probability(local_delta=ability(randomizer, "local_delta"), zero=True)
    if registration_of(randomizer) is None:
        check_likelihoods(randomizer)
    return Setting(randomizer, whole(reports=reports), epsilon, delta)


def _applies(row: ShufflingBound, setting: Setting) -> bool:
    if setting.local_delta:
        return row.approximate is not None
    if row.applies is None:
        return setting.local_epsilon < math.inf
    return setting.randomizer is not None and row.applies(setting)


def _guarantee(row: ShufflingBound, setting: Setting) -> PrivacyCurve:
    if setting.local_delta and row.approximate is None:
        others = " or ".join(f'bound="{each.name}"' for each in BOUNDS.values() if each.approximate is not None)
        raise ParameterError(f"{row.name} needs local_delta=0; use {others} for approximate DP")
    if not _applies(row, setting):
        example = "" if "(" in row.needs else ": amplify(RandomizedResponse(categories=…, local_epsilon=…), reports=…)"
        raise ParameterError(f"{row.name} needs {row.needs}{example}")
    return PrivacyCurve(*_facts(row, setting), randomizer=setting.randomizer, _lower=partial(_lower, setting))


def _facts(
    row: ShufflingBound, setting: Setting
) -> tuple[str, str, tuple[Assumption, ...], int, float, float, Profile]:
    """Return what every curve says of itself, in the order of its fields."""
    theorem = row.citation
    assumptions = row.assumptions
    if setting.local_delta:
        theorem = f"{theorem}; {row.approximate}"
        assumptions = (APPROXIMATE, *assumptions[1:])
    local = setting.local_epsilon, setting.local_delta
    return row.name, theorem, assumptions, setting.reports, *local, row.make(setting)


def _lower(setting: Setting) -> LowerBound | None:
    if setting.local_epsilon == 0:
        return None
    if setting.randomizer is not None:
        if not setting.described and setting.local_epsilon <= LARGEST_LOCAL_EPSILON:
            return None
        if not setting.reaches:
            return None
        return lower_bound(setting.randomizer, reports=setting.reports)
    return lower_bound(local_epsilon=setting.local_epsilon, local_delta=setting.local_delta, reports=setting.reports)
