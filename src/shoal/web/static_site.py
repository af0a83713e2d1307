"""The page as a folder of files, for any web server: the strong clones in JavaScript, and proofs in the browser."""

import json
from pathlib import Path

from shoal.charts import Axis, Chart
from shoal.durable_file import whole_file
from shoal.errors import StorageError
from shoal.questions.explain import explain
from shoal.web.browser_proofs import browser_proofs
from shoal.web.page_files import page_files

__all__ = ["write"]

_SERVED = ("api.css", "offline.js", "prove.js", "prover.js")
"""Files that only a server has a use for, or that have another name or a condition in a folder."""
_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'"
_SERVER_FOOTER = '<a href="api">API</a> · Nothing leaves this machine.'
_PEOPLE, _DELTA = Axis("reports that are shuffled together", "log", 1.0, 1e12), Axis("δ", "log", 1e-20, 1e-2)
_EPSILON = Axis("central ε", "log", 1e-7, 20.0)


def write(folder: Path, pyodide: Path | None = None) -> None:
    """Write all files of the page into a folder, which is made if it is not there.

    Parameters
    ----------
    folder : Path
        Where to write.
    pyodide : Path, optional
        A folder with Pyodide and the wheel of python-flint for it, so that certificates are proved in the browser.
    """
    served = page_files()
    files = {name: content for name, content in served.items() if name not in _SERVED}
    proofs = {} if pyodide is None else browser_proofs(pyodide)
    if proofs:
        files |= {name: served[name] for name in ("prove.js", "prover.js")} | proofs
    files |= {
        "ask.js": served["offline.js"],
        "index.html": _opened(served["index.html"].decode(), proofs=bool(proofs)).encode(),
        "theorem.json": json.dumps(explain(name="strong-clones").facts, ensure_ascii=False, indent=1).encode(),
        "reports.svg": _frame(_PEOPLE, "the number of reports").encode(),
        "delta.svg": _frame(_DELTA, "δ").encode(),
    }
    for name, content in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the folder {path.parent}: {error.strerror}", error) from None
        with whole_file(path) as file:
            file.write(content)


def _opened(page: str, *, proofs: bool) -> str:
    """Return the page without a server: its own policy, no link to the API, and whether it can prove."""
    charset, language = '<meta charset="utf-8">', '<html lang="en">'
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    for old, new in (
        (charset, f"{charset}\n{policy}"),
        (language, f'{language[:-1]} data-proofs="{"yes" if proofs else "no"}">'),
        (_SERVER_FOOTER, "Everything is computed in this browser; nothing is sent anywhere."),
        ("Every number is a proven bound", "Every number is a proven bound, by the strong clones"),
    ):
        if page.count(old) != 1:
            raise AssertionError(f"index.html has changed: {old!r} is not there once")
        page = page.replace(old, new)
    return page


def _frame(axis: Axis, against: str) -> str:
    """Return a chart with one line and one mark, which the page moves."""
    chart = Chart(
        axis, _EPSILON, f"Central ε against {against}", "The guarantee along one parameter, the others fixed."
    )
    assert axis.low is not None and axis.high is not None
    chart.line([axis.low, axis.high], [1.0, 1.0], "strong-clones", kind="guarantee")
    chart.mark((axis.low * axis.high) ** 0.5, 1.0, "ε = 1.0000")
    return chart.svg()
