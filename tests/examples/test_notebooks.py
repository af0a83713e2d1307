"""The notebooks run from the first cell to the last, and are kept without outputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from shoal.digits import rounded_up

_EXAMPLES = Path(__file__).parents[2] / "examples"
_NOTEBOOK = _EXAMPLES / "survey.ipynb"


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(_NOTEBOOK.read_text())["cells"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")


@pytest.mark.slow
def test_jupyter() -> None:
    """In a kernel of its own, as a reader runs it; every result shows itself as HTML."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(_NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [output["data"]["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert len(pages) == 6
    assert sum("<svg" in page for page in pages) == 5
    assert not any(output.output_type == "error" for output in shown)


@pytest.mark.slow
def test_marimo() -> None:
    """As a script: it prints what the sliders stand at, and that is the library's number, rounded up."""
    pytest.importorskip("marimo")
    result = subprocess.run(
        [sys.executable, _EXAMPLES / "budget_marimo.py"], capture_output=True, text=True, check=True, timeout=600
    )
    curve = shoal.amplify(local_epsilon=2, reports=10**5)
    assert f"One round has ε = {rounded_up(curve.epsilon(1e-6), 4)} at" in result.stdout
    assert f"30 have {rounded_up(curve.repeated(30).epsilon(1e-6), 4)}." in result.stdout
