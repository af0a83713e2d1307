"""What guarantees assume, and the theorems that certificates name and the catalogue cites, in words."""

from dataclasses import dataclass
from enum import Enum


class Topic(Enum):
    """What an assumption is about: by this a review chooses why it holds, and what is left if it fails."""

    RANDOMIZER = "what one person's report is drawn from"
    SAME_RANDOMIZER = "that all people run the same randomizer"
    SLOTS = "the covers that people add"
    DUMMIES = "the dummies that the shuffler or its helpers add"
    SHUFFLE = "that the order of messages is uniformly random, and who sent which is secret"
    COLLUSION = "that shuffler and analyst do not work together"
    NEIGHBOURS = "what two neighbouring datasets differ in"
    ROUNDS = "how several rounds depend on each other"
    SAMPLING = "how examples get into the batches of a training"
    EPOCHS = "how many epochs a training has"
    OTHER = "anything else"


@dataclass(frozen=True)
class Assumption:
    """Something that has to be true for a guarantee to hold.

    Attributes
    ----------
    text : str
        The assumption in words, as answers and certificates print it.
    topic : Topic
        What it is about.
    plain : str, optional
        The same for a privacy notice, without symbols and names of parameters. Empty for what a notice says elsewhere,
        or what is not about privacy; without it a notice has the text.
    if_fails : str
        What is left of the guarantee if the assumption is false, where no number of the setting is needed to say so.

    Examples
    --------
    >>> import shoal
    >>> print(shoal.amplify(local_epsilon=1, reports=10_000).assumptions[0])
    every randomizer is ε₀-DP
    """

    text: str
    topic: Topic = Topic.OTHER
    plain: str | None = None
    if_fails: str = "nothing is guaranteed"

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def _of_the_randomizer(text: str) -> Assumption:
    return Assumption(text, Topic.RANDOMIZER, "what every device sends is made exactly as we describe it")


PURE = _of_the_randomizer("every randomizer is ε₀-DP")
APPROXIMATE = _of_the_randomizer("every randomizer is (ε₀, δ₀)-DP")
DESCRIBED = _of_the_randomizer("the randomizer is the one described, and its outputs are shuffled as they are")
ONE_BIT = _of_the_randomizer("the randomizer is the one described, and a report is one of two values")
DECOMPOSES = _of_the_randomizer(
    "for every two inputs x⁰, x¹ the randomizer decomposes as described, and the inequality holds for every input that "
    "another person may hold, x⁰ and x¹ included (k-ary randomized response does)"
)
RATIOS = _of_the_randomizer(
    "the victim's two distributions differ by at most e^local_epsilon, theirs and any other's by e^log_ratio"
)


def shuffled(malicious: int = 0) -> Assumption:
    """Return the assumption that reports are shuffled, if an observer has made up or knows at most `malicious` of them.

    Parameters
    ----------
    malicious : int
        m.
    """
    known = "none of them, and knows none of them"
    if malicious:
        known = f"or knows, at most {malicious:,} of them"
    return Assumption(
        "the reports are permuted uniformly at random, nothing else tells who sent which, and whoever looks has made "
        f"up{',' if malicious else ''} {known}",
        Topic.SHUFFLE,
        "the answers are mixed completely at random; nothing else, such as a time or an address, tells who sent which; "
        "and whoever looks at them has made up none of the others, and knows none of them",
    )


REPLACE = Assumption(
    "neighbouring datasets differ in one person's value (replacement)",
    Topic.NEIGHBOURS,
    "",
    "whether a person took part is not hidden by this guarantee",
)
_OTHER_RANDOMIZER = (
    "reports by another randomizer hide nobody, and count as known; who sends one has only what that randomizer "
    "guarantees by itself"
)
ADAPTIVE = (
    Assumption(
        "all people run the same randomizer at position i (which may depend on the reports before it)",
        Topic.SAME_RANDOMIZER,
        "all devices treat answers in the same way",
        _OTHER_RANDOMIZER,
    ),
    shuffled(),
    REPLACE,
)
FIXED = (
    Assumption(
        "all people run the same randomizer, fixed beforehand: not chosen from the reports of others",
        Topic.SAME_RANDOMIZER,
        "all devices treat answers in the same way, which was settled before the first answer",
        _OTHER_RANDOMIZER,
    ),
    shuffled(),
    REPLACE,
)

COLLUDE = Assumption(
    "if shuffler and analyst collude, nothing remains: whoever sees messages before they are shuffled sees what each "
    "person said (unless people randomize too: then the local ε₀ of their response remains)",
    Topic.COLLUSION,
    "",
    "it is a limit, and not a condition: they must not",
)
ANYWHERE = Assumption(
    "one malicious client can move this sum anywhere, and nothing shows it: no message is checked to be in a range; "
    "use levels unless every client is attested",
    plain="",
)
_ONE_BY_ONE = Assumption(
    "the messages of all people are permuted uniformly at random, one by one and not in bundles, nothing else tells "
    "which of them came together, and the shuffler keeps silent",
    Topic.SHUFFLE,
    "all messages are mixed completely at random, one by one, nothing else tells which of them came together, and the "
    "shuffler keeps silent",
)
COVERS = (
    Assumption(
        "every person counted in n fills all slots, each by a coin of its own and with a cover uniform on all outputs, "
        "drawn afresh and unpredictable: whoever is absent, malicious or known to whoever looks is not counted "
        "(minimum − m)",
        Topic.SLOTS,
        "all those who are counted add messages that say nothing about anybody, at random, each time anew and so that "
        "nobody can predict them; those who stay away, who cheat, or who are known to whoever looks are not counted",
    ),
    _ONE_BY_ONE,
    REPLACE,
    COLLUDE,
)
DUMMIES = (
    Assumption(
        "the shuffler, or at least one of several helpers, adds the dummies of every category, draws them exactly, "
        "once a round and in secret, and forgets how many they were",
        Topic.DUMMIES,
        "the shuffler, or at least one of its helpers, adds messages that say nothing about anybody, draws how many "
        "exactly as we describe it, once a round and in secret, and forgets how many they were",
    ),
    Assumption(
        "all messages and dummies are permuted together uniformly at random, nothing else tells a dummy from a "
        "message, and the shuffler keeps silent; whoever adds dummies can subtract their own from what is published",
        Topic.SHUFFLE,
        "all messages are mixed together completely at random, nothing else tells one that was added from one of a "
        "person, and the shuffler keeps silent; whoever adds messages can take off their own",
    ),
    REPLACE,
    COLLUDE,
)
SPLIT_AND_MIX = (
    Assumption(
        "at least H people are honest, draw their shares and messages exactly and unpredictably, and H is a constant "
        "of the task: minimum − m, never the number of people who came",
        plain=(
            "at least as many people as were settled beforehand are honest, and draw their messages exactly as we "
            "describe it and so that nobody can predict them"
        ),
    ),
    _ONE_BY_ONE,
    REPLACE,
    COLLUDE,
    ANYWHERE,
)

FRESH = Assumption(
    "every round has a fresh shuffle and fresh randomness; what people report may depend on earlier rounds, but not n, "
    "ε₀ or the randomizer of a round, nor how many rounds there are (for those, see Ledger.budget)",
    Topic.ROUNDS,
    "every round draws new random numbers and mixes anew; how many rounds there are, how many answers each has and how "
    "answers are treated was settled beforehand, and not by what earlier rounds showed",
    "rounds that are chosen by what earlier ones showed may cost more; Ledger.budget accounts for that",
)
CHOSEN = Assumption(
    "every round has a fresh shuffle and fresh randomness, and the ledger has charged it before it ran; n, ε₀ and the "
    "randomizer of a round, and how many rounds there are, may depend on earlier rounds",
    Topic.ROUNDS,
    "every round draws new random numbers and mixes anew, and counts against a budget before it begins",
    "a round that was not charged is not part of the guarantee",
)
"""Instead of `FRESH`, for a budget of rounds that are chosen adaptively."""
OF_EACH = Assumption("what the bound of each round assumes")
"""Stands in the catalogue for the assumptions of the rounds themselves."""

CLIPPED = Assumption(
    "the gradient of every example is clipped, and every step adds fresh normal noise to what it releases",
    plain=(
        "how much each piece of the data can change a step is limited, and every step adds new random noise to what it "
        "gives away"
    ),
)
ONE_EXAMPLE = Assumption(
    "neighbouring datasets differ in one example, replaced or zeroed; none is added or removed", Topic.NEIGHBOURS, ""
)
INDEPENDENT = Assumption(
    "neighbouring datasets differ in one example, replaced, zeroed, added or removed; who joins a step stays secret, "
    "and the number of steps, the rate and what sums are divided by do not depend on the data",
    Topic.NEIGHBOURS,
    "which pieces of the data a step uses stays secret; and the number of steps, how often a piece is used and what "
    "sums are divided by do not depend on the data",
)
PERMUTED = Assumption(
    "every epoch permutes the examples, and the empty slots of its last batch, uniformly and afresh",
    Topic.SAMPLING,
    "every pass over the data takes it in a new order, which is completely random",
)
ONE_STEP = Assumption(
    "every example joins one step of each epoch, drawn uniformly and afresh, whatever the others join",
    Topic.SAMPLING,
    "each piece of the data is used in one step of every pass, which is drawn at random, each time anew and "
    "independently of all others",
)
KEPT_STEP = Assumption(
    "every example joins one step, drawn uniformly, in every epoch the same, whatever the others join", Topic.SAMPLING
)
COINS = Assumption(
    "every example joins every step by a coin of its own, whatever the others join",
    Topic.SAMPLING,
    "in every step it is drawn at random for each piece of the data, independently of all others, whether it is used",
)
EPOCHS = Assumption(
    "the number of epochs was fixed beforehand, or is the most that may be made",
    Topic.EPOCHS,
    "the number of passes over the data was settled beforehand, or is the most that may be made",
)


STRONG = (
    "Theorem S of shoal (docs/theory/strong-clones.md); statement due to Feldman, McMillan and Talwar, "
    "arXiv 2208.04591 (SODA 2023), whose erratum restricts it"
)
SHARPER = (
    "(ε₀, δ₀)-DP randomizers: δ = δ_pair(ε) + (n − 1)(2δ₀/e^ε₀)(1 + e^ε) + δ₀ (docs/theory/approximate.md), or the "
    "lowest chord in e^ε from an ε′ ≤ ε to (ε₀, δ₀)"
)
CLONES = (
    "Theorem 3.2, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021)",
    "(ε₀, δ₀)-DP randomizers: δ = δ_pair(ε) + (e^ε + 1)(1 + e^−ε₀/2)·n·δ₀ (the paper's theorem on approximate DP), or "
    "the lowest chord in e^ε from an ε′ ≤ ε to (ε₀, δ₀)",
)
TWO_RATIOS = "Theorem S with two ratios (docs/theory/strong-clones.md, section 9)"
DECOMPOSITION = "Theorem 4.1, Feldman, McMillan and Talwar, arXiv 2012.12803v3 (FOCS 2021)"
THEOREM_V = "Theorem V of shoal (docs/theory/several-messages.md)"
THEOREM_D = "Theorem D of shoal (docs/theory/several-messages.md)"
THEOREM_M = "Theorem M of shoal (docs/theory/several-messages.md)"
SWAP_CHAINS = "Theorem N of shoal (docs/theory/tighter.md), or Theorem S where that is below"
BLANKET = "Lemma 5.3, Balle, Bell, Gascón and Nissim, arXiv 1903.02837 (CRYPTO 2019)"
THEOREM_O = f"Theorem O of shoal (docs/theory/one-bit.md), or {BLANKET}, where that is below"
LOSSES = (
    "the sum of the privacy losses of all rounds, discretised and rounded to the safe side (docs/theory/composition.md)"
)

_SHUFFLED_RUN = (CLIPPED, PERMUTED, ONE_EXAMPLE, EPOCHS)
TRAINING: dict[str, tuple[str, tuple[Assumption, ...]]] = {
    "gaussian-clones": ("Theorem G, the clones of a Gaussian (docs/theory/sgd.md)", _SHUFFLED_RUN),
    "representatives": ("Theorem R, representatives of every batch (docs/theory/samplers.md)", _SHUFFLED_RUN),
    "allocation": (
        "Theorem A, participation that is independent of the others (docs/theory/samplers.md)",
        (CLIPPED, ONE_STEP, INDEPENDENT, EPOCHS),
    ),
    "poisson": (
        "Theorem A, participation that is independent of the others, with coins (docs/theory/samplers.md)",
        (CLIPPED, COINS, INDEPENDENT, EPOCHS),
    ),
    "plain": (
        "one Gaussian mechanism an epoch (Balle and Wang, arXiv 1805.06530), whatever the order",
        (CLIPPED, ONE_EXAMPLE, EPOCHS),
    ),
}
"""Bounds of a run of noisy SGD: the theorem, and what it assumes."""
