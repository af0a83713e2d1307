"""The verbs, one function each; the docstring is the help."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cyclopts import App

import shoal
from shoal.cli.arguments import Count, Flag, Number, described
from shoal.cli.output import print_entries, print_entry, print_guarantee, print_json, print_table
from shoal.cli.theorems import EXPLAINED, explained
from shoal.durable_file import whole_file
from shoal.errors import ParameterError

__all__ = ["app", "check_plot", "draw", "save_plot", "show"]

app = App(
    name="shoal",
    help="How much privacy people gain when their randomized reports are shuffled: proven bounds, and what runs.",
    version=shoal.__version__,
    suppress_keyboard_interrupt=False,
    help_epilogue="Example:  shoal amplify --local-epsilon 1 --reports 10_000 --delta 1e-6",
)
app.register_install_completion_command(
    help="Complete verbs and options in bash, zsh or fish: write a script, and a line for it into the startup file.",
    help_epilogue="Example:  shoal --install-completion --shell bash",
)


@app.command(help_epilogue="Example:  shoal amplify --local-epsilon 1 --reports 10_000 --delta 1e-6")
def amplify(
    *,
    reports: Count,
    local_epsilon: Number | None = None,
    delta: Number = 1e-6,
    local_delta: Number = 0.0,
    randomizer: str | None = None,
    categories: Count | None = None,
    deviation: Number | None = None,
    bound: str = "tightest",
    certify: Flag = False,
    certificate: Path | None = None,
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """Say what (ε, δ) n shuffled reports have.

    Parameters
    ----------
    reports
        how many reports are shuffled together; 10_000, 1e6 and 1000000 are all fine.
    local_epsilon
        ε₀ of what each person runs.
    delta
        δ of the answer.
    local_delta
        δ₀ of what each person runs.
    randomizer
        what each person runs, for a tighter answer: randomized-response, hadamard-response,
        recursive-hadamard-response, projective-geometry-response, private-independent-rappor, subset-selection,
        local-hashing, unary-encoding or rappor, with --categories; laplace or one-bit-mean; or gaussian, with
        --deviation in place of --local-epsilon.
    categories
        over how many categories; alone, it says randomized-response.
    deviation
        the standard deviation of Gaussian noise on values between 0 and 1.
    bound
        which bound to use; `shoal explain` lists them.
    certify
        prove the answer in ball arithmetic.
    certificate
        prove it, and write the proof into this file, to be checked again.
    json
        print everything as JSON.
    plot
        draw ε against δ into this file (.png, .svg, .pdf).
    """
    curve = shoal.amplify(
        **described(randomizer, local_epsilon, categories, deviation),
        reports=reports,
        local_delta=local_delta,
        bound=bound,
    )
    facts = curve.to_dict(delta=delta)
    if certify or certificate is not None:
        proof = curve.certify(delta=delta)
        facts |= {"epsilon": proof.epsilon, "certified": True}
        if certificate is not None:
            with whole_file(certificate) as file:
                file.write((proof.to_json() + "\n").encode())
    show(facts, print_guarantee, json=json, picture=draw(plot, [curve], delta))


@app.command(help_epilogue="Example:  shoal calibrate --epsilon 1 --reports 10_000")
def calibrate(
    *,
    epsilon: Number,
    delta: Number = 1e-6,
    reports: Count | None = None,
    local_epsilon: Number | None = None,
    randomizer: str | None = None,
    categories: Count | None = None,
    bound: str = "tightest",
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """Find the largest local ε₀ for these reports, or the fewest reports for this ε₀.

    Parameters
    ----------
    epsilon
        the central ε that must hold.
    delta
        the δ that goes with it.
    reports
        how many reports there are, to get the largest local_epsilon.
    local_epsilon
        what each person runs, to get the fewest reports.
    randomizer
        for a better answer: a mechanism as for `shoal amplify`, but gaussian.
    categories
        over how many categories; alone, it says randomized-response.
    bound
        which bound to use; `shoal explain` lists them.
    json
        print everything as JSON.
    plot
        draw ε against δ into this file (.png, .svg, .pdf).
    """
    if (reports is None) == (local_epsilon is None):
        raise ParameterError("give either --reports (to get the largest ε₀) or --local-epsilon (to get the reports)")
    wanted: dict[str, Any] = {"local_epsilon": local_epsilon}
    if randomizer is not None or categories is not None:
        wanted = described(randomizer, local_epsilon or 1.0, categories, None)
    answer = shoal.calibrate(**wanted, epsilon=epsilon, delta=delta, reports=reports, bound=bound)
    found = f"reports = {answer.reports:,}" if reports is None else f"local_epsilon = {answer.local_epsilon!r}"
    table = partial(print_guarantee, headline=found)
    show(answer.to_dict(), table, json=json, picture=draw(plot, [answer.curve], delta))


@app.command(help_epilogue="Example:  shoal compare --local-epsilon 4 --reports 1e6")
def compare(
    *,
    reports: Count,
    local_epsilon: Number | None = None,
    delta: Number = 1e-6,
    local_delta: Number = 0.0,
    randomizer: str | None = None,
    categories: Count | None = None,
    deviation: Number | None = None,
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """List every bound that applies, the tightest first, and what no bound can beat.

    Parameters
    ----------
    reports
        how many reports are shuffled together; 10_000, 1e6 and 1000000 are all fine.
    local_epsilon
        ε₀ of what each person runs.
    delta
        δ of the answers.
    local_delta
        δ₀ of what each person runs.
    randomizer
        what each person runs, as for `shoal amplify`.
    categories
        over how many categories; alone, it says randomized-response.
    deviation
        the standard deviation of Gaussian noise on values between 0 and 1.
    json
        print everything as JSON.
    plot
        draw all of them against δ into this file (.png, .svg, .pdf).
    """
    curves = shoal.compare(
        **described(randomizer, local_epsilon, categories, deviation),
        reports=reports,
        local_delta=local_delta,
        delta=delta,
    )
    facts = [curve.to_dict(delta=delta) for curve in curves]
    show(facts, print_table, json=json, picture=draw(plot, curves, delta))


@app.command(help_epilogue="Example:  shoal explain strong-clones")
def explain(bound: str | None = None, *, json: Flag = False) -> None:
    """Print the statement, the assumptions and the citation of a bound, or list all bounds.

    Those of one round come first, then the ways to add rounds up, then the bounds of noisy SGD.

    Parameters
    ----------
    bound
        its name, such as strong-clones, loss or gaussian-clones.
    json
        print it as JSON.
    """
    rows = EXPLAINED if bound is None else (explained(bound),)
    if json:
        facts = [
            {
                "bound": row.name,
                "theorem": row.theorem,
                "statement": row.statement,
                "assumptions": list(row.assumptions),
                "approximate": row.approximate,
                "numerical": row.numerical,
                "needs": row.needs,
                "range": row.range,
                "adaptive": row.adaptive,
                "proven": row.proven,
                "proof": row.proof,
            }
            for row in rows
        ]
        print_json(facts if bound is None else facts[0])
    elif bound is None:
        print_entries(rows)
    else:
        print_entry(rows[0])


def show(facts: Any, table: Callable[[Any], None], *, json: bool, picture: Path | None) -> None:
    """Print the facts for a program or for a person, who is told where the picture is."""
    if json:
        print_json(facts)
        return
    table(facts)
    if picture is not None:
        print(f"picture: {picture}")


def draw(path: Path | None, curves: Sequence[shoal.PrivacyCurve | shoal.Comparison], delta: float) -> Path | None:
    """Draw the curves into a file, if there is to be one, and return it."""
    if path is None:
        return None
    check_plot(path)
    first = next(curve for curve in curves if isinstance(curve, shoal.PrivacyCurve))
    return save_plot(path, first.plot(others=[curve for curve in curves if curve is not first], delta=delta))


def check_plot(path: Path | None) -> None:
    """Say no to a picture of an unknown kind before anything is computed."""
    if path is not None and path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ParameterError(f"plot must be a .png, .svg or .pdf file, got {str(path)!r}")


def save_plot(path: Path, axes: Any, *, inputs: Sequence[Path] = ()) -> Path:
    """Write a picture whole or not at all, never over one of the inputs, and return where it is."""
    with whole_file(path, inputs=inputs) as file:
        axes.figure.savefig(file, format=path.suffix.lower()[1:], dpi=160)
    return path
