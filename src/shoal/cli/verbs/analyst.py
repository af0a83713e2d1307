"""The verbs of the analyst: `analyst pull`, `count` and `estimate`."""

import os
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from shoal.checks import whole
from shoal.cli.app import COLLECTION, app
from shoal.cli.collect_output import print_pulled, print_result, print_tallies
from shoal.cli.options import Count, Json, Number
from shoal.cli.output import print_json, show
from shoal.cli.pictures import PICTURES, TABLES, check_suffix, draw_estimate, write_table
from shoal.cli.verbs.report import Url
from shoal.digits import rounded_up
from shoal.errors import ParameterError

if TYPE_CHECKING:
    from shoal.collect.analyst import Analyst
    from shoal.collect.task import Task

_MOST_DRAWN = 100
RoundNumber = Annotated[Count | None, Parameter(name="--round", metavar="NUMBER")]

analyst = App(
    name="analyst",
    help="Pull released rounds, open and count them, and estimate.",
    help_epilogue="Example:  shoal analyst estimate --task task.json --folder work",
    group=COLLECTION,
)
app.command(analyst)


@analyst.command(
    help_epilogue="Example:  shoal analyst pull --task task.json --folder work --shuffler "
    "https://shuffler.example.org:8441 --ca shuffler-tls.crt --certificate analyst-tls.crt --certificate-key "
    "analyst-tls.key"
)
def pull(
    *,
    task: Path,
    folder: Path,
    shuffler: Url,
    certificate: Path,
    certificate_key: Path,
    ca: Path | None = None,
    number: RoundNumber = None,
    json: Json = False,
) -> None:
    """Fetch what the shuffler has released, verify its signature, and acknowledge what is counted already.

    The shuffler keeps a round until it is acknowledged. So run this once more after `shoal analyst count`; to repeat it
    does no harm.

    Parameters
    ----------
    task
        the task file.
    folder
        where to keep batches and counts; one for each task.
    shuffler
        its address for the analyst, such as https://shuffler.example.org:8441.
    certificate
        the analyst's certificate, analyst-tls.crt.
    certificate_key
        its private key, analyst-tls.key.
    ca
        the certificate to trust, such as shuffler-tls.crt; if not given, those that this machine trusts.
    number
        one round only; if not given, all that are ready.
    """
    from shoal.collect.analyst import Analyst
    from shoal.collect.connection import Connection
    from shoal.collect.task import Task

    agreed, one = Task.read(task), None if number is None else whole(round=number)
    with Connection(shuffler, ca, certificate, certificate_key) as connection:
        analyst_folder = Analyst(folder, agreed)
        done = analyst_folder.acknowledge(connection, one)
        rounds = [] if one in done else analyst_folder.pull(connection, one)
    facts = {"task": agreed.id, "folder": str(folder), "rounds": rounds, "acknowledged": done}
    show(facts, print_pulled, json=json)


@analyst.command(help_epilogue="Example:  shoal analyst count --task task.json --folder work --key analyst.key")
def count(
    *,
    task: Path,
    folder: Path,
    key: Path,
    number: RoundNumber = None,
    processes: Count | None = None,
    engine: str = "local",
    json: Json = False,
) -> None:
    """Open and count rounds that were pulled, on all cores. A round counts once, however often this is run.

    Parameters
    ----------
    task
        the task file.
    folder
        the folder that `shoal analyst pull` has.
    key
        the private key that opens reports, analyst.key.
    number
        one round only; if not given, all that are not counted yet.
    processes
        how many to use, 1024 at most; if not given, one for each core.
    engine
        local, or spark for more than one machine.
    """
    from shoal.collect.analyst import MOST_PROCESSES
    from shoal.collect.keys import analyst_key
    from shoal.collect.task import Task

    private = analyst_key(key)
    analyst_folder = _filled(folder, Task.read(task))
    waiting = sorted(set(analyst_folder.pulled()) - set(analyst_folder.counted()))
    rounds = waiting if number is None else [whole(round=number)]
    if processes is not None and processes > MOST_PROCESSES:
        cores = f"this machine has {os.cpu_count()} cores"
        raise ParameterError(f"processes must be at most {MOST_PROCESSES:,}, got {processes:,g}; {cores}", "processes")
    workers = None if processes is None else whole(processes=processes)
    tallies = [analyst_folder.count(each, private, workers, engine) for each in rounds]
    counted = [tally.to_dict() | {"new": tally.new} for tally in tallies]
    facts = {"task": analyst_folder.task.id, "folder": str(folder), "rounds": counted}
    show(facts, print_tallies, json=json)


@analyst.command(
    name="estimate", help_epilogue="Example:  shoal analyst estimate --task task.json --folder work --plot rounds.png"
)
def estimate_round(
    *,
    task: Path,
    folder: Path,
    number: RoundNumber = None,
    confidence: Number = 0.95,
    output: Path | None = None,
    plot: Path | None = None,
    top: Count | None = None,
    json: Json = False,
) -> None:
    """Estimate how frequent each category is in a round, and say how private that is; or refuse, with exit status 1.

    Parameters
    ----------
    task
        the task file.
    folder
        the folder that `shoal analyst count` has.
    number
        the round; if not given, the last one that is counted.
    confidence
        of each interval by itself.
    output
        write all categories into this file (.csv, .parquet), or everything (.json).
    plot
        draw the top categories with their intervals into this file (.png, .svg, .pdf).
    top
        how many categories to print (20 if not given) and to draw (40 if not given, and 100 at most).
    """
    from shoal.collect.task import Task

    most = whole(top=20 if top is None else top, least=0)
    if plot is not None and not most:
        raise ParameterError("there is nothing to draw with --top 0; give --top 1 or more, or leave --plot out")
    for name, path, suffixes in (("output", output, TABLES), ("plot", plot, PICTURES)):
        check_suffix(name, path, suffixes, [task])
    analyst_folder = _filled(folder, Task.read(task))
    if number is None and not analyst_folder.counted():
        raise ParameterError(f"no round is counted in {folder}; `shoal analyst count` does it")
    result = analyst_folder.result(analyst_folder.counted()[-1] if number is None else whole(round=number), confidence)
    facts, estimate, labels = result.to_dict(), result.estimate, result.labels
    if output is not None:
        write_table(output, facts, estimate.columns(labels), [task])
    drawn: dict[str, Any] = {} if top is None else {"most": min(most, _MOST_DRAWN)}
    draw_estimate(plot, partial(estimate.chart, names=labels, title=_title(facts), **drawn), [task])
    if json:
        print_json(facts)
    else:
        print_result(facts, estimate.top(most).tolist(), {"table": output, "picture": plot})


def _filled(folder: Path, task: "Task") -> "Analyst":
    """Return the folder of an analyst who has pulled something; only `pull` makes one."""
    from shoal.collect.analyst import Analyst

    if (folder / "batches").is_dir():
        opened = Analyst(folder, task)
        if opened.pulled() or opened.counted():
            return opened
    raise ParameterError(f"nothing was pulled into {folder} yet; `shoal analyst pull` does it")


def _title(facts: dict[str, Any]) -> str:
    question = shorten(facts["question"], 45, placeholder=" …")
    epsilon = f"ε = {rounded_up(facts['epsilon'])} at δ = {rounded_up(facts['delta'])}"
    return f"{question} Round {facts['round']:,}\n{facts['reports_valid']:,} valid reports, {epsilon}"
