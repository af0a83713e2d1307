"""The verb `plan`: the best mechanism for a histogram."""

from collections.abc import Sequence
from functools import partial
from json import dumps, loads
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

import shoal
from shoal.cli.app import HISTOGRAMS, app
from shoal.cli.ledger_file import LedgerOption, opened
from shoal.cli.options import Count, Json, Number
from shoal.cli.output import grid, print_parts, show
from shoal.cli.pictures import check_plot, save_plot
from shoal.digits import exactly, rounded_up
from shoal.durable_file import whole_file
from shoal.errors import ParameterError
from shoal.frequency.plan import Choice

__all__ = ["plan_mechanism"]

_TIMED = 2.0
"""Mechanisms with a larger error than this times that of the best are not worth the time to decode something."""


@app.command(
    group=HISTOGRAMS,
    name="plan",
    help_epilogue="Example:  shoal plan --categories 100 --reports 1e5 --epsilon 0.5 --output plan.json",
)
def plan_mechanism(
    *,
    categories: Count,
    reports: Count,
    epsilon: Number | None = None,
    delta: Number | None = None,
    local_epsilon: Number | None = None,
    times: Count = 1,
    ledger: LedgerOption = None,
    output: Path | None = None,
    json: Json = False,
    plot: Path | None = None,
) -> None:
    """Rank the mechanisms for a histogram under a central guarantee, the best first.

    First come those whose ℓ₂ error of all frequencies is within 3 % of the smallest, the shortest reports at the head;
    then the others by their error. "± rare" is the standard error for a category that hardly anybody has, and "decode"
    the time to decode all counts, measured now for those that are any good.

    Parameters
    ----------
    categories
        over how many categories.
    reports
        how many reports are shuffled together in a round; 10_000, 1e6 and 1000000 are all fine.
    epsilon
        the central ε that must hold for all rounds together.
    delta
        the δ that goes with it; 1e-6 if not given.
    local_epsilon
        the most that a report by itself may have, for those who see it unshuffled; no limit if not given.
    times
        how many such histograms of the same people there will be.
    output
        write the plan into this file, for `shoal randomize --schema`.
    plot
        draw the error against ε for each mechanism into this file (.png, .svg, .pdf).
    """
    check_plot(plot)
    if output is not None:
        _check_plan(output)
    result = shoal.plan(
        categories=categories,
        reports=reports,
        epsilon=epsilon,
        delta=delta,
        local_epsilon=local_epsilon,
        times=times,
        ledger=None if ledger is None else opened(ledger),
    )
    facts = result.to_dict()
    if output is not None:
        with whole_file(output) as file:
            file.write((dumps(facts, indent=2) + "\n").encode())
    picture = save_plot(plot, result.plot()) if plot is not None else None
    table = partial(_print_plan, choices=result.choices)
    show(facts | {"output": str(output) if output else None}, table, json=json, picture=picture)


def _print_plan(facts: dict[str, Any], choices: Sequence[Choice]) -> None:
    """Print a row for each mechanism, and what the same would cost elsewhere."""
    asked = exactly(facts["epsilon"])  # as it was typed: rounding up would show more than was asked for
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("mechanism", no_wrap=True)
    for name in ("local ε₀", "central ε", "ℓ₂ error", "± rare", "bits", "decode"):
        table.add_column(name, justify="right", no_wrap=True)
    for choice, measured in zip(facts["choices"], choices, strict=True):
        table.add_row(
            choice["mechanism"],
            rounded_up(choice["local_epsilon"]),
            asked if choice["epsilon"] == facts["epsilon"] else rounded_up(choice["epsilon"]),
            f"{choice['error']:.4g}",
            f"{choice['category_error']:.3g}",
            f"{choice['bits_per_report']:,}",
            _time(measured.decoding_seconds) if choice["error"] <= _TIMED * facts["choices"][0]["error"] else "",
        )
    setting = f"{facts['categories']:,} categories, {facts['reports']:,} shuffled reports"
    if facts["times"] > 1:
        rounds = f"{facts['times']:,} rounds of {facts['reports']:,} shuffled reports"
        setting = f"{rounds}, {facts['categories']:,} categories"
    guarantee = f"central ε ≤ {asked} at δ = {facts['delta']:g}"
    below = grid()
    of_one = " of one round" if facts["times"] > 1 else ""
    best = facts["choices"][0]
    if facts["times"] > 1:
        one = f"ε = {rounded_up(facts['round_epsilon'])} at δ = {facts['delta']:g} by itself, with the errors above"
        both = f"ℓ₂ error {best['average_error']:.4g}, ± {best['average_category_error']:.3g} for a rare category"
        below.add_row("one round", one)
        below.add_row("average of all", both)
    if facts["spent"]:
        below.add_row("ledger", f"had spent ε = {rounded_up(facts['spent'])} of {asked} before")
    alone = "if each report had ε₀ = ε" + (f"/{facts['times']:,}" if facts["times"] > 1 else "")
    below.add_row("trusted curator", f"ℓ₂ error {facts['central_error']:.4g}{of_one}, with the same guarantee")
    below.add_row("no shuffler", f"ℓ₂ error {facts['local_error']:.4g}{of_one}, {alone}")
    if facts["note"]:
        below.add_row("note", facts["note"])
    if facts["output"]:
        below.add_row(
            "next",
            f"shoal randomize DATA.csv --column NAME --categories NAMES.txt --schema {facts['output']} "
            "--output reports.shoal",
        )
    print_parts(Text(f"{setting}, {guarantee}", style="bold"), table, below, least=84)


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
