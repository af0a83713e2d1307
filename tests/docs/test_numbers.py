"""Numbers in the prose of the documentation are those that shoal computes today."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.numbers import NUMBERS, rewritten

_ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "words", "numbers"), NUMBERS)
def test_a_page_has_the_numbers_of_today(page: str, words: str, numbers: Callable[[], Iterator[str]]) -> None:
    """If it has not: `python -m tests.docs.numbers` rewrites them."""
    pytest.importorskip("flint")
    text = (_ROOT / page).read_text(encoding="utf-8")
    assert rewritten(text, words, numbers()) == text


def test_words_that_are_gone_are_noticed() -> None:
    with pytest.raises(ValueError, match="are there 0 times"):
        rewritten("# Rounds\n", "proves ε = {}", iter(("1",)))
