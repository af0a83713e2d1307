"""The verb `review`: a page to hand over to whoever reviews the privacy of a collection or a training."""

from pathlib import Path

from shoal.cli.app import GUARANTEES, app
from shoal.cli.asking import LocalRandomizer
from shoal.cli.files import text_of
from shoal.cli.options import Count, Flag, Json, Number
from shoal.cli.output import print_json
from shoal.durable_file import check_output, whole_file
from shoal.errors import ParameterError
from shoal.questions.parameters import ledger_in, usual_delta
from shoal.review import Review


@app.command(
    group=GUARANTEES,
    help_epilogue="Example:  shoal review --task task.json --output review.html",
)
def review(
    *,
    output: Path | None = None,
    title: str | None = None,
    task: Path | None = None,
    plan: Path | None = None,
    ledger: Path | None = None,
    training: Path | None = None,
    reports: Count | None = None,
    local: LocalRandomizer = LocalRandomizer(),
    delta: Number | None = None,
    malicious: Count = 0,
    registry: Path | None = None,
    plain: Flag = False,
    json: Json = False,
) -> None:
    """Write a page for a privacy review: what holds, under which assumptions, what an attacker can do, and the proof.

    Parameters
    ----------
    output
        the page to write, an HTML file.
    title
        what is reviewed, in a few words.
    task
        a task of a collection.
    plan
        a plan, as `shoal plan --output` writes it: all its rounds together, then one of them.
    ledger
        a ledger, with all its rounds.
    training
        a training: a checkpoint of make_private, or a model of `shoal train`.
    reports
        how many reports are shuffled together, if it is about none of these files.
    delta
        δ of the guarantee, with --reports or --ledger; that of the ledger's budget if not given, or 1e-6.
    malicious
        how many of the reports may be made up by whoever looks, or known to them, with --reports or --plan.
    registry
        also write an entry for OpenDP's registry of deployments into this file, as JSON, which is YAML.
    plain
        print the paragraph for a privacy notice.
    """
    files = {"task": task, "plan": plan, "ledger": ledger, "training": training}
    inputs = [path for path in files.values() if path is not None]
    given = [name for name, value in (files | {"reports": reports}).items() if value is not None]
    if len(given) != 1:
        raise ParameterError(
            "give one of --task, --plan, --ledger, --training, or --reports with what each person runs"
        )
    if output is None and registry is None and not (plain or json):
        raise ParameterError(
            "this needs --output with a file, such as --output review.html; or --json, --plain or --registry"
        )
    if delta is not None and given[0] not in ("ledger", "reports"):
        raise ParameterError(f"--delta is for --reports and --ledger: a {given[0]} has its own δ")
    if malicious and given[0] not in ("plan", "reports"):
        raise ParameterError(
            "--malicious is for --reports and --plan: a task has its own, the rounds of a ledger count those who hide "
            "each other, and a training has none"
        )
    if given[0] != "reports" and local != LocalRandomizer():
        raise ParameterError(f"what each person runs is in the {given[0]}; give such options with --reports only")
    if plain and json:
        raise ParameterError("give either --plain or --json: both are printed")
    for path in (output, registry):
        if path is not None:
            check_output(path, inputs)
    if output is not None and registry is not None and output.absolute() == registry.absolute():
        raise ParameterError("--output and --registry are the same file; give them two names")
    if reports is None:
        made = _of_file(given[0], inputs[0], title, delta=delta, malicious=malicious)
    else:
        from shoal.review.sources import of_parameters

        made = of_parameters(
            local.described(),
            title="shuffled reports" if title is None else title,
            reports=reports,
            local_delta=local.local_delta,
            delta=usual_delta(delta, None),
            malicious=malicious,
        )
    texts = dict[Path, str]()
    if output is not None:
        texts[output] = made.to_html()
    if registry is not None:
        from shoal.review.registry_entry import registry_entry, registry_text

        entry = registry_entry(made, training=training is not None, many=ledger is not None or _several(plan))
        texts[registry] = registry_text(entry)
    said = ""
    if plain:
        from shoal.review.notice import notice

        said = notice(made, training=training is not None)
    for path, text in texts.items():
        with whole_file(path, inputs=inputs) as file:
            file.write(text.encode())
    if plain:
        print(said, end="")
    elif json:
        print_json(made.to_dict())
    else:
        print(made)
        for path in texts:
            print(f"written: {path}")


def _of_file(kind: str, path: Path, title: str | None, *, delta: float | None, malicious: float) -> Review:
    """Return the review of a file of this kind: a task, a plan, a ledger or a training."""
    from shoal.collect.task import Task
    from shoal.review import sources
    from shoal.review.task_review import task_review

    if kind == "task":
        return task_review(Task.read(path), title=title)
    if kind == "training":
        return sources.of_training(path, title=path.stem if title is None else title)
    text = text_of(path)
    if kind == "plan":
        title = "a histogram" if title is None else title
        return sources.of_plan(text.text, text.name, title=title, malicious=malicious)
    rounds = ledger_in(text.text, text.name)
    title = path.stem if title is None else title
    return sources.ledger_review(rounds, title=title, delta=usual_delta(delta, rounds))


def _several(plan: Path | None) -> bool:
    """Return whether a plan has more than one round."""
    if plan is None:
        return False
    from shoal.planning.plan import PlannedRounds

    text = text_of(plan)
    return PlannedRounds.from_json(text.text, text.name).rounds > 1
