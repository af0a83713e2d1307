"""What the verbs about noisy SGD print."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from shoal.charts.colours import LIGHT
from shoal.cli.output import grid, print_parts
from shoal.digits import input_up, rounded_down, rounded_up
from shoal.errors import MissingExtraError
from shoal.sgd.account import Account
from shoal.sgd.bounds import plain
from shoal.sgd.guarantees import FINEST, LABELS, Guarantee
from shoal.sgd.run import Run

_MOST_CLASSES = 12
_NOTHING = "nothing is said of this run"
_WHY = "and has every example once an epoch, at a step drawn anew each time, which costs far less where noise is small"
"""Why allocation is recommended where another sampler has an ε that is hardly smaller."""


def _epsilon(facts: dict[str, Any]) -> str:
    return f"ε = {rounded_up(facts['epsilon'])} at δ = {facts['delta']!r}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 'es' if word == 'class' else 's'}"


def _steps(run: Run, local: bool) -> str:
    who, what = ("clients", "rounds") if local else ("examples", "batches")
    varying = "about " if run.sampler.any_steps else ""
    parts = f" in {what} of {varying}{run.batch_size:,}" if run.batch_size > 1 else ""
    number = f"{run.examples:,} {who}" if run.examples else f"{who} whose number is a secret"
    return f"{number}{parts}, {_count(run.epochs, 'epoch')}"


def _noise(run: Run) -> str:
    where = "the sum of each batch" if run.noise == "batch" else "each slot of a batch"
    return f"{input_up(run.multiplier)} × clip norm {run.clip_norm:g}, on {where if run.sums_only else 'each report'}"


def _proof(table: Any, facts: dict[str, Any], run: Run) -> None:
    """Add where ε comes from, and what other numbers there are."""
    table.add_row("bound", f"{facts['bound']}: {facts['theorem']}")
    names = {other["bound"] for other in facts["alternatives"]}
    if facts["bound"] == "plain":
        table.add_row("amplified", "none proved: the plain bound, which holds for any order, is the smallest one here")
    elif run.sampler.any_steps and "plain" in names:
        table.add_row("not hidden", f"ε = {rounded_up(facts['plain_epsilon'])}, to whoever knows who joined which step")
    elif "plain" in names:
        known = "whatever the order of the examples" if run.sums_only else "to whoever knows which report is whose"
        table.add_row("not shuffled", f"ε = {rounded_up(facts['plain_epsilon'])}, {known}")
    one = "one noised gradient" if run.sums_only else "one report"
    table.add_row("local", f"ε₀ = {rounded_up(facts['local_epsilon'])} at the same δ, for {one} by itself")


def _loss(loss: float | None) -> str:
    return "beyond all numbers" if loss is None else f"{loss:.4f}" if loss < 1e6 else f"{loss:.4g}"


def print_training(facts: dict[str, Any]) -> None:
    """Print the guarantee, how good the model is, and what was used."""
    run, table = Run.from_dict(facts["run"]), grid()
    if not facts["private"]:
        table.add_row("not private", f"seed {facts['seed']}: {facts['warning']}")
    held = facts["held_out"]
    if held is None:
        table.add_row("accuracy", "not measured: nothing was held out")
    else:
        guess = f"always the most frequent class: {held['most_frequent_class']:.4f}"
        where = _count(held["examples"], "held-out example")
        table.add_row(
            "accuracy",
            f"{held['accuracy']:.4f} on {where} ({guess}); loss {_loss(held['loss'])}",
        )
        if held["loss"] is None or held["loss"] > math.log(len(facts["classes"])):
            advice = "try --row-norm 1, a smaller --learning-rate, more examples or less noise"
            table.add_row("warning", f"the loss is above that of guessing at random; {advice}")
    table.add_row(
        "trained on", f"{_steps(run, not run.sums_only)}; {_count(facts['features'], 'feature')}, {_rows(facts)}"
    )
    table.add_row("classes", _classes(facts))
    table.add_row("noise", f"{_noise(run)}; learning rate {facts['learning_rate']:.4g} at first")
    _proof(table, facts, run)
    table.add_row("assumes", "\n".join(facts["assumptions"]))
    if facts["delta"] < FINEST:
        table.add_row("careful", f"δ below {FINEST:g} is that of real-valued noise: a computer's is not fine enough")
    if held is not None:
        table.add_row("not covered", held["note"])
    elif facts["picture"]:
        table.add_row("not covered", "the loss in the picture is computed without noise: the guarantee is the model's")
    table.add_row("model", facts["model"] or "not kept; --output model.npz writes it")
    if facts["picture"]:
        table.add_row("picture", facts["picture"])
    print_parts(Text(_epsilon(facts), style="bold"), table)


def _rows(facts: dict[str, Any]) -> str:
    norm = facts["row_norm"]
    return "rows as they are in the file" if norm is None else f"rows at most {norm:g} long"


def _classes(facts: dict[str, Any]) -> str:
    names = [str(name) for name in facts["classes"]]
    shown = ", ".join(names[:_MOST_CLASSES]) + (", …" if len(names) > _MOST_CLASSES else "")
    note = f"; {LABELS} (--classes names the labels instead)" if facts["labels_from_data"] else ""
    return f"{_count(len(names), 'class')}: {shown}{note}"


def print_run(facts: dict[str, Any]) -> None:
    """Print the guarantee of a run, what it rests on, and what other bounds give."""
    run, table = Run.from_dict(facts["run"]), grid()
    title = f"noise_multiplier = {facts['noise_multiplier']!r}" if facts["calibrated"] else _epsilon(facts)
    if facts["calibrated"]:
        table.add_row("guarantee", _epsilon(facts))
    table.add_row("run", f"{_steps(run, False)}")
    table.add_row("sampling", f"{run.sampling}: {run.sampler.description}")
    table.add_row("noise", _noise(run))
    _proof(table, facts, run)
    wide = max(len(each["sampling"]) for each in facts["samplers"])
    for index, each in enumerate(facts["samplers"]):
        table.add_row("" if index else "samplers", f"{each['sampling']:{wide}} {_sampler(each, facts)}")
    if less := _below_the_recommended(facts):
        table.add_row("recommended", f"{facts['samplers'][0]['sampling']} is within 1 % of {less}, {_WHY}")
    if facts["best_possible"]:
        table.add_row("best possible", f"{rounded_down(facts['best_possible'])} (no bound can go below)")
    table.add_row("assumes", "\n".join(facts["assumptions"]))
    _others(table, facts["alternatives"])
    if facts.get("certificate"):
        table.add_row("certified", f"proved in ball arithmetic: {facts['certificate']}")
    if "poisson" in facts:
        table.add_row("NOT VALID", _poisson(facts))
    print_parts(Text(title, style="bold"), table)


def _others(table: Any, alternatives: list[dict[str, Any]]) -> None:
    """Add what other bounds give, and in one line those that give nothing."""
    kinds: dict[str, list[str]] = {}
    known = [(_bound_name(other), other["epsilon"]) for other in alternatives if other["epsilon"] is not None]
    for other in alternatives:
        if other["epsilon"] is None:
            kinds.setdefault(other["bound"], []).append(other["elements"])
    wide = max((len(name) for name, _ in known), default=0)
    for index, (name, epsilon) in enumerate(known):
        table.add_row("" if index else "other bounds", f"{name:{wide}} {rounded_up(epsilon)}")
    if kinds:
        partly = {other["bound"] for other in alternatives if other["epsilon"] is not None}
        named = [
            _bound_name({"bound": bound, "elements": " and ".join(each)}) if bound in partly else bound
            for bound, each in kinds.items()
        ]
        table.add_row("not applicable", f"{', '.join(named)}: {_NOTHING}")


def _bound_name(other: dict[str, Any]) -> str:
    """Return the name of a bound with what it takes for elements, where that is not the same word."""
    kind = other["elements"]
    return f"{other['bound']} ({kind})" if kind and kind != other["bound"] else str(other["bound"])


def _below_the_recommended(facts: dict[str, Any]) -> str:
    """Return the samplers that are listed below the recommended one with a smaller number."""
    shown = "noise_multiplier" if facts["calibrated"] else "epsilon"
    first, *rest = facts["samplers"]
    return " and ".join(row["sampling"] for row in rest if row[shown] is not None and row[shown] < first[shown])


def _sampler(each: dict[str, Any], facts: dict[str, Any]) -> str:
    """Return what the same run has by a sampler, in one line."""
    epsilon = "nothing is known" if each["epsilon"] is None else f"ε = {rounded_up(each['epsilon'])}"
    value = f"noise_multiplier = {input_up(each['noise_multiplier'])}" if facts["calibrated"] else epsilon
    notes = ["recommended"] if each["recommended"] else []
    notes += ["this run"] if each["sampling"] == facts["run"]["sampling"] else []
    note = f" ({', '.join(notes)})" if notes else ""
    return f"{value}{note}"


def _poisson(facts: dict[str, Any]) -> str:
    poisson = facts["poisson"]
    epsilon, least = poisson["epsilon"], poisson["least"]
    if epsilon is None:
        return f"Poisson accounting is not computed for this little noise; {poisson['why']}"
    changed = "replaced" if facts["run"]["adjacency"] == "replace" else "zeroed"
    wrong = f", {rounded_down(least / epsilon, 3)} times below what is true at least" if least > epsilon else ""
    return f"for a {changed} example Poisson accounting would print {epsilon:.4g}{wrong}: {poisson['why']}"


_BLUE = LIGHT["blue"]
_GREY = LIGHT["soft"]
_VERMILION = LIGHT["vermilion"]
_MOST_STEPS = 16
"""Beyond this many epochs, ε is computed at some of them and the stairs have longer steps, which end as high."""
_SMOOTH = 12
"""The bold line is a mean over a twelfth of the points."""
_FEW = 12
"""Fewer points than this are drawn as such."""
_AMPLIFIED = 0.995
"""Where ε is not clearly below the plain one, that is not drawn."""


def check_drawing() -> None:
    """Say what is missing before anything is trained."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError('drawing needs matplotlib: pip install "shoal-dp[plot]"') from None


def training_curve(guarantee: Guarantee, losses: Sequence[tuple[int, float]], *, held_out: bool) -> Any:
    """Draw loss and ε against epochs, and return the matplotlib axes of the loss.

    Parameters
    ----------
    guarantee : Guarantee
        Of all that was done.
    losses : sequence of tuple of (int, float)
        Pairs of steps done and mean loss. They are computed without noise.
    held_out : bool
        Whether the losses are those of examples that were not trained on, the last that of the final model; or of
        examples just before they were used.
    """
    check_drawing()
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    run = guarantee.run
    # Fixed, so that the settings of whoever calls do not change the picture.
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "font.size": 9}):
        canvas = Figure(figsize=(7.4, 5.2), layout="constrained")
        above, below = canvas.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        _draw_losses(above, np.array(losses, np.float64).reshape(-1, 2), run, held_out)
        _draw_epsilons(below, guarantee)
        for axes in (above, below):
            axes.grid(alpha=0.25, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        below.set_xlabel("epochs")
        below.set_xlim(0, run.epochs)
        if run.epochs > 1:
            below.xaxis.set_major_locator(MaxNLocator(integer=True))
        canvas.align_ylabels([above, below])
        canvas.suptitle(_title(run), x=0.01, ha="left", fontsize=11, fontweight="bold")
        note = "The loss is computed without noise: it is not covered by the guarantee, do not publish it."
        canvas.supxlabel(note, x=0.01, ha="left", fontsize=8, color="#444444")
    return above


def _title(run: Run) -> str:
    who = "examples in batches" if run.sums_only else "clients in rounds"
    epochs = f"{run.epochs:,} epoch{'s' if run.epochs > 1 else ''}"
    return f"Private training: {run.examples:,} {who} of {run.batch_size:,}, {epochs}"


def _draw_losses(axes: Any, points: NDArray[np.float64], run: Run, held_out: bool) -> None:
    axes.set_ylabel("loss of held-out examples" if held_out else "loss of the next examples")
    if not len(points):
        axes.annotate("not noted", (0.5, 0.5), xycoords="axes fraction", ha="center", color=_GREY)
        return
    positions, heights = points[:, 0] / run.steps, points[:, 1]
    last = held_out and len(points) > 1
    way = slice(None, -1) if last else slice(None)
    width = len(positions[way]) // _SMOOTH
    raw: dict[str, Any] = {"color": _BLUE, "linewidth": 2.2, "solid_capstyle": "round"}
    if width > 1:
        axes.plot(positions[way], heights[way], color=_BLUE, linewidth=0.9, alpha=0.35)
        axes.plot(positions[way], _smoothed(heights[way], width), label="smoothed", **raw)
    else:
        axes.plot(positions[way], heights[way], marker="o" if len(points) < _FEW else "", markersize=4, **raw)
    if last:
        axes.plot(positions[-1:], heights[-1:], "o", color=_BLUE, markersize=6, clip_on=False, zorder=5)
        axes.annotate(
            f"the model: {heights[-1]:.3f}",
            (positions[-1], heights[-1]),
            (-6, 9),
            textcoords="offset points",
            ha="right",
            color=_BLUE,
            fontweight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )
    axes.margins(y=0.12)


def _smoothed(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the mean of the values around each position, of fewer near the ends."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    positions = np.arange(len(values))
    reach = np.minimum(np.minimum(positions, len(values) - 1 - positions), width // 2 + 1)
    return np.asarray((sums[positions + reach + 1] - sums[positions - reach]) / (2 * reach + 1))


def _draw_epsilons(axes: Any, guarantee: Guarantee) -> None:
    run, delta = guarantee.run, guarantee.delta
    epochs = np.unique(np.linspace(1, run.epochs, min(run.epochs, _MOST_STEPS)).round().astype(int))
    edges = np.concatenate([[0], epochs])
    account = Account(run, delta=delta)
    heights = [account.spent(int(count)) for count in epochs[:-1]] + [guarantee.epsilon]
    axes.stairs(heights, edges, fill=True, color=_VERMILION, alpha=0.15, linewidth=0)
    axes.stairs(heights, edges, baseline=None, color=_VERMILION, linewidth=2.2)
    _tell(axes, 0, f"ε = {rounded_up(guarantee.epsilon, 4)} at δ = {delta:g}", color=_VERMILION, fontweight="bold")
    highest = guarantee.epsilon
    if guarantee.epsilon < _AMPLIFIED * guarantee.plain_epsilon:
        others = [plain(replace(run, epochs=int(count)), delta).epsilon for count in epochs]
        axes.stairs(others, edges, baseline=None, color=_GREY, linewidth=1.3, linestyle=(0, (1, 1.4)))
        highest = others[-1]
        known = "if it is known who joined which step" if run.sampler.any_steps else "without shuffling"
        _tell(axes, 1, f"{rounded_up(highest, 4)} {known} (dotted)", color="#666666")
    axes.set_ylim(0, 1.38 * highest)
    axes.set_ylabel("ε spent")


def _tell(axes: Any, line: int, text: str, **style: Any) -> None:
    """Write a line into the upper left corner, above the first steps."""
    offset = (8, -4 - 13 * line)
    axes.annotate(text, (0, 1), offset, xycoords="axes fraction", textcoords="offset points", va="top", **style)
