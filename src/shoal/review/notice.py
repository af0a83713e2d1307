"""The paragraph for a privacy notice, in plain English: no number in it that the certificate does not carry."""

from shoal.assumptions import COLLUDE
from shoal.digits import exactly, rounded_up
from shoal.errors import ParameterError
from shoal.proofs.certificate import Certificate
from shoal.proofs.rounds_claim import RoundsClaim
from shoal.review.review_document import Review

_CHANGED = {
    "replace": "had any one piece of the data been different",
    "zero-out": "had any one piece of the data been left out, and its place been empty",
    "add-remove": "had any one piece of the data been left out, or one more been there",
}
"""What ε compares with, by the neighbours of a training; one that is replaced is more than one that is left out."""


def notice(review: Review, *, training: bool = False) -> str:
    """Return what a privacy notice can say, short and long, with the numbers of the certificate of a review."""
    if not review.certificates:
        raise ParameterError("a notice has only numbers that are proved, and this review has no certificate")
    certificate = Certificate.from_json(review.certificates[0])
    proof = certificate.to_dict()
    if training and proof["claim"].get("noise") == "example" and proof["claim"].get("releases") == "every-step":
        raise ParameterError(
            "people noised their own gradients in this training, and no notice is written of that; use your own words"
        )
    epsilon, delta = rounded_up(certificate.epsilon), exactly(certificate.delta)
    numbers = f"differential privacy, ε = {epsilon}, δ = {delta}"
    if training:
        short = (
            "We train a model with data that may include yours. If this is done as we describe it, it limits how much "
            f"anyone who sees the model can learn from it about any one piece of the data ({numbers})."
        )
        how = (
            "We limit how much our model can depend on any one piece of the data: a piece can change a step of the "
            "training by so much and no more, and random noise is added in every step."
        )
        seen, changed = "the model", _CHANGED[proof["claim"]["adjacency"]]
        limits = (
            "We ourselves see the data. If several pieces of it are about you, you are protected less than this. It "
            "does not hide what the model says about people like you."
        )
    elif COLLUDE in certificate.claim.assumptions:  # people may send what is true, among messages of others
        short = (
            "Your answer is mixed with other people's answers, and with messages that say nothing about anybody. If "
            "this is done as we describe it, it limits how much anyone who sees the mixed messages can learn about "
            f"your answer ({numbers})."
        )
        how = (
            "A separate party, the shuffler, mixes the answers of many people with messages that say nothing about "
            "anybody, and passes all of them on without saying who sent which."
        )
        seen, changed = "the mixed messages", "had you given any other answer"
        limits = (
            "It does not hide that you took part, or what the results say about people like you. If the shuffler and "
            "whoever receives the mixed messages work together, nothing of this protects what you answer, unless it is "
            "also changed at random before it leaves you."
        )
    else:
        short = (
            "Your answer is changed at random before it leaves your device and is mixed with other people's answers. "
            "If this is done as we describe it, it limits how much anyone who sees the mixed answers can learn about "
            f"yours ({numbers})."
        )
        how = (
            "Your answer is changed at random before it leaves your device. A separate party, the shuffler, mixes the "
            "answers of many people and passes them on without saying who sent which."
        )
        seen, changed = "the mixed answers", "had you given any other answer"
        limits = (
            "It does not hide that you took part, or what the results say about people like you. From the shuffler, "
            "and if it does not do its part, only the random change protects what you answer."
        )
    needed = "\n".join(f"- {text}" for text in _conditions(certificate))
    return (
        f"Short\n-----\n{short}\n\nLong\n----\n{how} The protection is measured by differential privacy, with ε = "
        f"{epsilon} and δ = {delta}: whatever anyone concludes from {seen}, the probability that they do is at most "
        f"e^ε times what it would have been {changed}, plus δ. {_matter(certificate, training=training)} It holds if "
        f"all of this is so:\n{needed}\n{limits}\n"
    )


def _conditions(certificate: Certificate) -> tuple[str, ...]:
    """Return what has to be so, each condition once; an assumption without plain words is left as it is."""
    told = (each.text if each.plain is None else each.plain for each in certificate.claim.assumptions)
    return tuple(dict.fromkeys(text for text in told if text))


def _matter(certificate: Certificate, *, training: bool) -> str:
    """Return what was proved of what, in a sentence whose numbers are those of the certificate."""
    claim, content = certificate.claim, certificate.to_dict()["claim"]
    if training:
        epochs = content.get("epochs")
        passes = "" if epochs is None else f" with {epochs:,} {'pass' if epochs == 1 else 'passes'} over the data"
        return f"This was proved for a training{passes}."
    if isinstance(claim, RoundsClaim):
        rounds = "round" if claim.rounds == 1 else "rounds together"
        return f"This was proved for {claim.rounds:,} {rounds}; with every further one more can be learned."
    reports = content.get("reports")
    crowd = "one round" if reports is None else f"one round, in which {reports:,} answers are mixed"
    return f"This was proved for {crowd}; with every further one more can be learned."
