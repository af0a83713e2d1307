"""The site: built without a warning, with every public name and verb, no link that leads nowhere, no wrong formula."""

import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from public_names import packages, public_names

from shoal.cli.app import loaded
from shoal.documentation import SITE
from tests.cli.verbs import options as options_of
from tests.exhaustive import EXHAUSTIVE, representative

pytest.importorskip("sphinx")
pytest.importorskip("furo")
_ROOT = Path(__file__).parents[1]
_PAGES = sorted(
    path
    for path in (*_ROOT.glob("*.md"), *(_ROOT / "docs").rglob("*.md"), *(_ROOT / "docs" / "tutorials").glob("*.py"))
    if "katex" not in path.parts
)
_ELSEWHERE = re.compile(r"https?://[\w.-]+\.[a-z]{2,}(:\d+)?(/\S*)?|mailto:\S+@\S+|data:\S+", re.IGNORECASE)


class _Reader(HTMLParser):
    """Collects what a page links to, what it loads, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {key: value or "" for key, value in attrs}
        self.places |= {named[key] for key in ("id", "name") if key in named}
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        if tag in ("img", "script", "source") and "src" in named:
            self.loaded.append(named["src"])
        if tag == "link" and named.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(named["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    recipe = re.search(r"(?m)^docs: .*\n((?:\t.*\n)+)", (_ROOT / "Makefile").read_text())
    assert recipe
    script = re.sub(r"\bbuild\b", str(folder / "build"), recipe[1].replace("$(BIN)/python", sys.executable))
    script = re.sub(r"\bsite$", str(folder / "html"), script, flags=re.MULTILINE)
    if not EXHAUSTIVE:  # tests/docs/test_tutorials.py runs them
        script = script.replace("--nitpicky", "--nitpicky -D plot_gallery=0")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))}
    result = subprocess.run(
        ["sh", "-ec", script], cwd=_ROOT, capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr[-5000:]
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Reader]:
    """Return every page of the site, read."""
    return {path: _Reader(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def _inventory(site: Path) -> set[str]:
    """Return the Python names that the site describes."""
    head, _, packed = (site / "objects.inv").read_bytes().partition(b"zlib.\n")
    assert head.startswith(b"# Sphinx inventory version 2")
    lines = zlib.decompress(packed).decode().splitlines()
    return {line.split()[0] for line in lines if line.split()[1].startswith("py:")}


@pytest.mark.slow
def test_every_public_name_is_described(site: Path) -> None:
    described = _inventory(site)
    names = [each for each in public_names() if each.kind != "module"]
    assert len(names) > 150
    assert {each.home for each in names} <= described
    for package in packages():
        page = (site / "reference" / "api" / f"{package}.html").read_text()
        missing = [each.name for each in names if each.package == package and f"{each.home}.html" not in page]
        assert not missing, package


@pytest.mark.slow
def test_every_verb_has_a_page_with_every_option(site: Path) -> None:
    command = loaded()
    verbs = [name for name in command if not name.startswith("-")]
    assert len(verbs) > 20
    for name in verbs:
        text = re.sub(r"<[^>]+>", "", (site / "reference" / "commands" / f"{name}.html").read_text())
        below = [each for each in command[name] if not each.startswith("-")]
        every: list[tuple[str, ...]] = [(name, each) for each in below]
        for words in every or [(name,)]:
            app = command[words[0]] if len(words) == 1 else command[words[0]][words[1]]
            assert f"\nshoal {' '.join(words)} " in text and " -m sphinx" not in text
            options = [option for each in options_of(app) for option in each.names]
            assert all(option in text for option in options), (words, options)


@pytest.mark.slow
def test_links_lead_somewhere(site: Path, pages: dict[Path, _Reader]) -> None:
    """To a file of the site and a place on it; what is elsewhere is at least an address."""
    assert len(pages) > 150
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                if not _ELSEWHERE.fullmatch(link):
                    wrong.append((path.name, link))
                continue
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            place = unquote(parts.fragment)
            if not target.is_file() or (place and target in pages and place not in pages[target].places):
                wrong.append((path.name, link))
    assert not wrong


@pytest.mark.slow
def test_nothing_is_fetched(site: Path, pages: dict[Path, _Reader]) -> None:
    """Every script, style and picture is in the folder."""
    for path, page in pages.items():
        for name in page.loaded:
            assert not re.match(r"[a-z]+:|//", name), (path.name, name)
            assert (path.parent / unquote(urlsplit(name).path)).is_file(), (path.name, name)


@pytest.mark.slow
def test_pages_that_are_printed_are_there(site: Path) -> None:
    """Every address of the site that the source has, or makes from the name of a file, is a page."""
    named: set[str] = set()
    for path in (_ROOT / "src" / "shoal").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named |= {f"{page}.html" for page in re.findall(r"\bdocs/([\w/-]+)\.md\b", text)}
        named |= {f"{page}.html" for page in re.findall(r"""address\(["']([\w/-]+)["']\)""", text)}
    assert len(named) > 15
    assert not [page for page in named if not (site / page).is_file()]
    assert (site / "index.html").read_text().count(f'href="{SITE}') >= 1  # the canonical address


@pytest.fixture(scope="module")
def browser_page(site: Path, browser: Any) -> Iterator[tuple[Any, str]]:
    """Return a tab of a phone, and the address of the site on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(site))

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    Thread(target=server.serve_forever, daemon=True).start()
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    yield tab, f"http://127.0.0.1:{server.server_port}/"
    tab.close()
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_formulas_are_drawn_and_pages_fit_a_phone(
    site: Path, pages: dict[Path, _Reader], browser_page: tuple[Any, str]
) -> None:
    """No formula has an error, and no page is wider than the screen, but for what scrolls by itself."""
    tab, base = browser_page
    wanted = [path for path in pages if path.parent == site or "api" not in path.parts or path.stem.count(".") < 2]
    formulas = [path for path in wanted if 'class="formula' in path.read_text(encoding="utf-8")]
    wanted = [*formulas, *representative([path for path in wanted if path not in formulas], 25)]
    drawn = 0
    for path in wanted:
        tab.goto(base + path.relative_to(site).as_posix())
        seen = tab.evaluate(
            """() => ({
              formulas: document.querySelectorAll(".formula").length,
              drawn: document.querySelectorAll(".formula .katex").length,
              errors: [...document.querySelectorAll(".katex-error")].map((each) => each.title),
              wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
            })"""
        )
        assert seen["errors"] == [], path.name
        assert seen["drawn"] == seen["formulas"], path.name
        assert seen["wide"] <= 0, path.name
        drawn += seen["drawn"]
    assert drawn > 2_000


@pytest.mark.slow
def test_spelling() -> None:
    """Of all that people read; docs/words.txt has words that are right."""
    pytest.importorskip("codespell_lib")
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words", "docs/words.txt"]
    sources = [path for folder in ("src", "examples", "docs/extensions") for path in (_ROOT / folder).rglob("*.py")]
    files = [str(path.relative_to(_ROOT)) for path in (*_PAGES, *sources)]
    result = subprocess.run([*command, *files], cwd=_ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")
    wrong = subprocess.run([*command, "-"], input="teh\n", capture_output=True, text=True, check=False, cwd=_ROOT)
    assert "the" in wrong.stdout
