"""Whatever is remembered can be forgotten."""

import gc
from functools import _lru_cache_wrapper

import shoal


def _remembered() -> dict[str, int]:
    caches = [each for each in gc.get_objects() if type(each) is _lru_cache_wrapper]
    named = {f"{each.__module__}.{each.__qualname__}": each.cache_info().currsize for each in caches}
    return {name: size for name, size in named.items() if name.startswith("shoal.") and size}


def test_nothing_is_remembered_after_clearing() -> None:
    year = shoal.amplify(shoal.RandomizedResponse(categories=11, local_epsilon=1), reports=1_234).repeated(365)
    first = year.epsilon(1e-6)
    shoal.amplify(shoal.Gaussian(sigma=1), reports=1_234).epsilon(1e-6)
    assert len(_remembered()) > 5
    shoal.clear_caches()
    assert _remembered() == {}
    assert year.epsilon(1e-6) == first
