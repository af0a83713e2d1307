"""The question `verify`: whether a certificate, or a review with certificates in it, proves what it says."""

from typing import Any

from shoal.questions.copied_code import FILES
from shoal.questions.parameters import Text
from shoal.questions.question import Answer, asks
from shoal.review.review_document import verdict


def _python(_: dict[str, Any]) -> list[str]:
    return [f'print(shoal.Certificate.from_json(Path("{FILES["certificate"]}").read_text()).verify())']


@asks(python=_python, first="certificate")
def verify(*, certificate: Text) -> Answer:
    """Prove a certificate or a review again from its numbers, and say what is proved, or what is wrong.

    Parameters
    ----------
    certificate : NamedText
        The certificate, as JSON; or a review, as a page or as JSON.

    Returns
    -------
    Answer
        Its result is the `Certificate` or the `Review`, or nothing if the text is neither.
    """
    return Answer(*verdict(certificate.text))
