"""The verb `verify`: whether a certificate, or a review, proves what it says."""

from pathlib import Path
from typing import Any

from shoal.cli.app import GUARANTEES, app
from shoal.cli.files import text_of
from shoal.cli.options import Json
from shoal.cli.output import print_json
from shoal.progress import waiting
from shoal.proofs.certificate import Certificate
from shoal.questions.verify import verify as question


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal verify proof.json")
def verify(file: Path, *, json: Json = False) -> int:
    """Prove a certificate or a review again from its numbers, and say in one line what is proved, or what is wrong.

    Exit status 0 says that it is proved, 1 that it is not: forged, edited, cut off, or something else. Of a review,
    only the lines marked as proved are checked; the answer counts the others. Of a certificate, the answer lists the
    assumptions, which are not checked.

    Parameters
    ----------
    file
        the certificate, a JSON file; or a review, as a page or as JSON.
    """
    from shoal.review.review_document import MOST_REVIEW_BYTES

    text = text_of(file, most=4 * MOST_REVIEW_BYTES + 1)
    with waiting("proving again in ball arithmetic"):
        answer = question(certificate=text)
    wrong = answer.facts["wrong"]
    if json:
        print_json(answer.facts)
    else:
        state = "not proved" if answer.facts["checked"] else "not checked"
        print(f"{state}: {wrong}" if wrong else _proved(answer.result))
    return 1 if wrong else 0


def _proved(proof: Any) -> str:
    """Return the sentence that is proved, and the assumptions that no proof can check."""
    if not isinstance(proof, Certificate):
        return str(proof)  # a review counts the lines that were not checked
    assumptions = "; ".join(f"({number}) {text}" for number, text in enumerate(proof.claim.assumptions, 1))
    return f"{proof}. Assumed, not checked: {assumptions}."
