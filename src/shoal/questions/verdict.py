"""The verdict on a file that claims a proof, as facts; it needs only what the proofs need, and so runs in a browser."""

from typing import Any

from shoal.errors import FileError
from shoal.proofs.certificate import Certificate, is_certificate
from shoal.review.review_document import Review, is_review

__all__ = ["verdict"]

_NEITHER = (
    "this is neither a certificate nor a review of shoal; make one with curve.certify(delta=…), "
    "shoal amplify --certificate or shoal review"
)


def verdict(text: str) -> tuple[dict[str, Any], Certificate | Review | None]:
    """Return whether a certificate or a review proves what it says, and which it is, or nothing if the text is neither.

    Parameters
    ----------
    text : str
        The certificate, as JSON; or a review, as a page or as JSON.

    Examples
    --------
    >>> facts, _ = verdict("{}")
    >>> facts["proved"], facts["checked"]
    (False, False)
    """
    proof: Certificate | Review | None = None
    # A file that does not even name a format of shoal is not wrong: there is nothing in it to check.
    checked = is_review(text) or is_certificate(text)
    try:
        proof = (Review.from_text if is_review(text) else Certificate.from_json)(text)
        wrong = proof.objection()
    except FileError as error:
        wrong = str(error) if checked else _NEITHER
    stands = proof is not None and not wrong
    facts = {
        "proved": stands,
        "checked": checked,
        "wrong": wrong or None,
        "sentence": str(proof) if stands else None,
        "certificate": proof.to_dict() if stands and isinstance(proof, Certificate) else None,
        "lines": proof.lines if stands and isinstance(proof, Review) else None,
    }
    return facts, proof
