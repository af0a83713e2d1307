"""A review as one page of HTML: no script is run, nothing is fetched, and it prints on A4."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from shoal.charts import STYLE
from shoal.review.statement import MARKS, Chart, Field, Item, Section, Statement, Table

__all__ = ["BLOCK", "rendered"]

BLOCK = '<script type="application/json" id="shoal-review">'
"""What the data of a review stands behind; no browser runs it."""
_STYLE = (Path(__file__).parent / "review.css").read_text(encoding="utf-8")


def rendered(title: str, version: str, sections: Sequence[Section], certificates: Sequence[str], data: str) -> str:
    """Return the page; the same review is always the same page, byte for byte."""
    marks = "".join(_line(mark, meaning) for mark, meaning in MARKS.items())
    body = "".join(
        f"<h2>{number}. {escape(section.title)}</h2>\n{''.join(map(_shown, section.items))}"
        for number, section in enumerate(sections, 1)
    )
    proofs = "".join(
        f"<details><summary>Certificate {number}</summary><pre>{escape(text)}</pre></details>\n"
        for number, text in enumerate(certificates, 1)
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}: privacy review</title>\n"
        f"<style>{_STYLE}{STYLE}</style>\n</head>\n<body>\n<h1>Privacy review: <bdi>{escape(title)}</bdi></h1>\n"
        f'<p class="soft">Made by shoal {escape(version)}. Each line is marked:</p>\n{marks}{body}{proofs}'
        f"{BLOCK}{escape(data, quote=False)}</script>\n</body>\n</html>\n"
    )


def _line(mark: str, text: str) -> str:
    return f'<div class="line"><span class="mark {mark}">{mark}</span><span dir="auto">{escape(text)}</span></div>\n'


def _cell(text: str) -> str:
    return f'<td dir="auto">{escape(text)}</td>'


def _shown(item: Item) -> str:
    """Return an item as HTML."""
    match item:
        case Statement(mark, text):
            return _line(mark, text)
        case Table(caption, head, rows):
            titles = "".join(f'<th scope="col">{escape(text)}</th>' for text in ("", *head))
            lines = "".join(
                f'<tr><td><span class="mark {mark}">{mark}</span></td>{"".join(map(_cell, cells))}</tr>\n'
                for mark, *cells in rows
            )
            head_line = f"<thead><tr>{titles}</tr></thead>"
            return f"<table><caption>{escape(caption)}</caption>{head_line}<tbody>\n{lines}</tbody></table>\n"
        case Chart():
            return f'<figure><figcaption class="mark {item.mark}">{item.mark}</figcaption>{item.svg()}</figure>\n'
        case Field(label, hint):
            return (
                f'<table><tbody><tr><th scope="row">{escape(label)}<br>'
                f'<span class="soft">to fill in: {escape(hint)}</span></th>'
                f'<td class="fill"></td></tr></tbody></table>\n'
            )
