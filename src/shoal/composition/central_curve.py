"""A release by a central mechanism, such as a noisy count: a curve that composes with shuffled rounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.assumptions import REPLACE, Assumption
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.privacy_profile import ListedProfile

CENTRAL = "central"
_FIELDS = frozenset({"bound", "deltas", "epsilons", "mechanism", "source"})


@dataclass(frozen=True)
class CentralCurve(PrivacyCurve):
    """What a trusted curator has released about the same people, known by bounds of δ at some ε.

    It has no shuffler and no reports: whoever holds the data sees them, and `local_epsilon` and `local_delta` are those
    of the release itself.

    Attributes
    ----------
    mechanism : str
        What was released, in a line.
    """

    mechanism: str = ""

    @classmethod
    def of(cls, profile: ListedProfile, *, mechanism: str, source: str) -> "CentralCurve":
        """Return the curve of bounds of δ for neighbours that differ in one value; `source` says why they hold."""
        for name, text in (("mechanism", mechanism), ("source", source)):
            if not isinstance(text, str) or not text or not text.isprintable():
                raise ParameterError(f"{name} must be a line of text, got {text!r}", name)
        return cls(
            bound=CENTRAL,
            citation=source,
            assumptions=(
                Assumption(f"the central mechanism is the one described: {mechanism}"),
                Assumption(f"its bounds hold: {source}"),
                REPLACE,
            ),
            reports=1,
            local_epsilon=profile.epsilons[-1],
            local_delta=profile.deltas[-1],
            profile=profile,
            mechanism=mechanism,
        )

    def to_record(self) -> dict[str, Any]:
        """Return it as plain values, as a ledger's file has them."""
        assert isinstance(self.profile, ListedProfile)
        return {
            "bound": CENTRAL,
            "mechanism": self.mechanism,
            "source": self.citation,
            "epsilons": list(self.profile.epsilons),
            "deltas": list(self.profile.deltas),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "CentralCurve":
        """Return the curve of such values, or say what is wrong with them."""
        if record.keys() != _FIELDS:
            raise ParameterError(f"a central mechanism has {', '.join(sorted(_FIELDS))} and times, and nothing else")
        lists = record["epsilons"], record["deltas"]
        for numbers in lists:
            if not isinstance(numbers, list) or not all(type(number) is float for number in numbers):
                raise ParameterError("epsilons and deltas must be lists of floats")
        profile = ListedProfile(*map(tuple, lists))
        return cls.of(profile, mechanism=record["mechanism"], source=record["source"])

    @property
    def _title(self) -> str:
        return f"central mechanism: {self.mechanism}"

    def __repr__(self) -> str:
        """Show the guarantee at δ = 1e-6."""
        try:
            value = f"ε={rounded_up(self._epsilon(1e-6))} at δ=1e-06"
        except ValueError:
            value = "no ε at δ=1e-06"
        return f"CentralCurve({value}, {self.mechanism})"
