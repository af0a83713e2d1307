"""The verb `heavy-hitters`: files of strings, and simulations beside the truth."""

from pathlib import Path

import pytest

from tests.cli.commands import facts_of, refused, run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with data: of 8,000 people 3,000 say hello, 2,500 help, 2,000 world; nobody else the same."""
    monkeypatch.chdir(tmp_path)
    rows = ["hello"] * 3000 + ["help"] * 2500 + ["world"] * 2000 + [f"x{number}" for number in range(500)]
    Path("data.csv").write_text("word,number\n" + "".join(f"{word},{len(word)}\n" for word in rows))
    Path("names.txt").write_text("hello\nworld\n")
    return tmp_path


@pytest.mark.slow
def test_strings_of_a_file_are_found_with_real_coins(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The three strings are more than 15 deviations above the threshold, and 500 apart: 4 of their errors."""
    facts = facts_of(capsys, "heavy-hitters data.csv --column word --epsilon 2 --bits 40 --output found.csv")
    assert set(facts["item"]) == {"hello", "help", "world"}
    assert facts["central"]["epsilon"] <= 2
    assert "private" not in facts
    assert Path("found.csv").read_text().startswith("item,count,standard_error,lower,upper\n")
    status, out, _ = run(capsys, "heavy-hitters data.csv --column word --epsilon 2 --bits 40 --top 1 --plot found.png")
    assert status == 0
    told = " ".join(out.split())
    for words in ("hello", "and 2 more", "if shuffler and analyst collude, what remains is next to nothing", "ε = 1.9"):
        assert words in told
    assert Path("found.png").exists()
    asked = "heavy-hitters data.csv --column word --epsilon 2 --bits 32 --code hash --names names.txt"
    hashed = facts_of(capsys, asked)
    assert {"hello", "world"} < set(hashed["item"])
    assert (
        facts_of(capsys, "heavy-hitters data.csv --column number --epsilon 2 --bits 16 --code numbers")["item"][0]
        == "5"
    )


@pytest.mark.slow
def test_strings_that_may_be_cut_and_bare_hashes_are_explained(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, told in (
        ("--bits 40", "2 of them have 5 bytes, and may be beginnings of longer ones; --bits 64 counts 8, and --code"),
        ("--bits 32 --code hash", "these are hashes; give --names"),
        ("--bits 32 --code hash --names names.txt", None),
        ("--bits 48", None),
    ):
        _, out, _ = run(capsys, f"heavy-hitters data.csv --column word --epsilon 2 {options}")
        text = " ".join(out.split())
        assert told in text if told else "longer ones" not in text and "these are hashes" not in text
        assert "one and 1 cover on average" in text
    _, one, _ = run(capsys, "heavy-hitters data.csv --column number --epsilon 2 --bits 16 --code numbers")
    assert "rounds together" not in one and "ε = 1.9" in one


@pytest.mark.slow
def test_a_simulation_says_how_it_fares_and_that_it_is_not_private(capsys: pytest.CaptureFixture[str]) -> None:
    made = "heavy-hitters --simulate --people 20000 --bits 24 --epsilon 1"
    facts = facts_of(capsys, made)
    assert facts == facts_of(capsys, made)
    assert facts["private"] is False
    assert 10 < facts["expected"] == pytest.approx(facts["expected_found"], abs=2)
    assert facts["false"] == 0
    assert "not private" in run(capsys, made)[1]


@pytest.mark.slow
def test_what_cannot_be_run_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("gaps.csv").write_text("word,other\nhello,1\n,2\n")
    Path("bytes.txt").write_bytes(b"\xff\xfe\n")
    for command, told in (
        ("heavy-hitters --epsilon 1", "either a data file"),
        ("heavy-hitters data.csv --column word --people 9 --epsilon 1", "either a data file"),
        ("heavy-hitters --people 9 --epsilon 1", "--simulate"),
        ("heavy-hitters data.csv --epsilon 1", "--column"),
        ("heavy-hitters no.csv --column word --epsilon 1", "does not exist"),
        ("heavy-hitters gaps.csv --column word --epsilon 1", "row 2 (line 3): column 'word' is empty"),
        ("heavy-hitters data.csv --column word --epsilon 1 --code numbers", "no whole numbers"),
        ("heavy-hitters data.csv --column word --epsilon 1 --bits 20", "multiple of 8"),
        ("heavy-hitters data.csv --column word --epsilon 1 --bits 7", "bits must be at least 8 and at most 64"),
        ("heavy-hitters data.csv --column word --epsilon 1 --bits 1e9", "bits must be at least 8 and at most 64"),
        ("heavy-hitters data.csv --column word --epsilon 1 --covers 65", "covers must be at most 64, got 65"),
        ("heavy-hitters data.csv --column word --epsilon 1 --code hash --names no.txt", "cannot read no.txt"),
        ("heavy-hitters data.csv --column word --epsilon 1 --code hash --names bytes.txt", "no text in UTF-8"),
        ("heavy-hitters --simulate --people 1e12 --epsilon 1", "people must be at least 1 and at most 100,000,000"),
        ("heavy-hitters data.csv --column word --epsilon 1 --names names.txt", "hash"),
        ("heavy-hitters data.csv --column word --epsilon 1e-3", "too few"),
        ("heavy-hitters data.csv --column word --epsilon 1 --output found.txt", "output must be"),
    ):
        assert told in refused(capsys, command, status=1 if "too few" in told else 2), command
