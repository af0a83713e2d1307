"""The file that `shoal plan --output` writes, read back: the rounds of the first choice, and their target."""

from dataclasses import dataclass

from shoal.amplification.amplify import amplify
from shoal.checks import non_negative, positive, probability, whole
from shoal.composition.composition_method import MOST_TIMES
from shoal.curve import PrivacyCurve
from shoal.errors import FormatError, ParameterError, ShoalError
from shoal.pairs.registry import mechanism_of
from shoal.randomizers import Categorical
from shoal.strict_json import parsed, short_reason

__all__ = ["PlannedRounds"]


@dataclass(frozen=True)
class PlannedRounds:
    """The rounds of a plan: the first choice, with every number as the file has it.

    Attributes
    ----------
    mechanism : Categorical
        What each participant runs.
    reports : int
        How many reports are shuffled together in a round.
    rounds : int
        How many rounds there are.
    epsilon, delta : float
        The target for all rounds together.
    spent : float
        The part of the target that a ledger had counted before the plan; 0 without a ledger.
    """

    mechanism: Categorical
    reports: int
    rounds: int
    epsilon: float
    delta: float
    spent: float = 0.0

    @classmethod
    def from_json(cls, text: str, name: str) -> "PlannedRounds":
        """Return the rounds of a plan.

        Parameters
        ----------
        text : str
            The JSON that `shoal plan --output` writes.
        name : str
            The name of the file, for an error.

        Raises
        ------
        FormatError
            If it is not a plan.
        """
        try:
            content = parsed(text)
            mechanism = mechanism_of(content["schema"])
            if not isinstance(mechanism, Categorical):
                raise ParameterError("its schema is not a mechanism for categories")
            return cls(
                mechanism,
                whole(reports=content["reports"]),
                whole(times=content["times"], most=MOST_TIMES),
                positive(epsilon=content["epsilon"]),
                probability(delta=content["delta"]),
                non_negative(spent=content.get("spent", 0.0)),
            )
        except (ValueError, KeyError, TypeError, OverflowError, ShoalError) as error:
            reason = short_reason(error) if isinstance(error, ShoalError) else "a field is missing, or is not a number"
            raise FormatError(f"{name} is not a plan, as `shoal plan --output` writes it: {reason}") from None

    def curve(self, reports: int | None = None) -> PrivacyCurve:
        """Return the guarantee of one round, with another number of reports if one is given."""
        return amplify(self.mechanism, reports=self.reports if reports is None else reports)
