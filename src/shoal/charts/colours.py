"""The one palette of all pictures, for light and dark paper, and how each kind of line is drawn.

The hues are those of Okabe and Ito, which people with any kind of colour vision tell apart, and three of Tol's; each is
as dark or as light as text must be to be read on its paper (a contrast of at least 4.5).
"""

from typing import Literal, NamedTuple

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1b1f24",
    "soft": "#57606a",
    "grid": "#e3e6ea",
    "blue": "#0b4fa5",
    "vermilion": "#b84a00",
    "green": "#007a5a",
    "purple": "#a63d9b",
    "orange": "#8f6200",
    "sky": "#107fa3",
    "wine": "#882255",
    "olive": "#5f7314",
    "indigo": "#332288",
}
"""What is drawn on white paper."""
DARK = {
    "paper": "#14181d",
    "ink": "#e8ebee",
    "soft": "#a7b0ba",
    "grid": "#2c333b",
    "blue": "#58aeea",
    "vermilion": "#ff8a4c",
    "green": "#35c79f",
    "purple": "#e39cc9",
    "orange": "#e6a92e",
    "sky": "#8fd3f4",
    "wine": "#ff7f9f",
    "olive": "#c4c456",
    "indigo": "#a9a1ff",
}
"""What is drawn on dark paper."""
HUES = ("blue", "vermilion", "green", "purple", "orange", "indigo", "wine", "sky", "olive")
"""In the order in which lines without a kind of their own take them."""

Kind = Literal["guarantee", "series", "formula", "comparison", "limit", "local", "budget", "planned"]


class Stroke(NamedTuple):
    """The colour of a line by name (none: the next hue), its width, and its dashes in pixels."""

    colour: str
    width: float
    dashes: tuple[float, ...] = ()


KINDS: dict[str, Stroke] = {
    "guarantee": Stroke("blue", 2.6),
    "series": Stroke("", 1.8),
    "formula": Stroke("", 1.8, (1.5, 3.0)),
    "comparison": Stroke("soft", 1.6, (1.5, 3.0)),
    "limit": Stroke("ink", 1.3, (5.0, 3.5)),
    "local": Stroke("soft", 1.1),
    "budget": Stroke("vermilion", 1.6),
    "planned": Stroke("blue", 1.6, (5.0, 3.5)),
}
"""What is proved, other lines, formulas, no guarantees, what no bound can beat, ε₀ alone, budgets, what may follow."""


def colour(name: str) -> str:
    """Return a colour as an attribute of SVG: whatever the page says, and else that of light paper.

    Examples
    --------
    >>> colour("ink")
    'var(--shoal-ink, #1b1f24)'
    """
    return f"var(--shoal-{name}, {LIGHT[name]})"


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--shoal-{name}:{value};" for name, value in colours.items())


_HOSTS = ("[data-theme={0}]", "[data-jp-theme-light={1}]", ".vscode-{0}", "html[theme={0}]")
"""How a page, JupyterLab, VS Code and Colab say which scheme they have, whatever the system prefers."""


def _in_hosts(scheme: str, light: str) -> str:
    return ",".join(f"{host.format(scheme, light)} .shoal-chart" for host in _HOSTS)


STYLE = (
    f".shoal-chart{{{_variables(LIGHT)}max-width:100%;height:auto;"
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}"
    f"@media (prefers-color-scheme:dark){{.shoal-chart{{{_variables(DARK)}}}}}"
    f"@media print{{.shoal-chart{{{_variables(LIGHT)}}}}}"
    f"{_in_hosts('light', 'true')}{{{_variables(LIGHT)}}}"
    f"{_in_hosts('dark', 'false')}{{{_variables(DARK)}}}"
)
"""The style sheet of charts: paper and ink change together, so that a chart can be read wherever it is shown."""
