"""The paper's post-processing functions, Algorithms 1 and 3, as exact distributions over all that they can return.

They turn symbols, which say of every position whose distribution it has, into reports. That they turn the symbols of
one world into the reports of that world, and need not know which world it is, is the whole reduction: Lemma 3.3, and
with it Theorem 3.2, and Theorem 4.1 (arXiv 2012.12803v3). With fractions nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

from tests.oracles.enumeration import Distribution, Outputs

Row = Sequence[Fraction]
"""The distribution of one report."""
Symbols = tuple[int, ...]
Common = Mapping[Outputs, Sequence[Row]]
"""After the reports so far: the distributions that everybody's reports have a part of, by symbol."""
LeftOver = Mapping[Outputs, Mapping[int, Row]]
"""After the reports so far: LO(x), what is left of the report of an input."""


def algorithm_1(symbols: Symbols, others: Sequence[int], common: Common, left_over: LeftOver) -> Distribution:
    """Return the distribution of f(y), Algorithm 1: 0 and 1 are clones of the victim's two inputs, 2 is LO(x)."""
    return _reports(symbols, others, common, left_over, last=2)


def algorithm_3(symbols: Symbols, others: Sequence[int], common: Common, left_over: LeftOver) -> Distribution:
    """Return the distribution of Φ(y), Algorithm 3: 0 and 1 are Q₁ of the two inputs, 2 is Q₀, 3 is LO(x)."""
    return _reports(symbols, others, common, left_over, last=3)


def _reports(
    symbols: Symbols, others: Sequence[int], common: Common, left_over: LeftOver, *, last: int
) -> Distribution:
    """Return the distribution of z: whoever is at a position with the last symbol is drawn without replacement."""
    states: dict[tuple[Outputs, Symbols], Fraction] = {((), tuple(range(len(others)))): Fraction(1)}
    for symbol in symbols:
        following: dict[tuple[Outputs, Symbols], Fraction] = {}
        for (history, waiting), mass in states.items():
            if symbol == last:
                choices = [
                    (left_over[history][others[j]], tuple(k for k in waiting if k != j), mass / len(waiting))
                    for j in waiting
                ]
            else:
                choices = [(common[history][symbol], waiting, mass)]
            for row, rest, share in choices:
                for output, probability in enumerate(row):
                    key = ((*history, output), rest)
                    following[key] = following.get(key, Fraction(0)) + share * probability
        states = following
    total: Distribution = {}
    for (outputs, _), mass in states.items():
        total[outputs] = total.get(outputs, Fraction(0)) + mass
    return total


def symbols_distribution(reports: int, victim: Row, others: Row) -> dict[Symbols, Fraction]:
    """Return the distribution of y, uniformly shuffled: the symbol of one victim, and of everybody else."""
    total: dict[Symbols, Fraction] = {}
    for symbols in product(range(len(others)), repeat=reports):
        terms = []
        for place in range(reports):
            term = victim[symbols[place]]
            for other, symbol in enumerate(symbols):
                if other != place:
                    term *= others[symbol]
            terms.append(term)
        total[symbols] = sum(terms, Fraction(0)) / reports
    return total
