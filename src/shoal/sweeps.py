"""Many settings at once: arrays of parameters become a table."""

import csv
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.amplification.amplify import amplify, proven_bounds
from shoal.checks import known, non_negative, probability, whole
from shoal.errors import RangeError
from shoal.processes import cores, shared
from shoal.shown import Shown

__all__ = ["Table", "sweep"]

_WORTH_A_POOL = 2000
_CHUNK = 128


@dataclass(frozen=True)
class Table(Shown):
    """Columns of equal length, by name."""

    columns: Mapping[str, NDArray[Any]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column."""
        return self.columns[name]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries of plain values."""
        for row in zip(*(column.tolist() for column in self.columns.values()), strict=True):
            yield dict(zip(self.columns, row, strict=True))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists; pandas.DataFrame takes it as it is."""
        return {name: column.tolist() for name, column in self.columns.items()}

    def to_csv(self) -> str:
        """Return the table as comma-separated text."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.to_dict().values(), strict=True))
        return text.getvalue()

    def __repr__(self) -> str:
        """Show the shape and the names."""
        return f"Table({len(self)} rows: {', '.join(self.columns)})"

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        return self.to_dict()


def sweep(*, local_epsilon: ArrayLike, reports: ArrayLike, delta: ArrayLike = 1e-6, bound: str = "tightest") -> Table:
    """Return ε for every combination of the given values, computed on all cores.

    A combination outside the range of a closed form has ε = NaN in the table. A script that sweeps over thousands of
    settings should have the usual ``if __name__ == "__main__":`` guard, so that other processes can import it.

    Parameters
    ----------
    local_epsilon : array_like
        Values of ε₀.
    reports : array_like
        Numbers of reports, n.
    delta : array_like
        Values of δ.
    bound : str
        The bound that is asked, or "tightest".

    Returns
    -------
    Table
        A row for each combination.

    Examples
    --------
    >>> table = sweep(local_epsilon=[1, 2], reports=[1e4, 1e6])
    >>> print(table["epsilon"].round(6))
    [0.040951 0.003093 0.1144   0.00924 ]
    """
    known(proven_bounds(), bound=bound)
    grid = list(
        itertools.product(
            [non_negative(local_epsilon=value) for value in np.ravel(local_epsilon).tolist()],
            [whole(reports=value) for value in np.ravel(reports).tolist()],
            [probability(delta=value) for value in np.ravel(delta).tolist()],
        )
    )
    chunks = [grid[start : start + _CHUNK] for start in range(0, len(grid), _CHUNK)]
    processes = cores() if len(grid) >= _WORTH_A_POOL else 1
    parts = list(shared(partial(_epsilons, bound), chunks, processes=processes, label="sweep"))
    locals_, counts, deltas = zip(*grid, strict=True) if grid else ((), (), ())
    return Table(
        {
            "local_epsilon": np.array(locals_, dtype=np.float64),
            "reports": np.array(counts, dtype=np.int64),
            "delta": np.array(deltas, dtype=np.float64),
            "epsilon": np.array(list(itertools.chain.from_iterable(parts)), dtype=np.float64),
        }
    )


def _epsilons(bound: str, settings: Sequence[tuple[float, int, float]]) -> list[float]:
    results = []
    for local, count, delta in settings:
        try:
            results.append(float(amplify(local_epsilon=local, reports=count, bound=bound).epsilon(delta)))
        except RangeError:
            results.append(float("nan"))
    return results
