"""The limit of what a file may cost: it is counted, and what is counted is what it costs."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

import shoal
from benchmarks.hostile_files import HOSTILE_FILES
from shoal.proofs.balls import precision
from shoal.proofs.certificate import MOST_BYTES
from shoal.proofs.claim import _CLAIMS
from shoal.proofs.work import MOST_WORK, _account, keep, limited, room, spend, transient
from shoal.review.review_document import Review
from shoal.review.statement import Section, Statement
from tests.exhaustive import representative

_SECONDS, _MEGABYTES = 60, 500
"""Limits of CPU time and memory for any file."""


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_counted_work_is_what_a_hostile_file_takes(name: str) -> None:
    """With a part of the limit, a file takes at most this part of the time that any file may take."""
    part = 1 / 300
    taken = []
    for _ in range(3):  # other programs slow this one down
        certificate = HOSTILE_FILES[name]()
        start = time.process_time()
        with limited(part * MOST_WORK):
            assert certificate.objection()
        taken.append(time.process_time() - start)
        if taken[-1] < part * _SECONDS:
            return
    pytest.fail(f"{min(taken)} s")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", representative(["a large table", "many kinds, many nodes", "few cells, no smoothing"], 1)
)
def test_a_hostile_file_is_refused_within_the_limits(name: str) -> None:
    command = [sys.executable, "-m", "benchmarks.hostile_files", name]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, megabytes = answer.split(" characters ")[1].replace(",", "").split()[0:3:2]
    assert "it cannot be carried out: this proof takes more" in answer or "is not proved" in answer
    assert float(seconds) < _SECONDS
    assert float(megabytes) < _MEGABYTES


def test_all_certificates_of_a_review_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = shoal.amplify(local_epsilon=1, reports=10_000).certify(delta=1e-6)
    with limited():
        assert certificate.verify()
        spent = MOST_WORK - _account.work
    section = Section("What is proved", (Statement("proved", "ε holds."),))
    review = Review("A page", shoal.__version__, (section,), (certificate.to_json(),) * 4)
    assert "no certificate proves what is marked" in review.objection()
    monkeypatch.setattr("shoal.review.review_document.limited", lambda: limited(2.5 * spent))
    assert "certificate 3 of the review: it cannot be carried out" in review.objection()


def test_more_bits_cost_more() -> None:
    with precision(320), limited(10), pytest.raises(shoal.errors.RangeError, match="more work"):
        spend(6)
    with precision(64), limited(10):
        spend(10)


def test_memory_is_limited_and_caches_leave_some_of_it() -> None:
    with limited():
        for _ in range(100):
            with transient():
                keep(1_500_000)
        assert room(1_500_000)
        assert not room(1_500_000)
        with pytest.raises(shoal.errors.RangeError, match="more memory"):
            keep(1_500_000)


def test_the_page_on_certificates_states_these_limits() -> None:
    page = (Path(__file__).parents[2] / "docs/theory/certificates.md").read_text(encoding="utf-8")
    assert f"A text of more than {MOST_BYTES:,} characters is not read" in page
    assert _SECONDS == 60
    assert f"within a minute of CPU time and {_MEGABYTES} MB" in page
    reasons = page.partition("## 9. Why an accepted certificate is true")[2].partition("## 10.")[0]
    for name, claim in _CLAIMS.items():
        assert not claim.__module__.startswith("shoal.") or f"`{name}`" in reasons, "every kind has a paragraph"
