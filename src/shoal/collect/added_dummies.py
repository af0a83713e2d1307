"""The dummies of a round: drawn and sealed by the shuffler or a helper, and from then on messages like any other."""

from shoal.collect.envelope import plaintexts, seal
from shoal.collect.round_state import Record, record
from shoal.collect.task import Task
from shoal.mechanisms import Dummies

__all__ = ["added_dummies", "sealed_dummies"]


def sealed_dummies(task: Task, number: int) -> list[bytes]:
    """Return the dummies of one party for a round, drawn now and sealed for the analyst, in the order of their bytes.

    How many there are of each category is drawn here, and kept nowhere: whoever calls this does so once a round.

    Parameters
    ----------
    task : Task
        Whose mechanism says how many.
    number : int
        Of the round.
    """
    assert isinstance(task.mechanism, Dummies)
    # In the order of their bytes, which says nothing: not by category, and not as they were drawn.
    return sorted(seal(task, number, each) for each in plaintexts(task, task.mechanism.dummies()))


def added_dummies(task: Task, number: int) -> list[Record]:
    """Return the dummies that the shuffler adds to a round; none if it adds none in this task.

    It is called before the transaction that seals the round, and what it returns is stored there or forgotten.

    Parameters
    ----------
    task : Task
        Whose mechanism says how many.
    number : int
        Of the round.
    """
    return sorted(map(record, sealed_dummies(task, number))) if task.shuffler_adds else []
