"""From people to an estimate: sealed reports, a shuffler that cannot read them, an analyst who learns no order.

What is named here is loaded when it is first used: a client needs neither a server nor a database.
"""

from typing import TYPE_CHECKING

from shoal.lazy_names import lazy_names

if TYPE_CHECKING:
    from shoal.collect.analyst import Analyst
    from shoal.collect.connection import Connection
    from shoal.collect.keys import (
        analyst_key,
        make_analyst_keys,
        make_shuffler_keys,
        make_signing_keys,
        public_key,
        shuffler_key,
        signing_key,
    )
    from shoal.collect.kinds import RoundKind
    from shoal.collect.kinds.dummy_rounds import DummyRounds
    from shoal.collect.kinds.heavy_hitter_rounds import HeavyHitterRounds, PrefixList
    from shoal.collect.prefix_lists import PrefixLists, PrefixSender
    from shoal.collect.result import Result, Tally
    from shoal.collect.sender import Helper, Receipt, Sender, fetch_task
    from shoal.collect.server import Listeners, serve
    from shoal.collect.service import Service
    from shoal.collect.shuffler import Shuffler
    from shoal.collect.store import Store
    from shoal.collect.stores import open_store
    from shoal.collect.task import Task
    from shoal.errors import CollectError, TryAgainError, WithheldError

__all__ = [
    "Analyst",
    "CollectError",
    "Connection",
    "DummyRounds",
    "HeavyHitterRounds",
    "Helper",
    "Listeners",
    "PrefixList",
    "PrefixLists",
    "PrefixSender",
    "Receipt",
    "Result",
    "RoundKind",
    "Sender",
    "Service",
    "Shuffler",
    "Store",
    "Tally",
    "Task",
    "TryAgainError",
    "WithheldError",
    "analyst_key",
    "fetch_task",
    "make_analyst_keys",
    "make_shuffler_keys",
    "make_signing_keys",
    "open_store",
    "public_key",
    "serve",
    "shuffler_key",
    "signing_key",
]

_MODULES = {
    "shoal.errors": ("CollectError", "TryAgainError", "WithheldError"),
    "shoal.collect.analyst": ("Analyst",),
    "shoal.collect.connection": ("Connection",),
    "shoal.collect.keys": (
        *("analyst_key", "make_analyst_keys", "make_shuffler_keys", "make_signing_keys"),
        *("public_key", "shuffler_key", "signing_key"),
    ),
    "shoal.collect.kinds": ("RoundKind",),
    "shoal.collect.kinds.dummy_rounds": ("DummyRounds",),
    "shoal.collect.kinds.heavy_hitter_rounds": ("HeavyHitterRounds", "PrefixList"),
    "shoal.collect.prefix_lists": ("PrefixLists", "PrefixSender"),
    "shoal.collect.result": ("Result", "Tally"),
    "shoal.collect.sender": ("Helper", "Receipt", "Sender", "fetch_task"),
    "shoal.collect.server": ("Listeners", "serve"),
    "shoal.collect.service": ("Service",),
    "shoal.collect.shuffler": ("Shuffler",),
    "shoal.collect.store": ("Store",),
    "shoal.collect.stores": ("open_store",),
    "shoal.collect.task": ("Task",),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES, extra="collect")
