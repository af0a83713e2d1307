"""How long the page waits for an answer, and whether the server lives through nonsense.

Usage: python -m benchmarks.web [--times 300] [--nonsense 2000]

Starts `shoal web`, asks over one connection, moves a slider in Chromium, and prints the median and the 95th percentile
in milliseconds of wall time, beside the CPU time of the same answers in this process. Then it asks nonsense.
"""

import argparse
import collections
import json
import shutil
import statistics
import time
from http.client import HTTPConnection
from random import Random
from urllib.parse import quote, urlencode

from hypothesis import HealthCheck, Phase, given, settings
from playwright.sync_api import sync_playwright

from shoal.progress import progress
from shoal.questions.question import question
from tests.web.page import Page, running
from tests.web.requests_at_random import requests

__all__ = ["followed", "latency", "main", "nonsense"]

_MOST_MEDIAN, _MOST_LATE = 50.0, 150.0
_MOST_SECONDS = 10.0


def _moved(name: str, random: Random) -> dict[str, str]:
    """Return the parameters of a question after a slider has moved."""
    if name == "explain":  # next to no work: what is left is the way there and back
        return {"name": "strong-clones"}
    reports, local = 10 ** random.uniform(2, 8), 10 ** random.uniform(-0.5, 0.8)
    return {"reports": str(round(reports)), "local_epsilon": f"{local:.3f}"}


def latency(page: Page, name: str, times: int) -> tuple[list[float], list[float]]:
    """Return the wall milliseconds of many answers over one connection, and their CPU milliseconds in this process."""
    random, spans, own = Random(1), list[float](), list[float]()
    connection = HTTPConnection("127.0.0.1", page.port)
    for _ in progress(range(times), total=times, label=name):
        texts = _moved(name, random)
        began = time.perf_counter()
        connection.request("GET", f"/api/{name}?{urlencode(texts)}")
        answer = connection.getresponse()
        body = answer.read()
        spans.append(1e3 * (time.perf_counter() - began))
        assert answer.status == 200, body
        asked = question(name)
        arguments, began = asked.read(texts), time.process_time()
        facts = asked(**arguments).facts
        own.append(1e3 * (time.process_time() - began))
        assert json.loads(body) == facts
    connection.close()
    return spans, own


_FOLLOWED = """async (times) => {
    const slider = document.querySelector('#guarantee [aria-label="People, slider"]');
    const shown = document.querySelector("#guarantee .answer");
    const spans = [];
    for (let i = 0; i < times; i++) {
        const changed = new Promise((resolve) => {
            const watch = new MutationObserver(() => { watch.disconnect(); resolve(); });
            watch.observe(shown, { childList: true });
        });
        const start = performance.now();
        slider.value = 60 + ((i * 37) % 420);
        slider.dispatchEvent(new Event("input"));
        await changed;
        spans.push(performance.now() - start);
    }
    return spans;
}"""


def followed(page: Page, times: int) -> tuple[float, list[float]]:
    """Return the milliseconds until the first paint in Chromium, and from a move of a slider to its number."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(f"http://127.0.0.1:{page.port}/")
        tab.locator("#guarantee .number").wait_for()
        paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        spans = tab.evaluate(_FOLLOWED, times)
        browser.close()
    return paint, spans


def nonsense(page: Page, times: int) -> collections.Counter[int]:
    """Ask questions at random, and count the statuses; the server must live, and answer each in time."""
    statuses: collections.Counter[int] = collections.Counter()
    slowest = [0.0]

    @settings(max_examples=times, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(requests())
    def ask(request: tuple[str, list[tuple[str, str]], str | None]) -> None:
        name, pairs, body = request
        path = f"/api/{quote(name, safe='', errors='replace')}?{urlencode(pairs, errors='replace')}"
        data = None if body is None else body.encode(errors="replace")
        began = time.monotonic()
        answer = page.send(path, method="GET" if data is None else "POST", body=data, seconds=120)
        slowest[0] = max(slowest[0], time.monotonic() - began)
        statuses[answer.status] += 1
        assert answer.status in (200, 400, 404, 405, 503), (path, body, answer)
        assert page.process.poll() is None

    ask()
    print(f"slowest answer: {slowest[0]:.1f} s (limit {_MOST_SECONDS:g} s of computing, and the start of a worker)")
    return statuses


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--nonsense", type=int, default=2000)
    options = parser.parse_args()
    with running() as page:
        page.lives()
        print(f"{'question':>10} {'median ms':>10} {'95 % ms':>8} {'CPU ms of the answer alone: median, 95 %':>42}")
        for name in ("explain", "amplify", "attack", "compare"):
            spans, own = latency(page, name, options.times)
            ends = statistics.quantiles(spans, n=20)[-1], statistics.quantiles(own, n=20)[-1]
            medians = statistics.median(spans), statistics.median(own)
            print(f"{name:>10} {medians[0]:>10.2f} {ends[0]:>8.2f} {medians[1]:>32.2f} {ends[1]:>9.2f}")
        paint, spans = followed(page, options.times)
        late = statistics.quantiles(spans, n=20)[-1]
        print(f"{'Chromium':>10} {statistics.median(spans):>10.2f} {late:>8.2f}   first paint after {paint:.0f} ms")
        print(f"a slider must be followed in {_MOST_MEDIAN:g} ms at the median and {_MOST_LATE:g} ms at 95 %")
    if options.nonsense:
        with running(most_seconds=_MOST_SECONDS) as page:
            print("nonsense:", dict(nonsense(page, options.nonsense)))


if __name__ == "__main__":
    main()
