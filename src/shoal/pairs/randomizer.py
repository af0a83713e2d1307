"""What the accountant has to know of a randomizer: ε₀, and what one report tells about two inputs."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from shoal.errors import ParameterError, RangeError
from shoal.pairs.likelihoods import Likelihoods

if TYPE_CHECKING:
    from shoal.pairs.registry import Registration

R = TypeVar("R")
_REQUIRED = ("local_epsilon", "blanket", "homogeneous")
_ABILITIES: dict[str, Any] = {
    "local_delta": 0.0,
    "bit": None,
    "claim": None,
    "blanket_row": ("generic", 2),
    "decomposition": None,
    "homogeneous_error": (0.0, 0.0),
    "profile": None,
    "reached": None,
    "theorem": "blanket",
}
_MOST_CHECKED = 700.0
"""Of ε₀: beyond, likelihoods overflow, and are not used."""
_ROUNDED = 1e-9
"""What rounding may have done to likelihoods."""


@runtime_checkable
class Randomizer(Protocol):
    """What one client runs, as far as the accountant has to know.

    Every object with these three members works in `amplify`, `compare`, `lower_bound` and `Ledger.record`; a frozen
    dataclass with a field `local_epsilon` works in `calibrate` too.

    Notes
    -----
    A randomizer may have some of these members as well; without them, the default holds:

    =====================  ==================  ========================================================================
    member                 default             what it says
    =====================  ==================  ========================================================================
    ``local_delta``        0.0                 δ₀; with more than 0, only bounds for approximate DP are used
    ``bit``                None                the `BitRows` of reports that have two values, for the bound one-bit
    ``profile(reports)``   from the blanket    the privacy profile of n reports, instead of the one of `blanket`: for
                                               a continuous distribution, or an ε₀ that is infinite
    ``claim(reports)``     None                what a certificate of its blanket claims, for n reports: a
                                               `shoal.proofs.claim.Claim` of which δ(ε) is proved in ball arithmetic
    ``reached(reports)``   of `homogeneous`    what real inputs reach among n reports, as δ(ε) and ε(δ), rounded down
    ``theorem``            "blanket"           the bound of the catalogue that `profile` computes, if it is another
    ``decomposition``      None                a `Decomposition` of it
    ``blanket_row``        ("generic", 2)      the row of constants of the bounds blanket-hoeffding and
                                               blanket-bennett: ("response", k) if it *is* k-ary randomized response,
                                               ("laplace", 2) if it is Laplace noise
    ``homogeneous_error``  (0.0, 0.0)          what rounding may have added to δ of the likelihoods of `homogeneous`,
                                               and by what part each of them may be off
    =====================  ==================  ========================================================================

    Examples
    --------
    A coin that tells the truth three times out of four, and nothing else about it:

    >>> import math
    >>> from types import SimpleNamespace
    >>> import shoal
    >>> log = math.log(3)
    >>> rows = shoal.Likelihoods(((log, 0.0, 0.25), (0.0, log, 0.25)), rest=0.5)
    >>> same = shoal.Likelihoods(((0.0, -log, 0.75), (0.0, log, 0.25)), complete=True)
    >>> coin = SimpleNamespace(local_epsilon=log, blanket=(rows,), homogeneous=(same,))
    >>> isinstance(coin, shoal.Randomizer)
    True
    >>> mine = shoal.amplify(coin, reports=1000).epsilon(1e-6)
    >>> house = shoal.RandomizedResponse(categories=2, local_epsilon=log)
    >>> abs(mine - shoal.amplify(house, reports=1000, bound="blanket").epsilon(1e-6)) < 1e-12
    True
    """

    @property
    def local_epsilon(self) -> float:
        """ε₀: no report is more than e^ε₀ times as likely from one input as from another; or infinite."""

    @property
    def blanket(self) -> Sequence[Likelihoods]:
        """What one report tells about two inputs, relative to what the reports of all inputs have in common.

        One for each pair of inputs that may be the easiest to tell apart, in one direction of two; none if it is not
        known.
        """

    @property
    def homogeneous(self) -> Sequence[Likelihoods]:
        """What one report tells about two inputs, relative to the distribution of an input that all others hold.

        One for each dataset to try: what it reaches, no bound can be below. None if it is not known.
        """


def check_randomizer(randomizer: object) -> Randomizer:
    """Return a randomizer, or raise an error that names what it lacks; nothing is computed."""
    lacks = [name for name in _REQUIRED if not (hasattr(type(randomizer), name) or hasattr(randomizer, name))]
    if isinstance(randomizer, type) or lacks:
        raise ParameterError(
            "randomizer must be a description such as RandomizedResponse(categories=10, local_epsilon=1), got "
            f"{randomizer!r}; one of your own has local_epsilon, blanket and homogeneous (see shoal.Randomizer)",
            "randomizer",
        )
    return randomizer  # type: ignore[return-value]


def check_likelihoods(randomizer: Randomizer) -> None:
    """Refuse a randomizer whose own likelihoods are farther apart than its ε₀, whichever bound is asked for.

    Those of a reference that others hold are looked at only if they are exact, and none if δ₀ > 0: then some outputs
    may be farther apart.
    """
    local_epsilon = randomizer.local_epsilon
    if ability(randomizer, "local_delta") or not local_epsilon <= _MOST_CHECKED:
        return
    exact = ability(randomizer, "homogeneous_error") == _ABILITIES["homogeneous_error"]
    try:
        known = (*randomizer.blanket, *(randomizer.homogeneous if exact else ()))
    except RangeError:  # more of them than can be evaluated
        return
    apart = max((abs(first - second) for each in known for first, second, _ in each.rows), default=0.0)
    if apart > local_epsilon + _ROUNDED * max(1.0, local_epsilon):
        raise ParameterError(
            f"the logarithms of the likelihoods of a randomizer differ by at most local_epsilon={local_epsilon:g}; got "
            f"a difference of {apart:g}"
        )


def check_worst_pair(randomizer: Randomizer) -> None:
    """Refuse a blanket that lacks a pair of inputs which one report tells apart better than all that it has."""
    if ability(randomizer, "homogeneous_error") != _ABILITIES["homogeneous_error"]:
        return
    for epsilon in (0.0, randomizer.local_epsilon / 2):
        least, reached = (
            max((way.advantage(epsilon) for each in pairs for way in (each, each.swapped)), default=0.0)
            for pairs in (randomizer.blanket, randomizer.homogeneous)
        )
        if reached > least + _ROUNDED:
            raise ParameterError(
                f"a pair of inputs of `homogeneous` has δ({epsilon:g}) = {reached:.6g} for one report, and all of "
                f"`blanket` at most {least:.6g}: the pair that is the easiest to tell apart must be among them"
            )


def registration_of(randomizer: object) -> "Registration | None":
    """Return what is registered of the class of a randomizer; nothing for a class that is not, or only derived."""
    return vars(type(randomizer)).get("registration")


def ability(randomizer: object, name: str) -> Any:
    """Return an optional member of a randomizer, or its default."""
    try:
        return getattr(randomizer, name)
    except AttributeError:
        if hasattr(type(randomizer), name):  # it has one that fails, and the default would be somebody else's
            raise
        return _ABILITIES[name]


def with_local_epsilon(randomizer: R) -> Callable[[float], R] | None:
    """Return a function that gives the randomizer another ε₀, all else kept; nothing if ε₀ is no parameter of it."""
    if not is_dataclass(randomizer):
        return None
    if "local_epsilon" not in (each.name for each in fields(randomizer) if each.init):
        return None
    return lambda local_epsilon: replace(randomizer, local_epsilon=local_epsilon)  # type: ignore[type-var]
