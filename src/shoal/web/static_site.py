"""The page as a folder of files, for any web server: the strong clones in JavaScript, and proofs in the browser."""

import io
import json
import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from shoal.charts import Axis, Chart
from shoal.durable_file import whole_file
from shoal.errors import ParameterError, StorageError
from shoal.questions.explain import explain
from shoal.web.page_files import page_files

_SERVED = ("api.css", "offline.js", "prove.js", "prover.js")
"""Files that only a server has a use for, or that have another name or a condition in a folder."""
_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'"
_SERVER_FOOTER = '<a href="api">API</a> · Nothing leaves this machine.'
_PEOPLE, _DELTA = Axis("reports that are shuffled together", "log", 1.0, 1e12), Axis("δ", "log", 1e-20, 1e-2)
_EPSILON = Axis("central ε", "log", 1e-7, 20.0)


def write(folder: Path, pyodide: Path | None = None) -> None:
    """Write all files of the page into a folder, which is made if it is not there.

    With `pyodide`, as `browser_proofs` takes it, certificates are proved in the browser.
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


_PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
_WHEEL = "python_flint-*wasm32.whl"
_PARTS = (
    "__init__.py", "assumptions.py", "charts", "digits.py", "documentation.py", "errors.py", "lazy_names.py", "proofs",
    "review", "shown.py", "strict_json.py",
)  # fmt: skip
_ADVICE = (
    "get both with `npm pack pyodide`, which is to be unpacked, and `pip download --no-deps --only-binary :all: "
    "--platform pyemscripten_2026_0_wasm32 --python-version 314 --implementation cp --abi cp314 python-flint`"
)


def browser_proofs(downloaded: Path) -> dict[str, bytes]:
    """Return the files for proofs in a browser, by their paths in the folder of the page.

    `downloaded` has Pyodide's files, in it or in its folder ``package``, and one wheel of python-flint.
    """
    folders = (downloaded, downloaded / "package")
    found: dict[str, bytes] = {}
    try:
        for name in _PYODIDE:
            path = next((folder / name for folder in folders if (folder / name).is_file()), None)
            if path is None:
                raise ParameterError(f"{downloaded} has no {name}; {_ADVICE}")
            found[f"pyodide/{name}"] = path.read_bytes()
        wheels = [path for folder in folders for path in folder.glob(_WHEEL)]
        if len(wheels) != 1:
            raise ParameterError(f"{downloaded} has {len(wheels)} files {_WHEEL}, and one is needed; {_ADVICE}")
        found["pyodide/flint.whl"] = wheels[0].read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {downloaded}: {error.strerror}", error) from None
    return found | {"pyodide/shoal.zip": proving_part()}


def proving_part() -> bytes:
    """Return the part of shoal that proves certificates as an archive, the same bytes each time.

    Examples
    --------
    >>> archive = zipfile.ZipFile(io.BytesIO(proving_part()))
    >>> "shoal/proofs/certificate.py" in archive.namelist()
    True
    """
    root, content = files("shoal"), io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in _PARTS:
            for path, data in _within(root.joinpath(part), part):
                archive.writestr(zipfile.ZipInfo(f"shoal/{path}"), data, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _within(part: Traversable, path: str) -> list[tuple[str, bytes]]:
    if not part.is_dir():
        return [(path, part.read_bytes())]
    inner = sorted(part.iterdir(), key=lambda each: each.name)
    return [row for each in inner if each.name != "__pycache__" for row in _within(each, f"{path}/{each.name}")]
