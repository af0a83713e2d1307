"""The verbs of a search over the rounds of a task: `keygen lists`, `task heavy-hitters`, `analyst next`, `report`."""

import json
from pathlib import Path

import pytest

from shoal.collect.kinds.heavy_hitter_rounds import HeavyHitterRounds, PrefixList
from shoal.collect.task import Task
from tests.cli.commands import facts_of, refused, run
from tests.collect.small_server import Asked, Said, small_server

TASK = (
    "task heavy-hitters --question Which? --minimum 2000 --malicious 10 --epsilon 1 --bits 16 --first 8 --covers 3.5 "
    "--analyst-key analyst.pub --shuffler-key shuffler.pub --list-key lists.pub"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    for role in ("analyst", "shuffler", "lists"):
        facts_of(capsys, f"keygen {role}")
    return tmp_path


@pytest.mark.slow
def test_a_task_is_made_for_all_rounds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = facts_of(capsys, TASK)
    assert made["format"] == "shoal task 3" and made["names"] is None and made["hunt"]["bits"] == 16
    agreed = Task.read(folder / "task.json", pinned=made["id"])
    plan = HeavyHitterRounds.plan_of(agreed)
    assert plan.people == 1990 and plan.curve.epsilon(1e-6) <= 1
    assert agreed.central(2000).epsilon(1e-6) < made["epsilon_limit"] == 1
    assert "2 rounds, strings of 16 bits (bytes); lists are signed" in run(capsys, "task show task.json")[1]
    assert facts_of(capsys, "task show task.json")["hunt"] == made["hunt"]
    assert "there already" in refused(capsys, TASK.replace("Which", "What"))
    for changed, why in (
        (TASK.replace("--malicious 10", "--malicious 2000"), "minimum must be above malicious reports"),
        (TASK.replace("3.5", "3"), "fill must be below 1 in a task"),
        (TASK.replace("--bits 16", "--bits 15"), "bits must be a multiple of 8"),
        (TASK.replace("lists.pub", "analyst.pub"), "analyst.pub is no public key of the lists"),
    ):
        assert why in refused(capsys, f"{changed} --output other.json")


@pytest.mark.slow
def test_the_first_list_is_signed_charged_and_handed_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts_of(capsys, TASK)
    agreed, posts = Task.read(folder / "task.json"), list[Asked]()

    def answer(asked: Asked) -> Said:
        if asked.method == "POST":
            posts.append(asked)
            return Said(204 if asked.path.endswith("/list") else 201)
        if asked.path.endswith("/round"):
            return Said(body=b'{"round": 1, "closes": 2e9}')
        return Said(body=posts[0].body)

    paths = {"tls_certificate": folder / "shuffler-tls.crt", "tls_key": folder / "shuffler-tls.key"}
    with small_server(answer, paths) as server:
        address = f"--shuffler https://127.0.0.1:{server.port} --ca shuffler-tls.crt"
        command = (
            f"analyst next --task task.json --folder work --key lists.key --ledger ledger.json {address} "
            "--certificate analyst-tls.crt --certificate-key analyst-tls.key"
        )
        told = facts_of(capsys, command)
        assert (told["round"], told["rounds"], told["kept"], told["listed"]) == (1, 2, 1, 256)
        assert 0 < told["spent"] <= 1 and posts[0].body == (folder / "work/lists/1.json").read_bytes()
        assert PrefixList.verified(posts[0].body, agreed, 1, None).sha256 == told["sha256"]
        status, out, _ = run(capsys, command)
        assert status == 0 and out.startswith("round 1 of 2: its list is signed, and the shuffler has it")
        assert posts[1].body == posts[0].body and len(json.loads((folder / "ledger.json").read_text())["entries"]) == 1
        wrong = command.replace("lists.key", "shuffler.key")
        assert "not the private key that the task names for its lists" in refused(capsys, wrong)
        assert facts_of(capsys, f"report go --task task.json {address}")["round"] == 1
        assert len(posts[2].body) == 5 * 64
