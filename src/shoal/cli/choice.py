"""What each person runs, as the options describe it: a mechanism, its categories, or a schema from a file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from shoal.cli.options import Number
from shoal.errors import ParameterError, StorageError
from shoal.files.memory_limits import categorical
from shoal.files.names import Names
from shoal.mechanisms import Categorical, mechanism_of
from shoal.questions.setting import mechanism_names, randomizer_of

CategoryNames = Annotated[str | None, Parameter(metavar="NAMES|COUNT")]
CategoricalName = Annotated[
    str | None,
    Parameter(help=f"what each person runs: {mechanism_names('categories')}; `shoal plan` ranks them."),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MechanismChoice:
    """What each person runs, for reports of one of k categories.

    Parameters
    ----------
    categories
        all categories there may be: a file with one name a line (the first line is a name too), a CSV or Parquet file
        that has a column of the same name, names with commas between them, or a number k if the column holds
        the whole numbers from 0 to k - 1.
    local_epsilon
        ε₀ of each report; 2, say. The smaller, the more private, and the larger the error.
    schema
        a JSON file with the mechanism and all its parameters, such as `shoal plan --json` prints, instead of
        --mechanism and --local-epsilon.
    """

    categories: CategoryNames = None
    mechanism: CategoricalName = None
    local_epsilon: Number | None = None
    schema: Path | None = None

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that are read, and must not be overwritten."""
        return tuple(path for path in (self.schema, Path(self.categories or "")) if path is not None)

    def chosen(self, column: str) -> tuple[Categorical, Names, float]:
        """Return the mechanism and the categories that the options describe, and the ε₀ that was asked for."""
        if self.schema is not None:
            if self.mechanism is not None or self.local_epsilon is not None:
                raise ParameterError("give either --schema, or --mechanism and --local-epsilon, not both")
            built, asked = _read_schema(self.schema)
            names = Names(built.categories) if self.categories is None else Names.parsed(self.categories, column)
            if names.count != built.categories:
                raise ParameterError(
                    f"{self.schema} is for {built.categories:,} categories, and there are {names.count:,}"
                )
            return built, names, asked
        if self.mechanism is None or self.local_epsilon is None or self.categories is None:
            raise ParameterError(
                "this needs --categories, --mechanism and --local-epsilon, such as --categories names.txt "
                "--mechanism hadamard-response --local-epsilon 2; or a --schema"
            )
        names = Names.parsed(self.categories, column)
        given = {"categories": names.count, "local_epsilon": self.local_epsilon}
        return categorical(randomizer_of(self.mechanism, "mechanism", **given)), names, self.local_epsilon


def _read_schema(path: Path) -> tuple[Categorical, float]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content = content.get("schema", content) if isinstance(content, dict) else content
        built = categorical(mechanism_of(content))
        return built, float(content.get("local_epsilon", built.local_epsilon))
    except OSError as error:
        text = f"cannot read {path}: {error.strerror}; `shoal plan --json` prints a schema"
        raise StorageError(text, error) from None
    except (ValueError, ArithmeticError, RecursionError) as error:
        text = f"{path} is no schema of a mechanism in JSON: {str(error)[:300]}"
        raise ParameterError(f"{text}; `shoal plan --json` prints one") from None
