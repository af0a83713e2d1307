"""What every result can do beside being a number: a picture, a data frame, and both in a notebook."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.charts.chart_parts import printable
from shoal.checks import known
from shoal.errors import MissingExtraError

if TYPE_CHECKING:
    from shoal.charts.svg_chart import Chart

__all__ = ["FRAMES", "Shown", "frame"]

FRAMES = ("pandas", "polars", "arrow")
"""The kinds of data frames that results come as."""
_MOST_ROWS = 20


class Shown:
    """A result that has a table and a picture: the same in a notebook, in matplotlib and on a web page."""

    __slots__ = ()

    @abstractmethod
    def chart(self) -> "Chart":
        """Return the picture, ready to be written as SVG."""

    @abstractmethod
    def _columns(self) -> Mapping[str, Sequence[Any]]:
        """Return the numbers as columns of equal length, by name."""

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


def _text(cell: Any) -> str:
    if cell is None or cell != cell:  # noqa: PLR0124  (NaN is not itself)
        return "–"
    if isinstance(cell, int) or hasattr(cell, "__index__"):
        return f"{cell:,}" if not isinstance(cell, bool) else "yes" if cell else "no"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def frame(columns: Mapping[str, Any], kind: str = "pandas") -> Any:
    """Return a data frame of one of the kinds."""
    library = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}[known(FRAMES, kind=kind)]
    try:
        module = import_module(library)
    except ImportError:
        how = "polars" if kind == "polars" else '"shoal-dp[files]"'
        raise MissingExtraError(f"a frame needs {library}: pip install {how}; to_dict needs nothing") from None
    make = module.table if kind == "arrow" else module.DataFrame
    return make({name: list(column) for name, column in columns.items()})
