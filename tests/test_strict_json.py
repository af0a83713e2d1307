"""Headers are read strictly: each field once, of its type, and no other."""

from typing import Any

import pytest

from shoal.errors import FormatError
from shoal.strict_json import Fields, parsed, read_fields, short_reason, shortened

FIELDS: Fields = {"names": list | None, "count": int, "share": int | float, "fine": bool, "more": dict, "text": str}
GOOD = '{"names": null, "count": 2, "share": 0.5, "fine": true, "more": {}, "text": "x"}'


def test_what_is_right_comes_back_in_the_order_that_was_asked_for() -> None:
    result = read_fields(GOOD.encode(), FIELDS, "a.shoal")
    assert list(result) == list(FIELDS)
    assert result == {"names": None, "count": 2, "share": 0.5, "fine": True, "more": {}, "text": "x"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"count": 2', '"count": 2, "count": 3'),  # twice
        ('"more": {}', '"more": {"a": 1, "a": 2}'),  # twice, further down
        ('"count": 2, ', ""),  # missing
        ('"count": 2', '"count": 2, "other": 3'),  # not known
        ('"count": 2', '"count": 2.0'),
        ('"count": 2', '"count": true'),
        ('"count": 2', '"count": "2"'),
        ('"share": 0.5', '"share": NaN'),
        ('"share": 0.5', '"share": -Infinity'),
        ('"share": 0.5', '"share": 1e999'),
        ('"more": {}', '"more": {"a": -1e999}'),
        ('"share": 0.5', '"share": null'),
        ('"fine": true', '"fine": 1'),
        ('"names": null', '"names": {}'),
        ('"text": "x"', '"text": 7'),
        ("}", ""),
    ],
)
def test_whatever_else_is_refused(old: str, new: str) -> None:
    assert old in GOOD
    with pytest.raises(FormatError, match=r"^a\.shoal: "):
        read_fields(GOOD.replace(old, new).encode(), FIELDS, "a.shoal")


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 100_000, b"1" * 5_000, b"[]", b"null"])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^a\.shoal: "):
        read_fields(data, FIELDS, "a.shoal")


@pytest.mark.parametrize("value", ["x" * 1000, b"\xff" * 1000, list(range(1000))])
def test_errors_stay_short(value: Any) -> None:
    assert len(shortened(value)) == 60
    assert len(short_reason(ValueError("x " * 1000))) == 300
    assert short_reason(ValueError()) == "ValueError"
    with pytest.raises(ValueError, match="twice"):
        parsed('{"a": 1, "a": 1}')
