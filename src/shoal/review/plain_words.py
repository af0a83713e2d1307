"""What certificates assume and are about, in words for a privacy notice: no symbols, and no names of parameters."""

from shoal.proofs.certificate import Certificate
from shoal.proofs.rounds_claim import RoundsClaim
from shoal.proofs.words import (
    ADAPTIVE,
    ANYWHERE,
    APPROXIMATE,
    COLLUDE,
    COVERS,
    DECOMPOSES,
    DESCRIBED,
    DUMMIES,
    FIXED,
    FRESH,
    ONE_BIT,
    PURE,
    RATIOS,
    SPLIT_AND_MIX,
    TRAINING,
)

__all__ = ["conditions", "matter"]

_AS_DESCRIBED = "what every device sends is made exactly as we describe it"
_ONE_BY_ONE = (
    "all messages are mixed completely at random, one by one, nothing else tells which of them came together, and the "
    "shuffler keeps silent"
)
_PLAIN = {
    **dict.fromkeys((PURE, APPROXIMATE, DESCRIBED, DECOMPOSES, RATIOS, ONE_BIT[1]), _AS_DESCRIBED),
    ADAPTIVE[0]: "all devices treat answers in the same way",
    FIXED[0]: "all devices treat answers in the same way, which was settled before the first answer",
    ADAPTIVE[1]: (
        "the answers are mixed completely at random; nothing else, such as a time or an address, tells who sent which; "
        "and whoever looks at them has made up none of the others, and knows none of them"
    ),
    ADAPTIVE[2]: "",
    FRESH: (
        "every round draws new random numbers and mixes anew; how many rounds there are, how many answers each has and "
        "how answers are treated was settled beforehand, and not by what earlier rounds showed"
    ),
    COVERS[1][0]: (
        "all those who are counted add messages that say nothing about anybody, at random, each time anew and so that "
        "nobody can predict them; those who stay away, who cheat, or who are known to whoever looks are not counted"
    ),
    COVERS[1][1]: _ONE_BY_ONE,
    DUMMIES[1][0]: (
        "the shuffler, or at least one of its helpers, adds messages that say nothing about anybody, draws how many "
        "exactly as we describe it, once a round and in secret, and forgets how many they were"
    ),
    DUMMIES[1][1]: (
        "all messages are mixed together completely at random, nothing else tells one that was added from one of a "
        "person, and the shuffler keeps silent; whoever adds messages can take off their own"
    ),
    SPLIT_AND_MIX[1][0]: (
        "at least as many people as were settled beforehand are honest, and draw their messages exactly as we describe "
        "it and so that nobody can predict them"
    ),
    COLLUDE: "",
    ANYWHERE: "",
    TRAINING["plain"][1][0]: (
        "how much each piece of the data can change a step is limited, and every step adds new random noise to what it "
        "gives away"
    ),
    TRAINING["clones"][1][1]: "every pass over the data takes it in a new order, which is completely random",
    TRAINING["plain"][1][1]: "",
    TRAINING["plain"][1][2]: (
        "the number of passes over the data was settled beforehand, or is the most that may be made"
    ),
    TRAINING["allocation"][1][1]: (
        "each piece of the data is used in one step of every pass, which is drawn at random, each time anew and "
        "independently of all others"
    ),
    TRAINING["allocation"][1][2]: (
        "which pieces of the data a step uses stays secret; and the number of steps, how often a piece is used and "
        "what sums are divided by do not depend on the data"
    ),
    TRAINING["poisson"][1][1]: (
        "in every step it is drawn at random for each piece of the data, independently of all others, whether it is "
        "used"
    ),
}
"""Each sentence that a certificate may assume; empty for what a notice says elsewhere, or what is not about privacy."""


def conditions(certificate: Certificate) -> tuple[str, ...]:
    """Return what has to be so, each once; a sentence that has no plain words is left as it is.

    Parameters
    ----------
    certificate : Certificate
        Whose assumptions they are.
    """
    assumed = certificate.to_dict()["assumptions"]
    return tuple(dict.fromkeys(text for text in (_PLAIN.get(each, each) for each in assumed) if text))


def matter(certificate: Certificate, *, training: bool) -> str:
    """Return what was proved of what, in a sentence whose numbers are those of the certificate.

    Parameters
    ----------
    certificate : Certificate
        What it says is taken from its fields alone.
    training : bool
        Whether it is about a model that was trained, and not about reports that were shuffled.
    """
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
