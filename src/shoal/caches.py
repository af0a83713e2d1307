"""One call forgets all that earlier questions computed."""

import sys


def clear_caches() -> None:
    """Forget what earlier questions computed: memory becomes free, and the same questions take their time again.

    Examples
    --------
    >>> import shoal
    >>> year = shoal.amplify(local_epsilon=1, reports=10_000).repeated(365)
    >>> first = year.epsilon(1e-6)
    >>> shoal.clear_caches()
    >>> year.epsilon(1e-6) == first
    True
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "shoal":
            continue
        classes = [value for value in vars(module).values() if isinstance(value, type)]
        for holder in (module, *classes):
            for value in list(vars(holder).values()):
                if hasattr(type(value), "cache_clear"):
                    value.cache_clear()
