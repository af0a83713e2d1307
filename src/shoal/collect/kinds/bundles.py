"""Rounds of bundles: each person sends several messages, which hide each other and those of others."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import shoal
from shoal.collect.kinds import RoundKind
from shoal.errors import ParameterError, UnreachableError
from shoal.randomizers.bundled import Bundled

if TYPE_CHECKING:
    from shoal.collect.batch import Manifest
    from shoal.collect.counting import ShardCounts
    from shoal.collect.task import Task

__all__ = ["Bundles"]

_MOST_PEOPLE = 1 << 33


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
        """Return what is left if shuffler and analyst collude."""
        return f"if shuffler and analyst collude, what remains is {mechanism.remains}"

    def local(self, mechanism: Any) -> str:
        """Return what holds for a report whatever becomes of the others, as a sentence."""
        left = self.collusion(mechanism)
        return f"{left[0].upper()}{left[1:]}."

    def privacy(self, mechanism: Any) -> str:
        """Return what protects a report that was just sent."""
        return f"by the other messages of the round alone; {self.collusion(mechanism)}"

    def people_needed(self, mechanism: Any, *, epsilon: float, delta: float) -> int:
        """Return how many people, all of whom take part as they should, a round takes to be (ε, δ)-private.

        Examples
        --------
        >>> from shoal.randomizers import Covered
        >>> Bundles().people_needed(Covered(categories=100, slots=1, fill=0.1361), epsilon=0.5, delta=1e-6)
        99993
        """

        def kept(people: int) -> bool:
            return bool(shoal.amplify(mechanism, reports=people).epsilon(delta) <= epsilon)

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
        """Return an ε at the task's δ of so many rounds with the minimum of reports; None if there is none."""
        try:
            together = float(task.central(task.minimum).repeated(rounds).epsilon(task.delta))
        except UnreachableError:  # so many losses may be infinite that δ has no room for them
            return None
        return together if math.isfinite(together) else None

    def counted(self, reader: Any, sums: "ShardCounts", manifest: "Manifest") -> Any:
        """Return what a round says, as counts of its people."""
        return reader.collected(sums.values, manifest.reports, manifest.records - sums.valid)
