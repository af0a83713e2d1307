"""How tests are dealt to several processes."""

from typing import Any

import pytest

_TOGETHER = ("tests/collect/test_spark.py", "tests/collect/test_postgres.py")
"""Each has an engine of its own that takes seconds to start, and so the tests of one are run by one process."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # it comes without types
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return path if path in _TOGETHER else nodeid

    return Scheduling(config, log)
