"""JSON read strictly: no field twice, none missing, none that is not known, each of its type, and no NaN.

This is for headers of files and messages: whoever reads one must not see another value than whoever checks it.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType, NoneType, UnionType
from typing import Any, NoReturn, get_args

from shoal.digits import advice
from shoal.errors import FormatError

_MOST_SHOWN = 60
_MOST_SAID = 300
_NAMES = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}
Fields = Mapping[str, type | UnionType]
"""The names of fields, and the types that each may have; true is no whole number."""


def canonical(content: dict[str, Any]) -> bytes:
    """Return the only form in which content is signed or hashed: sorted fields, no blanks, UTF-8, and no NaN."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def parsed(data: bytes | str) -> Any:
    """Return what JSON says, or raise `ValueError` if a field stands twice in an object, or a number is not finite.

    Examples
    --------
    >>> parsed('{"names": null}')
    {'names': None}
    >>> parsed('{"names": null, "names": []}')
    Traceback (most recent call last):
        ...
    ValueError: a field stands twice in ['names', 'names']
    """
    try:
        return json.loads(data, object_pairs_hook=_once, parse_float=_finite, parse_constant=_not_finite)
    except RecursionError as error:
        raise ValueError(f"too deep: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError(f"a field stands twice in {shortened([name for name, _ in pairs])}")
    return content


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_finite(shortened(text))


def _not_finite(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def read_fields(data: bytes, fields: Fields, source: str, *, optional: Fields = MappingProxyType({})) -> dict[str, Any]:
    """Return the fields of a header in JSON; it must have each of them once, of its type, and no other.

    Examples
    --------
    >>> read_fields(b'{"names": null, "record_bytes": 2}', {"record_bytes": int, "names": list | None}, "a.shoal")
    {'record_bytes': 2, 'names': None}
    """
    try:
        content = parsed(data)
    except ValueError as error:
        raise FormatError(f"{source}: its header is no JSON that makes sense: {short_reason(error)}") from None
    known = {**fields, **optional}
    if not isinstance(content, dict) or not fields.keys() <= content.keys() <= known.keys():
        raise FormatError(
            f"{source}: its header must have the fields {', '.join(fields)} and no other, got {shortened(content)}"
        )
    present = {name: kind for name, kind in known.items() if name in content}
    for name, kind in present.items():
        allowed = get_args(kind) or (kind,)
        if type(content[name]) not in allowed:
            wanted, given = " or ".join(_NAMES[one] for one in allowed), content[name]
            hint = advice(given) if isinstance(given, str) and {int, float} & set(allowed) else ""
            raise FormatError(f"{source}: {name} in its header must be {wanted}, got {shortened(given)}{hint}")
    return {name: content[name] for name in present}


def shortened(value: Any) -> str:
    """Return a value as an error shows it.

    Examples
    --------
    >>> shortened(b"red"), len(shortened("x" * 1000))
    ("'red'", 60)
    """
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            value = value.decode()
    shown = repr(value)
    return shown if len(shown) <= _MOST_SHOWN else shown[: _MOST_SHOWN - 1] + "…"


def short_reason(error: BaseException) -> str:
    """Return what an error says on one line, or its kind if it says nothing."""
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON from line {error.lineno} on"
    reason = " ".join(str(error).split()) or type(error).__name__
    return reason if len(reason) <= _MOST_SAID else reason[: _MOST_SAID - 1] + "…"
