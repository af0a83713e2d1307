"""How tests draw at random, how they are dealt to several processes, and the browser of a file."""

import os
import random
import secrets
import shutil
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_VARIABLE = "SHOAL_TEST_SEED"
_GIVEN = os.environ.get(_VARIABLE)
_SEED = pytest.StashKey[int]()
_TOGETHER = (
    "tests/collect/test_spark.py",
    "tests/collect/test_postgres.py",
    "tests/test_site.py",
    "tests/web/test_clones.py",
    "tests/web/test_page.py",
    "tests/web/test_static_site.py",
)
"""Each has an engine or a browser that takes seconds to start, or a site to build: one process runs all of a file."""

# To look into it for doctests is to register a sampler, for all other tests too.
collect_ignore = ["recipes/round_robin.py"]

# The same examples every time, and none that is too slow for a busy machine.
settings.register_profile("shoal", derandomize=True, database=None, deadline=None)
settings.load_profile("shoal")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Return a real browser, one for a file: while Playwright drives it this thread has an event loop, and no other."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if (path := shutil.which("chromium") or shutil.which("chromium-browser")) is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed all generators that tests share, anew for each test, before its fixtures draw."""
    seed = item.stash[_SEED] = secrets.randbits(32) if _GIVEN is None else int(_GIVEN)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print the seed of a test that fails."""
    report = yield
    if report.failed and _SEED in item.stash:
        report.sections.append(("seed", f"{_VARIABLE}={item.stash[_SEED]} draws the same again"))
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # it comes without types
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return path if path in _TOGETHER else nodeid

    return Scheduling(config, log)
