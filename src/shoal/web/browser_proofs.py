"""What a browser needs to prove certificates: Pyodide, python-flint for it, and the part of shoal that proves."""

import io
import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from shoal.errors import ParameterError, StorageError

__all__ = ["browser_proofs", "proving_part"]

_PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
_WHEEL = "python_flint-*wasm32.whl"
_PARTS = (
    "__init__.py", "assumptions.py", "charts", "digits.py", "errors.py", "folder_modules.py", "lazy_names.py",
    "numerals.py", "proofs", "review", "statements.py",
    "strict_json.py",
)  # fmt: skip
_ADVICE = (
    "get both with `npm pack pyodide`, which is to be unpacked, and `pip download --no-deps --only-binary :all: "
    "--platform pyemscripten_2026_0_wasm32 --python-version 314 --implementation cp --abi cp314 python-flint`"
)


def browser_proofs(downloaded: Path) -> dict[str, bytes]:
    """Return the files for proofs in a browser, by their paths in the folder of the page.

    Parameters
    ----------
    downloaded : Path
        A folder with Pyodide's files, in it or in its folder ``package``, and one wheel of python-flint.
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
