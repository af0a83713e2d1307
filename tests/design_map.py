"""The map in docs/design.md: every module with the first sentence of its docstring, the layers from below upward.

`python -m tests.design_map` writes it; a test compares it with the tree.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PAGE = ROOT / "docs" / "design.md"
_BLOCK = re.compile(r"(?ms)^    src/shoal/\n.*?(?=^    tests/)")
_COLUMN = 38


def drawn() -> str:
    """Return the map as the tree is now."""
    lines = ["    src/shoal/", *(_line(*entry) for entry in _entries(ROOT / "src" / "shoal", 1))]
    return "".join(f"{line}\n" for line in lines)


def shown() -> str:
    """Return the map as docs/design.md has it."""
    match = _BLOCK.search(_PAGE.read_text())
    assert match is not None, "docs/design.md has no map"
    return match[0]


def _line(depth: int, name: str, sentence: str) -> str:
    start = f"{'  ' * (depth + 2)}{name}"
    return f"{start:{_COLUMN}}{' ' if len(start) >= _COLUMN else ''}{sentence}".rstrip()


def _entries(folder: Path, depth: int) -> Iterator[tuple[int, str, str]]:
    """Yield depth, name and first sentence of what is in a folder."""
    children = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    for path in sorted(children, key=lambda path: (_height(path) if depth == 1 else 0, path.is_dir(), path.name)):
        if path.is_dir():
            yield depth, f"{path.name}/", _sentence(path / "__init__.py")
            yield from _entries(path, depth + 1)
        elif path.name != "__init__.py" or depth == 1:
            yield depth, path.name, _sentence(path)


def _height(path: Path) -> int:
    """Return how high a module or folder stands among the layers, the lowest first."""
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    name = f"shoal.{path.stem}"
    heights = [index for index, layer in enumerate(reversed(layers)) if name in re.split(r" [|:] ", layer)]
    return heights[0] if heights else -1


def _sentence(path: Path) -> str:
    """Return the first sentence of a module, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return re.split(r"(?<=[.])\s", text.split("\n\n")[0].replace("\n", " "))[0].rstrip(".")


if __name__ == "__main__":
    _PAGE.write_text(_BLOCK.sub(lambda _: drawn(), _PAGE.read_text()))
