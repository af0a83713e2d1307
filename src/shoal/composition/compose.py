"""One door to composition: many rounds, settled in advance, become one curve."""

from collections.abc import Callable, Iterable
from typing import Any

from shoal.checks import known, whole
from shoal.composition.advanced_accountant import AdvancedFormProfile, AdvancedProfile
from shoal.composition.loss_accountant import Gridded, LossProfile, Round
from shoal.composition.renyi_accountant import RenyiProfile
from shoal.curve import PrivacyCurve, Profile
from shoal.errors import NoPairError, ParameterError

__all__ = ["FRESH", "METHODS", "MOST_TIMES", "THEOREMS", "compose"]

THEOREMS = {
    "loss": (
        "the sum of the privacy losses of all rounds, discretised and rounded to the safe side "
        "(docs/theory/composition.md)"
    ),
    "renyi": (
        "additivity of Rényi divergences, then Proposition 12 of Canonne, Kamath and Steinke, arXiv 2004.00010v5, at "
        "the best real order"
    ),
    "advanced": "the optimal composition of (ε, δ)-DP, Theorem 3.3 of Kairouz, Oh and Viswanath, arXiv 1311.0776v4",
    "advanced-closed-form": "Theorems 3.4 and 3.5 of Kairouz, Oh and Viswanath, arXiv 1311.0776v4",
}
METHODS = tuple(THEOREMS)
_PROFILES: dict[str, Callable[[tuple[Round, ...]], Profile]] = {
    "loss": LossProfile,
    "renyi": RenyiProfile,
    "advanced": AdvancedProfile,
    "advanced-closed-form": AdvancedFormProfile,
}
MOST_TIMES = 10**9
FRESH = (
    "every round has a fresh shuffle and fresh randomness; what people report may depend on earlier rounds, but not n, "
    "ε₀ or the randomizer of a round, nor how many rounds there are (for those, see Ledger.budget)"
)


def compose(curves: Iterable[PrivacyCurve | tuple[PrivacyCurve, int]], *, method: str = "loss") -> PrivacyCurve:
    """Return the guarantee of several rounds together.

    Parameters
    ----------
    curves : iterable of PrivacyCurve or tuple of (PrivacyCurve, int)
        One for each round; or pairs (curve, times).
    method : str
        "loss" adds up the privacy losses of the rounds: tight, with a bracket. "renyi" and "advanced" are the two ways
        of the paper, through Rényi divergences and through one (ε, δ) a round; "advanced-closed-form" needs no
        numerics.

    Returns
    -------
    PrivacyCurve
        Its `local_epsilon` is the sum of those of the rounds, and its `reports` the fewest in any of them.

    Examples
    --------
    >>> import shoal
    >>> daily = shoal.amplify(local_epsilon=2, reports=1_000_000)
    >>> weekly = shoal.amplify(local_epsilon=4, reports=1_000_000)
    >>> compose([(daily, 365), (weekly, 52)])
    PrivacyCurve(ε=0.37348 at δ=1e-06, 417 rounds, n=1,000,000, loss)
    """
    known(METHODS, method=method)
    parts = _merged(curves)
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    rounds = []
    for curve, times in parts:
        profile = curve.profile
        if method == "loss" and not isinstance(profile, Gridded):
            raise NoPairError(
                f'{curve.bound} is a formula, with no privacy losses to add up; use method="advanced", or a numerical '
                "bound such as strong-clones"
            )
        rounds.append(Round(profile, curve.local_epsilon, times))
    assumptions = dict.fromkeys((FRESH, *(line for curve, _ in parts for line in curve.assumptions)))
    theorems = dict.fromkeys((THEOREMS[method], *(curve.theorem for curve, _ in parts)))
    return PrivacyCurve(
        bound=method,
        theorem="; each round: ".join((next(iter(theorems)), "; ".join(list(theorems)[1:]))),
        assumptions=tuple(assumptions),
        reports=min(curve.reports for curve, _ in parts),
        local_epsilon=LossProfile(tuple(rounds)).ceiling,
        local_delta=min(1.0, sum(times * curve.local_delta for curve, times in parts)),
        profile=_PROFILES[method](tuple(rounds)),
        parts=tuple(parts),
    )


def _merged(curves: Iterable[Any]) -> list[tuple[PrivacyCurve, int]]:
    """Return every different curve once, with how often it is there; what was composed before is taken apart."""
    counts: dict[PrivacyCurve, int] = {}
    for item in curves:
        curve, times = item if isinstance(item, tuple) else (item, 1)
        if not isinstance(curve, PrivacyCurve):
            raise ParameterError(f"compose takes privacy curves, or pairs (curve, times); got {item!r}")
        times = whole(times=times, most=MOST_TIMES)
        for part, count in curve.parts or ((curve, 1),):
            counts[part] = counts.get(part, 0) + count * times
    if not counts:
        raise ParameterError("compose needs at least one round")
    whole(rounds=sum(counts.values()), most=MOST_TIMES)
    return list(counts.items())
