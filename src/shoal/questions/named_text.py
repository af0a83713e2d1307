"""A text that somebody handed over, a table or a certificate, and what to call it in an error."""

from collections.abc import Callable
from functools import cached_property

__all__ = ["NamedText"]


class NamedText:
    """A text and its name.

    Parameters
    ----------
    text : str or callable
        All of it; or a function that returns it, which is called when it is first needed.
    name : str
        The file that it is from, or what it is, as an error calls it.
    """

    def __init__(self, text: str | Callable[[], str], name: str = "the text") -> None:
        self._given, self.name = text, name

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self._given if isinstance(self._given, str) else self._given()
