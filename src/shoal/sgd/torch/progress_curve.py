"""A training as it stands, in a picture: ε spent and planned, the budget, and losses as far as they were noted."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.charts.colours import LIGHT
from shoal.digits import exactly, rounded_up
from shoal.errors import MissingExtraError
from shoal.progress import progress
from shoal.sgd.account import Account
from shoal.sgd.run import Run

_BLUE, _VERMILION, _GREY, _BLACK = (LIGHT[name] for name in ("blue", "vermilion", "soft", "ink"))
_MOST_STEPS = 16
"""Beyond this many epochs, ε is computed at some of them and the stairs have longer steps, which end as high."""
_NOT_PRIVATE = "Losses of batches are computed from the data without noise: they are not private, do not publish them."
_NOT_PROTECTED = "The examples of the validation are not protected by the guarantee."


def progress_curve(
    account: Account,
    *,
    batch_losses: Sequence[tuple[int, int, float]] = (),
    validation_losses: Sequence[tuple[int, float]] = (),
) -> Any:
    """Draw ε against epochs, below losses if there are any, and return the matplotlib axes of ε.

    Epochs and steps of `batch_losses` are counted from 0; `validation_losses` have the number
    of epochs made.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise MissingExtraError('drawing needs matplotlib: pip install "shoal-dp[plot]"') from None
    notes = [_NOT_PRIVATE] * bool(batch_losses) + [_NOT_PROTECTED] * bool(validation_losses)
    end = max(account.run.epochs, account.epochs)
    # Fixed, so that the settings of whoever calls do not change the picture.
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "font.size": 9}):
        canvas = Figure(figsize=(7.4, 5.2 if notes else 3.2), layout="constrained")
        panels = canvas.subplots(1 + bool(notes), 1, sharex=True, squeeze=False)[:, 0]
        if notes:
            _draw_losses(panels[0], account.run, batch_losses, validation_losses)
        _draw_epsilons(panels[-1], account, end)
        for axes in panels:
            axes.grid(alpha=0.25, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        panels[-1].set(xlabel="epochs", xlim=(0, end))
        if end > 1:
            panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        canvas.align_ylabels(panels)
        canvas.suptitle(_title(account.run), x=0.01, ha="left", fontsize=11, fontweight="bold")
        canvas.supxlabel("\n".join(notes), x=0.01, ha="left", fontsize=8, color="#444444")
    return panels[-1]


def _title(run: Run) -> str:
    examples = run.public.examples
    of = f"{examples:,} examples" if examples else "examples"
    return f"Private training: {of} in batches of {run.batch_size:,}, noise {run.multiplier:.4g}, {run.sampling}"


def _draw_losses(
    axes: Any, run: Run, batches: Sequence[tuple[int, int, float]], validation: Sequence[tuple[int, float]]
) -> None:
    if batches:
        positions = [epoch + (step + 1) / run.steps for epoch, step, _ in batches]
        losses = [loss for *_, loss in batches]  # of a batch without examples it is NaN, and not drawn
        axes.plot(positions, losses, color=_GREY, linewidth=0.9, alpha=0.6, label="batches (not private)")
        ends = []
        averages = []
        for epoch in sorted({epoch for epoch, *_ in batches}):
            known = [loss for each, _, loss in batches if each == epoch and math.isfinite(loss)]
            ends.append(epoch + 1)
            averages.append(math.fsum(known) / len(known) if known else math.nan)
        axes.plot(ends, averages, "o", color=_GREY, markersize=4.5, label="their mean in each epoch (not private)")
    if validation:
        epochs, means = zip(*validation, strict=True)
        axes.plot(epochs, means, color=_BLUE, linewidth=2.2, marker="o", markersize=4.5, label="validation")
    axes.set_ylabel("loss")
    axes.legend(frameon=False, fontsize=8)


def _draw_epsilons(axes: Any, account: Account, end: int) -> None:
    spaced = np.linspace(1, end, min(end, _MOST_STEPS)).round()
    marks = np.unique(spaced.astype(int)).tolist()
    epochs = sorted({*marks, end, *([account.epochs] if account.epochs else [])})
    epsilons = list(progress(map(account.spent, epochs), total=len(epochs), label="ε of epochs"))
    begun = epochs.index(account.epochs) + 1 if account.epochs else 0
    edges = [0, *epochs]
    last = epsilons[-1]
    if begun:
        axes.stairs(epsilons[:begun], edges[: begun + 1], fill=True, color=_VERMILION, alpha=0.15, linewidth=0)
        axes.stairs(epsilons[:begun], edges[: begun + 1], baseline=None, color=_VERMILION, linewidth=2.2)
    if begun < len(epochs):
        axes.stairs(epsilons[begun:], edges[begun:], baseline=None, color=_VERMILION, linewidth=1.3, linestyle="--")
    made = _epochs(account.epochs)
    at = f"at δ = {account.delta:g}"
    spent = f"spent: ε = {rounded_up(account.epsilon, 4)} after {made}, {at}" if begun else f"spent: nothing yet, {at}"
    lines = [(spent, {"color": _VERMILION, "fontweight": "bold"})]
    if account.budget is None and begun < len(epochs):
        plan = f"the plan has ε = {rounded_up(last, 4)} {at}, for any number of epochs up to {end:,}"
        if begun:
            fewer = rounded_up(account.spent(account.epochs), 4)
            spent = f"after {made}: ε = {fewer} holds if exactly {account.epochs:,} were fixed in advance"
        lines = [(plan, {"color": _VERMILION, "fontweight": "bold"}), (spent, {"color": _VERMILION})]
    elif account.budget is None:
        lines.append(("ε holds if the number of epochs was fixed beforehand", {"color": "#666666"}))
    else:
        axes.axhline(account.budget, color=_BLACK, linewidth=1.2, linestyle=(0, (1, 2)))
        covers = f"budget: ε = {exactly(account.budget)} (dotted) covers any number of epochs up to {account.most:,}"
        lines.append((covers, {"color": _BLACK}))
    for number, (text, style) in enumerate(lines):
        offset = (8, -4 - 13 * number)
        axes.annotate(text, (0, 1), offset, xycoords="axes fraction", textcoords="offset points", va="top", **style)
    axes.set_ylim(0, 1.6 * max(last, account.budget or 0.0))
    axes.set_ylabel("ε")


def _epochs(count: int) -> str:
    return f"{count:,} epoch{'' if count == 1 else 's'}"
