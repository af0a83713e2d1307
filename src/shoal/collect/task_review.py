"""The review of a round of a task: what it guarantees, and why what it assumes holds."""

import shoal
from shoal.assumptions import Topic
from shoal.collect.task import Task
from shoal.documentation import address
from shoal.mechanisms.dummies import Dummies
from shoal.review.review_document import Review
from shoal.review.round_review import RoundReview

__all__ = ["task_review"]

_SHUFFLED = (
    "declared: the shuffler runs shoal's, which takes sealed reports that it cannot open, and releases each round "
    "once, in an order drawn from the operating system's random bits, without addresses or times "
    f"({address('protocol')}, {address('security')}); it does not work together with the analyst"
)

_SHUFFLER_ADDS = (
    "the shuffler runs shoal's, which draws them exactly, commits one draw for each round with the seal of the round, "
    "and keeps nowhere which messages they are, or how many of a category"
)
_HELPERS_ADD = (
    "each helper of the task runs shoal's, which draws them exactly, once a round, and hands them over sealed; no "
    "round is released without the dummies of all helpers"
)
_ROUNDS = (
    "the rounds, their covers and the order of their geometry are in the task; only lists are chosen from earlier "
    "results, which Theorem H allows, and each is signed, and pinned by the clients"
)


def task_review(task: Task, *, title: str | None = None) -> Review:
    """Return the review of a round of a task, with as few reports as it releases.

    Parameters
    ----------
    task : Task
        Its question, mechanism, minimum, fakes and δ are reviewed.
    title : str, optional
        What is collected; the question, if it is not given.

    Examples
    --------
    ``task_review(Task.read(path)).to_html()`` is what ``shoal review --task path`` writes.
    """
    mechanism = task.mechanism
    fakes = (
        f"{task.fakes:,} of the reports of a round count as made up or known"
        if task.fakes
        else "no fakes are allowed for"
    )
    reasons = {
        Topic.RANDOMIZER: "it is in the task; clients that pin its hash run no other",
        Topic.SAME_RANDOMIZER: (
            "clients that pin the task's hash run no other; what anybody else sends is among the fakes"
        ),
        Topic.SLOTS: (
            "it is in the task; clients that pin its hash draw covers afresh from the operating system's random bits; "
            f"{fakes}"
        ),
        Topic.DUMMIES: f"declared: {_added(task)}",
        Topic.ROUNDS: _ROUNDS,
        Topic.SHUFFLE: f"{_SHUFFLED}; {fakes}",
        Topic.COLLUSION: "it is a limit of the protocol, and nothing in the software can prevent it",
        Topic.NEIGHBOURS: (
            "how many take part, and who, is known to the shuffler and the network, and not claimed to be hidden"
        ),
    }
    declared = (
        f"What is asked: {task.question}",
        f"The task has the hash {task.id}. A round lasts {task.round_seconds:,} seconds. The shuffler releases none "
        f"with fewer than {task.minimum:,} reports, and the analyst publishes none with ε above {task.epsilon_limit:g} "
        f"at δ = {task.delta:g}.",
    )

    def made(count: int) -> shoal.PrivacyCurve:
        if task.hunt is not None:
            return task.hunt.plan(mechanism, count).curve
        return shoal.amplify(mechanism, reports=count)

    name = task.question if title is None else title
    plan = None if task.hunt is None else task.hunt_plan
    return RoundReview(
        name, made, task.minimum, task.delta, task.fakes, mechanism, reasons, declared, plan, _runs(task)
    ).review()


def _added(task: Task) -> str:
    """Return who adds dummies, and how."""
    return "; ".join(
        said for said, holds in ((_SHUFFLER_ADDS, task.shuffler_adds), (_HELPERS_ADD, bool(task.helper_keys))) if holds
    )


def _runs(task: Task) -> str:
    """Return who runs what, where that depends on the task."""
    mechanism = task.mechanism
    if task.hunt is not None:
        plan = task.hunt_plan
        return (
            f"For their privacy, {mechanism!r} stands for every round, whatever its list (Theorem H). In each of "
            f"{plan.rounds} rounds each person sends {plan.slots + 1:,} messages, covers with fill={plan.fill!r}, by "
            f"the projective geometry response of order {plan.order} over the prefixes of a signed list"
        )
    if isinstance(mechanism, Dummies):
        who = [*(["The shuffler"] if task.shuffler_adds else []), *(["each helper"] if task.helper_keys else [])]
        added = " and ".join(who)
        return f"Each person sends what is true. {added[0].upper()}{added[1:]} runs {mechanism!r}" if who else ""
    return ""
