"""The option --certificate of several verbs: prove the answer, and write the proof into a file."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from shoal.durable_file import whole_file
from shoal.progress import waiting
from shoal.questions.answer import Answer

__all__ = ["CertificateFile", "certified"]

CertificateFile = Annotated[
    Path | None,
    Parameter(help="prove the answer in ball arithmetic, and write the proof into this file, for `shoal verify`."),
]


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
