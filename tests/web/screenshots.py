"""Screenshots of every panel, at two widths and in both schemes, for docs/web.

Usage: python -m tests.web.screenshots [--folder docs/web]
"""

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.web.page import running

_PANELS = ("guarantee", "backwards", "histogram?hidden=both", "rounds", "training?noise_multiplier=4", "verify")
_WIDTHS = (1200, 360)
_COLOURS = 48
"""Of a picture: it is small, and nothing of it is a photograph."""


def main(arguments: list[str] | None = None) -> int:
    """Take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.web.screenshots", description="Screenshots of the page.")
    parser.add_argument("--folder", type=Path, default=Path("docs/web"))
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    with running() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width in _WIDTHS:
            for scheme in ("light", "dark"):
                context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
                tab = context.new_page()
                for panel in _PANELS:
                    name = panel.partition("?")[0]
                    tab.goto(f"http://127.0.0.1:{server.port}/#{panel}")
                    tab.locator(f"#{name} {'.drop' if name == 'verify' else '.number'}").wait_for(timeout=120_000)
                    if name != "verify":
                        tab.locator(f"#{name} figure svg").last.wait_for(timeout=120_000)
                    tab.wait_for_load_state("networkidle")
                    image = Image.open(io.BytesIO(tab.screenshot(full_page=True)))
                    image.convert("RGB").quantize(_COLOURS).save(folder / f"{name}-{width}-{scheme}.png", optimize=True)
                context.close()
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
