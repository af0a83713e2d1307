"""The curve of a training: the loss above, and below it ε, which grows by a step with every epoch that begins."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.charts.colours import LIGHT
from shoal.digits import rounded_up
from shoal.errors import MissingExtraError
from shoal.sgd.account import Account
from shoal.sgd.bounds import plain
from shoal.sgd.guarantees import Guarantee
from shoal.sgd.run import Run

__all__ = ["check_drawing", "training_curve"]

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
