"""The registry of randomizers: each file enters its own, and everything else reads it."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, TypeVar

from shoal.checks import known
from shoal.errors import ParameterError

__all__ = [
    "REGISTRY",
    "Registration",
    "import_installed",
    "kinds",
    "register",
    "registration",
    "table",
]

K = TypeVar("K", bound=type)

_GROUP = "shoal.randomizers"
"""Of the entry points with which an installed package names its modules that register randomizers."""


@dataclass(frozen=True)
class Registration:
    """What the registry says of a class of randomizers.

    Attributes
    ----------
    kind : type
        The class, a dataclass whose fields are its parameters.
    name : str
        As the command line, schemas, tasks and ledgers call it.
    summary : str
        What it does, in one line.
    version : int
        Of its fields, as they stand in a schema.
    code : int or None
        The byte that stands for it in a sealed report, 1 to 255; none if no task can use it.
    planned : int or None
        Its position in the order in which `plan` tries mechanisms, the simpler ones first; none if it is never tried.
    """

    kind: Any
    name: str
    summary: str
    version: int = 1
    code: int | None = None
    planned: int | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its parameters."""
        return tuple(field.name for field in fields(self.kind) if field.init)

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the parameters that have no default."""
        return tuple(
            field.name
            for field in fields(self.kind)
            if field.init and field.default is MISSING and field.default_factory is MISSING
        )


REGISTRY: dict[str, Registration] = {}
"""All randomizers that are registered by now, by name."""


def register(
    name: str,
    summary: str,
    *,
    version: int = 1,
    code: int | None = None,
    planned: int | None = None,
) -> Callable[[K], K]:
    """Return a decorator that enters a dataclass into the registry, and sets its `name` and its `registration`.

    Parameters
    ----------
    name : str
        Words in lower case with hyphens between them, which nobody else has.
    summary : str
        What it does, in one line.
    version : int
        Of its fields; raise it whenever they change, so that no schema is misread.
    code : int, optional
        The byte that stands for it in a sealed report: 1 to 127 are shoal's, 128 to 255 everybody else's.
    planned : int, optional
        Its position in the order in which `plan` tries mechanisms.

    Examples
    --------
    >>> @register("half", "says nothing at all")
    ... @dataclass(frozen=True, kw_only=True)
    ... class Half:
    ...     local_epsilon: float
    >>> REGISTRY.pop(Half.name).fields
    ('local_epsilon',)
    """

    def enter(kind: K) -> K:
        row = Registration(kind, name, summary, version, code, planned)
        for other in REGISTRY.values():
            same = f"{other.kind.__module__}.{other.kind.__qualname__}"
            if same == f"{kind.__module__}.{kind.__qualname__}":  # the same file, imported again
                continue
            if other.name == name or (code is not None and other.code == code):
                what = f"name {name!r}" if other.name == name else f"code {code}"
                raise ParameterError(f"{kind.__qualname__} cannot have the {what}: it is taken by {same}")
        if code is not None and not 1 <= code <= 255:
            raise ParameterError(f"code must be a byte from 1 to 255, got {code!r} for {name!r}", "code")
        kind.name = name  # type: ignore[attr-defined]
        kind.registration = row  # type: ignore[attr-defined]
        REGISTRY[name] = row
        return kind

    return enter


@cache
def import_installed() -> None:
    """Import what other packages have announced; only when a name is asked for that is not known otherwise."""
    from importlib.metadata import entry_points  # takes a while, and is hardly ever needed

    for point in entry_points(group=_GROUP):
        point.load()


def registration(name: Any, argument: str = "mechanism") -> Registration:
    """Return what is registered under a name.

    Examples
    --------
    >>> from shoal.randomizers import RandomizedResponse
    >>> registration("randomized-response").kind
    <class 'shoal.randomizers.randomized_response.RandomizedResponse'>
    """
    if not isinstance(name, str) or name not in REGISTRY:
        import_installed()
    return REGISTRY[known(tuple(sorted(REGISTRY)), **{argument: name})]


def kinds(*parameters: str, within: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return the registered classes that have these parameters, by name and in order.

    Parameters
    ----------
    *parameters : str
        Each of them must be a parameter of the class: "categories", or "lower".
    within : tuple of str, optional
        All that may be given: classes that require others are left out.

    Examples
    --------
    >>> import shoal
    >>> list(kinds("lower"))
    ['gaussian', 'laplace', 'one-bit-mean', 'split-and-mix']
    >>> list(kinds("lower", within=("local_epsilon",)))
    ['laplace', 'one-bit-mean']
    """
    return {
        name: row.kind
        for name, row in sorted(REGISTRY.items())
        if set(parameters) <= set(row.fields) and (within is None or set(row.required) <= set(within))
    }


def table() -> str:
    """Return the mechanisms that run as a table in Markdown, as docs/mechanisms.md has it.

    Examples
    --------
    >>> import shoal
    >>> print(table().splitlines()[0])
    | name | class | parameters | what a report is | code |
    """
    lines = ["| name | class | parameters | what a report is | code |", "|---|---|---|---|---|"]
    for row in REGISTRY.values():
        if hasattr(row.kind, "randomize"):
            parameters = ", ".join(f"`{name}`" for name in row.fields)
            lines.append(f"| `{row.name}` | `{row.kind.__name__}` | {parameters} | {row.summary} | {row.code or '–'} |")
    return "\n".join([*lines[:2], *sorted(lines[2:])]) + "\n"
