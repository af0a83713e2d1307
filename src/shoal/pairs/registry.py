"""The registry of randomizers: each file enters its own, and everything else reads it.

The wire format of a randomizer is its name, a version and its parameters, the same in every file. A ledger stores a
randomizer that is not registered as a `PlainRandomizer`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from shoal.checks import known, non_negative, probability
from shoal.errors import ParameterError
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.randomizer import Randomizer, ability, check_likelihoods, check_worst_pair, registration_of

K = TypeVar("K", bound=type)
_OWN = "shoal.mechanisms"
"""The package of shoal whose modules register randomizers. It is imported when a name is asked for, because it needs
this module; and an installed package names its modules in entry points of this group."""


@dataclass(frozen=True)
class Registration:
    """What the registry says of a class of randomizers, a dataclass whose fields are its parameters.

    `name` is that of the command line, schemas, tasks and ledgers; `version` is that of the fields,
    as they stand in a schema. `code` is the byte that stands for it in a sealed report, 1 to 255,
    or None if no task can use it. `planned` is its position in the order in which `plan` tries
    mechanisms, the simpler ones first, or None if it is never tried.
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

    for point in entry_points(group=_OWN):
        point.load()


def registration(name: Any, argument: str = "mechanism") -> Registration:
    """Return what is registered under a name."""
    if not isinstance(name, str) or name not in REGISTRY:
        import_module(_OWN)
    if not isinstance(name, str) or name not in REGISTRY:
        import_installed()
    return REGISTRY[known(tuple(sorted(REGISTRY)), **{argument: name})]


def kinds(*parameters: str, within: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return the registered classes that have these parameters, by name and in order.

    Classes that require other parameters than those of `within`, where it is given, are left out.
    """
    import_module(_OWN)
    return {
        name: row.kind
        for name, row in sorted(REGISTRY.items())
        if set(parameters) <= set(row.fields) and (within is None or set(row.required) <= set(within))
    }


def table() -> str:
    """Return the mechanisms that run as a table in Markdown, as docs/mechanisms.md has it."""
    import_module(_OWN)
    lines = ["| name | class | parameters | what a report is | code |", "|---|---|---|---|---|"]
    for row in REGISTRY.values():
        if hasattr(row.kind, "randomize"):
            parameters = ", ".join(f"`{name}`" for name in row.fields)
            lines.append(f"| `{row.name}` | `{row.kind.__name__}` | {parameters} | {row.summary} | {row.code or '–'} |")
    return "\n".join([*lines[:2], *sorted(lines[2:])]) + "\n"


def schema_of(randomizer: object) -> dict[str, Any]:
    """Return the schema of a randomizer: what schemas, tasks, report files, counts and ledgers say of it.

    Examples
    --------
    >>> from shoal.mechanisms import RandomizedResponse
    >>> schema_of(RandomizedResponse(categories=10, local_epsilon=2))
    {'mechanism': 'randomized-response', 'version': 1, 'categories': 10, 'local_epsilon': 2.0}
    """
    row = registration_of(randomizer)
    if row is None:
        raise ParameterError(
            f"{type(randomizer).__qualname__} is not registered, and so no schema can name it; put "
            f'@shoal.mechanisms.register("its-name", "what it does") on the class'
        )
    values = {name: _plain(getattr(randomizer, name)) for name in row.fields}
    return {"mechanism": row.name, "version": row.version, **values}


def _plain(value: Any) -> Any:
    """Return a parameter as JSON has it: a randomizer as its schema, a dataclass as its fields, an array as a list."""
    if registration_of(value) is not None:
        return schema_of(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def mechanism_of(schema: Mapping[str, Any]) -> Any:
    """Return the randomizer that a schema describes.

    Examples
    --------
    >>> mechanism_of({"mechanism": "randomized-response", "version": 1, "categories": 10, "local_epsilon": 2})
    RandomizedResponse(categories=10, local_epsilon=2.0)
    """
    if not isinstance(schema, Mapping):
        raise ParameterError(f"a schema names a mechanism and its parameters, got {schema!r}")
    rest = dict(schema)
    row = registration(rest.pop("mechanism", None))
    version = rest.pop("version", None)
    if type(version) is not int or version != row.version:
        raise ParameterError(
            f'{row.name} is described by version {row.version} of its schema, got {version!r}; write "version": '
            f"{row.version}, or use the shoal that wrote it"
        )
    try:
        return row.kind(**rest)
    except TypeError:
        given = ", ".join(map(str, rest)) or "none"
        raise ParameterError(f"{row.name} has the parameters {', '.join(row.fields)}, got {given}") from None


def stored_mechanism(schema: Any) -> Any:
    """Return the randomizer of a schema that shoal has written: every parameter is there, with the value it has."""
    value = mechanism_of(schema)
    again = schema_of(value)
    if json.dumps(again, sort_keys=True) != json.dumps(dict(schema), sort_keys=True):
        raise ParameterError(
            f"the schema of {again['mechanism']} is incomplete or was changed: it comes back as {again}"
        )
    return value


def wire_code(randomizer: object) -> int:
    """Return the byte that stands for the class of a randomizer in a sealed report."""
    row = registration_of(randomizer)
    if row is None or row.code is None:
        kind = type(randomizer).__qualname__
        raise ParameterError(
            f"{kind} has no code for sealed reports, and no task can use it; register it with one, such as "
            f'@shoal.mechanisms.register("{kind.lower() if row is None else row.name}", "what it does", code=200)'
        )
    return row.code


@register("plain-randomizer", "known only by its likelihoods")
@dataclass(frozen=True, kw_only=True)
class PlainRandomizer:
    """A randomizer known by ε₀, δ₀ and its likelihoods alone: what a ledger keeps of one that is not registered.

    Parameters
    ----------
    local_epsilon, local_delta : float
        ε₀ and δ₀.
    blanket, homogeneous : tuple of Likelihoods
        As `shoal.Randomizer` has them; or each as a mapping of rows, complete and rest.

    Examples
    --------
    >>> from shoal.mechanisms import RandomizedResponse, mechanism_of, schema_of
    >>> plain = PlainRandomizer.of(RandomizedResponse(categories=10, local_epsilon=1))
    >>> mechanism_of(schema_of(plain)) == plain
    True
    """

    local_epsilon: float
    local_delta: float = 0.0
    blanket: tuple[Likelihoods, ...]
    homogeneous: tuple[Likelihoods, ...]

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "local_epsilon", non_negative(local_epsilon=self.local_epsilon))
        object.__setattr__(self, "local_delta", probability(local_delta=self.local_delta, zero=True))
        for name in ("blanket", "homogeneous"):
            object.__setattr__(self, name, _likelihoods(name, getattr(self, name)))
        check_likelihoods(self)
        if self.blanket:
            check_worst_pair(self)

    @classmethod
    def of(cls, randomizer: Randomizer) -> "PlainRandomizer":
        """Return what the accountant knows of a randomizer."""
        return cls(
            local_epsilon=randomizer.local_epsilon,
            local_delta=ability(randomizer, "local_delta"),
            blanket=tuple(randomizer.blanket),
            homogeneous=tuple(randomizer.homogeneous),
        )


def _likelihoods(name: str, values: Iterable[Any]) -> tuple[Likelihoods, ...]:
    try:
        return tuple(value if isinstance(value, Likelihoods) else _read(**value) for value in values)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name} must be likelihoods, each with rows of three numbers, complete and rest", name
        ) from None


def _read(*, rows: Iterable[Iterable[float]], complete: bool, rest: float | None) -> Likelihoods:
    read = tuple((float(first), float(second), float(each)) for first, second, each in rows)
    return Likelihoods(read, bool(complete), None if rest is None else float(rest))
