"""A proof that an ε holds, in ball arithmetic, which anybody can check again from its JSON."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.documentation import linked
from shoal.errors import (
    DamagedError,
    FormatError,
    NoPairError,
    ParameterError,
    RangeError,
    ShoalError,
    UnreachableError,
)
from shoal.proofs.balls import above, precision
from shoal.proofs.claim import Claim, Witness, claim_from, count, double
from shoal.proofs.work import limited
from shoal.shown import Shown
from shoal.strict_json import short_reason

FORMAT = "shoal-certificate-5"
# Not read: a certificate could be of one direction only, and its sentence did not say everything it is about.
_EARLIER = tuple(f"shoal-certificate-{number}" for number in range(1, 5))
MOST_BYTES = 200_000
"""A longer text is no certificate, and is not read."""
# By this part `proven_delta` is above the ball, since another machine may choose other nodes for the same proof.
_ROOM = 1e-7
_BITS = 160  # of precision: fewer leave wide balls for high powers, more take longer
_ATTEMPTS = 5  # proving tries several ε and precisions, and each may take what verifying may
_MOST_MORE = 1e-3 * (1 + 1e-9)  # what is proved is at most a thousandth above what was printed


def is_certificate(text: str) -> bool:
    """Return whether a text names the format of certificates, of any version."""
    return f'"{FORMAT.rpartition("-")[0]}-' in text


@dataclass(frozen=True, kw_only=True)
class Certificate(Shown):
    """The theorem that what is claimed has δ(epsilon) ≤ delta, whatever the rounding of floating point.

    Attributes
    ----------
    claim : Claim
        What it is about; its doubles are taken exactly.
    epsilon, delta : float
        What is proved, doubles, taken exactly.
    printed_epsilon : float
        What was printed: at most `epsilon`, which may be larger by a thousandth of itself.
    proven_delta : float
        An upper bound of δ(epsilon), a ten-millionth of itself above what the balls gave; at most delta.
    bits : int
        The working precision.
    witness : Mapping
        Where to sum; every choice proves something, and a bad one not enough.

    Notes
    -----
    `verify` trusts no field: it carries the proof out again and compares. The JSON has every double twice, in decimals
    for people and in hexadecimal digits, the theorem and the assumptions of the claim, and a SHA-256 digest of all of
    it. `from_json` refuses a text that is not, but for white space and order, what `to_json` writes, so that a change
    of any field is noticed. The digest is no signature: whoever changes fields and computes it anew states another
    theorem, which `verify` proves or not (docs/theory/certificates.md).

    Examples
    --------
    >>> import shoal
    >>> certificate = shoal.amplify(local_epsilon=1, reports=10_000).certify(delta=1e-6)
    >>> Certificate.from_json(certificate.to_json()).verify()
    True
    """

    claim: Claim
    epsilon: float
    delta: float
    printed_epsilon: float
    proven_delta: float
    witness: Witness = field(hash=False)
    bits: int = _BITS

    def __post_init__(self) -> None:
        """Check that the fields state a theorem at all."""
        if not isinstance(self.claim, Claim) or type(self.claim).name is None or "name" not in vars(type(self.claim)):
            raise NoPairError(f"a certificate is of a claim whose own class has a name, got {self.claim!r:.80}")
        if claim_from(self.claim.to_dict()) != self.claim:
            raise NoPairError(
                f"a certificate is of a claim that can be read again from its JSON, not {self.claim!r:.80}"
            )
        double(0.0, epsilon=self.epsilon)
        double(0.0, self.epsilon, printed_epsilon=self.printed_epsilon)
        for name in ("delta", "proven_delta"):
            if not double(0.0, 1.0, **{name: getattr(self, name)}) < 1:
                raise ParameterError(f"{name} must be less than 1")
        count(64, 512, bits=self.bits)
        if not isinstance(self.witness, Mapping):
            raise ParameterError("the witness of a certificate has named numbers")

    @classmethod
    def prove(cls, claim: Claim, *, epsilon: float, delta: float, bits: int = _BITS) -> "Certificate":
        """Return a certificate for this ε, or for at most a thousandth of it more.

        Raises
        ------
        UnreachableError
            If no attempt shows that δ(ε) ≤ delta, or one of them takes more work than verifying may.
        """
        if not math.isfinite(epsilon):
            raise UnreachableError(f"there is no finite epsilon to prove at delta={delta!r}; use a larger delta")
        try:
            with precision(bits), limited(_ATTEMPTS * claim.most_work):
                return cls._proved(claim.fitted(delta), epsilon, delta, bits)
        except RangeError:
            raise UnreachableError(
                f"epsilon={epsilon!r} at delta={delta!r} of {claim.subject} takes more work or memory to prove than a "
                "certificate may, and was given up; fewer inputs, fewer kinds of rounds or more reports take less"
            ) from None

    @classmethod
    def _proved(cls, claim: Claim, epsilon: float, delta: float, bits: int) -> "Certificate":
        least = math.inf
        for larger, witness in claim.attempts(epsilon, delta):
            draft = cls(
                claim=claim, epsilon=larger, delta=delta, printed_epsilon=epsilon, proven_delta=delta,
                witness=witness, bits=bits,
            )  # fmt: skip
            with limited(claim.most_work):  # as in `objection`
                value = claim.upper(larger, witness)
            if value <= delta:
                return replace(draft, proven_delta=min(above(value) * (1 + _ROOM), delta))
            least = min(least, above(value))
        reached = f"; the least δ that was proved is {least:.6g}" if math.isfinite(least) else ""
        raise UnreachableError(
            f"epsilon={epsilon!r} at delta={delta!r}, or a thousandth more, could not be proved of {claim.subject} in "
            f"ball arithmetic{reached}"
        )

    def verify(self) -> bool:
        """Carry the proof out again, from the fields alone: δ(epsilon) ≤ proven_delta ≤ delta."""
        return not self.objection()

    def objection(self) -> str:
        """Return what is wrong with the proof, or nothing if it stands."""
        if not self.proven_delta <= self.delta:
            return f"it states proven_delta={self.proven_delta!r}, which is above delta={self.delta!r}"
        if self.epsilon > self.printed_epsilon * (1 + _MOST_MORE):
            printed = self.printed_epsilon
            return f"it is about another ε than the printed one, {printed!r}, and not a thousandth above it"
        try:
            with precision(self.bits), limited(self.claim.most_work):
                value = self.claim.upper(self.epsilon, self.witness)
        except (ShoalError, ArithmeticError, LookupError, ValueError) as error:
            return f"it cannot be carried out: {short_reason(error)}"
        if value <= self.proven_delta:
            return ""
        bound = f"only at most {above(value):.6g}" if value.is_finite() else "nothing"
        return f"δ({self.epsilon!r}) ≤ {self.proven_delta!r} is not proved: the balls show {bound}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; doubles as they are."""
        return {
            "format": FORMAT,
            "claim": self.claim.to_dict(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "printed_epsilon": self.printed_epsilon,
            "proven_delta": self.proven_delta,
            "theorem": self.claim.theorem,
            "assumptions": [str(each) for each in self.claim.assumptions],
            "statement": str(self),
            "witness": dict(self.witness),
            "bits": self.bits,
        }

    def to_json(self) -> str:
        """Return the certificate as JSON, every double in decimals and, exactly, in hexadecimal digits."""
        content = self.to_dict()
        content["exact"] = _hexadecimal({name: content[name] for name in _HAVE_DOUBLES})
        plain = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["sha256"] = hashlib.sha256(plain.encode()).hexdigest()
        return json.dumps(content, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate written by `to_json`; a text in which anything was changed is refused.

        Nothing is proved by reading: `verify` does that.
        """
        try:
            if len(text) > MOST_BYTES:
                raise ValueError(f"it has {len(text):,} characters, and a certificate at most {MOST_BYTES:,}")
            given = _spelled(text)
            content = json.loads(text)
            if isinstance(content, dict) and content.get("format") in _EARLIER:
                raise ValueError(f"its format is {content['format']}, of an earlier shoal, which is not trusted")
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            fields = _exactly({name: content[name] for name in _HAVE_DOUBLES}, content["exact"])
            certificate = cls(**{**fields, "claim": claim_from(fields["claim"])}, bits=content["bits"])
            written = _spelled(certificate.to_json())
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, ShoalError) as error:
            raise FormatError(
                f"this is not a certificate of shoal ({short_reason(error)}); make one with curve.certify(delta=…)"
            ) from None
        if given != written:
            names = sorted(name for name in given.keys() | written.keys() if given.get(name) != written.get(name))
            raise DamagedError(
                f"this certificate was changed after it was written: {', '.join(names):.200}; make one with "
                "curve.certify(delta=…)"
            )
        return certificate

    def _columns(self) -> dict[str, list[Any]]:
        names = ("epsilon", "delta", "printed_epsilon", "proven_delta", "bits")
        facts = {name: [getattr(self, name)] for name in names}
        return facts | {"theorem": [linked(self.claim.theorem)]}

    def _cells(self) -> dict[str, list[str]]:
        return {"ε": [repr(self.epsilon)], "δ": [repr(self.delta)], "theorem": [linked(self.claim.theorem)]}

    def _caption(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Return the statement in one line."""
        printed = "" if self.printed_epsilon == self.epsilon else f" (printed was epsilon={self.printed_epsilon!r})"
        return (
            f"proved in {self.bits}-bit ball arithmetic: {self.claim.subject}: "
            f"(epsilon={self.epsilon!r}, delta={self.delta!r})-DP{printed}"
        )


_HAVE_DOUBLES = ("claim", "epsilon", "delta", "printed_epsilon", "proven_delta", "witness")


def _hexadecimal(value: Any) -> Any:
    """Return all doubles of a plain value in hexadecimal digits, under their names; nothing else of it."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Mapping):
        parts = {name: _hexadecimal(inner) for name, inner in value.items()}
        return {name: part for name, part in parts.items() if part is not None} or None
    if isinstance(value, (list, tuple)):
        parts_of = [_hexadecimal(inner) for inner in value]
        return parts_of if any(part is not None for part in parts_of) else None
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


def _spelled(text: str) -> dict[str, Any]:
    """Return what a JSON text says, a number as a tuple of its digits; refuse a name that comes twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError("a name comes twice")
        return dict(pairs)

    def number(digits: str) -> tuple[str]:  # JSON has no tuples, so that nothing else is equal
        return (digits,)

    spelled: dict[str, Any] = json.loads(
        text, object_pairs_hook=once, parse_float=number, parse_int=number, parse_constant=number
    )
    return spelled
