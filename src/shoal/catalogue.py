"""The catalogue of theorems: every name that an answer can carry, with what it says, assumes, and who proved it.

A row is registered by the file that computes it. The front door of each kind (`amplify`, `compose`, `sgd.guarantee`)
imports the files of its folder; whoever wants a bound of their own registers it and imports their file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, cast

from shoal.assumptions import Assumption
from shoal.checks import known
from shoal.documentation import linked
from shoal.errors import ParameterError

__all__ = ["KINDS", "Theorem", "explain", "register", "rows_of", "theorems"]

KINDS = {
    "shuffling": "bounds of one round of shuffled reports, for `amplify`",
    "composition": "methods that add rounds up, for `compose`",
    "training": "bounds of a run of noisy SGD, for `sgd.guarantee`",
}
"""What a theorem is about, in the order in which they are listed."""
_HOMES = {
    "shuffling": "shoal.amplification.amplify",
    "composition": "shoal.composition.compose",
    "training": "shoal.sgd",
}
"""Whose import registers all theorems of a kind."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Theorem:
    """A row of the catalogue: what is proved, under which assumptions, and where.

    Attributes
    ----------
    name : str
        What answers carry, and what `bound=` or `method=` takes.
    statement : str
        The theorem in a few lines.
    citation : str
        Authors, number and version.
    assumptions : tuple of Assumption
        What has to be true.
    needs : str
        What it can be asked about.
    range : str
        For which parameters it says something.
    proof : str
        The page with the proof, a file of the repository; what is printed has its address.
    numerical : bool
        Whether it is computed from distributions, or is a formula.
    adaptive : bool
        Whether randomizers may depend on earlier reports.
    approximate : str, optional
        The theorem for randomizers with δ₀ > 0, if there is one.
    proven : bool
        False for what is shown for comparison only, and is no guarantee.
    preference : int, optional
        Its turn when the best one is wanted: 1 before 2, and those with the same number are compared. Without one it is
        only used by name.
    certified_by : str, optional
        Which bound has a proof in ball arithmetic, where this one has none.
    """

    kind: ClassVar[str]

    name: str
    statement: str
    citation: str
    assumptions: tuple[Assumption, ...]
    needs: str
    range: str
    proof: str
    numerical: bool = True
    adaptive: bool = True
    approximate: str | None = None
    proven: bool = True
    preference: int | None = None
    certified_by: str | None = None

    def __post_init__(self) -> None:
        """Refuse assumptions that are texts: reviews and notices need their topics."""
        if any(not isinstance(each, Assumption) for each in self.assumptions):
            raise ParameterError(
                f"assumptions must be values of shoal.assumptions, got {self.assumptions!r:.80}; write a text as "
                'Assumption("…")',
                "assumptions",
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values; `shoal explain --json` prints the same."""
        values = {item.name: _told(getattr(self, item.name)) for item in fields(Theorem)}
        return {"name": self.name, "kind": self.kind, **values, "assumptions": [str(each) for each in self.assumptions]}

    def described(self) -> dict[str, str]:
        """Return the row as titles and text, as it is printed."""
        lines = {
            "about": KINDS[self.kind],
            "statement": self.statement,
            "approximate DP": self.approximate,
            "worth": None if self.proven else "for comparison only: no guarantee",
            "needs": self.needs,
            "range": self.range,
            "adaptive": "yes" if self.adaptive else "no: the randomizer is fixed beforehand",
            "assumes": "\n".join(map(str, self.assumptions)),
            "theorem": self.citation,
            "proof": self.proof,
            "computed": "numerically" if self.numerical else "by a formula",
        }
        return {title: linked(text) for title, text in lines.items() if text}

    def __repr__(self) -> str:
        """Show what it is about, and where it is proved."""
        worth = "" if self.proven else "for comparison only: "
        return f"Theorem({self.name}, {self.kind}: {worth}{linked(self.citation)})"

    def _repr_html_(self) -> str:
        lines = self.described().items()
        rows = "".join(f"<tr><th>{title}</th><td>{escape(text)}</td></tr>" for title, text in lines)
        return f"<table><caption>{escape(self.name)}</caption>{rows}</table>"


def _told(value: Any) -> Any:
    """Return a value of a row as it is printed: pages have addresses."""
    return linked(value) if isinstance(value, str) else value


T = TypeVar("T", bound=Theorem)

_ROWS: dict[str, dict[str, Theorem]] = {kind: {} for kind in KINDS}


def register(*rows: Theorem) -> None:
    """Add rows to the catalogue; a name can be used once for each kind."""
    for row in rows:
        table = _ROWS[row.kind]
        if row.name in table:
            raise ParameterError(f"there is a {row.kind} theorem {row.name!r} already; give yours another name")
        ordered = sorted((*table.values(), row), key=_order)
        table.clear()  # not a new one, since others hold this one
        table.update((each.name, each) for each in ordered)


def _order(row: Theorem) -> tuple[float, bool, bool, str]:
    """Return what rows are listed by, in whichever order they were registered."""
    turn = float("inf") if row.preference is None else row.preference
    return turn, not row.proven, not row.numerical, row.name


def rows_of(kind: type[T]) -> Mapping[str, T]:
    """Return all rows of a kind by name, as a view that grows with the catalogue."""
    return cast(Mapping[str, T], MappingProxyType(_ROWS[kind.kind]))


def theorems(kind: str | None = None) -> tuple[Theorem, ...]:
    """Return the catalogue, or what it has of one kind; preferred ones first.

    Parameters
    ----------
    kind : {"shuffling", "composition", "training"}, optional
        What the theorems are about; all of them if not given.

    Examples
    --------
    >>> import shoal
    >>> [row.name for row in shoal.theorems("composition")]
    ['pld', 'renyi', 'advanced', 'advanced-closed-form']
    """
    kinds = tuple(KINDS) if kind is None else (known(tuple(KINDS), kind=kind),)
    for each in kinds:
        import_module(_HOMES[each])
    return tuple(row for each in kinds for row in _ROWS[each].values())


def explain(name: str, *, kind: str | None = None) -> Theorem:
    """Return what is known of a bound or a method, by the name that answers carry.

    Parameters
    ----------
    name : str
        Such as "strong-clones", "pld" or "gaussian-clones".
    kind : {"shuffling", "composition", "training"}, optional
        What it is about; the first of these that has a row of this name, if it is None.

    Examples
    --------
    >>> import shoal
    >>> shoal.explain("clones")
    Theorem(clones, shuffling: Theorem 3.2, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021))
    >>> shoal.explain("gaussian-clones").proof
    'docs/theory/sgd.md, sections 3 and 4'
    """
    rows: dict[str, Theorem] = {}
    for row in theorems(kind):
        rows.setdefault(row.name, row)
    return rows[known(tuple(rows), name=name)]
