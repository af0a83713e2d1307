"""The verb `task`: what everybody who takes part in a collection agrees on."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from shoal.checks import known, positive, whole
from shoal.cli.app import COLLECTION, app
from shoal.cli.choice import MechanismChoice
from shoal.cli.collect_output import print_task, print_verified
from shoal.cli.options import Count, Json, Number
from shoal.cli.output import show
from shoal.digits import seconds_in
from shoal.durable_file import whole_file
from shoal.errors import ParameterError
from shoal.files.memory_limits import categorical

if TYPE_CHECKING:
    from shoal.collect.task import Task

_MALICIOUS = (
    "m, how many reports of a round may come from whoever wants to learn about the others, or be known to them. Where "
    "anybody can send, that is as many as one person can; tokens limit it. With 0 the central ε holds only if there is "
    "not one such report"
)

task = App(
    name="task",
    help="Write down what is collected, in one file whose hash everybody pins.",
    help_epilogue="Example:  shoal task show task.json",
    group=COLLECTION,
)
app.command(task)


@task.command(
    help_epilogue="Example:  shoal task new --question 'Which browser?' --categories names.txt --mechanism "
    "subset-selection --local-epsilon 2 --epsilon-limit 0.5 --malicious 100 --analyst-key analyst.pub --shuffler-key "
    "shuffler.pub"
)
def new(
    *,
    question: str,
    analyst_key: Path,
    shuffler_key: Path,
    epsilon_limit: Number,
    choice: MechanismChoice = MechanismChoice(),
    delta: Number = 1e-6,
    minimum: Count | None = None,
    malicious: Count | None = None,
    length: Annotated[str, Parameter(name="--round", metavar="10m|24h|7d")] = "24h",
    too_small: str = "extend",
    replay_rounds: Count = 8,
    helper_key: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    output: Path = Path("task.json"),
    json: Json = False,
) -> None:
    """Write down what is asked, how it is randomized, for whom it is sealed, and when a round may be released.

    Clients and shuffler pin the id that this prints, so that nobody can hand a victim a task of their own. A task never
    changes; what is different is another task.

    Parameters
    ----------
    question
        what people are asked, in words.
    analyst_key
        the analyst's public key, analyst.pub.
    shuffler_key
        the shuffler's public key, shuffler.pub.
    epsilon_limit
        no result with a larger central ε may be published.
    delta
        δ of the central guarantee.
    minimum
        no round with fewer reports is released; if not given, the fewest that keep the limit, plus twice --malicious,
        so that a round can be published even if all malicious reports are junk.
    malicious
        m, how many reports of a round may come from whoever wants to learn about the others, or be known to them; it
        is asked for if this is a terminal. With 0 the central ε holds only if there is not one such report.
    length
        how long a round lasts: seconds, or 10m, 24h, 7d.
    too_small
        what becomes of a round that has fewer reports at its end: extend it by as long again, or discard it.
    replay_rounds
        over how many rounds a repeated report is recognised.
    helper_key
        the public key of a helper who adds dummies, helper.pub; may be given several times. The shuffler adds some as
        well, unless the schema has as many helpers as there are keys, and more than one.
    output
        the task file to write.
    """
    from shoal.collect.keys import public_key
    from shoal.collect.kinds import kind_of
    from shoal.collect.task import MOST_REPLAY_ROUNDS, Task

    colluding = _asked_for() if malicious is None else whole(malicious=malicious, least=0)
    positive(epsilon_limit=epsilon_limit)
    randomizer, names, _ = choice.chosen("")
    helpers = tuple(public_key(path, "helper") for path in helper_key)
    randomizer, kind = kind_of(categorical(randomizer)).helped_by(randomizer, helpers)
    known(("extend", "discard"), too_small=too_small)
    seconds, replays = seconds_of_round(length), whole(replay_rounds=replay_rounds, most=MOST_REPLAY_ROUNDS)
    for_analyst, from_shuffler = public_key(analyst_key, "analyst"), public_key(shuffler_key, "shuffler")
    if minimum is None:  # it takes a while, and so all else was checked before
        # Twice, because malicious reports hide nobody and, if they are junk, are not among the valid reports.
        minimum = max(2, kind.people_needed(randomizer, epsilon=epsilon_limit, delta=delta) + 2 * colluding)
    agreed = Task(
        question=question,
        mechanism=randomizer,
        names=names,
        delta=delta,
        epsilon_limit=epsilon_limit,
        minimum=whole(minimum=minimum, least=2),
        malicious=colluding,
        round_seconds=seconds,
        too_small=too_small,
        replay_rounds=replays,
        analyst_key=for_analyst,
        shuffler_key=from_shuffler,
        kind=kind,
    )
    written(agreed, output)
    show(facts_of_task(agreed) | {"file": str(output)}, partial(print_task, new=True), json=json)


@task.command(name="show", help_epilogue="Example:  shoal task show task.json")
def show_task(file: Path, *, json: Json = False) -> None:
    """Print a task: its id, what is asked, and what it guarantees at its minimum.

    Parameters
    ----------
    file
        the task file.
    """
    from shoal.collect.task import Task

    show(facts_of_task(Task.read(file)) | {"file": str(file)}, print_task, json=json)


@task.command(help_epilogue="Example:  shoal task verify task.json --id 5f2c…")
def verify(file: Path, *, pinned: Annotated[str, Parameter(name="--id", metavar="HASH")], json: Json = False) -> None:
    """Check that a task file is the one with this id, that it makes sense, and that its minimum keeps its limit.

    Parameters
    ----------
    file
        the task file.
    pinned
        the id, 64 hexadecimal digits, from somebody who is trusted.
    """
    from shoal.collect.task import Task

    agreed = Task.read(file, pinned=pinned.strip().lower())
    facts = {
        "file": str(file),
        "id": agreed.id,
        "question": agreed.question,
        "fakes": agreed.malicious,
        "assumes": agreed.kind.assumes(agreed),
        "collusion": agreed.collusion,
        "verified": True,
    }
    show(facts, print_verified, json=json)


def written(agreed: "Task", output: Path) -> None:
    """Write a task into a file, never over another one."""
    if output.is_file() and output.read_bytes() != agreed.to_bytes():
        raise ParameterError(f"{output} is there already, and somebody may have pinned it; give --output another name")
    with whole_file(output) as file:
        file.write(agreed.to_bytes())


def facts_of_task(agreed: Any) -> dict[str, Any]:
    """Return all that is to be known of a task: its fields, its id, and the guarantee of the smallest round."""
    local = agreed.mechanism.local_epsilon
    epsilon, bound, theorem = local, None, None
    if agreed.minimum > agreed.malicious:
        curve = agreed.central(agreed.minimum)
        epsilon = min(local, curve.epsilon(agreed.delta))
        bound, theorem = curve.bound, curve.theorem
    central = {"reports": agreed.minimum, "epsilon": epsilon, "delta": agreed.delta, "bound": bound, "theorem": theorem}
    return {
        "id": agreed.id,
        **agreed.to_dict(),
        "local_epsilon": agreed.local_epsilon,
        "central_at_minimum": central,
        "assumes": agreed.kind.assumes(agreed),
        "collusion": agreed.collusion,
        "messages": agreed.mechanism.bundle,
    }


def _asked_for() -> int:
    """Ask for m at a terminal, and elsewhere refuse to guess it."""
    if not sys.stdin.isatty():
        raise ParameterError(f"shoal task new needs --malicious with a value: {_MALICIOUS}. Try: shoal task new --help")
    sys.stderr.write(f"shoal: how many malicious reports? Give {_MALICIOUS}.\nmalicious reports: ")
    sys.stderr.flush()
    text = sys.stdin.readline().strip()
    if not text.replace("_", "").isdecimal():
        raise ParameterError(
            f"malicious must be a whole number of reports, 0 or more, got {text!r}; give --malicious", "malicious"
        )
    return whole(malicious=int(text), least=0)


def seconds_of_round(text: str) -> int:
    """Return how long a round lasts."""
    from shoal.collect.task import LONGEST_ROUND

    return whole(round=seconds_in(text, "round"), most=LONGEST_ROUND)
