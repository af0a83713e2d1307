"""The verb `plan`: the best mechanism for a histogram."""

from collections.abc import Iterator, Sequence
from functools import partial
from json import dumps, loads
from math import exp
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from shoal.cli.app import HISTOGRAMS, app
from shoal.cli.asking import asking
from shoal.cli.options import Json
from shoal.cli.output import fixed_in_advance, grid, print_parts, show
from shoal.cli.pictures import check_plot, save_plot
from shoal.digits import exactly, input_down, rounded_up
from shoal.durable_file import whole_file
from shoal.errors import ParameterError
from shoal.planning.error_curves import ErrorCurves
from shoal.planning.plan import Choice
from shoal.questions.plan import plan as question

_TIMED = 2.0
"""Mechanisms with a larger error than this times that of the best are not worth the time to decode something."""
_LARGE = 4.0
"""Beyond this ε₀ of all reports of a person, a factor of 55, the table has a note: the reports alone promise little."""
_SUGGESTED = 2
"""The limit on ε₀ that the note suggests; one report is then at most 7.4 times as likely with one answer as another."""
_UNMEASURED = "–"
_THOUSANDS = 10_000
"""So many bytes, and more, are shown in kB."""


@app.command(
    group=HISTOGRAMS,
    name="plan",
    help_epilogue="Example:  shoal plan --categories 100 --reports 1e5 --epsilon 0.5 --output plan.json",
)
@asking("plan")
def plan_mechanism(
    asked: dict[str, Any], *, output: Path | None = None, json: Json = False, plot: Path | None = None
) -> None:
    """Rank the mechanisms for a histogram under a central guarantee, the best first.

    First come those whose ℓ₂ error of all frequencies is within 3 % of the smallest, the shortest reports at the head;
    then the others by their error. "± rare" is the standard error for a category that hardly anybody has, and "decode"
    the time to decode all counts, measured now for those that are any good. With --messages or --dummies, "± frequent"
    is that of the most frequent category, if the i-th is 1/i as frequent as it, "messages" how many there are a person,
    covers and dummies included, and "sealed" the bytes that a person sends.

    Parameters
    ----------
    output
        write the plan into this file, for `shoal randomize --schema`, `shoal ledger record --plan` and
        `shoal review --plan`.
    plot
        draw the error against ε for each mechanism into this file (.png, .svg, .pdf).
    """
    check_plot(plot)
    if output is not None:
        _check_plan(output)
    answer = question(**asked)
    facts, result = answer.facts, answer.result
    if output is not None:
        with whole_file(output) as file:
            file.write((dumps(facts, indent=2) + "\n").encode())
    picture = save_plot(plot, ErrorCurves.of(result).chart()) if plot is not None else None
    table = partial(_print_plan, choices=result.choices)
    show(facts | {"output": str(output) if output else None}, table, json=json, picture=picture)


def _print_plan(facts: dict[str, Any], choices: Sequence[Choice]) -> None:
    """Print a row for each mechanism, and what the same would cost elsewhere."""
    asked = exactly(facts["epsilon"])  # as it was typed: rounding up would show more than was asked for
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("mechanism", no_wrap=True)
    several = not all(choice.mechanism.private_alone for choice in choices)
    columns = ("central ε", "ℓ₂ error", "± rare", "bits", "decode")
    if several:
        columns = ("ℓ₂ error", "± rare", "± frequent", "messages", "sealed")
    for name in ("local ε₀", *columns):
        table.add_column(name, justify="right", no_wrap=True)
    for choice, measured in zip(facts["choices"], choices, strict=True):
        table.add_row(
            choice["mechanism"],
            "none" if choice["local_epsilon"] is None else input_down(choice["local_epsilon"]),
            *(() if several else (asked if choice["epsilon"] == facts["epsilon"] else rounded_up(choice["epsilon"]),)),
            f"{choice['error']:.4g}",
            f"{choice['category_error']:.3g}",
            *(_sent(choice) if several else _decoded(choice, measured, facts["choices"][0])),
        )
    setting = f"{facts['categories']:,} categories, {facts['reports']:,} shuffled reports"
    if facts["rounds"] > 1:
        rounds = f"{facts['rounds']:,} rounds of {facts['reports']:,} shuffled reports"
        setting = f"{rounds}, {facts['categories']:,} categories"
    guarantee = f"central ε ≤ {asked} at δ = {facts['delta']:g}"
    below = grid()
    if not several and any(choice["error"] > _TIMED * facts["choices"][0]["error"] for choice in facts["choices"]):
        below.add_row(_UNMEASURED, f"not measured: the error is more than {_TIMED:g} times that of the best")
    of_one = " of one round" if facts["rounds"] > 1 else ""
    best = facts["choices"][0]
    if facts["rounds"] > 1:
        one = f"ε = {rounded_up(facts['round_epsilon'])} at δ = {facts['delta']:g} by itself, with the errors above"
        both = f"ℓ₂ error {best['average_error']:.4g}, ± {best['average_category_error']:.3g} for a rare category"
        below.add_row("one round", one)
        below.add_row("average of all", both)
        below.add_row(*fixed_in_advance(facts["rounds"]))
    if facts["spent"]:
        below.add_row("ledger", f"had counted ε = {rounded_up(facts['spent'])} of {asked} before")
    alone = "if each report had ε₀ = ε" + (f"/{facts['rounds']:,}" if facts["rounds"] > 1 else "")
    same = f"if ε = {asked} were for these rounds alone" if facts["spent"] else "with the same guarantee"
    below.add_row("trusted curator", f"ℓ₂ error {facts['central_error']:.4g}{of_one}, {same}")
    below.add_row("no shuffler", f"ℓ₂ error {facts['local_error']:.4g}{of_one}, {alone}")
    if several:
        moved = f"can move an estimated count by {best['influence']:.3g} at most"
        below.add_row("one malicious person", f"{moved} ({best['mechanism']})")
        below.add_row("collusion", _colluding(facts["choices"]))
        if best["needs"]:
            below.add_row("needs", best["needs"])
    if facts["note"]:
        below.add_row("note", facts["note"])
    if not several and facts["rounds"] * best["local_epsilon"] > _LARGE:
        below.add_row("note", _weak_alone(best["local_epsilon"], facts["rounds"]))
    for name, command in _next(facts):
        below.add_row(name, command)
    print_parts(Text(f"{setting}, {guarantee}", style="bold"), table, below, least=84)


def _weak_alone(local_epsilon: float, rounds: int) -> str:
    """Return the note on a large ε₀, which is all that remains if shuffler and analyst collude."""
    together, seen = "", "what they see"
    if rounds > 1:
        together = f", and ε₀ = {rounded_up(rounds * local_epsilon)} of all {rounds:,} reports of a person"
        seen = "one report"
    note = (
        f"if shuffler and analyst collude, only ε₀ = {rounded_up(local_epsilon, 3)} of each report remains{together}: "
        f"{seen} may be {rounded_up(exp(local_epsilon), 3)} times as likely with one answer as with another."
    )
    if local_epsilon > _SUGGESTED:
        note += f" --local-epsilon {_SUGGESTED} limits this, at the cost of a larger error"
    return note


def _next(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the commands that take the plan, if it was written into a file."""
    path = facts["output"]
    if not path:
        return
    data = "DATA.csv --column NAME --categories NAMES.txt"
    yield "next", f"shoal randomize {data} --schema {path} --output reports.shoal"
    if facts["rounds"] > 1:
        yield "", f"shoal ledger record LEDGER.json --plan {path}   (all {facts['rounds']:,} rounds)"
        yield "", f"shoal review --plan {path} --output review.html"


def _colluding(choices: list[dict[str, Any]]) -> str:
    """Return what remains if shuffler and analyst collude, of the best choice and of those that have no ε₀."""
    best = choices[0]
    text = f"if shuffler and analyst collude, what remains is {best['remains']} ({best['mechanism']})"
    bare = [choice["mechanism"] for choice in choices[1:] if choice["local_epsilon"] is None]
    return f"{text}; nothing of {' and '.join(bare)}" if bare and best["local_epsilon"] is not None else text


def _sent(choice: dict[str, Any]) -> tuple[str, ...]:
    """Return the error of a frequent category, and what people send."""
    size = choice["sealed_bytes"]
    sealed = f"{size:,} B" if size < _THOUSANDS else f"{size / 1000:,.0f} kB"
    return f"{choice['frequent_error']:.3g}", f"{choice['messages']:.4g}", sealed


def _decoded(choice: dict[str, Any], measured: Choice, best: dict[str, Any]) -> tuple[str, ...]:
    """Return how long a report is, and how long it takes to decode all of them."""
    worth = choice["error"] <= _TIMED * best["error"]
    return f"{choice['bits_per_report']:,}", _time(measured.decoding_seconds) if worth else _UNMEASURED


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _check_plan(path: Path) -> None:
    """Refuse to overwrite a file that is no plan."""
    try:
        there = "schema" in loads(path.read_text())
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError):
        there = False
    if not there:
        raise ParameterError(f"{path} is there already, and is no plan; give --output another name")
