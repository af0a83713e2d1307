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

from tests.exhaustive import EXHAUSTIVE, amount

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_VARIABLE = "SHOAL_TEST_SEED"
_GIVEN = os.environ.get(_VARIABLE)
_SEED = pytest.StashKey[int]()
_LONGEST = (
    "tests/test_site.py",
    "tests/test_installed.py",
    "tests/collect/test_spark.py",
    "tests/web/test_page.py",
    "tests/sgd/torch_tests/test_peers.py",
    "tests/figures/test_draw.py",
    "tests/collect/test_postgres.py",
    "tests/collect/test_helper_faults.py",
    "tests/web/test_application.py",
    "tests/sgd/test_bounds.py",
    "tests/test_containment.py",
    "tests/composition/test_compose.py",
)
"""Files that take longest, in the order in which they begin: no process waits for one at the end."""
_SPLIT = (
    "tests/test_readme.py",
    "tests/collect/test_several_faults.py",
    "tests/collect/test_faults.py",
    "tests/sgd/test_membership.py",
    "tests/docs/test_tutorials.py",
    "tests/planning/test_plan.py",
    "tests/test_frequency_theory.py",
)
"""Files that take long and whose tests share nothing: each test runs in whichever process is free.

One process runs every other file as a whole, because its tests share fixtures and cached answers.
"""

# To look into it for doctests is to register a sampler, for all other tests too.
collect_ignore = ["recipes/round_robin.py"]

# The same examples every time, and none that is too slow for a busy machine.
settings.register_profile("shoal", derandomize=True, database=None, deadline=None, max_examples=amount(40, 200))
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `make exhaustive` runs, and begin with what takes longest."""
    if not EXHAUSTIVE:
        left_out = [item for item in items if item.get_closest_marker("exhaustive")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> tuple[int, bool]:
    """Return the place of a test in the order of a run: files of `_LONGEST`, `_SPLIT`, slow tests, others."""
    path = item.nodeid.partition("::")[0]
    order = (*_LONGEST, *_SPLIT)
    turn = order.index(path) if path in order else len(order)
    return turn, item.get_closest_marker("slow") is None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return three processes for two cores where slow tests run, because many of them wait for other processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if config.option.markexpr else max(2, 3 * cores // 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # it comes without types
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return nodeid if path in _SPLIT else path

    config.option.loadscopereorder = False  # the order is that of `_turn`
    return Scheduling(config, log)
