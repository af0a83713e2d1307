"""The verdict on a file has three states: proved, wrong, and not checked."""

import json

import numpy as np
import pytest

import shoal
from shoal.review.review_document import verdict

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
def test_fields_may_be_in_any_order() -> None:
    """Sorted by another program, the format of a long claim is far from the beginning."""
    rows = np.random.default_rng(1).dirichlet(np.ones(20), 12)
    proof = shoal.amplify(shoal.MatrixRandomizer(rows), reports=200, bound="blanket").certify(delta=1e-6)
    content = json.loads(proof.to_json())
    facts, _ = verdict(json.dumps(content, sort_keys=True, indent=2))
    assert (facts["proved"], facts["checked"]) == (True, True)
    facts, _ = verdict(json.dumps(content | {"delta": 1e-7}, sort_keys=True, indent=2))
    assert (facts["proved"], facts["checked"]) == (False, True)
