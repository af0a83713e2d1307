"""The verb `figures`: the paper's figures, drawn again."""

import sys
from pathlib import Path

import shoal
from shoal.cli.app import OTHER, app
from shoal.cli.options import Count, Json
from shoal.cli.output import print_json
from shoal.documentation import REPOSITORY
from shoal.errors import StorageError


@app.command(group=OTHER, help_epilogue="Example:  shoal figures tail --output drawn")
def figures(*names: str, output: Path = Path("drawn"), points: Count | None = None, json: Json = False) -> None:
    """Draw the figures of the paper, and our own: PNG, SVG, and the CSV behind each.

    The figures are in the repository, and not in what is installed: run this in a checkout.

    Parameters
    ----------
    names
        which ones, such as tail or rounds-large; all of them, if none is named.
    output
        the folder to put them into.
    points
        how many points each curve has, if not as many as suit it.
    """
    root = Path(shoal.__file__).parents[2]
    if not (root / "figures" / "gallery.py").is_file():
        raise StorageError(f"the figures are in the repository alone: git clone {REPOSITORY}, and install that")
    if str(root) not in sys.path:
        sys.path.append(str(root))
    from figures import draw

    files = [str(path) for path in draw(names or None, output=output, points=points)]
    if json:
        print_json(files)
    else:
        print("\n".join(files))
