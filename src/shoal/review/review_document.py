"""A review: sections of marked statements with the certificates that prove some of them, as JSON and as a page."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

import shoal
from shoal.charts import STYLE
from shoal.digits import exactly, rounded_up
from shoal.errors import FileError, FormatError, ParameterError
from shoal.proofs.certificate import MOST_BYTES, Certificate, is_certificate
from shoal.proofs.work import limited
from shoal.review.statement import (
    MARKS,
    Chart,
    Field,
    Item,
    Section,
    Statement,
    Table,
    marks_of,
    plain_text,
    text_of_review,
)
from shoal.strict_json import parsed

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


FORMAT = "shoal-review-1"
_MOST_CERTIFICATES = 4
_MOST_TITLE, _MOST_VERSION = 1000, 40
MOST_REVIEW_BYTES = 8 * MOST_BYTES
"""A longer text is no review, and is not read."""
_MOST_FILLED = 10_000
_NEITHER = (
    "this is neither a certificate nor a review of shoal; make one with curve.certify(delta=…), "
    "shoal amplify --certificate or shoal review"
)
_BLANK = str.maketrans("\n\r\t", "   ")
_FILLED = re.compile(r'(<td class="fill">)([^<]*)(</td>)')


def proved_sentence(certificate: Certificate) -> str:
    """Return the sentence that a certificate proves, for people."""
    epsilon, delta = rounded_up(certificate.epsilon), exactly(certificate.delta)
    return f"ε = {epsilon} at δ = {delta} holds for {certificate.claim.subject}, under the certificate's assumptions."


def is_review(text: str) -> bool:
    """Return whether a text means to be a review, as a page or as JSON, and not a certificate."""
    return BLOCK in text or f'"{FORMAT}"' in text


@dataclass(frozen=True)
class Review:
    """A review, which can be written as a page or as JSON, read back, and verified.

    Attributes
    ----------
    title : str
        What is reviewed.
    version : str
        Of shoal, by which it was made.
    sections : tuple of Section
        What it says.
    certificates : tuple of str
        The proofs of what is marked as proved, each as its JSON.
    """

    title: str
    version: str
    sections: tuple[Section, ...]
    certificates: tuple[str, ...]

    @classmethod
    def made(cls, title: str, sections: tuple[Section, ...], *certificates: Certificate | None) -> "Review":
        """Return a review by this version of shoal, with the certificates that there are.

        Parameters
        ----------
        title : str
            In a stranger's words.
        sections : tuple of Section
            What it says.
        *certificates : Certificate or None
            The proofs, that of the main guarantee first.
        """
        if not 0 < len(title.strip()) <= _MOST_TITLE:
            raise ParameterError(f"title must be a text of 1 to {_MOST_TITLE:,} letters, got {len(title):,}", "title")
        proofs = tuple(each.to_json() for each in certificates if each is not None)
        return cls(plain_text(title.strip()), shoal.__version__, sections, proofs)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; the certificates as texts, digit for digit."""
        return {
            "format": FORMAT,
            "title": self.title,
            "version": self.version,
            "sections": [section.to_dict() for section in self.sections],
            "certificates": list(self.certificates),
        }

    def to_json(self) -> str:
        """Return the review as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"

    def to_html(self) -> str:
        """Return the review as one page that needs nothing else, with its JSON inside."""
        return rendered(self.title, self.version, self.sections, self.certificates, self.to_json())

    def _repr_html_(self) -> str:
        return self.to_html()

    @classmethod
    def from_text(cls, text: str) -> "Review":
        """Read a review, a page or JSON; a page that differs from what its JSON says is refused.

        Parameters
        ----------
        text : str
            All of the file.
        """
        if len(text) > MOST_REVIEW_BYTES:
            raise FormatError(f"this is no review: it has more than {MOST_REVIEW_BYTES:,} characters")
        if BLOCK not in text:
            return cls._from_json(text)
        _, *blocks = text.split(BLOCK)
        data, end, _ = blocks[0].partition("</script>")
        if len(blocks) != 1 or not end:
            raise FormatError("a review has its data once; this page was changed or cut short")
        review = cls._from_json(unescape(data))
        for _, filled, _ in _FILLED.findall(text):
            text_of_review(unescape(filled).translate(_BLANK))
            if len(filled) > _MOST_FILLED:
                raise FormatError(f"a field to fill in has up to {_MOST_FILLED:,} letters, got {len(filled):,}")
        if _FILLED.sub(r"\1\3", text) != review.to_html():
            raise FormatError(f"the page says something else than its own data: {review._reason}")
        return review

    @classmethod
    def _from_json(cls, text: str) -> "Review":
        try:
            body = parsed(text)
        except ValueError as error:
            raise FormatError(f"this is no review: {error!s:.200}") from None
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise FormatError(f"this is no review of the format {FORMAT}")
        if set(body) != {"format", "title", "version", "sections", "certificates"}:
            raise FormatError("a review has a title, a version, sections and certificates, and nothing else")
        proofs = _listed(body["certificates"])
        if not all(isinstance(part, str) and _spelled(part) for part in proofs):
            raise FormatError("the certificates of a review are texts")
        if len(proofs) > _MOST_CERTIFICATES:
            raise FormatError(f"a review has up to {_MOST_CERTIFICATES} certificates, got {len(proofs):,}")
        title, version = text_of_review(body["title"]), text_of_review(body["version"])
        if not 0 < len(title) <= _MOST_TITLE or not 0 < len(version) <= _MOST_VERSION:
            raise FormatError(f"a review has a title of up to {_MOST_TITLE:,} letters, and the version that made it")
        sections = tuple(Section.from_dict(value) for value in _listed(body["sections"]))
        return cls(title, version, sections, tuple(proofs))

    @property
    def _reason(self) -> str:
        """Why a page may differ from what its data say."""
        if self.version == shoal.__version__:
            return "it was changed after shoal wrote it"
        return (
            f"it was changed, or written by shoal {self.version}, as it says; this is {shoal.__version__}, whose pages "
            "may look otherwise: verify it with that version, or verify its JSON"
        )

    def objection(self) -> str:
        """Return what is wrong with it, or nothing: every proof stands, and all that is marked as proved is in one."""
        if not self.certificates:
            return "it carries no certificate, and so nothing of it is proved"
        if not self.proved:
            return "nothing in it is marked as proved"
        sentences: set[str] = set()
        with limited():  # of all certificates together
            for number, text in enumerate(self.certificates, 1):
                try:
                    certificate = Certificate.from_json(text)
                    wrong = certificate.objection()
                except FileError as error:
                    wrong = str(error)
                if wrong:
                    return f"certificate {number} of the review: {wrong}"
                sentences.add(proved_sentence(certificate))
        for section in self.sections:
            for item in section.items:
                if "proved" not in marks_of(item):
                    continue
                if not isinstance(item, Statement) or item.text not in sentences:
                    return f"no certificate proves what is marked as proved in “{section.title:.60}”"
        return ""

    @property
    def proved(self) -> tuple[str, ...]:
        """What is marked as proved."""
        items = (item for section in self.sections for item in section.items)
        return tuple(item.text for item in items if isinstance(item, Statement) and item.mark == "proved")

    @property
    def lines(self) -> dict[str, int]:
        """The number of lines with each mark; `objection` checks the lines marked as proved, and no others."""
        counts = Counter(mark for section in self.sections for item in section.items for mark in marks_of(item))
        return {mark: counts[mark] for mark in MARKS}

    def __str__(self) -> str:
        """Return the proved sentences, and how much of the page is not checked, in one line."""
        others = ", ".join(f"{count:,} {mark}" for mark, count in self.lines.items() if mark != "proved")
        unchecked = f"Not checked: all other lines ({others}) and the title, “{self.title}”."
        if not self.proved:
            return f"nothing on the page is proved. {unchecked}"
        return f"proved: {' '.join(dict.fromkeys(self.proved))} {unchecked}"


def _spelled(text: str) -> bool:
    """Return whether a text can be written: half of a pair that stands for one character cannot."""
    return not any(0xD800 <= ord(letter) <= 0xDFFF for letter in text)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise FormatError("a review has lists of sections and of certificates")
    return value


def verdict(text: str) -> tuple[dict[str, Any], Certificate | Review | None]:
    """Return whether a certificate or a review proves what it says, and which it is, or nothing if the text is neither.

    Examples
    --------
    >>> facts, _ = verdict("{}")
    >>> facts["proved"], facts["checked"]
    (False, False)
    """
    proof: Certificate | Review | None = None
    # A file that does not even name a format of shoal is not wrong: there is nothing in it to check.
    checked = is_review(text) or is_certificate(text)
    try:
        proof = (Review.from_text if is_review(text) else Certificate.from_json)(text)
        wrong = proof.objection()
    except FileError as error:
        wrong = str(error) if checked else _NEITHER
    stands = proof is not None and not wrong
    facts = {
        "proved": stands,
        "checked": checked,
        "wrong": wrong or None,
        "sentence": str(proof) if stands else None,
        "certificate": proof.to_dict() if stands and isinstance(proof, Certificate) else None,
        "lines": proof.lines if stands and isinstance(proof, Review) else None,
    }
    return facts, proof
