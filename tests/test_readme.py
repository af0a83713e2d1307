"""The code of README and of the pages under docs runs, and prints what they say."""

import doctest
import itertools
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from shoal.cli import main

_ROOT = Path(__file__).parents[1]
_PAGES = ["README.md", *(path.relative_to(_ROOT).as_posix() for path in sorted((_ROOT / "docs").rglob("*.md")))]
_GENERATED = re.compile(r"docs/(reference/(api|commands)/|reference/changelog\.md|tutorials/)")
"""Pages that are there when the site is built: `tests/test_site.py` follows links to them."""
_NEEDS = {
    "docs/interop/dp-accounting.md": ("dp_accounting",),
    "docs/interop/frames.md": ("pandas", "polars", "pyarrow"),
    "docs/interop/jax-privacy.md": ("jax_privacy.batch_selection", "dp_accounting"),
    "docs/interop/opendp.md": ("opendp.prelude",),
    "docs/interop/scikit-learn.md": ("sklearn",),
    "docs/interop/spark.md": ("pyspark",),
}
"""What a page cannot run without: where it is not installed, the page is left out."""


_MAKES = "python -c "
"""How a line begins that makes up a file for the lines below it."""


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (_ROOT / page).read_text(), re.DOTALL)


def _commands(page: str) -> list[tuple[str, str]]:
    """Return every `$ shoal …` line of a page, and what makes files for them, with the output printed below it."""
    commands = []
    for block in _blocks(page, "console"):
        for part in re.split(r"(?m)^\$ ", block)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith(("shoal", _MAKES)):
                commands.append((command.split("#")[0].strip(), output))
    return commands


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        # tests/collect/test_spark.py counts the same way, and a second engine takes 20 seconds to start.
        pytest.param(page, marks=pytest.mark.exhaustive) if page.endswith("spark.md") else page
        for page in _PAGES
        if ">>>" in (_ROOT / page).read_text()
    ],
)
def test_python(page: str) -> None:
    for library in _NEEDS.get(page, ()):
        pytest.importorskip(library, reason=f"{library} is not installed")
    if page.endswith("spark.md") and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    results = doctest.testfile(str(_ROOT / page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.attempted > 1
    assert results.failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/training.md", "docs/how-to/ml-engineer.md"])
def test_torch(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The script that is not a dialogue runs as it stands."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (script,) = [block for block in _blocks(page, "python") if "torch" in block]
    exec(compile(script, page, "exec"), {})
    assert capsys.readouterr().out.startswith("Guarantee(ε=0.99")
    assert Path("training.shoal").exists()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in _PAGES if _commands(page)])
def test_commands(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One after the other, in one folder, as a reader would."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    colours = ("red", "green", "green", "blue", "blue", "blue", "black", "white")
    rows = "".join(f"{person},{colours[person % len(colours)]}\n" for person in range(20_000))
    Path("people.csv").write_text("person,colour\n" + rows)
    clients = "".join(f"{i % 7},{i % 5},{'yes' if i % 7 > i % 5 else 'no'}\n" for i in range(5_000))
    Path("clients.csv").write_text("age,income,buys\n" + clients)
    Path("words.csv").write_text("word\n" + "tram\n" * 5_000 + "bus\n" * 3_000)
    for command, output in _commands(page):
        if command.startswith(_MAKES):
            _made(command)
            continue
        assert main(shlex.split(command)[1:]) == 0, command
        printed = capsys.readouterr().out
        assert printed, command
        if output:
            assert _as_shown(printed, output), command


def _made(command: str) -> None:
    """Let a line make its file, in place of the one that was there for pages that have no such line."""
    path = Path(command.split(" > ")[1])
    assert path.exists()
    path.unlink()
    subprocess.run(command.replace("python", shlex.quote(sys.executable), 1), shell=True, check=True)
    assert len(path.read_text().splitlines()) > 5_000


@pytest.mark.slow
def test_the_trainings_of_readme(capsys: pytest.CaptureFixture[str]) -> None:
    """Each number is that of the neighbours that it is said to be of."""
    text = " ".join((_ROOT / "README.md").read_text().split())
    run = "sgd --examples 60_160 --batch-size 256 --noise-multiplier 1 --poisson --json"
    told = {}
    for adjacency, sampling in itertools.product(("replace", "zero-out"), ("allocation", "permutation")):
        assert main([*run.split(), "--adjacency", adjacency, "--sampling", sampling]) == 0
        told[adjacency, sampling] = json.loads(capsys.readouterr().out)
    replaced, zeroed = (math.ceil(1e4 * told[each, "allocation"]["epsilon"]) / 1e4 for each in ("replace", "zero-out"))
    assert f"ε = {replaced} at δ = 1e-6 if one example may be replaced (the default), and ε = {zeroed} if" in text
    permuted = told["zero-out", "permutation"]
    least, printed = math.floor(1e3 * permuted["best_possible"]) / 1e3, permuted["poisson"]["epsilon"]
    assert f"For zeroed examples no ε below {least} holds over a permutation" in text
    assert f"Poisson accounting prints {printed:.4f} for it" in text


def _as_shown(printed: str, shown: str) -> bool:
    """Tell whether a page shows what was printed; a line with an ellipsis stands for any lines."""
    return re.fullmatch("(?s:.*)".join(map(re.escape, shown.split("…\n"))), printed) is not None


def test_what_is_shown_is_compared() -> None:
    assert _as_shown("a\nb\nc\n", "a\n…\n")
    assert not _as_shown("b\nc\n", "a\n…\n")
    assert not _as_shown("a\nb\n", "a\n")


@pytest.mark.parametrize("page", _PAGES)
def test_links(page: str) -> None:
    """Every file that a page links to is there, and so is every heading."""
    path = _ROOT / page
    for target, heading in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", path.read_text()):
        if "://" not in target:
            linked = (path.parent / target).resolve() if target else path
            if _GENERATED.match(linked.relative_to(_ROOT).as_posix()):
                continue
            assert linked.exists(), target
            assert not heading or heading in _headings(linked), f"{target}#{heading}"


def _headings(path: Path) -> list[str]:
    """Return the names by which links reach the headings of a page."""
    titles = re.findall(r"(?m)^#+ (.+)$", path.read_text())
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def test_the_first_screen_of_readme_says_what_it_is_and_how_to_install_it() -> None:
    first = (_ROOT / "README.md").read_text().split("![", 1)[0].splitlines()
    assert len(first) < 35
    assert any("pip install" in line for line in first)


def test_the_tables_of_bounds_have_every_theorem() -> None:
    """What a page lists under "The bounds", and under methods of composition, is what the catalogue has."""
    tables = {
        "docs/amplification.md": [row.name for row in shoal.theorems("shuffling")],
        "docs/rounds.md": [row.name for row in shoal.theorems("composition")],
        "docs/training.md": [row.name for row in shoal.theorems("training")],
    }
    for page, names in tables.items():
        text = (_ROOT / page).read_text()
        (table,) = re.findall(r"(?m)^\| (?:bound|method) \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text)
        listed = [name for line in table.splitlines() for name in re.findall(r"`([\w-]+)`", line.split("|")[1])]
        assert sorted(listed) == sorted(names), page
