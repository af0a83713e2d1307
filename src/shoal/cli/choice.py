"""What each person runs, as the options describe it: a mechanism, its categories, or a schema from a file."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from shoal.checks import known
from shoal.errors import ParameterError, StorageError
from shoal.frequency.names import Names
from shoal.frequency.report_file import categorical
from shoal.randomizers import MECHANISMS, Categorical
from shoal.randomizers import mechanism as mechanism_of

__all__ = ["CategoryNames", "chosen"]

CategoryNames = Annotated[str | None, Parameter(metavar="NAMES|COUNT")]


def chosen(
    column: str, categories: str | None, mechanism: str | None, local_epsilon: float | None, schema: Path | None
) -> tuple[Categorical, Names, float]:
    """Return the mechanism and the categories that the options describe, and the ε₀ that was asked for."""
    if schema is not None:
        if mechanism is not None or local_epsilon is not None:
            raise ParameterError("give either --schema, or --mechanism and --local-epsilon, not both")
        made, asked = _read_schema(schema)
        names = Names(made.categories) if categories is None else Names.parsed(categories, column)
        if names.count != made.categories:
            raise ParameterError(f"{schema} is for {made.categories:,} categories, and there are {names.count:,}")
        return made, names, asked
    if mechanism is None or local_epsilon is None or categories is None:
        raise ParameterError(
            "this needs --categories, --mechanism and --local-epsilon, such as --categories names.txt "
            "--mechanism hadamard-response --local-epsilon 2; or a --schema"
        )
    kind = MECHANISMS[known(tuple(MECHANISMS), mechanism=mechanism)]
    names = Names.parsed(categories, column)
    return categorical(kind(categories=names.count, local_epsilon=local_epsilon)), names, local_epsilon


def _read_schema(path: Path) -> tuple[Categorical, float]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content = content.get("schema", content) if isinstance(content, dict) else content
        return categorical(mechanism_of(content)), float(content["local_epsilon"])
    except OSError as error:
        told = f"cannot read {path}: {error.strerror}; `shoal plan --json` prints a schema"
        raise StorageError(told, error) from None
    except (ValueError, ArithmeticError, RecursionError) as error:
        told = f"{path} is no schema of a mechanism in JSON: {str(error)[:300]}"
        raise ParameterError(f"{told}; `shoal plan --json` prints one") from None
