"""One HTML page of what the demo made: it loads nothing from anywhere, and can be opened as a file, or mailed."""

import base64
from html import escape
from pathlib import Path
from urllib.parse import quote

import shoal
from examples.story import Chapter, Command, Step, Story

__all__ = ["write_page"]

_SHORT = 28
"""Lines that are shown as they are; longer output is folded."""


def write_page(story: Story, seconds: float) -> Path:
    """Write index.html into the folder of a story, with its pictures inside, and return where it is.

    Parameters
    ----------
    story : what was asked, run and drawn.
    seconds : how long it took.
    """
    page = story.folder / "index.html"
    page.write_text(_document(story, seconds), encoding="utf-8")
    return page


def _document(story: Story, seconds: float) -> str:
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    links = "".join(
        f'<a href="#chapter-{place}">{escape(chapter.title)}</a>' for place, chapter in enumerate(story.chapters)
    )
    chapters = "".join(_chapter(place, chapter) for place, chapter in enumerate(story.chapters))
    files = ", ".join(
        f'<a href="{quote(path.name)}">{escape(path.name)}</a>'
        for path in sorted(story.folder.iterdir())
        if path.is_file() and path.name != "index.html"
    )
    commands = sum(len(step.commands) for chapter in story.chapters for step in chapter.steps)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>shoal: what make demo made</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>What shuffling buys</h1>
<p>People randomize what they report, a shuffler mixes the reports, and an analyst sees them in random order. The
shuffle makes everybody more private than their own randomness does. shoal {escape(shoal.__version__)} says by how much,
with proofs, and runs the whole of it.</p>
<p>This page shows the {commands} commands that <code>make demo</code> has just run on this machine, in {seconds:.0f}
seconds. All people in it are made up.</p>
<nav>{links}</nav>
</header>
<main>
{chapters}</main>
<footer><p>Files beside this page: {files}.</p></footer>
</body>
</html>
"""


def _chapter(place: int, chapter: Chapter) -> str:
    steps = "".join(map(_step, chapter.steps))
    return f'<section id="chapter-{place}">\n<h2>{escape(chapter.title)}</h2>\n{steps}</section>\n'


def _step(step: Step) -> str:
    commands = "".join(map(_command, step.commands))
    return f"<article>\n<h3>{escape(step.sentence)}</h3>\n{commands}{_figure(step)}</article>\n"


def _command(command: Command) -> str:
    line = f'<pre class="command">{escape(command.line)}</pre>\n'
    output = command.output.strip("\n")
    if not output:
        return line
    lines = output.count("\n") + 1
    shown = f"<pre>{escape(output)}</pre>"
    if lines > _SHORT:
        first = escape(output.splitlines()[0])
        shown = f"<details><summary><code>{first}</code> and {lines - 1} lines more</summary>{shown}</details>"
    return f"{line}{shown}\n"


def _figure(step: Step) -> str:
    if step.picture is None:
        return ""
    data = base64.b64encode(step.picture.read_bytes()).decode("ascii")
    shows = escape(step.shows)
    return (
        f'<figure><img alt="{shows}" src="data:image/png;base64,{data}">'
        f"<figcaption>{shows} <code>{escape(step.picture.name)}</code></figcaption></figure>\n"
    )
