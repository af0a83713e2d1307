"""The wire format of a randomizer: its name, a version and its parameters, the same in every file."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from shoal.errors import ParameterError
from shoal.randomizers.randomizer import registration_of
from shoal.randomizers.registry import registration

__all__ = ["mechanism", "schema_of", "stored_mechanism", "wire_code"]


def schema_of(randomizer: object) -> dict[str, Any]:
    """Return the schema of a randomizer: what schemas, tasks, report files, counts and ledgers say of it.

    Examples
    --------
    >>> from shoal.randomizers import RandomizedResponse
    >>> schema_of(RandomizedResponse(categories=10, local_epsilon=2))
    {'mechanism': 'randomized-response', 'version': 1, 'categories': 10, 'local_epsilon': 2.0}
    """
    row = registration_of(randomizer)
    if row is None:
        raise ParameterError(
            f"{type(randomizer).__qualname__} is not registered, and so no schema can name it; put "
            f'@shoal.randomizers.register("its-name", "what it does") on the class'
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


def mechanism(schema: Mapping[str, Any]) -> Any:
    """Return the randomizer that a schema describes.

    Examples
    --------
    >>> mechanism({"mechanism": "randomized-response", "version": 1, "categories": 10, "local_epsilon": 2})
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
    """Return the randomizer of a schema that shoal has written: every parameter is there, with the value it has.

    Examples
    --------
    >>> stored_mechanism({"mechanism": "randomized-response", "version": 1, "categories": 3, "local_epsilon": 99.0})
    Traceback (most recent call last):
    ...
    shoal.errors.ParameterError: the schema of randomized-response is incomplete or was changed: it comes back as ...
    """
    value = mechanism(schema)
    again = schema_of(value)
    if json.dumps(again, sort_keys=True) != json.dumps(dict(schema), sort_keys=True):
        raise ParameterError(
            f"the schema of {again['mechanism']} is incomplete or was changed: it comes back as {again}"
        )
    return value


def wire_code(randomizer: object) -> int:
    """Return the byte that stands for the class of a randomizer in a sealed report.

    Examples
    --------
    >>> from shoal.randomizers import Laplace, RandomizedResponse
    >>> wire_code(RandomizedResponse(categories=3, local_epsilon=1))
    1
    >>> wire_code(Laplace(local_epsilon=1))
    Traceback (most recent call last):
    ...
    shoal.errors.ParameterError: Laplace has no code for sealed reports, and no task can use it; register it with one, \
such as @shoal.randomizers.register("laplace", "what it does", code=200)
    """
    row = registration_of(randomizer)
    if row is None or row.code is None:
        kind = type(randomizer).__qualname__
        raise ParameterError(
            f"{kind} has no code for sealed reports, and no task can use it; register it with one, such as "
            f'@shoal.randomizers.register("{kind.lower() if row is None else row.name}", "what it does", code=200)'
        )
    return row.code
