"""The verbs: what they print, their JSON, their pictures, their exit status."""

import ast
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import shoal
from shoal.cli import main, spelled
from shoal.cli.app import loaded
from shoal.documentation import SITE
from tests.cli.commands import refused, run
from tests.cli.verbs import options, verbs

_KEYS = {
    "proven",
    "randomizer",
    "rounds",
    "epsilon", "epsilon_bracket", "best_possible", "delta", "local_epsilon", "local_delta", "reports", "bound",
    "theorem", "assumptions", "amplified", "certified",
}  # fmt: skip


@pytest.mark.slow
def test_amplify_prints_what_the_library_says(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "amplify --local-epsilon 1 --reports 10_000 --json")
    facts = json.loads(out)
    assert status == 0
    assert facts["reports"] == 10_000
    assert facts == shoal.amplify(local_epsilon=1, reports=10_000).to_dict(delta=1e-6)
    assert set(facts) == _KEYS


@pytest.mark.slow
def test_amplify_certifies_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "curve.png"
    status, out, _ = run(capsys, f"amplify --local-epsilon 1 --reports 1e4 --certify --plot {picture}")
    assert status == 0
    assert "proved in ball arithmetic" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_it_runs_as_a_module() -> None:
    result = subprocess.run([sys.executable, "-m", "shoal", "--version"], capture_output=True, check=True, text=True)
    assert result.stdout == f"{shoal.__version__}\n"


def test_shells_can_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for _ in range(2):
        assert run(capsys, "--install-completion --shell bash")[0] == 0
    (loader,) = [line for line in (tmp_path / ".bashrc").read_text().splitlines() if not line.startswith("#")]
    words = {"amp": "amplify", "led": "ledger", "ledger rec": "record", "amplify --local-d": "--local-delta"}
    for typed, expected in words.items():
        parts = ["shoal", *typed.split()]
        asked = f"COMP_WORDS=({' '.join(parts)}); COMP_CWORD={len(parts) - 1}; _shoal; echo ${{COMPREPLY[@]}}"
        script = f"{loader}\n{asked}"
        result = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
        assert result.stdout.split() == [expected]


def _in_ascii(command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Return the exit status of a command on a terminal that has ASCII alone, and what it prints there."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        status = main(command.split())
        for stream in streams:
            stream.flush()
    out, error = (stream.buffer.getvalue().decode("ascii") for stream in streams)
    return status, out, error


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["amplify --local-epsilon 1 --reports 9", "explain", "amplify --help"])
@pytest.mark.parametrize("extra", ["", " --json"])
def test_terminals_without_greek_letters(verb: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, error = _in_ascii(verb + extra, monkeypatch)
    assert (status, error) == (0, "")
    assert "?" not in out


def test_greek_letters_are_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = _in_ascii("amplify --local-epsilon 1 --reports 10_000", monkeypatch)
    assert out.startswith("epsilon = 0.0409509 at delta = 1e-06\n")
    assert "10,000 shuffled reports, each epsilon0 = 1\n" in out
    _, _, error = _in_ascii("calibrate --epsilon 1", monkeypatch)
    assert "(to get the largest epsilon0)" in error


@pytest.mark.slow
def test_every_sign_of_the_program_can_be_spelled() -> None:
    """Whatever may be printed is in a string of the source; one letter is there to show what cannot be spelled."""
    package = Path(shoal.__file__).parent
    signs = {
        sign
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for sign in node.value
    }
    assert {sign for sign in signs if not sign.isascii() and "?" in spelled(sign)} == {"中", "\ufffd"}


@pytest.mark.slow
def test_ctrl_c_while_libraries_are_loaded(tmp_path: Path) -> None:
    # Nobody writes into this pipe, so that the command still runs if the signal is late.
    certificate = tmp_path / "certificate.json"
    os.mkfifo(certificate)
    command = [sys.executable, "-X", "importtime", "-m", "shoal", "verify", str(certificate)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "cyclopts" in line:  # which is loaded after the command line itself, and before everything else
                break
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait() == 130
    assert "Traceback" not in said
    assert said.endswith("shoal: interrupted\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_under_the_output() -> None:
    command = [sys.executable, "-m", "shoal", "explain"]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, text=True)
    assert result.returncode == 2
    assert result.stderr == (
        "shoal: cannot print the result: No space left on device; free some space, or send it elsewhere\n"
    )


def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "help") == run(capsys, "--help")
    assert run(capsys, "help amplify") == run(capsys, "amplify --help")
    assert run(capsys, "help")[0] == 0


def test_help_explains_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "amplify --help")
    assert "how many reports are shuffled together" in " ".join(out.replace("│", " ").split())
    _, out, _ = run(capsys, "compose --help")
    assert "how rounds are added up: pld, renyi, advanced" in " ".join(out.replace("│", " ").split())
    for path, verb in verbs().items():
        for option in options(verb):
            assert option.parameter.help, (path, option.name)


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for path, verb in verbs().items():
        if any(option.required for option in options(verb)):
            words = " ".join(path)
            error = refused(capsys, words)
            what = r"(--\S+ with a value|[A-Z]+|a file, .*)\. (With 0 .*)?"
            told = rf"shoal: shoal {words} needs {what}Try: shoal {words} --help\n"
            assert re.fullmatch(told, error), error


def test_assumptions_are_shown_beside_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    out = " ".join(run(capsys, "amplify --local-epsilon 1 --reports 10_000")[1].split())
    for assumption in shoal.amplify(local_epsilon=1, reports=10_000).assumptions:
        assert str(assumption) in out
    out = " ".join(run(capsys, "compare --local-epsilon 1 --reports 10_000")[1].split())
    for curve in shoal.compare(local_epsilon=1, reports=10_000, delta=1e-6):
        if isinstance(curve, shoal.PrivacyCurve):
            for assumption in curve.assumptions:
                assert str(assumption) in out
    assert "(girgis, blanket-bennett, blanket-hoeffding)" in out


def test_amplify_says_when_nothing_is_amplified(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "amplify --local-epsilon 30 --reports 100")
    assert status == 0
    assert "no amplification: this ε is not below that of one report alone by more than a millionth" in (
        " ".join(out.split())
    )


def test_sgd_does_not_say_what_any_order_has(capsys: pytest.CaptureFixture[str]) -> None:
    """The plain bound may be the smallest one although the true ε of a permutation is smaller."""
    arguments = "sgd --examples 640 --batch-size 64 --noise-multiplier 0.4 --delta 1e-5 --sampling permutation"
    status, out, _ = run(capsys, arguments)
    assert status == 0
    assert "none proved: the plain bound, which holds for any order, is the smallest one here" in " ".join(out.split())


def test_calibrate_answers_both_questions(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "calibrate --epsilon 1 --reports 10_000 --json")
    assert status == 0
    assert json.loads(out)["epsilon"] <= 1
    status, out, _ = run(capsys, "calibrate --epsilon 0.1 --local-epsilon 4")
    assert status == 0
    assert out.startswith("reports = 136,722")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "amplify --local-epsilon 1 --reports 1000",
        "compose --local-epsilon 1 --reports 1000 --rounds 3",
        "calibrate --epsilon 1 --reports 1000",
        "sum ages.csv --column age --lower 0 --upper 9 --epsilon 5",
        "randomize ages.csv --column age --categories 10 --mechanism rappor --local-epsilon 1 --output r.shoal",
    ],
)
def test_svg_needs_no_matplotlib(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ages.csv").write_text("age\n" + "3\n" * 500)
    if command.startswith("randomize"):  # the picture is that of the next verb
        assert run(capsys, command)[0] == 0
        command = "estimate r.shoal"
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, error = run(capsys, f"{command} --plot picture.svg")
    assert (status, error) == (0, "")
    assert ElementTree.fromstring(Path("picture.svg").read_bytes()).tag.endswith("svg")
    status, _, error = run(capsys, f"{command} --plot picture.png")
    assert (status, "drawing needs matplotlib" in error) == (2, True)


@pytest.mark.slow
def test_compare_lists_the_tightest_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "compare.svg"
    status, out, _ = run(capsys, f"compare --local-epsilon 2 --reports 1e6 --categories 50 --json --plot {picture}")
    rows = json.loads(out)
    assert status == 0
    assert [row["epsilon"] for row in rows] == sorted(row["epsilon"] for row in rows)
    assert rows[0]["bound"] == "blanket"
    assert rows[0]["best_possible"] <= rows[0]["epsilon"]
    assert {row["amplified"] for row in rows if row["proven"]} <= {True, False}
    assert "<svg" in picture.read_text()
    status, out, _ = run(capsys, "compare --local-epsilon 2 --reports 1e6")
    assert "(best possible)" in out


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_address_is_broken(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in ("amplify --local-epsilon 1 --reports 1e4", "compare --local-epsilon 4 --reports 1e6", "explain"):
        status, out, _ = run(capsys, command)
        pages = re.findall(rf"^(.*): ({SITE}\S*)$", out, re.MULTILINE)
        assert status == 0 and ("Theorem N", f"{SITE}theory/tighter.html") in pages
        assert out.count("://") == len(pages) == len(set(pages))
        assert all(page.endswith(".html") for _, page in pages)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("amplify --reports ten --local-epsilon 1", 2, "reports must be a number"),
        ("amplify --reports 10", 2, "needs --local-epsilon"),
        ("amplify --reports 10 --local-epsilon", 2, "--local-epsilon"),
        ("amplify --reports -5 --local-epsilon 1", 2, "reports must be at least 1"),
        ("amplify --reports 1.5 --local-epsilon 1", 2, "whole number"),
        ("amplify --reports 10 --local-epsilon -1", 2, "--local-epsilon must be at least 0"),
        ("amplify --reports 10 --local-epsilon nan", 2, "NaN"),
        ("amplify --reports 10 --local-epsilon 1 --delta 1", 2, "delta must be"),
        ("amplify --reports 10 --local-epsilon 1 --bound best", 2, "strong-clones"),
        ("amplify --reports 10 --local-epsilon 1 --colour red", 2, "--colour"),
        ("amplify --reports 1000 --local-epsilon 9 --bound clones-closed-form", 2, "1,970,905 reports"),
        ("amplify --reports 10 --local-epsilon 1 --plot /nowhere/at/all.png", 2, "a folder that exists"),
        ("amplify --reports 10 --local-epsilon 1 --plot picture.xyz", 2, ".png"),
        ("amplify --reports 10 --local-epsilon 1 --local-delta 1e-3 --delta 1e-9", 1, "use a larger delta"),
        ("calibrate --epsilon 1e-30 --delta 1e-9 --local-epsilon 5", 1, "no number of reports"),
        ("amplify --reports 10 --local-epsilon 1 --randomizer coin --categories 9", 2, "hadamard-response"),
        ("amplify --reports 10 --local-epsilon 1 --randomizer coin", 2, "must be one of gaussian, hadamard-response"),
        ("compare --reports 10 --local-epsilon 1 --randomizer rappor", 2, "needs --categories"),
        ("amplify --reports 10_000 --local-epsilon 1 --bound clones-sharp-form --certify", 2, "it is a formula"),
        ("amplfy", 2, "Try: shoal --help"),
        ("keygen analyst extra", 2, "shoal keygen analyst takes no extra. Try: shoal keygen analyst --help"),
        ("amplify --reports 10 --local-epsilon 0 --plot nothing.png", 2, "--local-epsilon must be greater than 0"),
        ("amplify --reports 10 --local-epsilon 1 --bound clone", 2, "did you mean clones?"),
        (
            "amplify --reports 10 --local-epsilon 1 --randomizer randomised-response",
            2,
            "did you mean randomized-response?",
        ),
        ("explain gausian-clones", 2, "did you mean gaussian-clones?"),
        ("figures tails", 2, "did you mean tail?"),
        ("sgd --examples 10 --noise-multiplier 1 --sampling Permutation", 2, "did you mean permutation?"),
        ("ledger show", 2, "shoal ledger show needs FILE."),
        (
            "amplify --reports 10 --local-epsilon 1 --certificate /dev/null",
            2,
            "cannot write /dev/null: it is not a file",
        ),
        (
            "randomize no.csv --column c --categories red --mechanism x --local-epsilon 1 --output r",
            2,
            "no.csv does not exist",
        ),
        ("simulate no.csv --column c --categories red --mechanism x --local-epsilon 1", 2, "no.csv does not exist"),
        ("calibrate --epsilon 1", 2, "give either --reports (to get the largest ε₀) or --local-epsilon"),
        ("calibrate --epsilon 1 --reports 5 --local-epsilon 1 --rounds 3", 2, "give either --reports"),
        ("calibrate --reports 5", 2, "give the central guarantee that must hold, such as --epsilon 1"),
        ("calibrate --epsilon 1 --reports 5 --rounds 0", 2, "--rounds must be at least 1"),
        ("calibrate --reports 5 --ledger nothing.json", 2, "nothing.json does not exist"),
        ("plan --categories 5 --reports 50", 2, "give the central guarantee that must hold, such as --epsilon 1"),
        ("plan --categories 5 --reports 50 --epsilon 1 --rounds 1.5", 2, "--rounds must be a whole number"),
        ("compose --reports 5 --local-epsilon 1 --rounds 9 --epsilon 1 --method renyi", 2, "need --method pld"),
        ("compose --table rounds.csv --start 2026-01-01", 2, "leave out --start"),
        ("compose --reports 5 --local-epsilon 1 --start 2026-13-01", 2, "into date; write it as 2026-01-31"),
        ("amplify --local-epsilon 1 --report 100", 2, "shoal: there is no --report; did you mean --reports? Try: "),
        ("amplify --nothing --local-epsilon 1", 2, "shoal: there is no --nothing. Try: shoal amplify --help"),
        ("amplify --local-epsilon one --reports 10", 2, "shoal: --local-epsilon must be a number"),
        (
            "sgd --examples 100 --batch-size 200 --noise-multiplier 1",
            2,
            "shoal: --batch-size must be at most --examples 100, got 200",
        ),
        ("explain foo", 2, "shoal: NAME must be one of one-bit, "),
        ("explain strong", 2, "did you mean strong-clones?"),
    ],
)
def test_bad_usage_gets_one_line(arguments: str, status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refused(capsys, arguments, status)


@pytest.mark.slow
def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m shoal compare --local-epsilon 1 --reports 1e4 --json | head -c 5"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, check=False)
    assert result.returncode == 0
    assert result.stderr == b""


def test_the_overview_lists_what_the_verbs_themselves_would(capsys: pytest.CaptureFixture[str]) -> None:
    """Every letter of it, though it has read the verbs and imported none."""
    assert run(capsys, "--help")[1] == (listed := run(capsys, "")[1])
    loaded()(["--help"], exit_on_error=False, result_action="return_value")
    assert capsys.readouterr().out == listed
    assert listed.count("\n") > 30


@pytest.mark.slow
def test_an_overview_loads_no_library_but_its_own() -> None:
    """Nor a verb, so that help is there at once: numbers are for those who ask for some."""
    asked = "main([]); main(['--help']); main(['--version'])"
    script = f"import sys; from shoal.cli import main; {asked}; print(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, encoding="utf-8")
    modules = set(run.stderr.split())
    assert not modules & {"numpy", "flint", "cryptography", "markdown_it", "shoal.mechanisms", "shoal.curve"}
    assert {name for name in modules if name.startswith("shoal.cli.verbs")} <= {"shoal.cli.verbs"}


def test_a_plan_for_hardly_anybody_says_that_it_is_useless(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, error = run(capsys, "plan --categories 5 --reports 1 --epsilon 0.001")
    assert status == 2
    assert "a report alone is hidden by nobody" in error
    status, out, _ = run(capsys, "plan --categories 5 --reports 20_000 --epsilon 0.5")
    rows = [line for line in out.splitlines() if re.match(r"[a-z-]+ +\d", line)]
    assert len(rows) == 8 and all(row.endswith(("ms", "s", "–")) for row in rows)
    assert "–                not measured" in out
    status, out, _ = run(capsys, "plan --categories 5 --reports 2 --epsilon 0.001")
    assert status == 0
    assert out.startswith("5 categories, 2 shuffled reports, central ε ≤ 0.001 at δ = 1e-06\n")
    assert "0.00100001" not in out
    out = " ".join(out.split())
    assert "this says nothing about a single category" in out
    assert "more than a category would have if all were equal, 1/5 = 0.2; about " in out


@pytest.mark.slow
def test_a_plan_does_not_replace_what_is_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, plan = tmp_path / "people.csv", tmp_path / "plan.json"
    data.write_text("person,colour\n")
    asked = ["plan", "--categories", "2", "--reports", "1e6", "--epsilon", "0.01", "--output"]
    assert main([*asked, str(data)]) == 2
    assert "is no plan" in capsys.readouterr().err
    assert data.read_text() == "person,colour\n"
    for _ in range(2):
        assert main([*asked, str(plan)]) == 0
    assert json.loads(plan.read_text())["schema"]["mechanism"] == "randomized-response"
