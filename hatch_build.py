"""README.md as a package index shows it: its links and pictures lead to the repository, at the tag of this version."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Makes the links of README.md absolute; in a clone they are relative, so that they lead to the files beside it."""

    def update(self, metadata: dict) -> None:  # type: ignore[type-arg]
        """Add the text of README.md to the metadata."""
        root = Path(self.root)
        version = re.search(r'(?m)^__version__ = "(.+)"', (root / "src" / "shoal" / "__init__.py").read_text("utf-8"))
        assert version
        text = absolute((root / "README.md").read_text("utf-8"), root, metadata["urls"]["Repository"], f"v{version[1]}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, root: Path, repository: str, tag: str) -> str:
    """Return a text whose every relative link names the address of the file at a tag; a file must be there."""

    def address(link: re.Match[str]) -> str:
        picture, label, target = link.groups()
        path = root / target.partition("#")[0]
        if not path.exists():
            raise FileNotFoundError(f"README.md links to {target}, which is not there")
        kind = "raw" if picture else "tree" if path.is_dir() else "blob"
        return f"{picture}[{label}]({repository}/{kind}/{tag}/{target})"

    return _LINK.sub(address, text)
