"""The question `verify`: whether a certificate, or a review with certificates in it, proves what it says."""

from shoal.questions.answer import Answer
from shoal.questions.parameters import Text

__all__ = ["verify"]


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
    from shoal.questions.verdict import verdict

    return Answer(*verdict(certificate.text))
