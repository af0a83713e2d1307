"""The part of shoal that goes into a browser proves every kind of claim by itself, without numpy."""

import io
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import shoal
from shoal.errors import ParameterError
from shoal.web.static_site import browser_proofs, proving_part

_ALONE = """
import json, sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "flint", "shoal"}:
            raise ImportError(f"{name} is not in the browser")
sys.meta_path.insert(0, Refused())
sys.path.insert(0, sys.argv[1])
import shoal
assert shoal.__file__.startswith(sys.argv[1])
from shoal.review.review_document import verdict
print(json.dumps([verdict(text)[0] for text in json.load(sys.stdin)]))
"""
_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")


@pytest.mark.slow
def test_every_kind_of_claim_is_proved_by_the_part_alone(tmp_path: Path) -> None:
    clones = shoal.amplify(local_epsilon=1, reports=10_000, bound="strong-clones")
    curves = [
        clones,
        shoal.amplify(local_epsilon=1, reports=10_000),
        shoal.amplify(shoal.RandomizedResponse(categories=4, local_epsilon=1), reports=1_000),
        shoal.amplify(shoal.OneBitMean(local_epsilon=1), reports=1_000),
        shoal.amplify(shoal.Laplace(local_epsilon=1), reports=1_000),
        shoal.amplify(shoal.MatrixRandomizer(np.array([[0.7, 0.3], [0.3, 0.7]])), reports=100),
        shoal.amplify(shoal.Covered(categories=3, fill=1), reports=1_000),
        shoal.amplify(shoal.Dummies(categories=3, epsilon=1, limit=30), reports=10),
        shoal.amplify(shoal.SplitAndMix(epsilon=1, honest=500, people=600, messages=12), reports=500),
        shoal.compose([(clones, 10)]),
    ]
    proofs = [curve.certify(delta=1e-6) for curve in curves]
    lies = [replace(proof, proven_delta=proof.proven_delta / 2).to_json() for proof in proofs]
    zipfile.ZipFile(io.BytesIO(proving_part())).extractall(tmp_path)
    texts = [proof.to_json() for proof in proofs] + lies
    command = [sys.executable, "-c", _ALONE, str(tmp_path)]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    assert [row["wrong"] for row in facts[: len(proofs)]] == [None] * len(proofs)
    assert [row["sentence"] for row in facts[: len(proofs)]] == [str(proof) for proof in proofs]
    assert all("is not proved: the balls show" in row["wrong"] for row in facts[len(proofs) :])


def test_the_archive_is_small_and_always_the_same() -> None:
    assert len(proving_part()) < 200_000
    assert proving_part() == proving_part()


@pytest.mark.slow
def test_downloads_are_looked_for_where_npm_puts_them(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for name in _FILES:
        (package / name).write_bytes(name.encode())
    with pytest.raises(ParameterError, match="has 0 files python_flint"):
        browser_proofs(tmp_path)
    (tmp_path / "python_flint-0.9.0-cp314-cp314-pyemscripten_2026_0_wasm32.whl").write_bytes(b"wheel")
    found = browser_proofs(tmp_path)
    assert found["pyodide/flint.whl"] == b"wheel"
    assert {name: found[f"pyodide/{name}"] for name in _FILES} == {name: name.encode() for name in _FILES}
    (package / "pyodide.asm.wasm").unlink()
    with pytest.raises(ParameterError, match=r"has no pyodide\.asm\.wasm; get both"):
        browser_proofs(tmp_path)
