"""Whatever a verb prints as JSON in these tests has to fit its schema."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import shoal.cli.output
from shoal.cli.app import loaded
from tests.cli.schemas import check, printing


@pytest.fixture(autouse=True)
def printed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Check every output, and return the names of the verbs that had one."""
    loaded()  # a verb that is imported later would keep the replacement after the test
    print_json = shoal.cli.output.print_json
    names: list[str] = []

    def checked(facts: Any) -> None:
        name = printing()
        if name is not None:
            wrong = check(name, facts)
            assert not wrong, f"docs/schemas/{name}-….json: {wrong}"
            names.append(name)
        print_json(facts)

    for name, module in list(sys.modules.items()):
        if name.startswith("shoal.cli") and getattr(module, "print_json", None) is print_json:
            monkeypatch.setattr(module, "print_json", checked)
    yield names
