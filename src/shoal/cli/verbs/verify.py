"""The verb `verify`: whether a certificate proves what it says."""

from pathlib import Path

from shoal.cli.app import GUARANTEES, app
from shoal.cli.options import Json
from shoal.cli.output import print_json
from shoal.errors import FileError, StorageError

__all__ = ["verify"]


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal verify proof.json")
def verify(file: Path, *, json: Json = False) -> int:
    """Prove a certificate again from its numbers, and say in one line what is proved, or what is wrong.

    Exit status 0 says that it is proved, 1 that it is not: forged, edited, cut off, or something else.

    Parameters
    ----------
    file
        the certificate, a JSON file.
    """
    from shoal.proofs.certificate import MOST_BYTES, Certificate

    certificate = None
    try:
        with file.open("rb") as stream:
            text = stream.read(4 * MOST_BYTES + 1).decode("utf-8", errors="replace")
    except OSError as error:
        raise StorageError(f"cannot read {file}: {error.strerror or error}", error) from None
    try:
        certificate = Certificate.from_json(text)
        wrong = certificate.objection()
    except FileError as error:
        wrong = str(error)
    if json:
        facts = None if certificate is None or wrong else certificate.to_dict()
        print_json({"proved": not wrong, "wrong": wrong or None, "certificate": facts})
    else:
        print(f"not proved: {wrong}" if wrong or certificate is None else str(certificate))
    return 1 if wrong else 0
