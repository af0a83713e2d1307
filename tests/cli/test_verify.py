"""The verb `verify`: one line, and an exit status that scripts can trust."""

import io
import json
from contextlib import redirect_stderr
from pathlib import Path

import pytest

import shoal
from shoal import progress
from shoal.cli import main


@pytest.fixture(scope="module")
def text() -> str:
    return shoal.amplify(local_epsilon=1, reports=200).certify(delta=1e-3).to_json()


def verified(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["verify", str(path), *more])
    return status, capsys.readouterr().out


def test_what_is_proved_is_said_in_one_line(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "proof.json"
    path.write_text(text)
    status, out = verified(path, capsys)
    assert status == 0
    proof = shoal.Certificate.from_json(text)
    assert out.startswith(f"{proof}. Assumed, not checked: (1) every randomizer is ε₀-DP; (2) ")
    assert all(str(each) in out for each in proof.claim.assumptions)
    assert out.count("\n") == 1
    status, out = verified(path, capsys, "--json")
    facts = json.loads(out)
    assert status == 0
    assert facts["proved"] is True
    assert facts["certificate"]["claim"]["reports"] == 200


@pytest.mark.parametrize(
    "edit",
    [
        ('"delta": 0.001', '"delta": 0.0001', "changed after it was written: delta"),
        ("every randomizer is ε₀-DP", "every randomizer is nice", "changed after it was written: assumptions"),
        ('"format": "shoal-certificate-5"', '"format": "other"', "neither a certificate nor a review"),
        ("{", "", "not a certificate"),
        ('"reports": 200', '"reports": 2000000', "changed after it was written"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    text: str, edit: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, said = edit
    path = tmp_path / "proof.json"
    path.write_text(text.replace(old, new))
    status, out = verified(path, capsys)
    assert status == 1
    assert out.startswith("not checked: " if "neither" in said else "not proved: ")
    assert said in out
    assert out.count("\n") == 1
    status, out = verified(path, capsys, "--json")
    assert status == 1
    facts = json.loads(out)
    assert facts.pop("checked") == ("neither" not in facts["wrong"])
    assert facts == {"proved": False, "wrong": facts["wrong"], "sentence": None, "certificate": None, "lines": None}


def test_a_theorem_that_is_false_is_not_proved(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dataclasses import replace

    honest = shoal.Certificate.from_json(text)
    forged = replace(honest, delta=1e-4, proven_delta=1e-4)  # with a digest of its own
    path = tmp_path / "forged.json"
    path.write_text(forged.to_json())
    status, out = verified(path, capsys)
    assert status == 1
    assert "is not proved: the balls show only at most" in out


def test_files_that_cannot_be_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "nothing.json")]) == 2
    assert "cannot read" in capsys.readouterr().err
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    assert verified(tmp_path / "bytes.json", capsys)[0] == 1
    (tmp_path / "long.json").write_text('{"format": "shoal-certificate-4"' + " " * 1_000_000)
    status, out = verified(tmp_path / "long.json", capsys)
    assert status == 1
    assert "at most 200,000" in out


@pytest.mark.slow
def test_verbs_write_certificates_that_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book, proof = tmp_path / "ledger.json", tmp_path / "proof.json"
    assert main(["ledger", "record", str(book), "--local-epsilon", "1", "--reports", "1e4"]) == 0
    capsys.readouterr()
    for verb in (
        ["amplify", "--local-epsilon", "1", "--reports", "100"],
        ["amplify", "--randomizer", "rappor", "--categories", "5", "--local-epsilon", "1", "--reports", "1e5"],
        ["compose", "--local-epsilon", "1", "--reports", "1e4", "--rounds", "30"],
        ["ledger", "show", str(book)],
        ["sgd", "--examples", "60_000", "--batch-size", "64", "--noise-multiplier", "16"],
    ):
        assert main([*verb, "--certificate", str(proof), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["certificate"] == str(proof)
        assert verified(proof, capsys)[0] == 0
        assert main([*verb, "--certificate", str(proof)]) == 0
        assert "proved in ball arithmetic" in capsys.readouterr().out


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.slow
def test_a_terminal_shows_how_long_a_proof_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    file = tmp_path / "proof.json"
    for command, words in (
        (f"amplify --local-epsilon 1 --reports 10_000 --certificate {file}", "proving in ball arithmetic: 0 s"),
        (f"verify {file}", "proving again in ball arithmetic: 0 s"),
    ):
        with redirect_stderr(_Terminal()) as terminal:
            assert main(command.split()) == 0
        assert words in terminal.getvalue()
        assert terminal.getvalue().endswith("\r\x1b[2K")
