"""From people to an estimate: sealed reports, a shuffler that cannot read them, an analyst who learns no order.

What is named here is loaded when it is first used: a client needs neither a server nor a database.
"""

from typing import TYPE_CHECKING

from shoal.lazy_names import lazy_names

if TYPE_CHECKING:
    from shoal.collect.analyst import Analyst as Analyst
    from shoal.collect.connection import Connection as Connection
    from shoal.collect.keys import analyst_key as analyst_key
    from shoal.collect.keys import make_analyst_keys as make_analyst_keys
    from shoal.collect.keys import make_shuffler_keys as make_shuffler_keys
    from shoal.collect.keys import make_signing_keys as make_signing_keys
    from shoal.collect.keys import public_key as public_key
    from shoal.collect.keys import shuffler_key as shuffler_key
    from shoal.collect.keys import signing_key as signing_key
    from shoal.collect.kinds import RoundKind as RoundKind
    from shoal.collect.kinds.dummy_rounds import DummyRounds as DummyRounds
    from shoal.collect.kinds.heavy_hitter_rounds import HeavyHitterRounds as HeavyHitterRounds
    from shoal.collect.kinds.heavy_hitter_rounds import PrefixList as PrefixList
    from shoal.collect.prefix_lists import PrefixLists as PrefixLists
    from shoal.collect.prefix_lists import PrefixSender as PrefixSender
    from shoal.collect.result import Result as Result
    from shoal.collect.result import Tally as Tally
    from shoal.collect.sender import Helper as Helper
    from shoal.collect.sender import Receipt as Receipt
    from shoal.collect.sender import Sender as Sender
    from shoal.collect.sender import fetch_task as fetch_task
    from shoal.collect.server import Listeners as Listeners
    from shoal.collect.server import serve as serve
    from shoal.collect.service import Service as Service
    from shoal.collect.shuffler import Shuffler as Shuffler
    from shoal.collect.store import Store as Store
    from shoal.collect.stores import open_store as open_store
    from shoal.collect.task import Task as Task
    from shoal.errors import CollectError as CollectError
    from shoal.errors import TryAgainError as TryAgainError
    from shoal.errors import WithheldError as WithheldError

__getattr__, __dir__ = lazy_names(__name__, extra="collect")
