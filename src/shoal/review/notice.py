"""The paragraph for a privacy notice, in plain English: no number in it that the certificate does not carry."""

from shoal.amplification.several_messages import COLLUDE
from shoal.digits import exactly, rounded_up
from shoal.errors import ParameterError
from shoal.proofs.certificate import Certificate
from shoal.review.review_document import Review

__all__ = ["notice"]

_CHANGED = {
    "replace": "had any one piece of the data been different",
    "zero-out": "had any one piece of the data been left out, and its place been empty",
    "add-remove": "had any one piece of the data been left out, or one more been there",
}
"""What ε compares with, by the neighbours of a training; one that is replaced is more than one that is left out."""


def notice(review: Review, *, training: bool = False) -> str:
    """Return what a privacy notice can say, short and long.

    Parameters
    ----------
    review : Review
        With a certificate, since no other number is used.
    training : bool
        Whether it is about a model that was trained, and not about reports that were shuffled.
    """
    if not review.certificates:
        raise ParameterError("a notice has only numbers that are proved, and this review has no certificate")
    certificate = Certificate.from_json(review.certificates[0])
    proof = certificate.to_dict()
    if training and proof["claim"].get("noise") == "example" and proof["claim"].get("releases") == "every-step":
        raise ParameterError(
            "people noised their own gradients in this training, and no notice is written of that; use your own words"
        )
    epsilon, delta = rounded_up(certificate.epsilon), exactly(certificate.delta)
    numbers = f"differential privacy with ε = {epsilon} and δ = {delta}"
    if training:
        short = (
            "We train a model with data that may include yours. If this is done as we describe it, it is limited how "
            f"much whoever sees the model can learn from it about any one piece of the data ({numbers})."
        )
        how = (
            "We protect each piece of the data that we train our model with by differential privacy: how much it can "
            "change a step of the training is limited, and random noise is added in every step."
        )
        limits = (
            "We ourselves see the data. If several pieces of it are about you, you are protected less than this. It "
            "does not hide what the model says about people like you."
        )
        changed = _CHANGED[proof["claim"]["adjacency"]]
    else:
        short = (
            "What you answer is changed at random before it leaves you, and mixed with the answers of others. If this "
            "is done as we describe it, it is limited how much whoever sees the mixed answers can learn about yours "
            f"({numbers})."
        )
        how = (
            "We protect what you tell us by differential privacy. It is changed at random before it leaves you; a "
            "separate party, the shuffler, mixes the answers of many people and passes them on without saying who sent "
            "which."
        )
        limits = (
            "It does not hide that you took part, or what the results say about people like you. From the shuffler, "
            "and if it does not do its part, only the random change protects what you answer."
        )
        if COLLUDE in proof["assumptions"]:  # people may send what is true, among messages of others
            short = (
                "What you answer is mixed with the answers of others, and with messages that say nothing about "
                "anybody. If this is done as we describe it, it is limited how much whoever sees the mixed messages "
                f"can learn about your answer ({numbers})."
            )
            how = (
                "We protect what you tell us by differential privacy. A separate party, the shuffler, mixes the "
                "answers of many people with messages that say nothing about anybody, and passes all of them on "
                "without saying who sent which."
            )
            limits = (
                "It does not hide that you took part, or what the results say about people like you. If the shuffler "
                "and whoever receives the mixed messages work together, nothing of this protects what you answer, "
                "unless it is also changed at random before it leaves you."
            )
        changed = "had you answered otherwise"
    conditions = "\n".join(f"- {text}" for text in proof["assumptions"])
    return (
        f"Short\n-----\n{short}\n\nLong\n----\n{how} What this means: whatever somebody sees and concludes, its "
        f"probability is at most e^ε times what it would have been {changed}, plus δ, with ε = {epsilon} and δ = "
        f"{delta}. "
        f"This was proved for {certificate.claim.subject}, under these conditions:\n{conditions}\n{limits}\n"
    )
