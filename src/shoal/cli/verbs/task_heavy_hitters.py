"""The verb `task heavy-hitters`: a task that finds the strings that many people hold, over several rounds."""

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from shoal.checks import whole
from shoal.cli.collect_output import print_task
from shoal.cli.options import Count, Json, Number
from shoal.cli.output import show
from shoal.cli.verbs.task import facts_of_task, seconds_of_round, task, written
from shoal.planning.coded_strings import CODES


@task.command(
    name="heavy-hitters",
    help_epilogue="Example:  shoal task heavy-hitters --question 'Which page?' --minimum 1e6 --malicious 1000 "
    "--epsilon 1 --analyst-key analyst.pub --shuffler-key shuffler.pub --list-key lists.pub --output pages.json",
)
def hunt_task(
    *,
    question: str,
    analyst_key: Path,
    shuffler_key: Path,
    list_key: Path,
    minimum: Count,
    malicious: Count,
    epsilon: Number,
    delta: Number = 1e-6,
    bits: Count = 48,
    first: Count = 16,
    step: Count = 8,
    covers: Number = 0.999,
    deviations: Number = 5.0,
    code: Annotated[str, Parameter(help=f"how strings become bits: {', '.join(CODES)}; hash is for long ones.")] = (
        "bytes"
    ),
    length: Annotated[str, Parameter(name="--round", metavar="10m|24h|7d")] = "24h",
    replay_rounds: Count = 8,
    output: Path = Path("task.json"),
    json: Json = False,
) -> None:
    """Write down a search for heavy hitters: strings that many people hold, found over rounds of longer prefixes.

    All rounds together keep ε at δ. The order of the geometry, the truth, slots and covers are settled here for all of
    them; what differs is the list of prefixes, which `shoal analyst next` signs for every round.

    Parameters
    ----------
    question
        what people are asked, in words.
    analyst_key
        the analyst's public key, analyst.pub.
    shuffler_key
        the shuffler's public key, shuffler.pub.
    list_key
        the public key that lists are signed with, lists.pub.
    minimum
        no round with fewer reports is released.
    malicious
        m, how many reports of a round may come from whoever wants to learn about the others, or be known to them.
    epsilon
        ε that all rounds together keep, for minimum - m people.
    delta
        δ that all rounds together keep.
    bits
        how many bits of a string count, a multiple of 8.
    first
        how many bits the prefixes of the first round have.
    step
        how many more in each round after it.
    covers
        how many covers a person sends in a round, on average, and not a whole number.
    deviations
        how many standard deviations of an empty prefix make a prefix one that is kept.
    length
        how long a round lasts at least: seconds, or 10m, 24h, 7d.
    replay_rounds
        over how many rounds a repeated report is recognised.
    output
        the task file to write.
    """
    from shoal.collect.keys import public_key
    from shoal.collect.kinds.heavy_hitter_rounds import HeavyHitterRounds
    from shoal.collect.task import MOST_REPLAY_ROUNDS, Task
    from shoal.errors import ParameterError
    from shoal.files.names import Names
    from shoal.planning.heavy_hitter_plan import plan_heavy_hitters

    least, colluding = whole(minimum=minimum, least=2), whole(malicious=malicious, least=0)
    if least <= colluding:
        raise ParameterError(
            f"minimum must be above malicious reports, got minimum={least:,} and malicious={colluding:,}", "minimum"
        )
    terms = HeavyHitterRounds(
        bits=whole(bits=bits),
        first=whole(first=first),
        step=whole(step=step),
        deviations=float(deviations),
        code=code,
        list_key=public_key(list_key, "lists").hex(),
    )
    plan = plan_heavy_hitters(
        people=least - colluding, epsilon=epsilon, delta=delta, bits=bits, first=first, step=step, covers=covers,
        deviations=deviations,
    )  # fmt: skip
    agreed = Task(
        question=question,
        mechanism=plan.mechanism,
        names=Names(plan.mechanism.categories),
        delta=delta,
        epsilon_limit=float(epsilon),
        minimum=least,
        malicious=colluding,
        round_seconds=seconds_of_round(length),
        too_small="extend",
        replay_rounds=whole(replay_rounds=replay_rounds, most=MOST_REPLAY_ROUNDS),
        analyst_key=public_key(analyst_key, "analyst"),
        shuffler_key=public_key(shuffler_key, "shuffler"),
        kind=terms,
    )
    written(agreed, output)
    show(facts_of_task(agreed) | {"file": str(output)}, partial(print_task, new=True), json=json)
