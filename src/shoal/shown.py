"""What every result can do beside being a number: a picture, a data frame, and both in a notebook.

How a result looks is in `shoal.charts.drawings`, which is imported when a picture is asked for: results and those who
only pass them on need no charts.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.digits import rounded_up
from shoal.errors import MissingExtraError

if TYPE_CHECKING:
    from shoal.charts import Chart

FRAMES = ("pandas", "polars", "arrow")
"""The kinds of data frames that results come as."""
_MOST_ROWS = 20
_FEW_POINTS = 21
"""How many points a line has in a notebook, where nobody wants to wait."""
_DELTAS = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
"""The δ of the table of a curve."""


class Shown:
    """A result that has a table and a picture: the same in a notebook, in matplotlib and on a web page."""

    __slots__ = ()

    @abstractmethod
    def _columns(self) -> Mapping[str, Sequence[Any]]:
        """Return the numbers as columns of equal length, by name."""

    def chart(self) -> "Chart":
        """Return the picture, ready to be written as SVG."""
        return self._drawn()

    def _drawn(self, **options: object) -> "Chart":
        """Return the picture of this value, with the options of the function that draws it."""
        chart: Chart = import_module("shoal.charts.drawings").drawn(self, **options)
        return chart

    def plot(self, axes: Any = None) -> Any:
        """Draw the picture with matplotlib, and return its axes.

        Parameters
        ----------
        axes : object
            Matplotlib axes to draw on; new ones if not given.
        """
        return self.chart().plot(axes)

    def to_frame(self, *, kind: str = "pandas") -> Any:
        """Return the numbers as a data frame.

        Parameters
        ----------
        kind : {"pandas", "polars", "arrow"}
            Whose: a pandas or polars DataFrame, or a pyarrow Table.
        """
        return frame(self._columns(), kind)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the numbers to any library that takes Arrow's streams, such as ``polars.DataFrame(result)``."""
        return self.to_frame(kind="arrow").__arrow_c_stream__(requested_schema)

    def _cells(self) -> Mapping[str, Sequence[str]]:
        """Return the columns as a notebook shows them; a guarantee is rounded up, and a limit down."""
        return {name: [_text(cell) for cell in column] for name, column in self._columns().items()}

    def _small_chart(self) -> "Chart":
        """Return the picture as a notebook shows it: at once."""
        return self.chart()

    def _caption(self) -> str:
        """Return what is written above the table."""
        return repr(self)

    def _repr_html_(self) -> str:
        columns = {name: list(column) for name, column in self._cells().items()}
        count = max(map(len, columns.values()), default=0)
        head = "".join(f"<th>{escape(printable(name))}</th>" for name in columns)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(printable(column[row]))}</td>' for column in columns.values())}</tr>"
            for row in range(min(count, _MOST_ROWS))
        )
        more = f"<tr><td>… and {count - _MOST_ROWS:,} more</td></tr>" if count > _MOST_ROWS else ""
        caption = f"<p>{escape(printable(self._caption()))}</p>"
        return f"<div>{caption}<table><tr>{head}</tr>{rows}{more}</table>{self._small_chart().svg()}</div>"


class ShownCurve(Shown):
    """A result that has an ε for each δ."""

    __slots__ = ()

    @abstractmethod
    def _epsilon_or_nan(self, delta: float) -> float:
        """Return ε, or NaN where there is none."""

    def _columns(self) -> dict[str, list[float]]:
        return {"delta": list(_DELTAS), "epsilon": [self._epsilon_or_nan(delta) for delta in _DELTAS]}

    def _shown(self, epsilon: float) -> str:
        """Return ε as it is printed: rounded up, as a guarantee."""
        return rounded_up(epsilon)

    def _cells(self) -> dict[str, list[str]]:
        epsilons = ["–" if math.isnan(value) else self._shown(value) for value in self._columns()["epsilon"]]
        return {"δ": [f"{delta:.0e}" for delta in _DELTAS], "ε": epsilons}

    def _small_chart(self) -> "Chart":
        return self._drawn(points=_FEW_POINTS)


def _text(cell: Any) -> str:
    if cell is None or cell != cell:  # noqa: PLR0124  (NaN is not itself)
        return "–"
    if isinstance(cell, int) or hasattr(cell, "__index__"):
        return f"{cell:,}" if not isinstance(cell, bool) else "yes" if cell else "no"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def frame(columns: Mapping[str, Any], kind: str = "pandas") -> Any:
    """Return a data frame of one of the kinds."""
    from shoal.checks import known  # which takes numpy along, and proofs need none

    library = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}[known(FRAMES, kind=kind)]
    try:
        module = import_module(library)
    except ImportError:
        how = "polars" if kind == "polars" else '"shoal-dp[files]"'
        raise MissingExtraError(f"a frame needs {library}: pip install {how}; to_dict needs nothing") from None
    make = module.table if kind == "arrow" else module.DataFrame
    return make({name: list(column) for name, column in columns.items()})


def printable(text: object) -> str:
    """Return a line of text without control characters, halves of letters, and marks that turn its direction.

    Examples
    --------
    >>> printable("a" + chr(0) + "b" + chr(0xD800)), printable("one" + chr(9) + "two")
    ('a�b�', 'one two')
    """
    words = str(text).replace("\t", " ").replace("\n", " ").replace("\r", " ")
    return "".join("\ufffd" if _refused(ord(letter)) else letter for letter in words)


def _refused(code: int) -> bool:
    unreadable = code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code in (0xFFFE, 0xFFFF)
    return unreadable or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
