"""What `make demo` sets up is small and pinned, and the page that it ends with stands by itself."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from examples.page import write_page
from examples.story import Story
from shoal.documentation import SITE

_ROOT = Path(__file__).parents[2]
_EXTRAS = ("cli", "collect", "plot")


def _pins(name: str) -> dict[str, str]:
    """Return the versions that a lock holds for this system and this Python."""
    lines = re.findall(r"(?m)^[^#\s][^\\]*", (_ROOT / name).read_text())
    pins = [pin for pin in map(Requirement, lines) if pin.marker is None or pin.marker.evaluate()]
    return {_plain(pin.name): str(pin.specifier).removeprefix("==") for pin in pins}


def _plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def test_the_pins_agree() -> None:
    small, everything = _pins("requirements-demo.txt"), _pins("requirements.txt")
    assert small.items() <= everything.items()
    assert len(small) < len(everything) / 2 + 5
    assert not {"torch", "pyspark", "pandas", "scipy", "scikit-learn", "dp-accounting", "pytest"} & set(small)


def test_nothing_that_the_demo_needs_is_left_to_the_index() -> None:
    """What the pinned libraries need is pinned too, and so are the extras that the demo runs."""
    pinned = set(_pins("requirements-demo.txt"))
    for name in pinned:
        for line in distribution(name).requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert _plain(needed.name) in pinned, (name, needed.name)
    project = re.findall(
        r"(?m)^(?:dependencies|" + "|".join(_EXTRAS) + r") = \[(.*)\]$", (_ROOT / "pyproject.toml").read_text()
    )
    assert len(project) == 1 + len(_EXTRAS)
    for line in project:
        assert {_plain(Requirement(each).name) for each in re.findall('"(.*?)"', line)} <= pinned
    assert {"pyarrow", "hatchling", "editables"} <= pinned


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_demo_says_what_it_is_doing() -> None:
    printed = subprocess.run(
        ["make", "--dry-run", "--always-make", "demo"], cwd=_ROOT, capture_output=True, check=True, text=True
    ).stdout
    for step in (1, 2, 3):
        assert f"{step} of 3: " in printed
    assert ".venv/" not in printed
    assert "requirements.txt" not in printed


class _Loaded(HTMLParser):
    """Everything that a page would load or link to."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        self.sources += [given["src"] or ""] if "src" in given else []
        self.links += [given["href"] or ""] if "href" in given else []


@pytest.mark.slow
def test_the_page_stands_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(tmp_path)
    story.chapter("A <b>chapter</b>")
    story.say("10,000 devices & one question")
    story.run(f"amplify --local-epsilon 1 --reports 10_000 --plot {tmp_path}/curve.png")
    story.shows("curve.png", "A curve")
    story.say("Many lines")
    story.run("compare --local-epsilon 4 --reports 1e6")
    printed = capsys.readouterr().out
    page = write_page(story, 1.5)
    assert page == tmp_path / "index.html"
    text = page.read_text(encoding="utf-8")
    loaded = _Loaded()
    loaded.feed(text)
    (picture,) = loaded.sources
    assert picture.startswith("data:image/png;base64,iVBOR")
    assert not {"script", "link", "iframe", "object"} & loaded.tags
    assert set(loaded.links) == {"#chapter-0", "curve.png"}
    assert all((tmp_path / link).exists() for link in loaded.links if not link.startswith("#"))
    assert not re.search(r"url\(|@import|https?://", text.replace(SITE, ""))  # a theorem is named by its page
    assert "A &lt;b&gt;chapter&lt;/b&gt;" in text
    assert "10,000 devices &amp; one question" in text
    assert "<figcaption>A curve " in text
    assert "prefers-color-scheme: dark" in text
    for line in printed.splitlines():  # what was seen is what is kept
        if line.startswith(("ε =", "strong-clones ", "$ shoal")):
            assert line.replace("'", "&#x27;") in text
    assert "lines more</summary>" in text


def test_the_demo_ends_where_a_command_fails(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.chapter("One")
    story.say("Nothing")
    with pytest.raises(SystemExit):
        story.run("amplify --reports 0,5 --local-epsilon 1")
