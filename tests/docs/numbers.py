"""The numbers in the prose of README and docs, computed again: `python -m tests.docs.numbers` rewrites them.

Outputs of commands and of Python examples are compared by `tests/test_readme.py`. A number inside a
sentence is found here by the words around it: `{}` stands for the number.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import shoal
from shoal import sgd
from shoal.digits import rounded_down, rounded_up

_ROOT = Path(__file__).parents[2]
_NUMBER = r"(\d[\d.,]*\d|\d)"
_DELTA = 1e-6


def _run(sampling: str, adjacency: str) -> sgd.Run:
    """Return the run of README's paragraph on training."""
    return sgd.Run(examples=60_160, batch_size=256, noise_multiplier=1, sampling=sampling, adjacency=adjacency)


def _training() -> Iterator[str]:
    yield rounded_up(sgd.guarantee(_run("allocation", "replace"), delta=_DELTA).epsilon, 4)
    yield rounded_up(sgd.guarantee(_run("allocation", "zero-out"), delta=_DELTA).epsilon, 4)
    compared = sgd.poisson_comparison(_run("permutation", "zero-out"), delta=_DELTA)
    yield rounded_down(compared.least, 4)
    yield f"{compared.poisson_epsilon:.4g}"


@cache
def _weekly() -> shoal.Plan:
    """Return the plan of docs/rounds.md, 52 rounds under ε = 1."""
    return shoal.plan(categories=40, reports=300_000, epsilon=1, delta=_DELTA, rounds=52)


def _proofs() -> Iterator[str]:
    for rounds in (52, 1):
        curve = _weekly().best.curve
        proof = (curve if rounds == 1 else curve.repeated(rounds)).certify(delta=_DELTA)
        yield rounded_up(proof.epsilon)


def _charges() -> Iterator[str]:
    curve, ledger = _weekly().best.curve, shoal.Ledger()
    with ledger.budget(curve, epsilon=1, delta=_DELTA):
        counted = ledger.counted
    assert counted is not None
    yield rounded_up(counted, 3)
    yield rounded_up(ledger.spent(_DELTA), 3)
    rounds = 1
    while ledger.affords(curve, epsilon=1, delta=_DELTA, rounds=rounds):
        rounds += 1
    yield str(rounds)


def _fewest() -> Iterator[str]:
    yield str(shoal.calibrate(epsilon=0.1, delta=_DELTA, local_epsilon=4).reports)


_ASKED = ">>> shoal.calibrate(epsilon=0.1, delta=1e-6, local_epsilon=4).reports\n{}\n"
NUMBERS: list[tuple[str, str, Callable[[], Iterator[str]]]] = [
    (
        "README.md",
        "an epoch has ε = {} at δ = 1e-6 if one example may be replaced (the default), and ε = {} if one "
        "may be zeroed out (`--adjacency zero-out`). For zeroed examples no ε below {} holds over a "
        "permutation, and Poisson accounting prints {} for it",
        _training,
    ),
    ("README.md", _ASKED, _fewest),
    ("docs/amplification.md", _ASKED, _fewest),
    ("docs/start/first-answer.md", _ASKED, _fewest),
    (
        "docs/rounds.md",
        "The review proves ε = {} for all of them first, and ε = {} for one round second.",
        _proofs,
    ),
    (
        "docs/rounds.md",
        "one round of the plan above counts as {}, though it costs ε = {} alone: {} such rounds fit into ε = 1.",
        _charges,
    ),
]
"""A page, words with `{}` for each number, and what computes the numbers as texts."""


def rewritten(text: str, words: str, numbers: Iterator[str]) -> str:
    """Return a page with these numbers in place of those that stand between these words.

    Examples
    --------
    >>> rewritten("about 3.1 or 3 of them", "about {} or {} of", iter(("3.14", "4")))
    'about 3.14 or 4 of them'
    """
    parts = [re.sub(r"(\\ |\\\n)+", r"\\s+", re.escape(part)) for part in words.split("{}")]
    found = re.findall(_NUMBER.join(parts), text)
    if len(found) != 1:
        raise ValueError(f"these words must stand once in the page, and are there {len(found)} times: {words!r}")
    match = re.search(_NUMBER.join(parts), text)
    assert match is not None
    for group, number in reversed(list(enumerate(numbers, 1))):
        text = text[: match.start(group)] + number + text[match.end(group) :]
    return text


def _rewrite() -> None:
    for page, words, numbers in NUMBERS:
        path = _ROOT / page
        text = path.read_text(encoding="utf-8")
        new = rewritten(text, words, numbers())
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(f"rewritten: {page}")


if __name__ == "__main__":
    _rewrite()
