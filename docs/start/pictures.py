"""Draw the three pictures of "The idea in three pictures", light and dark, from computed numbers.

``python docs/start/pictures.py`` writes them beside this file, into ``pictures``; a test compares them.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import shoal
from shoal.charts import Axis, Chart
from shoal.charts.colours import DARK, LIGHT, Stroke, colour
from shoal.digits import rounded_up

__all__ = ["main", "pictures"]

_FOLDER = Path(__file__).parent / "pictures"
_DELTA = 1e-6
_LOCAL, _PEOPLE = 1.0, 10_000
_WIDTH = 760

_TRUTH = ("blue", "blue", "vermilion", "green", "blue")
_REPORTED = ("blue", "green", "vermilion", "green", "blue")
"""The second person's randomizer did not tell the truth."""
_ORDER = (3, 2, 0, 4, 1)
"""Where the shuffler puts each report."""
_TOP, _STEP = 104, 54


def pictures() -> dict[str, str]:
    """Return the SVG of every picture by the name of its file."""
    bodies = {"shuffler": _shuffler(), "hiding": _hiding(), "people": _people()}
    return {
        f"{name}-{scheme}.svg": _framed(body, height, title, colours)
        for name, (body, height, title) in bodies.items()
        for scheme, colours in (("light", LIGHT), ("dark", DARK))
    }


def _framed(body: str, height: int, title: str, colours: dict[str, str]) -> str:
    variables = "".join(f"--shoal-{name}:{value};" for name, value in colours.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, -apple-system, Roboto, Arial, sans-serif" style="{variables}">'
        f"<title>{title}</title>"
        f'<rect width="{_WIDTH}" height="{height}" fill="{colour("paper")}"/>{body}</svg>\n'
    )


def _text(x: float, y: float, words: str, *, size: int = 14, ink: str = "ink", weight: int = 400) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" text-anchor="middle" '
        f'fill="{colour(ink)}">{words}</text>'
    )


def _person(x: float, y: float, hue: str) -> str:
    """Return a head and shoulders."""
    body = f"M{x - 14:g} {y + 18:g}a14 15 0 0 1 28 0z"
    return f'<g fill="{colour(hue)}"><circle cx="{x:g}" cy="{y - 7:g}" r="8"/><path d="{body}"/></g>'


def _die(x: float, y: float) -> str:
    pips = "".join(
        f'<circle cx="{x + dx:g}" cy="{y + dy:g}" r="2" fill="{colour("ink")}"/>'
        for dx, dy in ((-6, -6), (6, -6), (0, 0), (-6, 6), (6, 6))
    )
    return (
        f'<rect x="{x - 13:g}" y="{y - 13:g}" width="26" height="26" rx="5" fill="{colour("paper")}" '
        f'stroke="{colour("ink")}" stroke-width="1.5"/>{pips}'
    )


def _slip(x: float, y: float, hue: str) -> str:
    """Return a report that can be read."""
    return (
        f'<rect x="{x - 15:g}" y="{y - 11:g}" width="30" height="22" rx="3" fill="{colour(hue)}"/>'
        f'<path d="M{x - 8:g} {y - 3:g}h16m-16 6h10" stroke="{colour("paper")}" stroke-width="2"/>'
    )


def _envelope(x: float, y: float) -> str:
    """Return a report that is sealed."""
    return (
        f'<rect x="{x - 15:g}" y="{y - 11:g}" width="30" height="22" rx="2" fill="{colour("paper")}" '
        f'stroke="{colour("soft")}" stroke-width="1.5"/>'
        f'<path d="M{x - 15:g} {y - 10:g}l15 12 15-12" fill="none" stroke="{colour("soft")}" stroke-width="1.5"/>'
    )


def _arrow(start: float, end: float, y: float) -> str:
    return f'<path d="M{start:g} {y:g}H{end:g}m-5-4l5 4-5 4" fill="none" stroke="{colour("soft")}" stroke-width="1.4"/>'


def _bracket(ends: tuple[float, float], y: float, words: str, below: str, *, hue: str) -> Iterator[str]:
    left, right = ends
    middle = (left + right) / 2
    yield (
        f'<path d="M{left:g} {y:g}v7H{right:g}v-7M{middle:g} {y + 7:g}v7" fill="none" stroke="{colour(hue)}" '
        'stroke-width="1.6"/>'
    )
    yield _text(middle, y + 32, words, ink=hue, weight=600)
    yield _text(middle, y + 51, below, size=13, ink="soft")


def _shuffler() -> tuple[str, int, str]:
    """Draw people, randomizers, sealed reports, the shuffler, and what the analyst sees."""
    person, die, slip, sealed, left, right, opened = 52, 146, 240, 326, 390, 560, 656
    rows = [_TOP + _STEP * row for row in range(len(_TRUTH))]
    parts = [
        _text(person, 40, "people", weight=600),
        _text(die, 40, "randomize", weight=600),
        _text(slip, 40, "report", weight=600),
        _text(sealed, 40, "seal", weight=600),
        _text((left + right) / 2, 40, "shuffler", weight=600),
        _text(opened, 40, "the analyst sees", weight=600),
        _text(person, 60, "the truth", size=12, ink="soft"),
        _text(die, 60, "own coins", size=12, ink="soft"),
        _text(slip, 60, "may be false", size=12, ink="soft"),
        _text((left + right) / 2, 60, "cannot read, mixes", size=12, ink="soft"),
        _text(opened, 60, "reports without names", size=12, ink="soft"),
        f'<rect x="{left}" y="{_TOP - 28}" width="{right - left}" height="{_STEP * 4 + 56}" rx="12" '
        f'fill="{colour("grid")}" fill-opacity="0.55" stroke="{colour("soft")}" stroke-width="1.2"/>',
    ]
    for row, y in enumerate(rows):
        there = rows[_ORDER[row]]
        middle = (left + right) / 2
        parts += [
            _arrow(person + 20, die - 17, y),
            _arrow(die + 17, slip - 19, y),
            _arrow(slip + 19, sealed - 19, y),
            f'<path d="M{sealed + 17} {y}H{left + 14}C{middle} {y} {middle} {there} {right - 14} {there}H{opened - 24}'
            f'm-5-4l5 4-5 4" fill="none" stroke="{colour("soft")}" stroke-width="1.4"/>',
            _person(person, y, _TRUTH[row]),
            _die(die, y),
            _slip(slip, y, _REPORTED[row]),
            _envelope(sealed, y),
            _slip(opened, there, _REPORTED[row]),
        ]
    curve = shoal.amplify(local_epsilon=_LOCAL, reports=_PEOPLE)
    floor = rows[-1] + 44
    parts += _bracket(
        (slip - 24, sealed + 24), floor, f"one report alone: ε₀ = {_LOCAL:g}", "against everybody", hue="vermilion"
    )
    parts += _bracket(
        (right - 20, opened + 76),
        floor,
        f"shuffled: ε = {rounded_up(curve.epsilon(_DELTA), 2)}",
        f"with {_PEOPLE:,} people",
        hue="blue",
    )
    return "".join(parts), floor + 66, "Five people randomize and seal a report each; the shuffler mixes them."


def _hiding() -> tuple[str, int, str]:
    """Draw how likely results are in two worlds: for one report alone, and for the count of a thousand."""
    people = 1_000
    truth = math.exp(_LOCAL) / (math.exp(_LOCAL) + 1)
    alone = Chart(
        Axis("what the report says", names=("no", "yes")),
        Axis("probability", low=0, high=1),
        "One report alone",
        "Who holds yes reports yes with probability 0.73, who holds no with 0.27.",
        note=f"a coin flips the answer, ε₀ = {_LOCAL:g}",
        width=280,
        height=330,
    )
    alone.bars([truth, 1 - truth], label="if you hold no", kind="guarantee")
    alone.dots([1 - truth, truth], "if you hold yes", kind="budget")
    among = Chart(
        Axis("how many reports say yes", low=215, high=325),
        Axis("probability", low=0),
        f"Among {people:,} shuffled reports",
        "The two distributions of the count are nearly one: they are shifted by less than half a report.",
        note="everybody else holds no; only the count is left",
        width=460,
        height=330,
    )
    counts = range(215, 326)
    worlds = {}
    for name, own in (("no", 1 - truth), ("yes", truth)):
        worlds[name] = [
            (1 - own) * _binomial(people - 1, count, 1 - truth) + own * _binomial(people - 1, count - 1, 1 - truth)
            for count in counts
        ]
    among.line(counts, worlds["no"], "if you hold no", kind=Stroke("blue", 2.6))
    among.line(counts, worlds["yes"], "if you hold yes", kind=Stroke("vermilion", 1.8, (6.0, 4.0)))
    return _beside(alone, among), 340, "One report tells two worlds apart; the count of a thousand hardly does."


def _binomial(trials: int, count: int, probability: float) -> float:
    log = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return math.exp(log + count * math.log(probability) + (trials - count) * math.log1p(-probability))


def _beside(*charts: Chart) -> str:
    parts, x = [], 5.0
    for chart in charts:
        parts.append(chart.svg(style=False).replace("<svg ", f'<svg x="{x:g}" y="5" ', 1))
        x += chart.width + 10
    return "".join(parts)


def _people() -> tuple[str, int, str]:
    """Draw ε against the number of people, for four local ε₀."""
    chart = Chart(
        Axis("people", "log", 100, 1e7),
        Axis("central ε", "log", 1e-4, 10),
        "More people, more privacy",
        "ε falls with the square root of the number of people, once these are enough.",
        note="any randomizer with this ε₀, δ = 1e-6",
        width=750,
        height=400,
    )
    people = [round(10 ** (2 + step / 8)) for step in range(41)]
    for local in (0.5, 1, 2, 4):
        chart.line(
            people,
            [shoal.amplify(local_epsilon=local, reports=number).epsilon(_DELTA) for number in people],
            f"ε₀ = {local:g}",
            kind="series",
        )
    epsilon = shoal.amplify(local_epsilon=_LOCAL, reports=_PEOPLE).epsilon(_DELTA)
    chart.mark(_PEOPLE, epsilon, f"ε = {rounded_up(epsilon, 2)}")
    return _beside(chart), 410, "ε against the number of people, on logarithmic scales, for ε₀ = 0.5, 1, 2 and 4."


def main() -> None:
    """Write all files."""
    _FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (_FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
