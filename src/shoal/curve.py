"""What every bound returns: a curve of guarantees, each one safe to quote."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast, overload

import numpy as np
from numpy.typing import NDArray

from shoal.assumptions import COLLUDE, Assumption
from shoal.attack import attack_success
from shoal.catalogue import explain, theorems
from shoal.checks import Number, Numbers, each, known, non_negative, probability
from shoal.digits import number_text, rounded_up
from shoal.documentation import linked
from shoal.errors import NoPairError, ParameterError
from shoal.lower_limit import LowerBound
from shoal.pairs.randomizer import Randomizer, ability
from shoal.privacy_profile import Bracket, Gridded, Profile, loss_distribution
from shoal.shown import Shown, ShownCurve

if TYPE_CHECKING:
    from shoal.charts import Chart
    from shoal.proofs.certificate import Certificate
    from shoal.proofs.claim import Claim

__all__ = ["BoundTable", "Comparison", "PrivacyCurve"]

_REFERENCE_DELTA = 1e-6
_FAVOURABLE_DELTA = 1e-2
"""The largest δ anybody would state; shuffling shows there first."""


class _Composing(Protocol):
    """What `repeated` asks of a method of composition, which is defined above curves."""

    def compose(self, curves: "Iterable[PrivacyCurve | tuple[PrivacyCurve, int]]") -> "PrivacyCurve":
        """Return the guarantee of all rounds together."""


@dataclass(frozen=True)
class _Curve(ShownCurve):
    """What a guarantee and a comparison share: a named bound, and its ε and δ."""

    bound: str
    citation: str
    assumptions: tuple[Assumption, ...]
    reports: int
    local_epsilon: float
    local_delta: float
    profile: Profile

    @property
    def theorem(self) -> str:
        """The citation, with the addresses of pages that it names."""
        return linked(self.citation)

    @overload
    def epsilon(self, delta: Number) -> float: ...
    @overload
    def epsilon(self, delta: Numbers) -> NDArray[np.float64]: ...
    def epsilon(self, delta: Number | Numbers) -> float | NDArray[np.float64]:
        """Return the ε that goes with this δ, rounded up; arrays broadcast. δ = 0 gives ε₀."""
        return each(self._epsilon, delta)

    def _epsilon(self, delta: float) -> float:
        return self.profile.epsilon(probability(delta=delta, zero=True))

    def _epsilon_or_nan(self, delta: float) -> float:
        try:
            return self._epsilon(delta)
        except ValueError:
            return float("nan")

    @overload
    def delta(self, epsilon: Number) -> float: ...
    @overload
    def delta(self, epsilon: Numbers) -> NDArray[np.float64]: ...
    def delta(self, epsilon: Number | Numbers) -> float | NDArray[np.float64]:
        """Return the δ that goes with this ε, rounded up; arrays broadcast. From ε₀ on it is δ₀."""
        return each(lambda value: self.profile.delta(non_negative(epsilon=value)), epsilon)

    def _text(self, delta: float, digits: int) -> str:
        """Return ε as it is printed: a guarantee is rounded up."""
        epsilon = float(self.epsilon(delta))
        return rounded_up(epsilon, digits) if isinstance(self, PrivacyCurve) else f"{epsilon:.{digits}g}"

    def _caption(self) -> str:
        return f"{self._title}; {self.theorem}{self._collusion}"

    @property
    def _collusion(self) -> str:
        nothing = COLLUDE in self.assumptions and math.isinf(self.local_epsilon)
        return "; nothing remains if shuffler and analyst collude" if nothing else ""

    @property
    def _title(self) -> str:
        local = f", ε₀ = {self.local_epsilon:g}" if math.isfinite(self.local_epsilon) else ""
        approximate = f", δ₀ = {self.local_delta:g}" if self.local_delta else ""
        return f"{self.reports:,} shuffled reports{local}{approximate}"


@dataclass(frozen=True)
class Comparison(_Curve):
    """A bound that is shown for comparison only, which shoal does not vouch for: not a guarantee."""

    @property
    def proven(self) -> bool:
        """False."""
        return False

    def chart(self, *, delta: float = _REFERENCE_DELTA, points: int = 41) -> "Chart":
        """Return ε against δ, as this bound has it."""
        return self._drawn(delta=delta, points=points)

    def _caption(self) -> str:
        return f"for comparison only, no guarantee: {super()._caption()}"

    def to_dict(self, *, delta: float) -> dict[str, Any]:
        """Return everything about it at this δ as plain values."""
        return {
            "epsilon": self._epsilon(delta),
            "epsilon_bracket": None,
            "best_possible": None,
            "delta": float(delta),
            "local_epsilon": self.local_epsilon,
            "local_delta": self.local_delta,
            "reports": self.reports,
            "bound": self.bound,
            "theorem": self.theorem,
            "assumptions": [str(each) for each in self.assumptions],
            "proven": False,
        }

    def __repr__(self) -> str:
        """Show the number at δ = 1e-6, and what it is worth."""
        where = f"n={self.reports:,}, ε₀={self.local_epsilon:g}, {self.bound}: no guarantee"
        return f"Comparison({self._epsilon_or_nan(_REFERENCE_DELTA):.6g} at δ=1e-06, {where})"


@dataclass(frozen=True)
class PrivacyCurve(_Curve):
    """The guarantees (ε, δ) that shuffling gives, by one bound.

    Every number is on the safe side: `epsilon` and `delta` are rounded up, and what they say is a theorem.

    Attributes
    ----------
    bound : str
        The name of the bound, as `shoal.explain` knows it.
    citation : str
        The theorem, with number and version, in the words of the catalogue and of certificates.
    assumptions : tuple of Assumption
        What has to be true of the randomizers and the shuffler.
    reports, local_epsilon, local_delta : int, float
        n, ε₀, δ₀.
    randomizer : Randomizer, optional
        What each person runs, where it is known.
    parts : tuple of tuple of (PrivacyCurve, int)
        Of a composition, its different rounds and how many there are of each.

    Examples
    --------
    >>> import shoal
    >>> curve = shoal.amplify(local_epsilon=1, reports=10_000)
    >>> curve
    PrivacyCurve(ε=0.0409509 at δ=1e-06, n=10,000, ε₀=1, swap-chains)
    >>> round(curve.epsilon(1e-8), 6), round(curve.delta(0.05), 12)
    (0.054513, 5.0109e-08)
    """

    randomizer: Randomizer | None = field(default=None, hash=False)
    parts: "tuple[tuple[PrivacyCurve, int], ...]" = ()
    _lower: Callable[[], LowerBound | None] | None = field(default=None, repr=False, compare=False)

    @property
    def _title(self) -> str:
        return f"{self.rounds:,} rounds of {self.reports:,} shuffled reports" if self.parts else super()._title

    @cached_property
    def lower(self) -> LowerBound | None:
        """What no bound can beat, where it is known; computed when it is first asked for."""
        return None if self._lower is None else self._lower()

    @property
    def proven(self) -> bool:
        """True: what is not proven has another type."""
        return True

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Return the exact ε of the dominating pair between two numbers, `.lower` and `.upper`.

        Raises
        ------
        NoPairError
            For a closed form, which has no pair.
        """
        return Bracket(*self.profile.bracket(probability(delta=delta, zero=True)))

    @overload
    def renyi(self, order: Number) -> float: ...
    @overload
    def renyi(self, order: Numbers) -> NDArray[np.float64]: ...
    def renyi(self, order: Number | Numbers) -> float | NDArray[np.float64]:
        """Return the Rényi divergence of this order α > 1, rounded up; arrays broadcast.

        Raises
        ------
        NoPairError
            For a closed form, or an approximate-DP randomizer: there is no pure pair to take it of.
        """
        orders = np.asarray(order, dtype=np.float64)
        if not np.all(np.isfinite(orders) & (orders > 1)):
            raise ParameterError(f"order must be finite and greater than 1, got {order!r}", "order")
        values = self.profile.renyi(orders.ravel()).reshape(orders.shape)
        return float(values) if values.ndim == 0 else values

    def attack_success(self, false_alarms: float = 0.01) -> float:
        """Return the largest rate at which an attacker recognises a person, given the rate of false alarms; rounded up.

        Examples
        --------
        >>> import shoal
        >>> round(shoal.amplify(local_epsilon=1, reports=10_000).attack_success(false_alarms=0.05), 5)
        0.05123
        """
        return attack_success(self, false_alarms)

    def repeated(self, rounds: int, *, method: str = "pld") -> "PrivacyCurve":
        """Return the guarantee of this many such rounds; `shoal.compose` explains the methods.

        Examples
        --------
        >>> import shoal
        >>> shoal.amplify(local_epsilon=2, reports=1_000_000).repeated(365)
        PrivacyCurve(ε=0.221362 at δ=1e-06, 365 rounds, n=1,000,000, pld)
        """
        known(tuple(row.name for row in theorems("composition")), method=method)
        return cast(_Composing, explain(method, kind="composition")).compose([(self, rounds)])

    def to_dp_accounting(self, *, interval: float = 1e-4) -> Any:
        """Return a `PrivacyLossDistribution` of dp-accounting that dominates this curve, on a grid of this interval.

        It composes there with Gaussian, Laplace and all other mechanisms.
        """
        rounds = []
        for part, count in self.parts or ((self, 1),):
            if not isinstance(part.profile, Gridded):
                raise NoPairError(
                    f"{part.bound} is a formula, with no privacy losses to hand over; use a numerical bound"
                )
            rounds.append((part.profile, part.local_epsilon, count))
        return loss_distribution(rounds, interval=interval)

    @property
    def rounds(self) -> int:
        """How many rounds there are; one, but for a composition."""
        return sum(count for _, count in self.parts) or 1

    def certify(self, *, delta: float) -> "Certificate":
        """Return a proof in ball arithmetic of `epsilon(delta)`, or of at most a thousandth of it more.

        Raises
        ------
        NoPairError
            For a bound that has no such proof, with the reason and the name of one that has.
        """
        from shoal.proofs.certificate import Certificate

        delta = probability(delta=delta, zero=True)
        return Certificate.prove(self.claim(), epsilon=self._epsilon(delta), delta=delta)

    def claim(self) -> "Claim":
        """Return what a certificate of this curve claims, whatever ε and δ.

        Raises
        ------
        NoPairError
            If there is no proof in ball arithmetic, with the reason.
        """
        if self.parts:
            return self._claim_of_parts()
        claim = self.profile.provable()
        if claim is None and self.randomizer is not None and self.bound == ability(self.randomizer, "theorem"):
            own = ability(self.randomizer, "claim")
            claim = None if own is None else own(self.reports)
        if claim is not None:
            return claim
        why = "it is a formula"
        if self.bound == "blanket":
            why = "the likelihoods of this randomizer are known as rounded numbers only, and it has no `claim`"
        if math.isinf(self.local_epsilon):
            raise NoPairError(f"{self.bound} has no proof in ball arithmetic ({why}), and there is no other bound")
        other = explain(self.bound, kind="shuffling").certified_by
        raise NoPairError(f'{self.bound} has no proof in ball arithmetic ({why}); bound="{other}" has one')

    def _claim_of_parts(self) -> "Claim":
        from shoal.proofs.claim import RoundClaim
        from shoal.proofs.rounds_claim import RoundsClaim

        parts = []
        for curve, count in self.parts:
            try:
                claim = curve.claim()
            except NoPairError as error:
                raise NoPairError(f"one of the rounds has no proof in ball arithmetic: {error}") from None
            if not isinstance(claim, RoundClaim):
                raise NoPairError(f"{claim.subject} is no round whose losses can be added up in balls")
            parts.append((claim, count))
        return RoundsClaim(tuple(parts))

    @property
    def amplified(self) -> bool:
        """False where there is no amplification: not even at δ = 0.01, the most favourable δ in use."""
        return self.amplified_at(_FAVOURABLE_DELTA)

    def amplified_at(self, delta: float, *, epsilon: float | None = None) -> bool:
        """Tell whether shuffling lowers ε at this δ by more than a millionth, compared with one report alone.

        Whoever has computed `epsilon` at this δ already may pass it.
        """
        from shoal.pairs import ClonePair

        if self.reports == 1 or self.local_epsilon == 0:
            return False
        if math.isinf(self.local_epsilon):
            alone = self.profile.alone(delta) if hasattr(self.profile, "alone") else math.inf
        else:
            alone = ClonePair(1, self.local_epsilon, "clones").epsilon(delta)
        # Out of the range of the bound, this is NaN, which is not less than anything.
        return bool((self._epsilon_or_nan(delta) if epsilon is None else epsilon) < alone * (1 - 1e-6))

    def to_dict(self, *, delta: float, certify: bool = False) -> dict[str, Any]:
        """Return everything about the guarantee at this δ as plain values; `shoal amplify --json` prints the same."""
        certificate = self.certify(delta=delta) if certify else None
        try:
            bracket: list[float] | None = [float(end) for end in self.epsilon_bracket(delta)]
        except NoPairError:
            bracket = None
        epsilon = bracket[1] if bracket else self._epsilon(delta)
        return {
            "epsilon": certificate.epsilon if certificate else epsilon,
            "epsilon_bracket": bracket,
            "best_possible": self.lower.epsilon(delta) if self.lower else None,
            "delta": float(delta),
            "local_epsilon": self.local_epsilon if math.isfinite(self.local_epsilon) else None,
            "local_delta": self.local_delta,
            "reports": self.reports,
            "rounds": self.rounds,
            "randomizer": None if self.randomizer is None else repr(self.randomizer),
            "bound": self.bound,
            "theorem": self.theorem,
            "assumptions": [str(each) for each in self.assumptions],
            "proven": True,
            "amplified": self.amplified_at(delta, epsilon=epsilon),
            "certified": certificate is not None,
        }

    def chart(
        self, *, others: "Sequence[PrivacyCurve | Comparison]" = (), delta: float = _REFERENCE_DELTA, points: int = 41
    ) -> "Chart":
        """Return ε against δ, with one report alone, the best possible and other curves; ε is marked at `delta`."""
        return self._drawn(others=others, delta=delta, points=points)

    def plot(
        self, axes: Any = None, *, others: "Sequence[PrivacyCurve | Comparison]" = (), delta: float = _REFERENCE_DELTA
    ) -> Any:
        """Draw the same with matplotlib, on these axes or on new ones, and return them."""
        if self.local_epsilon == 0:
            raise ParameterError(
                "local_epsilon must be greater than 0 to draw: at 0, ε is 0 everywhere", "local_epsilon"
            )
        return self.chart(others=others, delta=delta).plot(axes)

    def __repr__(self) -> str:
        """Show the guarantee at δ = 1e-6."""
        approximate = f", δ₀={self.local_delta:g}" if self.local_delta else ""
        where = f"n={self.reports:,}, ε₀={self.local_epsilon:g}{approximate}, {self.bound}"
        if self.parts:
            relation = " ≥ " if len({curve.reports for curve, _ in self.parts}) > 1 else "="
            where = f"{self.rounds:,} rounds, n{relation}{self.reports:,}, {self.bound}"
        try:
            value = f"ε={rounded_up(self._epsilon(_REFERENCE_DELTA))} at δ=1e-06"
        except ValueError:
            value = "no ε at δ=1e-06"
        return f"PrivacyCurve({value}, {where}{self._collusion})"


class BoundTable(tuple[PrivacyCurve | Comparison, ...], Shown):
    """The answer of `compare`: curves, the tightest first.

    Attributes
    ----------
    delta : float
        δ at which they are compared.

    Examples
    --------
    >>> import shoal
    >>> table = shoal.compare(local_epsilon=1, reports=10_000, delta=1e-6)
    >>> table
    BoundTable(12 bounds at δ=1e-06, swap-chains first: ε=0.0409509)
    >>> table[1].bound, len(table)
    ('strong-clones', 12)
    """

    delta: float

    def __new__(cls, curves: Iterable[PrivacyCurve | Comparison], *, delta: float) -> "BoundTable":
        """Return a table of these curves at this δ."""
        table = super().__new__(cls, curves)
        table.delta = delta
        return table

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what a copy is made from."""
        return (tuple(self),), {"delta": self.delta}

    def _columns(self) -> dict[str, list[Any]]:
        """Return the name of each bound, its ε, whether it is proven, and its theorem."""
        return {
            "bound": [curve.bound for curve in self],
            "epsilon": [float(curve.epsilon(self.delta)) for curve in self],
            "proven": [curve.proven for curve in self],
            "theorem": [curve.theorem for curve in self],
        }

    def _cells(self) -> dict[str, list[str]]:
        proven = ["yes" if curve.proven else "no guarantee" for curve in self]
        return {
            "bound": [curve.bound for curve in self],
            f"ε at δ = {number_text(self.delta)}": [curve._text(self.delta, 6) for curve in self],
            "proven": proven,
            "theorem": [curve.theorem for curve in self],
        }

    def _caption(self) -> str:
        return f"{len(self)} bounds, {self[0]._title}" if self else "no bounds"

    @property
    def _lower(self) -> LowerBound | None:
        """What no bound can beat; None if it is not known."""
        return next((curve.lower for curve in self if isinstance(curve, PrivacyCurve) and curve.lower), None)

    def __repr__(self) -> str:
        """Show how many there are, and the first of them."""
        first = f", {self[0].bound} first: ε={self[0]._text(self.delta, 6)}" if self else ""
        return f"BoundTable({len(self)} bounds at δ={self.delta:g}{first})"
