"""Every verb with --json has a schema; what the tests beside this one print is compared with it (conftest.py)."""

import copy
import json
from pathlib import Path

import pytest

from shoal.cli import main
from tests.cli.schemas import FOLDER, check, schemas, verbs_with_json


def test_every_verb_with_json_has_a_schema_and_no_other() -> None:
    assert set(schemas()) == set(verbs_with_json())
    assert len(schemas()) > 30


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_schemas_are_valid_and_describe_every_field(path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith("shoal ")
    assert schema["title"].replace(" ", "-") == f"shoal-{path.stem.rpartition('-')[0]}---json"
    fields = [schema]
    while fields:
        each = fields.pop()
        for name, field in each.get("properties", {}).items():
            assert field["description"].endswith("."), name
            fields.append(field)
        assert set(each.get("required", ())) <= set(each.get("properties", ()))
        fields += [each[key] for key in ("items",) if key in each] + list(each.get("$defs", {}).values())


def test_an_output_that_does_not_fit_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["amplify", "--local-epsilon", "1", "--reports", "100", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert not check("amplify", facts)
    for change in ({"more": 1}, {"epsilon": "0.1"}, {"epsilon_bracket": [1.0]}):
        assert check("amplify", copy.deepcopy(facts) | change)
    assert check("amplify", {key: value for key, value in facts.items() if key != "delta"})
