"""A proof that an ε holds, in ball arithmetic, which anybody can check again from its JSON."""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from shoal.errors import ParameterError

if TYPE_CHECKING:
    from shoal.divergence.certified import Ball
    from shoal.divergence.pair import ClonePair, DecompositionPair

__all__ = ["Certificate"]

_FORMAT = "shoal-certificate-1"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The theorem that `bound`, for these reports, gives δ(epsilon) ≤ delta, whatever the rounding of floating point.

    Attributes
    ----------
    bound : "clones", "strong-clones" or "decomposition".
    reports, local_epsilon, local_delta : n, ε₀, δ₀; doubles, taken exactly.
    parameters : (p, q) of a decomposition, else empty.
    epsilon, delta : what is proved, doubles, taken exactly.
    proven_delta : an upper bound of δ(epsilon), as the ball arithmetic gave it (rounded up, for the eye).
    bits : the working precision.

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
    proven_delta: str
    bits: int

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
        """Return a certificate that δ(epsilon) ≤ delta, or nothing if this precision does not show it."""
        from shoal.divergence.pair import ClonePair

        draft = cls(
            bound=pair.family if isinstance(pair, ClonePair) else "decomposition",
            reports=pair.reports,
            local_epsilon=local_epsilon,
            local_delta=local_delta,
            parameters=() if isinstance(pair, ClonePair) else (pair.blanket_chance, pair.own_chance),
            epsilon=epsilon,
            delta=delta,
            proven_delta="",
            bits=bits,
        )
        ball = draft._proven()
        if not ball <= delta:
            return None
        return cls(**{**draft.__dict__, "proven_delta": ball.upper().str(12, radius=False)})

    def verify(self) -> bool:
        """Carry the proof out again, from the fields alone."""
        return bool(self._proven() <= self.delta)

    def _proven(self) -> "Ball":
        """Return a ball whose upper end is at least δ(epsilon), the charge for δ₀ included."""
        import flint

        from shoal.divergence.certified import certified_delta, precision

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
        from shoal.divergence.pair import ClonePair, DecompositionPair

        if self.bound in ("clones", "strong-clones"):
            return ClonePair(self.reports, self.local_epsilon, self.bound)  # type: ignore[arg-type]
        return DecompositionPair(self.reports, *self.parameters)

    def to_json(self) -> str:
        """Return the certificate as JSON; doubles are written exactly, in hexadecimal, beside the decimal ones."""
        fields = asdict(self)
        exact = {name: value.hex() for name, value in fields.items() if isinstance(value, float)}
        exact["parameters"] = [value.hex() for value in self.parameters]  # type: ignore[assignment]
        return json.dumps({"format": _FORMAT, **fields, "exact": exact}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate written by `to_json`; the hexadecimal doubles count."""
        try:
            fields: dict[str, Any] = json.loads(text)
            if fields.pop("format") != _FORMAT:
                raise ValueError("another format")
            exact = fields.pop("exact")
            parameters = tuple(float.fromhex(value) for value in exact.pop("parameters"))
            numbers = {name: float.fromhex(value) for name, value in exact.items()}
            certificate = cls(**{**fields, **numbers, "parameters": parameters})
            certificate._check()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ParameterError(
                f"this is not a certificate of shoal ({error}); make one with curve.certify(delta=…)"
            ) from None
        return certificate

    def _check(self) -> None:
        if self.bound == "decomposition":
            blanket, own = self.parameters
            possible = 0 < blanket <= 1 / 3 and 0 < own <= 1
        else:
            possible = self.parameters == ()
        valid = (
            self.bound in ("clones", "strong-clones", "decomposition")
            and possible
            and isinstance(self.reports, int)
            and self.reports >= 1
            and isinstance(self.bits, int)
            and 53 <= self.bits <= 4096
            and self.epsilon >= 0
            and self.local_epsilon > 0
            and 0 <= self.local_delta < 1
            and 0 <= self.delta < 1
        )
        if not valid:
            raise ValueError("a field is out of range")

    def __str__(self) -> str:
        """Return the statement in one line."""
        return (
            f"proved in {self.bits}-bit ball arithmetic: {self.bound}, {self.reports:,} reports, "
            f"local_epsilon={self.local_epsilon!r} is (epsilon={self.epsilon!r}, delta={self.delta!r})-DP"
        )
