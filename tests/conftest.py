"""How tests draw at random, and how they are dealt to several processes."""

import os
import random
import secrets
import sys
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

_VARIABLE = "SHOAL_TEST_SEED"
_GIVEN = os.environ.get(_VARIABLE)
_SEED = pytest.StashKey[int]()
_TOGETHER = ("tests/collect/test_spark.py", "tests/collect/test_postgres.py")
"""Each has an engine of its own that takes seconds to start, and so the tests of one are run by one process."""

# To look into it for doctests is to register a sampler, for all other tests too.
collect_ignore = ["recipes/round_robin.py"]

# The same examples every time, and none that is too slow for a busy machine.
settings.register_profile("shoal", derandomize=True, database=None, deadline=None)
settings.load_profile("shoal")


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
