"""Certificates under attack: a hundred thousand edits, of which none may be accepted unless what it states is proved.

Run: python -m benchmarks.forgeries [EDITS]
"""

import copy
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import shoal
from shoal.proofs.certificate import Certificate
from shoal.proofs.claim import claim_from
from shoal.sgd.guarantees import guarantee
from shoal.sgd.run import Run

__all__ = ["certificates", "edited", "outcome", "restated"]

_STATED = ("claim", "epsilon", "delta", "printed_epsilon", "proven_delta", "witness", "bits")
_NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 10**6, 10**15, 10**18, 10**400, 0.0, -0.0, 1e-320, 5e-324, 1e308, 1e-300, 0.5, 1.0, 2**53 + 1, True,
)  # fmt: skip
_OTHERS: tuple[Any, ...] = (
    None, "", "nan", "inf", "0x1p-20", "-0x1p+1023", "0x1p+99999", "clones", "strong-clones", "rounds", [], {}, [[]],
    {"name": "clones"}, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip


def certificates() -> tuple[str, ...]:
    """Return one certificate of every kind, as JSON."""
    response = shoal.RandomizedResponse(categories=5, local_epsilon=1)
    matrix = shoal.MatrixRandomizer([[3, 1, 1], [1, 3, 1], [1, 1, 3]])
    proofs = (
        shoal.amplify(local_epsilon=2, reports=1000).certify(delta=1e-6),
        shoal.amplify(local_epsilon=1, local_delta=1e-12, reports=1000).certify(delta=1e-4),
        shoal.amplify(response, reports=50, bound="decomposition").certify(delta=1e-3),
        shoal.amplify(response, reports=300, bound="blanket").certify(delta=1e-6),
        shoal.amplify(matrix, reports=40, bound="blanket").certify(delta=1e-4),
        shoal.amplify(shoal.Laplace(local_epsilon=1), reports=10**5, bound="blanket").certify(delta=1e-6),
        shoal.amplify(local_epsilon=1, reports=10**4).repeated(5).certify(delta=1e-6),
        shoal.amplify(shoal.Covered(categories=3, fill=1), reports=1000).certify(delta=1e-6),
        shoal.amplify(shoal.Dummies(categories=3, epsilon=1, limit=30), reports=3).certify(delta=1e-6),
        shoal.amplify(shoal.SplitAndMix(epsilon=1, honest=50, people=60, messages=15, steps=4), reports=50).certify(
            delta=1e-6
        ),
        guarantee(Run(examples=1000, noise_multiplier=3, sampling="fixed-order"), delta=1e-5).certify(delta=1e-5),
    )
    return tuple(proof.to_json() for proof in proofs)


def _leaves(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(content, (dict, list)):
        return [path]
    items = content.items() if isinstance(content, dict) else enumerate(content)
    return [path, *(leaf for name, value in items for leaf in _leaves(value, (*path, name)))]


def _within(content: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        content = content[name]
    return content


def _replaced(content: Any, dice: random.Random) -> Any:
    path = dice.choice([path for path in _leaves(content) if path])
    inner, old = _within(content, path[:-1]), _within(content, path)
    if isinstance(old, bool) or not isinstance(old, (int, float)) or dice.random() < 0.3:
        inner[path[-1]] = dice.choice(_NUMBERS + _OTHERS)
    elif isinstance(old, int):
        inner[path[-1]] = old + dice.choice((-1, 1, 7, -old, 10**9))
    else:
        inner[path[-1]] = old * dice.choice((0.5, 0.9, 0.999999, 1 + 1e-15, 1.1, 2.0, -1.0, 1e-3, 1e3))
    return content


def _removed(content: Any, dice: random.Random) -> Any:
    path = dice.choice([path for path in _leaves(content) if path])
    inner = _within(content, path[:-1])
    del inner[path[-1]]
    return content


def _added(content: Any, dice: random.Random) -> Any:
    path = dice.choice([path for path in _leaves(content) if isinstance(_within(content, path), (dict, list))])
    inner = _within(content, path)
    value = dice.choice(_NUMBERS + _OTHERS)
    if isinstance(inner, dict):
        inner[dice.choice(("epsilon", "hint", "x", "delta", "name", "_known"))] = value
    else:
        inner.insert(dice.randrange(len(inner) + 1), value)
    return content


def _swapped(content: Any, dice: random.Random) -> Any:
    paths = [path for path in _leaves(content) if path]
    one, two = dice.choice(paths), dice.choice(paths)
    if one[: len(two)] == two or two[: len(one)] == one:
        return content
    first, second = _within(content, one), _within(content, two)
    _within(content, one[:-1])[one[-1]], _within(content, two[:-1])[two[-1]] = second, first
    return content


def edited(text: str, dice: random.Random) -> str:
    """Return a certificate in which something was changed, in its text or in what it says."""
    kind = dice.random()
    if kind < 0.12:  # cut off
        return text[: dice.randrange(len(text))]
    if kind < 0.3:  # a byte
        place = dice.randrange(len(text))
        return text[:place] + dice.choice('0123456789abcdefx.+-eE"{}[],: \\u\x00') + text[place + 1 :]
    if kind < 0.38:  # a line twice, or not at all
        lines = text.split("\n")
        place = dice.randrange(len(lines))
        lines[place : place + 1] = [lines[place]] * dice.choice((0, 2))
        return "\n".join(lines)
    change: Callable[[Any, random.Random], Any] = dice.choice((_replaced, _replaced, _removed, _added, _swapped))
    return json.dumps(change(json.loads(text), dice))


def restated(text: str, dice: random.Random) -> str | None:
    """Return a certificate of an edited statement, with digits, words and a digest that fit; nothing if none fit."""
    content = json.loads(text)
    fields = {name: content[name] for name in _STATED}
    try:
        changed = _replaced(copy.deepcopy(fields), dice)
        return Certificate(**{**changed, "claim": claim_from(changed["claim"])}).to_json()
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, shoal.ShoalError):
        return None


def outcome(text: str, originals: frozenset[str]) -> str:
    """Return what became of a text: refused on reading, not proved, or accepted; and then as what."""
    try:
        certificate = Certificate.from_json(text)
    except shoal.errors.FileError:
        return "refused"
    if certificate.to_json() in originals:
        return "unchanged"  # white space, or the order of fields
    return "proved" if certificate.verify() else "not proved"


def main(edits: int = 100_000, seed: int = 1) -> int:
    """Print what became of this many edits, and of a hundredth as many restated theorems."""
    dice, texts = random.Random(seed), certificates()
    originals, counts, start = frozenset(texts), Counter[str](), time.process_time()
    for _ in range(edits):
        counts[outcome(edited(dice.choice(texts), dice), originals)] += 1
    print(f"{edits:,} edits, {time.process_time() - start:.0f} s: {dict(counts)}")
    again, slowest, start = Counter[str](), 0.0, time.process_time()
    for _ in range(edits // 100):
        text = restated(dice.choice(texts), dice)
        if text is None:
            again["states nothing"] += 1
            continue
        before = time.process_time()
        again[outcome(text, originals)] += 1
        slowest = max(slowest, time.process_time() - before)
    print(
        f"{edits // 100:,} theorems restated with a digest of their own, {time.process_time() - start:.0f} s, the "
        f"slowest {slowest:.1f} s: {dict(again)}"
    )
    wrong = counts["proved"] + counts["not proved"]
    print(f"edits that were not refused on reading: {wrong} (must be 0)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
