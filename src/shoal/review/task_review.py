"""The review of a round of a task: what it guarantees, and why what it assumes holds."""

import shoal
from shoal.assumptions import Topic
from shoal.collect.task import Task
from shoal.documentation import address
from shoal.review.review_document import Review
from shoal.review.round_review import RoundReview

_SHUFFLED = (
    "declared: the shuffler runs shoal's, which takes sealed reports that it cannot open, and releases each round "
    "once, in an order drawn from the operating system's random bits, without addresses or times "
    f"({address('protocol')}, {address('security')}); it does not work together with the analyst"
)

_ROUNDS = (
    "the rounds, their covers and the order of their geometry are in the task; only lists are chosen from earlier "
    "results, which Theorem H allows, and each is signed, and pinned by the clients"
)


def task_review(task: Task, *, title: str | None = None) -> Review:
    """Return the review of a round of a task, with as few reports as it releases.

    Examples
    --------
    ``task_review(Task.read(path)).to_html()`` is what ``shoal review --task path`` writes.
    """
    mechanism = task.mechanism
    malicious = (
        f"{task.malicious:,} of the reports of a round count as made up or known"
        if task.malicious
        else "no malicious reports are allowed for"
    )
    reasons = {
        Topic.RANDOMIZER: "it is in the task; clients that pin its hash run no other",
        Topic.SAME_RANDOMIZER: (
            "clients that pin the task's hash run no other; what anybody else sends is among the malicious reports"
        ),
        Topic.SLOTS: (
            "it is in the task; clients that pin its hash draw covers afresh from the operating system's random bits; "
            f"{malicious}"
        ),
        Topic.DUMMIES: f"declared: {task.kind.who_adds(task)}",
        Topic.ROUNDS: _ROUNDS,
        Topic.SHUFFLE: f"{_SHUFFLED}; {malicious}",
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
        return task.kind.reviewed(task, count)

    name = task.question if title is None else title
    return RoundReview(
        name,
        made,
        task.minimum,
        task.delta,
        task.malicious,
        mechanism,
        reasons,
        declared,
        task.plan,
        task.kind.runs(task),
    ).review()
