"""The files that options name: texts and ledgers that are read, and certificates that are written."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import shoal
from shoal.durable_file import whole_file
from shoal.errors import FormatError, ParameterError, StorageError
from shoal.progress import waiting
from shoal.questions.parameters import NamedText
from shoal.questions.question import Answer

LedgerOption = Annotated[
    Path | None,
    Parameter(
        help="a ledger of what was released about the same people before: what is left of its budget is the target, "
        "and --epsilon and --delta can be left out."
    ),
]
CertificateFile = Annotated[
    Path | None,
    Parameter(help="prove the answer in ball arithmetic, and write the proof into this file, for `shoal verify`."),
]


def text_of(path: Path, *, most: int | None = None) -> NamedText:
    """Return the text of a file, which is read when it is first needed.

    With `most`, that many bytes are read at most, and what is not UTF-8 is replaced, for the reader to refuse.
    """

    def read() -> str:
        try:
            with path.open("rb") as file:
                data = file.read(-1 if most is None else most)
            return data.decode("utf-8-sig", errors="strict" if most is None else "replace")
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror or error}", error) from None
        except UnicodeDecodeError as error:
            raise FormatError(
                f"cannot read {path}: it is not a text file in UTF-8 (byte {error.start + 1:,} is not)"
            ) from None

    return NamedText(read, str(path))


def opened(path: Path) -> shoal.Ledger:
    """Return the ledger of a file that is there."""
    if not path.exists():
        raise ParameterError(f"{path} does not exist; `shoal ledger record {path} …` starts it")
    return shoal.Ledger(path)


def certified(answer: Answer, path: Path | None) -> dict[str, Any]:
    """Return what a certificate changes of the facts that are printed; it is written if a file is named."""
    assert answer.certify is not None
    with waiting("proving in ball arithmetic"):
        proof = answer.certify()
    if path is None:
        return {"epsilon": proof.epsilon, "certified": True}
    with whole_file(path) as file:
        file.write((proof.to_json() + "\n").encode())
    return {"epsilon": proof.epsilon, "certified": True, "certificate": str(path)}
