"""A claim about several rounds, settled in advance: the losses of all of them, added up in balls."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.assumptions import FRESH, Assumption
from shoal.errors import ParameterError
from shoal.proofs.claim import Claim, RoundClaim, claim_from, count, digest
from shoal.proofs.composition import MOST_KINDS, MOST_TIMES, Composition
from shoal.statements import LOSSES

__all__ = ["RoundsClaim"]

_SHOWN = 3  # so many kinds of rounds are described in the sentence; a digest identifies the others


@dataclass(frozen=True)
class RoundsClaim(Composition, Claim, name="rounds"):
    """Different rounds, each with its claim, and how many there are of each."""

    parts: tuple[tuple[RoundClaim, int], ...]

    def __post_init__(self) -> None:
        """Check the rounds."""
        if not 1 <= len(self.parts) <= MOST_KINDS:
            raise ParameterError(f"a composition has 1 to {MOST_KINDS:,} kinds of rounds, got {len(self.parts):,}")
        for claim, times in self.parts:
            if not isinstance(claim, RoundClaim) or "name" not in vars(type(claim)) or type(claim).name is None:
                raise ParameterError("the parts of a composition are claims of one round")
            count(1, MOST_TIMES, times=times)

    def to_dict(self) -> dict[str, Any]:
        """Return the rounds as plain values."""
        return {"name": self.name, "parts": [{"times": times, "claim": claim.to_dict()} for claim, times in self.parts]}

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Claim:
        """Return the claim of these rounds."""
        if set(content) != {"parts"} or not isinstance(content["parts"], list):
            raise ParameterError("a composition has parts, and nothing else")
        if len(content["parts"]) > MOST_KINDS:
            raise ParameterError(f"a composition has at most {MOST_KINDS:,} kinds of rounds")
        parts = []
        for part in content["parts"]:
            if not isinstance(part, Mapping) or set(part) != {"times", "claim"}:
                raise ParameterError("a part of a composition is a claim, and how many times")
            parts.append((claim_from(part["claim"]), part["times"]))
        return cls(tuple(parts))  # type: ignore[arg-type]

    def fitted(self, delta: float, *, coarse: bool = False) -> "RoundsClaim":
        """Return the same rounds, each discretised for its part of δ."""
        parts = ((claim.fitted(delta / self.rounds, coarse=True), times) for claim, times in self.parts)
        return RoundsClaim(tuple(parts))  # type: ignore[arg-type]

    @property
    def theorem(self) -> str:
        """The theorem on losses, and that of each round."""
        return f"{LOSSES}; each round: {'; '.join(dict.fromkeys(claim.theorem for claim, _ in self.parts))}"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true of all rounds, and of each."""
        return tuple(dict.fromkeys((FRESH, *(line for claim, _ in self.parts for line in claim.assumptions))))

    @property
    def subject(self) -> str:
        """The rounds; where there are many kinds, some of them and a digest of the others."""
        shown = " + ".join(f"{times:,} × ({claim.subject})" for claim, times in self.parts[:_SHOWN])
        if others := self.to_dict()["parts"][_SHOWN:]:
            shown += f" + {len(others)} other kinds (sha256 {digest(json.dumps(others))})"
        return f"{self.rounds:,} round{'' if self.rounds == 1 else 's'}, {shown}"
