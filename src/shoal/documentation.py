"""Where the documentation is: the one address of its site, and what is said of a page, so that it can be opened."""

import re

SITE = "https://shoal-dp.readthedocs.io/"
"""The address of the site; everything that shoal prints, and the site itself, take it from here."""
REPOSITORY = "https://github.com/shoal-dp/shoal"
"""The address of the source."""
_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")


def address(page: str) -> str:
    """Return the address of a page of the site.

    Examples
    --------
    >>> address("theory/tighter")
    'https://shoal-dp.readthedocs.io/theory/tighter.html'
    """
    return f"{SITE}{page}.html"


def linked(text: str) -> str:
    """Return a text in which every page is named by its address.

    Sentences of the catalogue, and so those that certificates carry word for word, name pages by their files, which
    only the repository has. Whoever prints a sentence for people prints it through this.

    Examples
    --------
    >>> linked("Theorem O of shoal (docs/theory/one-bit.md)")
    'Theorem O of shoal (https://shoal-dp.readthedocs.io/theory/one-bit.html)'
    """
    return _PAGE.sub(lambda match: address(match[1]), text)
