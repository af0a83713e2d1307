"""A proof that an ε holds, in ball arithmetic, which anybody can check again from its JSON."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from shoal.checks import MOST_REPORTS, non_negative, probability
from shoal.errors import DamagedError, FormatError, NoPairError, ParameterError

if TYPE_CHECKING:
    from shoal.evaluators.certified import Ball
    from shoal.pairs.pair import ClonePair, DecompositionPair

__all__ = ["Certificate"]

_FORMAT = "shoal-certificate-2"
_DOUBLES = ("local_epsilon", "local_delta", "epsilon", "delta", "proven_delta")
_ROOM = 2.0**-30
"""By this share `proven_delta` is above the ball, since another machine may choose other nodes for the same proof."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The theorem that `bound`, for these reports, gives δ(epsilon) ≤ delta, whatever the rounding of floating point.

    Attributes
    ----------
    bound : str
        "clones", "strong-clones" or "decomposition".
    reports, local_epsilon, local_delta : int, float
        n, ε₀, δ₀; doubles, taken exactly.
    parameters : tuple of float
        (p, q) of a decomposition, else empty.
    epsilon, delta : float
        What is proved, doubles, taken exactly.
    proven_delta : float
        An upper bound of δ(epsilon), a billionth of itself above what the balls gave; at most delta.
    bits : int
        The working precision.

    Notes
    -----
    `verify` trusts none of these fields: it carries the proof out again and compares. The JSON has every double twice,
    in decimals for people and in hexadecimal digits, and a SHA-256 digest of all of it. `from_json` refuses a text that
    is not, but for white space and order, what `to_json` writes, so that a change of any field is noticed. The digest
    is no signature: whoever changes fields and computes it anew states another theorem, which `verify` proves or not.

    Examples
    --------
    >>> import shoal
    >>> certificate = shoal.amplify(local_epsilon=1, reports=10_000).certify(delta=1e-6)
    >>> Certificate.from_json(certificate.to_json()).verify()
    True
    """

    bound: str
    reports: int
    local_epsilon: float
    local_delta: float
    parameters: tuple[float, ...]
    epsilon: float
    delta: float
    proven_delta: float
    bits: int

    def __post_init__(self) -> None:
        """Check that the fields state a theorem at all."""
        for name in ("local_epsilon", "epsilon"):
            non_negative(**{name: getattr(self, name)})
        for name in ("local_delta", "delta", "proven_delta"):
            probability(zero=True, **{name: getattr(self, name)})
        doubles = (*(getattr(self, name) for name in _DOUBLES), *self.parameters)
        if not all(type(value) is float for value in doubles):
            raise ParameterError("the numbers of a certificate are doubles, of the type float")
        if type(self.reports) is not int or not 1 <= self.reports <= MOST_REPORTS:
            raise ParameterError(f"reports must be at least 1 and at most {MOST_REPORTS:,}, got {self.reports!r}")
        if type(self.bits) is not int or not 53 <= self.bits <= 4096:
            raise ParameterError(f"bits must be at least 53 and at most 4096, got {self.bits!r}")
        if self.bound == "decomposition":
            self._check_decomposition()
        elif self.bound not in ("clones", "strong-clones"):
            raise ParameterError(f"bound must be clones, strong-clones or decomposition, got {self.bound!r}")
        elif self.parameters != ():
            raise ParameterError(f"{self.bound} has no parameters, got {self.parameters!r}")

    def _check_decomposition(self) -> None:
        from shoal.randomizers.decomposition import Decomposition

        if len(self.parameters) != 2:
            raise ParameterError(f"a decomposition has two parameters, p and q, got {self.parameters!r}")
        if self.local_delta:
            raise ParameterError(f"local_delta must be 0 with a decomposition, got {self.local_delta!r}")
        blanket, own = self.parameters
        Decomposition(blanket_probability=blanket, own_probability=own, local_epsilon=self.local_epsilon)

    @classmethod
    def prove(
        cls,
        pair: "ClonePair | DecompositionPair",
        *,
        local_epsilon: float,
        local_delta: float,
        epsilon: float,
        delta: float,
        bits: int = 192,
    ) -> "Certificate | None":
        """Return a certificate that δ(epsilon) ≤ delta, or nothing if this precision does not show it.

        Raises
        ------
        NoPairError
            For any other pair than those of the three bounds, a subclass of theirs included.
        """
        from shoal.pairs.pair import ClonePair, DecompositionPair

        fields: dict[str, Any]
        if type(pair) is ClonePair:
            fields = {"bound": pair.family, "parameters": ()}
            if pair.local_epsilon != local_epsilon:
                raise ParameterError(f"local_epsilon must be the pair's, {pair.local_epsilon!r}, got {local_epsilon!r}")
        elif type(pair) is DecompositionPair:
            fields = {"bound": "decomposition", "parameters": (pair.blanket_probability, pair.own_probability)}
        else:
            raise NoPairError(f"no certificate of a {type(pair).__name__}, only of a ClonePair or a DecompositionPair")
        fields |= {"reports": pair.reports, "local_epsilon": local_epsilon, "local_delta": local_delta, "bits": bits}
        draft = cls(**fields, epsilon=epsilon, delta=delta, proven_delta=delta)
        ball = draft._proven()
        return cls(**{**draft.__dict__, "proven_delta": _above(ball, delta)}) if ball <= delta else None

    def verify(self) -> bool:
        """Carry the proof out again, from the fields alone: δ(epsilon) ≤ proven_delta ≤ delta."""
        return self.proven_delta <= self.delta and bool(self._proven() <= self.proven_delta)

    def _proven(self) -> "Ball":
        """Return a ball whose upper end is at least δ(epsilon), the charge for δ₀ included."""
        import flint

        from shoal.evaluators.certified import certified_delta, precision

        with precision(self.bits):
            if self.epsilon >= self.local_epsilon:
                return flint.arb(self.local_delta)  # the local guarantee itself
            total = certified_delta(self._pair(), self.epsilon, self.bits)
            if self.local_delta:
                local, central = flint.arb(self.local_epsilon).exp(), flint.arb(self.epsilon).exp()
                if self.bound == "clones":
                    charge = (central + 1) * (1 + 1 / (2 * local)) * self.reports
                else:
                    charge = (self.reports - 1) * (2 / local) * (1 + central) + 1
                total += charge * flint.arb(self.local_delta)
            return total

    def _pair(self) -> "ClonePair | DecompositionPair":
        from shoal.pairs.pair import ClonePair, DecompositionPair

        if self.bound == "decomposition":
            return DecompositionPair(self.reports, *self.parameters)
        return ClonePair(self.reports, self.local_epsilon, self.bound)  # type: ignore[arg-type]

    def to_json(self) -> str:
        """Return the certificate as JSON; doubles are written exactly, in hexadecimal, beside the decimal ones."""
        content = {"format": _FORMAT, **asdict(self), "parameters": list(self.parameters)}
        exact: dict[str, Any] = {name: getattr(self, name).hex() for name in _DOUBLES}
        exact["parameters"] = [value.hex() for value in self.parameters]
        content["exact"] = exact
        plain = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["sha256"] = hashlib.sha256(plain.encode()).hexdigest()
        return json.dumps(content, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate written by `to_json`; a text in which anything was changed is refused.

        Nothing is proved by reading: `verify` does that.
        """
        try:
            given = _spelled(text)
            exact = given["exact"]
            doubles = {name: float.fromhex(exact[name]) for name in _DOUBLES}
            parameters = tuple(float.fromhex(value) for value in exact["parameters"])
            counts = {name: int(given[name].text) for name in ("reports", "bits")}
            certificate = cls(bound=given["bound"], parameters=parameters, **counts, **doubles)  # type: ignore[arg-type]
            written = _spelled(certificate.to_json())
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise FormatError(
                f"this is not a certificate of shoal ({error}); make one with curve.certify(delta=…)"
            ) from None
        if given != written:
            names = sorted(name for name in given.keys() | written.keys() if given.get(name) != written.get(name))
            raise DamagedError(
                f"this certificate was changed after it was written: {', '.join(names)}; make one with "
                "curve.certify(delta=…)"
            )
        return certificate

    def __str__(self) -> str:
        """Return the statement in one line."""
        names = ("blanket_probability", "own_probability")
        parts = "".join(f"{name}={value!r}, " for name, value in zip(names, self.parameters, strict=False))
        return (
            f"proved in {self.bits}-bit ball arithmetic: {self.bound}, {self.reports:,} reports, {parts}"
            f"local_epsilon={self.local_epsilon!r}, local_delta={self.local_delta!r} is (epsilon={self.epsilon!r}, "
            f"delta={self.delta!r})-DP"
        )


@dataclass(frozen=True)
class _Spelling:
    """A number of a JSON text, digit for digit."""

    text: str


def _spelled(text: str) -> dict[str, Any]:
    """Return what a JSON text says, with its numbers as they are spelled; refuse a name that comes twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError("a name comes twice")
        return dict(pairs)

    spelled: dict[str, Any] = json.loads(
        text, object_pairs_hook=once, parse_float=_Spelling, parse_int=_Spelling, parse_constant=_Spelling
    )
    return spelled


def _above(ball: "Ball", most: float) -> float:
    """Return a double a little above this ball, but not above `most`, which is."""
    value = float(ball.upper()) * (1 + _ROOM)
    while not ball <= value:
        value = math.nextafter(value, math.inf)
    return min(value, most)
