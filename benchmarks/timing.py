"""How long something takes: CPU seconds, so that what else runs on the machine counts less."""

import statistics
import time
from collections.abc import Callable

__all__ = ["median_seconds"]


def median_seconds(action: Callable[[], object], times: int = 21) -> float:
    """Return the median CPU seconds of an action, after one unmeasured call."""
    action()
    spans = []
    for _ in range(times):
        start = time.process_time()
        action()
        spans.append(time.process_time() - start)
    return statistics.median(spans)
