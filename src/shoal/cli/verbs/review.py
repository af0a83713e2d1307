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

__all__ = ["review"]


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
    fakes: Count = 0,
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
    fakes
        how many of the reports may be made up by whoever looks, or known to them, with --reports or --plan.
    registry
        also write an entry for OpenDP's registry of deployments into this file, as JSON, which is YAML.
    plain
        print the paragraph for a privacy notice.
    """
    given = [
        name
        for name, value in (
            ("task", task),
            ("plan", plan),
            ("ledger", ledger),
            ("training", training),
            ("reports", reports),
        )
        if value is not None
    ]
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
    if fakes and given[0] not in ("plan", "reports"):
        raise ParameterError(
            "--fakes is for --reports and --plan: a task has its own, the rounds of a ledger count those who hide each "
            "other, and a training has none"
        )
    if given[0] != "reports" and local != LocalRandomizer():
        raise ParameterError(f"what each person runs is in the {given[0]}; give such options with --reports only")
    if plain and json:
        raise ParameterError("give either --plain or --json: both are printed")
    inputs = [path for path in (task, plan, ledger, training) if path is not None]
    for path in (output, registry):
        if path is not None:
            check_output(path, inputs)
    if output is not None and registry is not None and output.absolute() == registry.absolute():
        raise ParameterError("--output and --registry are the same file; give them two names")
    made = _made(
        title=title,
        task=task,
        plan=plan,
        ledger=ledger,
        training=training,
        reports=reports,
        local=local,
        delta=delta,
        fakes=fakes,
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


def _made(
    *,
    title: str | None,
    task: Path | None,
    plan: Path | None,
    ledger: Path | None,
    training: Path | None,
    reports: float | None,
    local: LocalRandomizer,
    delta: float | None,
    fakes: float,
) -> Review:
    """Return the review of what was given."""
    if task is not None:
        from shoal.collect.task import Task
        from shoal.review.task_review import task_review

        return task_review(Task.read(task), title=title)
    if ledger is not None:
        from shoal.review.sources import ledger_review

        text = text_of(ledger)
        rounds = ledger_in(text.text, text.name)
        return ledger_review(rounds, title=_titled(title, ledger.stem), delta=usual_delta(delta, rounds))
    from shoal.review import sources

    if plan is not None:
        text = text_of(plan)
        return sources.of_plan(text.text, text.name, title=_titled(title, "a histogram"), fakes=fakes)
    if training is not None:
        return sources.of_training(training, title=_titled(title, training.stem))
    return sources.of_parameters(
        local.described(),
        title=_titled(title, "shuffled reports"),
        reports=reports or 0,
        local_delta=local.local_delta,
        delta=usual_delta(delta, None),
        fakes=fakes,
    )


def _several(plan: Path | None) -> bool:
    """Return whether a plan has more than one round."""
    if plan is None:
        return False
    from shoal.planning.plan import PlannedRounds

    text = text_of(plan)
    return PlannedRounds.from_json(text.text, text.name).rounds > 1


def _titled(title: str | None, otherwise: str) -> str:
    return otherwise if title is None else title
