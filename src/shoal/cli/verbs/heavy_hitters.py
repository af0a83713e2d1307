"""The verb `heavy-hitters`: strings that many people hold, found round by round."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from shoal.checks import probability, whole
from shoal.cli.app import HISTOGRAMS, app
from shoal.cli.options import Count, Flag, Json, Number, Person
from shoal.cli.output import grid, print_json, print_parts
from shoal.cli.pictures import PICTURES, TABLES, check_suffix, draw_estimate, write_table
from shoal.cli.report_output import NOT_PRIVATE, check_exists
from shoal.digits import rounded_up
from shoal.errors import ParameterError, StorageError
from shoal.files.person_rows import PersonRows, RowsPerPerson
from shoal.files.table import Column
from shoal.mechanisms import Simulation
from shoal.planning.coded_strings import CODES, MOST_BITS, CodedStrings
from shoal.planning.heavy_hitter_plan import plan_heavy_hitters
from shoal.planning.heavy_hitters import HeavyHitters, compared, search_heavy_hitters
from shoal.planning.simulation import zipf_people
from shoal.shown import printable

_STRINGS = 100_000
"""How many different strings synthetic people hold."""
_INTERVALS = (
    "of each string by itself; their lower ends allow for that a string is listed only if its own estimate is above "
    "the threshold. Estimates near the threshold are too large on average"
)
_MOST_PEOPLE = 10**8
"""Whom a simulation holds in memory, at 8 bytes each and many more for their messages."""


@app.command(
    group=HISTOGRAMS,
    help_epilogue="Example:  shoal heavy-hitters --simulate --people 1e5 --bits 24 --epsilon 1 --top 5",
)
def heavy_hitters(
    data: Path | None = None,
    *,
    column: str | None = None,
    epsilon: Number,
    delta: Number = 1e-6,
    bits: Count = 48,
    covers: Number = 1.0,
    code: Annotated[str, Parameter(help=f"how strings become bits: {', '.join(CODES)}; hash is for long ones.")] = (
        "bytes"
    ),
    names: Path | None = None,
    deviations: Number = 5.0,
    confidence: Number = 0.95,
    person: Person = None,
    simulate: Flag = False,
    people: Count | None = None,
    seed: Count = 1,
    top: Count = 20,
    output: Path | None = None,
    plot: Path | None = None,
    json: Json = False,
) -> None:
    """Find the strings that many people hold, without a list of them: prefixes first, longer ones in every round.

    In each round every person sends one message and covers. All messages are shuffled, and prefixes with enough people
    are followed further. This runs all of it, message by message, on a file of everybody's strings.

    Parameters
    ----------
    data
        a CSV file (with a header; .csv.gz will do) or a Parquet file, a row for each person.
    column
        the name of the column.
    epsilon
        ε that all rounds together keep.
    delta
        δ that all rounds together keep.
    bits
        how many bits of a string count, a multiple of 8: 48 are its first 6 bytes, in 5 rounds.
    covers
        how many covers a person sends in a round, on average: more of them find rarer strings.
    names
        a text file, one string a line, from a public source: what hashes may come from.
    deviations
        how many standard deviations of an empty prefix make a string one that is found.
    confidence
        of each interval by itself, also for a string that is listed because its estimate passed the threshold.
    simulate
        take the coins from --seed, and compare what is found with the truth: not private.
    people
        simulate so many people instead of a file: of 100,000 strings, the i-th is 1/i as frequent as the first.
    seed
        of the coins of a simulation, a whole number.
    top
        how many strings to print.
    output
        write all strings that were found into this file (.csv, .parquet, .json).
    plot
        draw the most frequent ones with their intervals into this file (.png, .svg, .pdf).
    """
    inputs = [path for path in (data, names) if path is not None]
    if (data is None) == (people is None) or (people is not None and not simulate):
        raise ParameterError("give either a data file with --column, or --simulate and --people for synthetic data")
    if data is not None and column is None:
        raise ParameterError("this needs --column, the name of the column to read")
    for name, path, suffixes in (("output", output, TABLES), ("plot", plot, PICTURES)):
        check_suffix(name, path, suffixes, inputs)
    check_exists(data)
    most, start = whole(top=top, least=0), whole(seed=seed, least=0)
    size, probable = whole(bits=bits), probability(delta=delta)
    if data is None:
        coded = CodedStrings(size, "numbers")
        numbers = _synthetic(people, size, start)
    else:
        coded = CodedStrings(size, code, () if names is None else _lines(names))
        numbers = _numbers(Column(data, column or "", person), coded)
    plan = plan_heavy_hitters(
        people=len(numbers), epsilon=epsilon, delta=delta, bits=bits, covers=covers, deviations=deviations
    )
    coins = Simulation(seed=start) if simulate else None
    found = search_heavy_hitters(numbers, plan, coded, confidence=confidence, simulation=coins)
    facts = found.to_dict(delta=probable)
    if data is not None:
        rows = RowsPerPerson(checked=person is not None)
        facts |= {"rows_per_person": rows.most, "person_checked": rows.checked, "rows": rows.sentence}
    if simulate:
        facts |= {"seed": start, **compared(found, numbers), **NOT_PRIVATE}
    if output is not None:
        write_table(output, facts, found.columns(), inputs)
    draw_estimate(plot, found.chart, inputs)
    if json:
        print_json(facts)
    else:
        _print_hitters(facts, most, _incomplete(found, coded), {"table": output, "picture": plot})


def _lines(path: Path) -> list[str]:
    """Return the names in a text file, one a line."""
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}; --names is a text file", error) from None
    except UnicodeDecodeError:
        raise ParameterError(f"{path} is no text in UTF-8; --names is a file with one string a line") from None


def _numbers(source: Column, coded: CodedStrings) -> NDArray[np.uint64]:
    """Return the numbers of all rows, a batch at a time."""
    parts: list[NDArray[np.uint64]] = []
    for batch, before, _ in source.kept_batches(None if source.person is None else PersonRows()):
        values = batch.to_pylist()
        for row, value in enumerate(values, start=before + 1):
            if value is None or value in (b"", ""):
                raise ParameterError(f"{source.where(row)}: column {source.name!r} is empty; leave such rows out")
        parts.append(coded.numbers(_whole(values, source.path) if coded.code == "numbers" else values))
    return np.concatenate(parts)


def _whole(values: Sequence[Any], path: Path) -> NDArray[np.uint64]:
    try:
        return np.array([int(value) for value in values], np.uint64)
    except (ValueError, OverflowError):
        raise ParameterError(f"{path} holds values that are no whole numbers from 0 on; use --code bytes") from None


def _synthetic(people: Any, bits: int, seed: int) -> NDArray[np.uint64]:
    """Return random strings of so many bits, the i-th of them 1/i as frequent as the first."""
    counts = zipf_people(whole(people=people, most=_MOST_PEOPLE), _STRINGS)
    generator = np.random.default_rng(seed)
    return np.repeat(generator.integers(0, (1 << bits) - 1, _STRINGS, np.uint64, endpoint=True), counts)


def _incomplete(found: HeavyHitters, coded: CodedStrings) -> str | None:
    """Return why strings that were found may not be what people hold."""
    if coded.code == "bytes" and (full := int(np.count_nonzero(found.numbers & np.uint64(255)))):
        more = f"--bits {MOST_BITS} counts {MOST_BITS // 8}, and --code" if coded.bits < MOST_BITS else "--code"
        return f"{full:,} of them have {coded.bits // 8} bytes, and may be beginnings of longer ones; {more} hash all"
    if coded.code == "hash" and found.items and not coded.names:
        return "these are hashes; give --names, a file of strings that they may come from"
    return None


def _print_hitters(facts: dict[str, Any], most: int, incomplete: str | None, files: dict[str, Path | None]) -> None:
    """Print the strings that most people hold, each round in a line, and what is guaranteed."""
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("string", "people", "±", f"{100 * facts['confidence']:g} % interval"):
        shown.add_column(name, justify="left" if name == "string" else "right", overflow="fold")
    for index in range(min(most, facts["found"])):
        count, error, low, high = (facts[name][index] for name in ("count", "standard_error", "lower", "upper"))
        shown.add_row(
            Text(printable(facts["item"][index])), f"{count:,.0f}", f"{error:,.1f}", f"{low:,.0f} – {high:,.0f}"
        )
    plan, central, below = facts["plan"], facts["central"], grid()
    if facts["found"] > most:
        below.add_row("", f"and {facts['found'] - most:,} more; --top {facts['found']} or --output shows them")
    if incomplete is not None:
        below.add_row("strings", incomplete)
    if facts["found"]:
        below.add_row("intervals", _INTERVALS)
    for each in facts["rounds"]:
        kept = f"{each['kept']:,} of {each['listed']:,} prefixes estimated above {each['threshold']:.0f} people"
        below.add_row(f"{each['bits']} bits", kept)
    below.add_row("false", f"{facts['false_items']:.2g} strings that nobody holds are to be expected, at most")
    if "expected" in facts:
        of = f"{facts['expected_found']:,} of {facts['expected']:,} strings of more than threshold + 2 deviations found"
        below.add_row("truth", f"{of}; {facts['false']:,} false")
    covers = plan["slots"] * plan["fill"]
    messages = f"one and {covers:.3g} {'cover' if covers == 1 else 'covers'} on average, from each person in each round"
    below.add_row("messages", f"{messages}; geometry of order {plan['order']}")
    of = f"of {facts['guarantees_of']}: " if "guarantees_of" in facts else ""
    holds = f"{of}ε = {rounded_up(central['epsilon'])} at δ = {central['delta']!r}"
    rounds = f", all {plan['rounds']} rounds together" if plan["rounds"] > 1 else ""
    below.add_row("central guarantee", f"{holds}{rounds}, to whoever sees messages only shuffled")
    if "rows" in facts:
        below.add_row("rows", facts["rows"])
    below.add_row("theorem", central["theorem"])
    below.add_row("collusion", f"if shuffler and analyst collude, what remains is {facts['remains_if_colluding']}")
    if "warning" in facts:
        below.add_row("not private", facts["warning"])
        below.add_row("coins", f"from the seed {facts['seed']}: for simulation only")
    for name, path in files.items():
        if path is not None:
            below.add_row(name, str(path))
    title = f"{facts['found']:,} strings estimated above {plan['threshold']:.0f} of {facts['people']:,} people"
    print_parts(Text(title, style="bold"), shown, below)
