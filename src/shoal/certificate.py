"""A proof that an ε holds, in ball arithmetic, which anybody can check again from its JSON."""

import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.checks import MOST_REPORTS, non_negative, probability
from shoal.errors import DamagedError, FormatError, NoPairError, ParameterError
from shoal.pairs import Pair

if TYPE_CHECKING:
    from shoal.evaluators.certified import Ball

__all__ = ["Certificate"]

_FORMAT = "shoal-certificate-3"
_DOUBLES = ("local_delta", "epsilon", "delta", "proven_delta")
_ROOM = 2.0**-30
"""By this share `proven_delta` is above the ball, since another machine may choose other nodes for the same proof."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The theorem that a dominating pair has δ(epsilon) ≤ delta, whatever the rounding of floating point.

    Attributes
    ----------
    pair : Pair
        The pair of n reports from (ε₀, δ₀)-DP randomizers; its doubles are taken exactly.
    local_delta : float
        δ₀.
    epsilon, delta : float
        What is proved, doubles, taken exactly.
    proven_delta : float
        An upper bound of δ(epsilon), a billionth of itself above what the balls gave; at most delta.
    bits : int
        The working precision.

    Notes
    -----
    The proof is the pair's own. `verify` trusts no field: it carries the proof out again and compares. The JSON names
    the pair, has every double twice, in decimals for people and in hexadecimal digits, and a SHA-256 digest of all of
    it. `from_json` refuses a text that is not, but for white space and order, what `to_json` writes, so that a change
    of any field is noticed. The digest is no signature: whoever changes fields and computes it anew states another
    theorem, which `verify` proves or not.

    Examples
    --------
    >>> import shoal
    >>> certificate = shoal.amplify(local_epsilon=1, reports=10_000).certify(delta=1e-6)
    >>> Certificate.from_json(certificate.to_json()).verify()
    True
    """

    pair: Pair
    local_delta: float
    epsilon: float
    delta: float
    proven_delta: float
    bits: int

    def __post_init__(self) -> None:
        """Check that the fields state a theorem at all."""
        if not isinstance(self.pair, Pair):
            raise NoPairError(f"a certificate is of a Pair, got {self.pair!r}")
        self.pair.check_proof(local_delta=self.local_delta)
        if Pair.from_dict(self.pair.to_dict()) != self.pair:
            raise NoPairError(f"a certificate is of a pair that can be read again from its JSON, not of {self.pair!r}")
        non_negative(local_epsilon=self.local_epsilon)
        non_negative(epsilon=self.epsilon)
        for name in ("local_delta", "delta", "proven_delta"):
            probability(zero=True, **{name: getattr(self, name)})
        doubles = (self.local_epsilon, *(getattr(self, name) for name in _DOUBLES))
        if not all(type(value) is float for value in doubles):
            raise ParameterError("the numbers of a certificate are doubles, of the type float")
        if type(self.reports) is not int or not 1 <= self.reports <= MOST_REPORTS:
            raise ParameterError(f"reports must be at least 1 and at most {MOST_REPORTS:,}, got {self.reports!r}")
        if type(self.bits) is not int or not 53 <= self.bits <= 4096:
            raise ParameterError(f"bits must be at least 53 and at most 4096, got {self.bits!r}")

    @property
    def reports(self) -> int:
        """The number of reports, n."""
        return self.pair.reports

    @property
    def local_epsilon(self) -> float:
        """The local ε₀."""
        return self.pair.local_epsilon

    @classmethod
    def prove(
        cls, pair: Pair, *, local_delta: float, epsilon: float, delta: float, bits: int = 192
    ) -> "Certificate | None":
        """Return a certificate that δ(epsilon) ≤ delta, or nothing if this precision does not show it.

        Raises
        ------
        NoPairError
            For a pair whose class has no name or no proof of its own, such as a subclass of one that has.
        """
        draft = cls(pair=pair, local_delta=local_delta, epsilon=epsilon, delta=delta, proven_delta=delta, bits=bits)
        ball = draft._proven()
        return cls(**{**vars(draft), "proven_delta": _above(ball, delta)}) if ball <= delta else None

    def verify(self) -> bool:
        """Carry the proof out again, from the fields alone: δ(epsilon) ≤ proven_delta ≤ delta."""
        return self.proven_delta <= self.delta and bool(self._proven() <= self.proven_delta)

    def _proven(self) -> "Ball":
        """Return a ball whose upper end is at least δ(epsilon), the charge for δ₀ included."""
        return self.pair.proven(self.epsilon, local_delta=self.local_delta, bits=self.bits)

    def to_json(self) -> str:
        """Return the certificate as JSON, every double in decimals and, exactly, in hexadecimal digits."""
        fields: dict[str, Any] = {**vars(self), "pair": self.pair.to_dict()}
        content = {"format": _FORMAT, **fields, "exact": _hexadecimal(fields)}
        plain = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return json.dumps({**content, "sha256": hashlib.sha256(plain.encode()).hexdigest()}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate written by `to_json`; a text in which anything was changed is refused.

        Nothing is proved by reading: `verify` does that.
        """
        try:
            given, content = _spelled(text), json.loads(text)
            fields = _exactly(content, content["exact"])
            numbers = {name: fields[name] for name in (*_DOUBLES, "bits")}
            certificate = cls(pair=Pair.from_dict(fields["pair"]), **numbers)
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
        return (
            f"proved in {self.bits}-bit ball arithmetic: {self.pair}, local_delta={self.local_delta!r} is "
            f"(epsilon={self.epsilon!r}, delta={self.delta!r})-DP"
        )


def _hexadecimal(value: Any) -> Any:
    """Return all doubles of a plain value in hexadecimal digits, under their names; nothing else of it."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        parts = {name: _hexadecimal(inner) for name, inner in value.items()}
        return {name: part for name, part in parts.items() if part is not None} or None
    if isinstance(value, (list, tuple)):
        return [_hexadecimal(inner) for inner in value]
    return None


def _exactly(value: Any, exact: Any) -> Any:
    """Return a plain value with the doubles that its hexadecimal digits say."""
    if isinstance(exact, str):
        return float.fromhex(exact)
    if isinstance(exact, dict) and isinstance(value, dict):
        return {name: _exactly(inner, exact.get(name)) for name, inner in value.items()}
    if isinstance(exact, list) and isinstance(value, list):
        return [_exactly(*both) for both in zip(value, exact, strict=True)]
    return value


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
