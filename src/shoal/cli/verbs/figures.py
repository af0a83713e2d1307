"""The verb `figures`: the paper's figures, drawn again."""

from pathlib import Path

from shoal.cli.app import OTHER, app
from shoal.cli.options import Count, Json
from shoal.cli.output import print_json

__all__ = ["figures"]


@app.command(group=OTHER, help_epilogue="Example:  shoal figures tail --output figures")
def figures(*names: str, output: Path = Path("figures"), points: Count | None = None, json: Json = False) -> None:
    """Draw the figures of the paper, and our own: PNG, SVG, and the CSV behind each.

    Parameters
    ----------
    names
        which ones, such as tail or rounds-large; all of them, if none is named.
    output
        the folder to put them into.
    points
        how many points each curve has, if not as many as suit it.
    """
    from shoal.figures import draw

    files = [str(path) for path in draw(names or None, output=output, points=points)]
    if json:
        print_json(files)
    else:
        print("\n".join(files))
