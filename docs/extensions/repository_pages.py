"""Pages of the site that are files of the repository: the changelog."""

import re
from pathlib import Path

from sphinx.application import Sphinx

from shoal.documentation import REPOSITORY

_ROOT = Path(__file__).parents[2]


def _changelog() -> str:
    """Return the changelog, with pages that it names as links."""
    text = (_ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    text = re.sub(r"(?<!\()\bdocs/([\w/-]+\.md)\b", r"[\1](/\1)", text)
    return re.sub(r"\]\((?!https?://|/|#)([^)]+)\)", rf"]({REPOSITORY}/blob/main/\1)", text)


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    (folder / "changelog.md").write_text(_changelog(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for pages."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
