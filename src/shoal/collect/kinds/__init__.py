"""The kind of a task's rounds: all that differs between plain rounds, bundles, dummies and heavy-hitter searches.

A task owns its kind, and everything else asks the kind. Each file in this folder is a kind that registers itself;
another package adds one by importing its file. Plain rounds and bundles are here.
"""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from shoal.amplification.amplify import amplify
from shoal.calibration import calibrate
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.errors import ParameterError, UnreachableError
from shoal.estimation.estimate import Estimate
from shoal.lazy_names import gather
from shoal.mechanisms import Categorical, Counts
from shoal.mechanisms.bundled import Bundled
from shoal.strict_json import Fields

if TYPE_CHECKING:
    from shoal.collect.batch import Manifest
    from shoal.collect.connection import Connection
    from shoal.collect.counting import Reader, ShardCounts
    from shoal.collect.round_state import Round
    from shoal.collect.sender import Sender
    from shoal.collect.task import Task
    from shoal.planning.heavy_hitter_plan import HeavyHitterPlan

__all__ = ["FORMAT", "Bundles", "RoundKind", "assumption", "kind_of", "kinds"]

FORMAT = "shoal task 1"
"""The format of the file of a task whose kind has no extra fields."""
_MOST_PEOPLE = 1 << 33


def assumption(malicious: int) -> str:
    """Return what a central guarantee assumes of the other reports of a round, if m of them may be malicious.

    Parameters
    ----------
    malicious : int
        m of the task.

    Examples
    --------
    >>> assumption(0)
    'none of the other reports is made up by whoever looks, or known to them; with each that is, the true ε is larger'
    >>> assumption(100)
    'at most 100 of the other reports are made up by whoever looks, or known to them'
    """
    if not malicious:
        reason = "none of the other reports is made up by whoever looks, or known to them"
        return f"{reason}; with each that is, the true ε is larger"
    verb = "is" if malicious == 1 else "are"
    return f"at most {malicious:,} of the other reports {verb} made up by whoever looks, or known to them"


@dataclass(frozen=True)
class RoundKind:
    """Plain rounds: each person sends one report, which is private on its own. Other kinds override what differs.

    A subclass is a frozen dataclass whose fields are the extra fields of the task file.
    """

    formats: ClassVar[dict[str, type["RoundKind"]]] = {}
    """The kinds with extra fields, by the format of the task file."""
    of_mechanism: ClassVar[dict[type, type["RoundKind"]]] = {}
    """The kinds of tasks in the first format, by the class of the mechanism."""
    format: ClassVar[str] = FORMAT
    fields: ClassVar[Fields] = {}
    """The extra fields of the task file."""
    mechanism: ClassVar[type] = Categorical
    """The class of the mechanisms that such rounds can collect."""
    several: ClassVar[bool] = False
    """Whether a batch may have more messages than people."""
    relies_on_others: ClassVar[bool] = True
    """Whether the central guarantee needs the reports of other people."""
    has_lists: ClassVar[bool] = False
    """Whether the analyst signs a list for every round."""
    on_spark: ClassVar[bool] = True
    """Whether Spark can count a round."""

    def __init_subclass__(
        cls, *, format: str = FORMAT, fields: Fields | None = None, mechanism: type | None = None
    ) -> None:
        """Register the kind by the format of its task files, or by the mechanism that asks for it."""
        super().__init_subclass__()
        if fields is not None:
            cls.format, cls.fields = format, fields
            RoundKind.formats[format] = cls
        if mechanism is not None:
            cls.mechanism = mechanism
            RoundKind.of_mechanism[mechanism] = cls

    # The task file.

    @classmethod
    def stored(cls, values: dict[str, Any]) -> Self:
        """Return the kind with the extra fields of a task file, or raise `ParameterError`."""
        return cls()

    def to_dict(self) -> dict[str, Any]:
        """Return the extra fields as they are in the task file."""
        return {}

    def check(self, task: "Task") -> None:
        """Raise `ParameterError` if a task cannot be collected safely in such rounds."""
        needed = type(kind_of(task.mechanism))
        if not isinstance(task.mechanism, self.mechanism) or not isinstance(self, needed):
            raise ParameterError(
                f"{task.mechanism!r} does not fit rounds of the kind {type(self).__name__}; it needs {needed.__name__}"
            )

    def plan(self, task: "Task") -> "HeavyHitterPlan | None":
        """Return the plan of all rounds together, if they are fixed together."""
        return None

    # What a round guarantees.

    def collusion(self, mechanism: Categorical) -> str:
        """Return the protection that is left if shuffler and analyst collude, as a clause."""
        return f"if shuffler and analyst collude, ε₀ = {rounded_up(mechanism.local_epsilon)} remains"

    def local(self, mechanism: Categorical) -> str:
        """Return the guarantee of a report that does not depend on the shuffler, as a sentence."""
        return f"Against everybody, the shuffler included, ε₀ = {rounded_up(mechanism.local_epsilon)} always remains."

    def privacy(self, mechanism: Categorical) -> str:
        """Return the protection of a report that was just sent."""
        return f"ε₀ = {rounded_up(mechanism.local_epsilon)} for this report, whoever sees it"

    def assumes(self, task: "Task") -> str:
        """Return the assumption of the central guarantee besides an honest shuffler."""
        return assumption(task.malicious)

    def conditions(self, task: "Task") -> str:
        """Return the conditions of the central guarantee, as a clause that follows "the shuffler"."""
        return f"tells nobody who sent which; and {assumption(task.malicious)}"

    def people_needed(self, mechanism: Categorical, *, epsilon: float, delta: float) -> int:
        """Return how many people, all of whom take part as they should, a round takes to be (ε, δ)-private.

        Parameters
        ----------
        mechanism : Categorical
            What each of them runs.
        epsilon, delta : float
            What is to be kept.
        """
        return int(calibrate(mechanism, epsilon=epsilon, delta=delta).reports)

    def composed(self, task: "Task", rounds: int) -> float | None:
        """Return the ε of `rounds` rounds at the task's δ, each with the minimum of reports; None if there is none."""
        # By the clones, at once: the blanket of the mechanism would take seconds for a few percent.
        least = max(task.minimum - task.malicious, 1)
        one_round = amplify(local_epsilon=task.mechanism.local_epsilon, reports=least)
        return float(one_round.repeated(rounds).epsilon(task.delta))

    def reviewed(self, task: "Task", reports: int) -> "PrivacyCurve":
        """Return the guarantee that a review is about, for `reports` reports that hide each other."""
        return amplify(task.mechanism, reports=reports)

    def runs(self, task: "Task") -> str:
        """Return a sentence on who runs which mechanism, for a review; empty if each person runs it."""
        return ""

    def who_adds(self, task: "Task") -> str:
        """Return a clause on who adds dummies and how, for a review."""
        return ""

    # Client and shuffler.

    @property
    def helper_keys(self) -> tuple[bytes, ...]:
        """The Ed25519 public keys of the helpers who add dummies."""
        return ()

    def sender(self, task: "Task", connection: "Connection", state: Path | None, token: str | None) -> "Sender":
        """Return a client of the task."""
        from shoal.collect.sender import Sender

        return Sender(task, connection, state, token)

    def helped_by(self, mechanism: Categorical, keys: tuple[bytes, ...]) -> tuple[Categorical, "RoundKind"]:
        """Return mechanism and kind of a new task with the public keys of helpers."""
        if keys:
            raise ParameterError(f"{mechanism!r} takes no helpers; leave --helper-key out")
        return mechanism, self

    def most_added(self, mechanism: Categorical) -> int:
        """Return the largest number of messages in a round besides the messages of people."""
        return 0

    def shuffler_adds(self, mechanism: Categorical) -> bool:
        """Return whether the shuffler itself adds dummies."""
        return False

    def drawn(self, task: "Task", number: int) -> list[bytes]:
        """Return the dummies of one party for a round, drawn now and sealed for the analyst."""
        return []

    def awaits(self, one: "Round") -> str | None:
        """Return the reason why an open round takes no reports yet, as an answer to clients; None if it does."""
        return None

    # The analyst.

    def reader(self, task: "Task", number: int, folder: Path) -> "Reader":
        """Return the mechanism, or its part, that reads and tallies a round's messages; `folder` is the analyst's."""
        return task.mechanism

    def counted(self, reader: "Reader", sums: "ShardCounts", manifest: "Manifest") -> Any:
        """Return the counts of a round, one report per person."""
        return Counts(reader, sums.values, sums.valid)

    def counts_from_bytes(self, data: bytes, reader: "Reader") -> Any:
        """Return counts from their bytes."""
        return Counts.from_bytes(data)

    def estimate(self, mechanism: Categorical, counts: Any, confidence: float) -> Estimate:
        """Return the estimate of a round."""
        return mechanism.estimate(counts, confidence=confidence)

    def labels(self, task: "Task", number: int, folder: Path) -> tuple[str, ...] | None:
        """Return the names of what is estimated in a round; None if they have none. `folder` is the analyst's."""
        return task.names.labels


RoundKind.of_mechanism[Categorical] = RoundKind


@dataclass(frozen=True)
class Bundles(RoundKind, mechanism=Bundled):
    """Rounds whose messages are hidden by others: nothing of a message is private on its own."""

    several = True

    def check(self, task: "Task") -> None:
        """Raise `ParameterError` if slots are always filled: a message that cannot be read counts as an empty one."""
        super().check(task)
        if getattr(task.mechanism, "null", 0) is None:
            raise ParameterError(
                "fill must be below 1 in a task: a message that cannot be read counts as an empty one; 0.999999 will "
                "do",
                "fill",
            )

    def collusion(self, mechanism: Any) -> str:
        """Return the protection that is left if shuffler and analyst collude, as a clause."""
        return f"if shuffler and analyst collude, what remains is {mechanism.remains}"

    def local(self, mechanism: Any) -> str:
        """Return the guarantee of a report that does not depend on the shuffler, as a sentence."""
        left = self.collusion(mechanism)
        return f"{left[0].upper()}{left[1:]}."

    def privacy(self, mechanism: Any) -> str:
        """Return the protection of a report that was just sent."""
        return f"by the other messages of the round alone; {self.collusion(mechanism)}"

    def people_needed(self, mechanism: Any, *, epsilon: float, delta: float) -> int:
        """Return how many people, all of whom take part as they should, a round takes to be (ε, δ)-private.

        Examples
        --------
        >>> from shoal.mechanisms import Covered
        >>> Bundles().people_needed(Covered(categories=100, slots=1, fill=0.1361), epsilon=0.5, delta=1e-6)
        99993
        """

        def kept(people: int) -> bool:
            return bool(amplify(mechanism, reports=people).epsilon(delta) <= epsilon)

        # More people tell less: the covers of one more are post-processing, and dummies do not depend on them.
        enough = 1
        while not kept(enough):
            if enough >= _MOST_PEOPLE:
                raise ParameterError(f"with {mechanism!r} no number of people has ε = {epsilon:g} at δ = {delta:g}")
            enough *= 2
        few = enough // 2
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if kept(middle) else (middle, enough)
        return enough

    def composed(self, task: "Task", rounds: int) -> float | None:
        """Return the ε of `rounds` rounds at the task's δ, each with the minimum of reports; None if there is none."""
        try:
            together = float(task.central(task.minimum).repeated(rounds).epsilon(task.delta))
        except UnreachableError:  # so many losses may be infinite that δ has no room for them
            return None
        return together if math.isfinite(together) else None

    def counted(self, reader: Any, sums: "ShardCounts", manifest: "Manifest") -> Any:
        """Return the counts of a round, one report per person."""
        return reader.collected(sums.values, manifest.reports, manifest.records - sums.valid)


@cache
def kinds() -> dict[str, type[RoundKind]]:
    """Return the kinds with extra fields by the format of their task files, after importing shoal's kinds."""
    gather(__name__)
    return RoundKind.formats


def kind_of(mechanism: Categorical) -> RoundKind:
    """Return the kind of rounds of a task that names none."""
    kinds()
    return next(RoundKind.of_mechanism[each] for each in type(mechanism).__mro__ if each in RoundKind.of_mechanism)()
