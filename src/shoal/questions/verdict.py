"""The verdict on a file that claims a proof, as facts; it needs only what the proofs need, and so runs in a browser."""

from typing import Any

from shoal.errors import FileError
from shoal.proofs.certificate import Certificate
from shoal.review.review_document import Review, is_review

__all__ = ["verdict"]


def verdict(text: str) -> tuple[dict[str, Any], Certificate | Review | None]:
    """Return whether a certificate or a review proves what it says, and which it is, or nothing if the text is neither.

    Parameters
    ----------
    text : str
        The certificate, as JSON; or a review, as a page or as JSON.

    Examples
    --------
    >>> verdict("{}")[0]["proved"]
    False
    """
    proof: Certificate | Review | None = None
    try:
        proof = (Review.from_text if is_review(text) else Certificate.from_json)(text)
        wrong = proof.objection()
    except FileError as error:
        wrong = str(error)
    stands = proof is not None and not wrong
    facts = {
        "proved": stands,
        "wrong": wrong or None,
        "sentence": str(proof) if stands else None,
        "certificate": proof.to_dict() if stands and isinstance(proof, Certificate) else None,
        "lines": proof.lines if stands and isinstance(proof, Review) else None,
    }
    return facts, proof
