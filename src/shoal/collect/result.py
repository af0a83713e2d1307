"""The result of a round: what people answered, with errors, and what it tells about each of them at most."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.collect.task import Task
from shoal.digits import exactly, rounded_up
from shoal.errors import WithheldError
from shoal.mechanisms import Categorical, Counts, Estimate
from shoal.shown import Shown

if TYPE_CHECKING:
    from shoal.collect.kinds.heavy_hitter_rounds import CandidateCounts

_LOCAL = "every report is ε₀-differentially private by itself; shuffling adds nothing that is accounted for"


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """A round once it is counted.

    Attributes
    ----------
    round : int
        Its number.
    counts : Counts
        Of the valid reports.
    undecryptable : int
        How many messages are none for this task, round and key.
    malformed : int
        How many could be opened, and hold no message of the mechanism.
    duplicate : int
        How many are copies of another message, byte for byte.
    new : bool
        Whether it was counted now, and not before.
    """

    round: int
    counts: "Counts[Categorical] | CandidateCounts"
    undecryptable: int
    malformed: int
    duplicate: int
    new: bool = False

    @property
    def valid(self) -> int:
        """How many reports are in the counts, and whole: a message that is not may have spoiled a bundle each."""
        return max(self.received - self.invalid, 0)

    @property
    def invalid(self) -> int:
        """How many messages are not."""
        return self.undecryptable + self.malformed + self.duplicate

    @property
    def received(self) -> int:
        """How many reports were released, one for each person."""
        # In bundles, messages that are not valid count as empty ones, and their people as people.
        return self.counts.reports + (0 if self.counts.mechanism.bundle > 1 else self.invalid)

    def to_dict(self) -> dict[str, Any]:
        """Return how many of which there are, but nothing of what they say."""
        return {
            "round": self.round,
            "reports_received": self.received,
            "reports_invalid": self.invalid,
            "invalid": {
                "undecryptable": self.undecryptable,
                "malformed": self.malformed,
                "duplicate": self.duplicate,
            },
            "reports_valid": self.valid,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Result(Shown):
    """What may be published of a round: the estimate, how many reports it is from, and both guarantees.

    Attributes
    ----------
    task : Task
        What was asked, and how.
    tally : Tally
        How many reports came, and how many of them are valid.
    estimate : Estimate
        Of all frequencies, with intervals.
    epsilon : float
        Of the central guarantee at the task's δ, for `accounted` reports.
    bound, theorem : str
        Where it comes from.
    rounds : int
        How many rounds there have been, up to the last one that the analyst has.
    composed_epsilon : float or None
        At the task's δ, for whoever has reported in each of them; None if one that the analyst has is not counted, or
        has fewer valid reports than the minimum, by which this is stated, or if no ε is left at this δ.
    labels : tuple of str, optional
        Of what is estimated: the names of the task's categories, or, in a search, the prefixes of the round's list.
    """

    task: Task
    tally: Tally
    estimate: Estimate
    epsilon: float
    bound: str
    theorem: str
    rounds: int
    composed_epsilon: float | None
    labels: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        task: Task,
        tally: Tally,
        *,
        confidence: float = 0.95,
        others: Sequence[Tally | None] = (),
        rounds: int = 1,
        labels: tuple[str, ...] | None = None,
    ) -> "Result":
        """Return the result of a round, or refuse where the task does not allow it to be published.

        Parameters
        ----------
        task : Task
            Whose round it is.
        tally : Tally
            The round, counted.
        confidence : float
            Of each interval by itself.
        others : sequence of Tally or None
            The other rounds that the analyst has; None for each that is not counted.
        rounds : int
            How many there have been; those that the analyst does not have, here, others may have seen.
        labels : tuple of str, optional
            Of what is estimated, if that is not the task's categories.
        """
        withheld = f"round {tally.round:,} is not published"
        distinct = tally.received - tally.duplicate
        if distinct < task.minimum:
            raise WithheldError(
                f"{withheld}: it has {distinct:,} different reports, and the task allows no fewer than {task.minimum:,}"
            )
        if not tally.valid:
            raise WithheldError(f"{withheld}: none of its {tally.received:,} reports is valid; {_reasons(tally)}")
        epsilon, bound, theorem = task.mechanism.local_epsilon, "local", _LOCAL
        if tally.valid > task.malicious:
            curve = task.central(tally.valid)
            central = float(curve.epsilon(task.delta))
            if central <= epsilon:
                epsilon, bound, theorem = central, curve.bound, curve.theorem
        if not epsilon <= task.epsilon_limit:
            malicious = f", of which {task.malicious:,} are taken for malicious reports" if task.malicious else ""
            raise WithheldError(
                f"{withheld}: with {tally.valid:,} valid reports{malicious}, ε is "
                f"{rounded_up(epsilon)} at δ = {task.delta!r}, and the task allows at most "
                f"{exactly(task.epsilon_limit)}; {_reasons(tally)}"
            )
        return cls(
            task=task,
            tally=tally,
            estimate=task.kind.estimate(task.mechanism, tally.counts, confidence),
            epsilon=epsilon,
            bound=bound,
            theorem=theorem,
            rounds=rounds,
            labels=labels or task.names.labels,
            composed_epsilon=_composed(task, [tally, *others], rounds) if rounds > 1 else epsilon,
        )

    @property
    def round(self) -> int:
        """The number of the round."""
        return self.tally.round

    @property
    def received(self) -> int:
        """How many records were released."""
        return self.tally.received

    @property
    def invalid(self) -> int:
        """How many of them are not in the estimate; the tally says why."""
        return self.tally.invalid

    @property
    def valid(self) -> int:
        """How many are."""
        return self.tally.valid

    @property
    def malicious(self) -> int:
        """How many of the valid ones are taken to hide nobody, m."""
        return self.task.malicious

    @property
    def accounted(self) -> int:
        """For how many reports the central guarantee is stated: the valid ones, less m."""
        return max(self.valid - self.malicious, 0)

    @property
    def local_epsilon(self) -> float:
        """What holds for every report by itself, ε₀, whoever sees it."""
        return self.task.mechanism.local_epsilon

    @property
    def delta(self) -> float:
        """The δ of the central guarantee."""
        return self.task.delta

    @property
    def holds(self) -> str:
        """For whom, against whom and on what conditions the guarantees hold, in words."""
        local = self.task.kind.local(self.task.mechanism)
        if not self.accounted:
            return f"No more reports are valid than may be malicious, so nothing is gained by shuffling. {local}"
        if self.bound == "local":  # shuffling adds nothing that is accounted for, and nothing is assumed
            return f"{local} It is for this round alone: rounds add up."
        return (
            f"ε = {rounded_up(self.epsilon)} at δ = {self.delta!r} holds for everybody who sent one report in this "
            "round, against whoever sees what was released, the analyst included, on two conditions: the shuffler "
            f"{self.task.kind.conditions(self.task)}. It is for this round alone: rounds add up. {local}"
        )

    def _columns(self) -> dict[str, Any]:
        return self.estimate.columns(self.labels)

    def _cells(self) -> dict[str, list[str]]:
        labels = self.labels
        cells = {name: list(column) for name, column in self.estimate._cells().items()}
        named = [str(labels[int(number)]) if labels is not None else number for number in cells["category"]]
        return cells | {"category": named}

    def _caption(self) -> str:
        return f"{self.task.question}: {self.holds}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        estimate = self.estimate.to_dict(self.labels)
        del estimate["reports"]  # these are the valid ones
        return {
            "task": self.task.id,
            "question": self.task.question,
            **self.tally.to_dict(),
            "malicious_assumed": self.malicious,
            "reports_accounted": self.accounted,
            "local_epsilon": self.task.local_epsilon,
            "collusion": self.task.collusion,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": self.bound,
            "theorem": self.theorem,
            "epsilon_limit": self.task.epsilon_limit,
            "rounds": self.rounds,
            "epsilon_of_all_rounds": self.composed_epsilon,
            "holds": self.holds,
            **estimate,
        }


def _composed(task: Task, tallies: Sequence[Tally | None], rounds: int) -> float | None:
    """Return an ε for whoever has reported in all of some rounds.

    Privacy losses add up if the rounds were settled in advance. How many reports come is not; the minimum is, and more
    reports than that tell less (docs/theory/composition.md).
    """
    if any(tally is None or tally.valid < task.minimum for tally in tallies):
        return None
    return task.kind.composed(task, rounds)


def _reasons(tally: Tally) -> str:
    return (
        f"of {tally.received:,} received, {tally.undecryptable:,} could not be opened, {tally.malformed:,} held no "
        f"report and {tally.duplicate:,} were copies"
    )
