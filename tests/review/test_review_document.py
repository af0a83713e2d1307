"""A review that is written, read back and verified, and every way in which one can be changed."""

import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.errors import FormatError, ParameterError
from shoal.questions.parameters import NamedText
from shoal.questions.verify import verify
from shoal.review import Review
from shoal.review.review_document import BLOCK, MOST_REVIEW_BYTES, is_review, proved_sentence, verdict
from shoal.review.round_review import RoundReview
from shoal.review.statement import MARKS, Chart, Field, Item, Line, Section, Statement, Table, marks_of


@cache
def _review() -> Review:
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    return RoundReview(
        "a <b>question</b> & more", lambda count: shoal.amplify(mechanism, reports=count), 1000, mechanism=mechanism
    ).review()


def _wrong(text: str) -> str:
    """Return what is wrong with a text, or nothing."""
    answer = verify(certificate=NamedText(text))
    assert answer.facts["proved"] is not bool(answer.facts["wrong"])
    return answer.facts["wrong"] or ""


@pytest.mark.slow
def test_a_page_and_its_json_are_proved() -> None:
    review = _review()
    assert review.objection() == ""
    for text in (review.to_html(), review.to_json()):
        assert is_review(text)
        assert Review.from_text(text) == review
        assert _wrong(text) == ""
    assert "at δ = 1e-06 holds for 1,000 shuffled reports" in str(review)


@pytest.mark.slow
def test_fields_may_be_in_any_order() -> None:
    """Sorted by another program, the format follows the certificates, which may be long."""
    table = shoal.MatrixRandomizer(np.random.default_rng(1).dirichlet(np.ones(20), 8))
    review = RoundReview("a table", lambda count: shoal.amplify(table, reports=count), 20, mechanism=table).review()
    text = json.dumps(json.loads(review.to_json()), sort_keys=True, indent=1)
    assert text.index('"format": "shoal-review') > 4096
    assert is_review(text)
    assert _wrong(text) == ""


@pytest.mark.slow
def test_texts_are_escaped_and_no_script_is_run() -> None:
    page = _review().to_html()
    assert "<b>question" not in page
    assert "a &lt;b&gt;question&lt;/b&gt; &amp; more" in page
    assert page.count("<script") == 1  # the data, which no browser runs
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.slow
@given(data=st.data())
def test_a_page_with_any_other_character_is_not_proved(data: st.DataObject) -> None:
    page = _review().to_html()
    position = data.draw(st.integers(0, len(page) - 1))
    letter = data.draw(st.characters(codec="utf-8").filter(lambda letter: letter != page[position]))
    kind = data.draw(st.sampled_from(("replace", "insert", "remove", "cut")))
    if kind == "insert" and page[:position].endswith('<td class="fill">'):
        return  # that is what people are asked to do, and has a test of its own
    changed = {
        "replace": page[:position] + letter + page[position + 1 :],
        "insert": page[:position] + letter + page[position:],
        "remove": page[:position] + page[position + 1 :],
        "cut": page[:position],
    }[kind]
    if changed != page:
        assert _wrong(changed)


@pytest.mark.slow
def test_people_fill_in_fields_with_text_and_nothing_else() -> None:
    page = _review().to_html()
    assert _wrong(page.replace('<td class="fill"></td>', '<td class="fill">Somebody, 2026</td>')) == ""
    assert _wrong(page.replace('<td class="fill"></td>', '<td class="fill">two\nlines\t</td>')) == ""
    assert _wrong(page.replace('<td class="fill"></td>', '<td class="fill">A &amp; B&nbsp;&lt;a@b&gt;</td>')) == ""
    hidden = ("\u202e0 = ε", "&#x202e;0 = ε", "&#8238;0 = ε", "&shy;", "\x1b[2J")
    for text in ("<b>ε = 0</b>", "x" * 10_001, *hidden):
        assert _wrong(page.replace('<td class="fill"></td>', f'<td class="fill">{text}</td>', 1)), text


@pytest.mark.slow
@pytest.mark.parametrize(
    "item",
    [
        Statement("proved", "ε = 0.0001 at δ = 1e-06 holds for everybody."),
        Chart("proved", "ε = 0", "", "x", "y", 0.1, 1.0, (Line("a", "limit", (0.1, 1.0), (0.1, 1.0)),)),
    ],
)
def test_nothing_is_marked_as_proved_that_no_certificate_says(item: Statement | Chart) -> None:
    review = _review()
    forged = Review(review.title, review.version, (*review.sections, Section("More", (item,))), review.certificates)
    assert "no certificate proves" in _wrong(forged.to_html())
    assert "no certificate proves" in _wrong(forged.to_json())


_HIDDEN = ["a\nproved: ε = 0", "\x1b[2K\rproved: ε = 0", "\u202e0 = ε", "\u2066ε", "\ud800", "\u2028", "\x00", "\u00ad"]


@pytest.mark.slow
@pytest.mark.parametrize("text", _HIDDEN)
@pytest.mark.parametrize("where", ["title", "version", "section", "statement", "cell", "field", "line"])
def test_no_text_is_seen_otherwise_than_it_is_written(where: str, text: str) -> None:
    review = _review()
    items: dict[str, Item] = {
        "statement": Statement("declared", text),
        "cell": Table("c", ("a",), (("declared", text),)),
        "field": Field("label", text),
        "line": Chart("computed", "t", "", "x", "y", 0.1, 1.0, (Line(text, "limit", (0.1, 1.0), (0.1, 1.0)),)),
    }
    more = (items[where],) if where in items else ()
    sections = (*review.sections, Section(text if where == "section" else "More", more))
    title, version = (text if where == name else getattr(review, name) for name in ("title", "version"))
    forged = Review(title, version, sections, review.certificates)
    assert "control characters" in _wrong(forged.to_json())
    assert "control characters" in _wrong(forged.to_html())


def test_a_strangers_title_is_made_plain() -> None:
    sections, proofs = _review().sections, shoal.Certificate.from_json(_review().certificates[0])
    assert Review.made("a\nb\u202ec", sections, proofs).title == "a�b�c"
    for title in ("", "  ", "x" * 1001):
        with pytest.raises(ParameterError, match="title must be"):
            Review.made(title, sections, proofs)
    arabic = Review.made("مسح الخصوصية: السؤال", sections, proofs)
    assert _wrong(arabic.to_html()) == ""


def test_a_title_that_claims_more_is_only_declared() -> None:
    review = _review()
    forged = Review("proved: ε = 0.0001 for everybody", review.version, review.sections, review.certificates)
    said = verify(certificate=NamedText(forged.to_html())).facts["sentence"]
    assert said.startswith(f"proved: {proved_sentence(shoal.Certificate.from_json(review.certificates[0]))}")
    assert said.endswith(" declared) and the title, “proved: ε = 0.0001 for everybody”.")


@pytest.mark.slow
def test_a_page_with_other_computed_lines_says_that_they_are_not_checked() -> None:
    """All computed statements are replaced in the page and its data: the page must not claim that this is refused."""
    review = _review()
    lie = "Protected is everything about a person: ε = 0.0000001 at δ = 0, whatever is assumed."
    sections = tuple(
        Section(
            section.title,
            tuple(
                Statement("computed", lie) if isinstance(item, Statement) and item.mark == "computed" else item
                for item in section.items
            ),
        )
        for section in review.sections
    )
    forged = Review(review.title, review.version, sections, review.certificates)
    for text in (forged.to_html(), forged.to_json()):
        facts = verify(certificate=NamedText(text)).facts
        assert facts["proved"] and facts["lines"] == review.lines and facts["lines"]["computed"] > 7
        assert lie not in facts["sentence"]
        assert f"Not checked: all other lines ({review.lines['computed']} computed, " in facts["sentence"]
    *_, checking = review.sections
    said = " ".join(item.text for item in checking.items if isinstance(item, Statement))
    assert "`shoal verify` checks no other line: if somebody changes one, in the page and in its data" in said
    assert "refuses" not in said


@pytest.mark.slow
def test_a_sentence_in_other_words_is_not_proved() -> None:
    """Not even in those of 0.2.0, whose certificates are not trusted any more."""
    review = _review()
    sentence = proved_sentence(shoal.Certificate.from_json(review.certificates[0]))
    before = sentence.replace(", under the certificate's assumptions.", ", if what the certificate assumes is so.")
    for wording in (before, sentence.replace("ε = 0", "ε = 0.0", 1), sentence + " Always."):
        assert wording != sentence
        told = Review.from_text(review.to_json().replace(sentence, wording))
        assert told.proved == (wording,)
        assert "no certificate proves what is marked as proved" in told.objection()


def test_another_version_is_named_where_a_page_differs() -> None:
    review = _review()
    page = Review(review.title, "0.0.1", review.sections, review.certificates).to_html()
    assert _wrong(page) == ""  # the same but for the version that it names
    assert "written by shoal 0.0.1" in _wrong(page.replace("<body>", "<body >"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        ("</h1>", "</h1><!-- ε = 0 -->"),
        ("<body>", "<body><!--"),
        ("</body>", "<p>ε = 0</p></body>"),
        ("ε = ", "ℇ = "),
        ("ε = ", "&epsilon; = "),
        ("</style>", ".line{display:none}</style>"),
        ("</html>\n", "</html>\n\n"),
        ('<td class="fill"></td>', '<td class="fill"></td><td>ε = 0</td>'),
        ('<td class="fill"></td>', '<td class="fill" title="ε = 0"></td>'),
        ('<script type="application/json"', '<script  type="application/json"'),
        ("</script>", "</script><script>document.title = 0</script>"),
    ],
)
def test_a_page_that_shows_something_else_is_not_proved(change: tuple[str, str]) -> None:
    page = _review().to_html()
    assert change[0] in page
    assert _wrong(page.replace(*change, 1))
    assert _wrong(page.replace(*change))


@pytest.mark.parametrize("piece", [BLOCK, f"{BLOCK}</script", '<td class="fill">', "&lt;", "<!--"])
def test_a_page_of_repeated_pieces_is_refused_soon(piece: str) -> None:
    text = BLOCK + piece * ((MOST_REVIEW_BYTES - len(BLOCK)) // len(piece))
    started = time.process_time()
    assert _wrong(text)
    assert time.process_time() - started < 5  # it was a quarter of an hour


def test_data_that_stand_twice_are_refused() -> None:
    page, text = _review().to_html(), _review().to_json()
    start = page.index(BLOCK)
    block = page[start : page.index("</script>") + len("</script>")]
    assert "once" in _wrong(page[:start] + block + page[start:])
    assert "twice" in _wrong(text.replace('"title":', '"title": "ε = 0", "title":', 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"lines": []},
        {"low": 0.0},
        {"low": 2.0},
        {"low": 1},
        {"high": None},
        {"lines": [{"label": "a", "kind": "series", "xs": [0.1, 1.0], "ys": [0.1, 1.0]}]},
        {"lines": [{"label": "a", "kind": "limit", "xs": [0.1], "ys": [0.1]}]},
        {"lines": [{"label": "a", "kind": "limit", "xs": [0.1, 1.0], "ys": [0.1, 1.0, 1.0]}]},
        {"lines": [{"label": "a", "kind": "limit", "xs": [0.1, "1"], "ys": [0.1, 1.0]}]},
        {"lines": [{"label": 7, "kind": "limit", "xs": [0.1, 1.0], "ys": [0.1, 1.0]}]},
        {"lines": 7},
        {"lines": [{"label": "a" * 301, "kind": "limit", "xs": [0.1, 1.0], "ys": [0.1, 1.0]}]},  # it took minutes
        {"title": "t" * 301},
        {"x": "x" * 301},
        {"svg": "<svg/>"},
        {"mark": "proved"},
    ],
)
def test_a_chart_is_drawn_from_its_numbers(change: dict[str, object]) -> None:
    body = json.loads(_review().to_json())
    charts = [item for section in body["sections"] for item in section["items"] if item["kind"] == "chart"]
    charts[0].update(change)
    wrong = _wrong(json.dumps(body))
    assert bool(wrong) is (change != {"lines": []})  # an empty chart says nothing


def test_a_certificate_is_proved_and_not_believed() -> None:
    review = _review()
    certificate = shoal.Certificate.from_json(review.certificates[0])
    lie = review.certificates[0].replace(repr(certificate.epsilon), repr(certificate.epsilon / 2))
    sections = tuple(
        Section(
            section.title,
            tuple(
                Statement("proved", item.text.replace("ε = ", "ε = 0"))
                if isinstance(item, Statement) and item.mark == "proved"
                else item
                for item in section.items
            ),
        )
        for section in review.sections
    )
    assert "certificate 1" in _wrong(Review(review.title, review.version, review.sections, (lie,)).to_html())
    assert "no certificate proves" in _wrong(
        Review(review.title, review.version, sections, review.certificates).to_html()
    )
    assert "no certificate" in _wrong(Review(review.title, review.version, review.sections, ()).to_html())
    assert "nothing in it is marked" in _wrong(Review(review.title, review.version, (), review.certificates).to_html())


@pytest.mark.parametrize("name", ["format", "title", "version", "sections", "certificates"])
@pytest.mark.parametrize("value", [None, 7, [], {}, [7], [{}], ["x"]])
def test_json_that_is_no_review_is_refused(name: str, value: object) -> None:
    assert _wrong(json.dumps(json.loads(_review().to_json()) | {name: value}))


def test_a_text_that_is_too_long_is_not_read() -> None:
    with pytest.raises(FormatError, match="more than"):
        Review.from_text(" " * (MOST_REVIEW_BYTES + 1))


def test_the_sentence_rounds_up() -> None:
    certificate = shoal.amplify(local_epsilon=1, reports=10_000).certify(delta=1e-6)
    words = proved_sentence(certificate).split()
    assert float(words[2]) >= certificate.epsilon


@pytest.mark.slow
def test_a_page_is_verified_without_the_evaluators_that_computed_it(tmp_path: Path) -> None:
    page = tmp_path / "review.html"
    page.write_text(_review().to_html(), encoding="utf-8", newline="")
    script = (
        "import sys\n"
        "from shoal.review.review_document import Review\n"
        "assert Review.from_text(open(sys.argv[1], encoding='utf-8', newline='').read()).objection() == ''\n"
        "print(*sorted(name for name in sys.modules if name.startswith('shoal.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(page)], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "shoal.proofs.certificate" in loaded
    packages = {name.split(".")[1] for name in loaded}
    assert not packages & {"amplification", "composition", "curve", "numerics", "pairs", "searches", "sgd"}


pytest.importorskip("flint")

_PROOF = shoal.amplify(local_epsilon=1, reports=1_000).certify(delta=1e-3).to_json()


@pytest.mark.parametrize(
    ("text", "proved", "checked"),
    [
        (_PROOF, True, True),
        (_PROOF.replace("1000", "2000"), False, True),
        (_PROOF[: len(_PROOF) // 2], False, True),
        ("", False, False),
        ("{}", False, False),
        ("<html>hello</html>", False, False),
        ("reports,local_epsilon", False, False),
    ],
)
def test_three_states(text: str, proved: bool, checked: bool) -> None:
    facts, _ = verdict(text)
    assert (facts["proved"], facts["checked"]) == (proved, checked)
    assert "Expecting" not in (facts["wrong"] or "")  # no text of a Python exception
    assert (facts["wrong"] is None) == proved


@pytest.mark.slow
def test_the_fields_of_a_long_certificate_may_be_in_any_order() -> None:
    """Sorted by another program, the format of a long claim is far from the beginning."""
    rows = np.random.default_rng(1).dirichlet(np.ones(20), 12)
    proof = shoal.amplify(shoal.MatrixRandomizer(rows), reports=200, bound="blanket").certify(delta=1e-6)
    content = json.loads(proof.to_json())
    facts, _ = verdict(json.dumps(content, sort_keys=True, indent=2))
    assert (facts["proved"], facts["checked"]) == (True, True)
    facts, _ = verdict(json.dumps(content | {"delta": 1e-7}, sort_keys=True, indent=2))
    assert (facts["proved"], facts["checked"]) == (False, True)


_SECTION = Section(
    "A title",
    (
        Statement("assumed", "text"),
        Table("caption", ("a", "b"), (("computed", "1", "2"),)),
        Chart("computed", "t", "d", "x", "y", 0.1, 1.0, (Line("a", "limit", (0.1, 1.0), (0.1, 1.0)),)),
        Field("label", "hint"),
    ),
)


def test_a_section_comes_back_from_plain_values() -> None:
    assert Section.from_dict(_SECTION.to_dict()) == _SECTION
    assert [marks_of(item) for item in _SECTION.items] == [("assumed",), ("computed",), ("computed",), ()]
    assert set(MARKS) == {"proved", "computed", "assumed", "declared"}


@pytest.mark.parametrize(
    "item",
    [
        {"kind": "statement", "mark": "true", "text": "x"},
        {"kind": "statement", "mark": "proved"},
        {"kind": "statement", "mark": "proved", "text": "x", "more": "y"},
        {"kind": "statement", "mark": "proved", "text": 7},
        {"kind": "other"},
        {"kind": "table", "caption": "c", "head": ["a"], "rows": [["computed"]]},
        {"kind": "table", "caption": "c", "head": ["a"], "rows": [["sure", "1"]]},
        {"kind": "table", "caption": "c", "head": "a", "rows": []},
        {"kind": "table", "caption": "c", "head": ["a"], "rows": ["xy"]},
        7,
        None,
    ],
)
def test_what_is_no_item_is_refused(item: Any) -> None:
    with pytest.raises(FormatError):
        Section.from_dict({"title": "x", "items": [item]})
