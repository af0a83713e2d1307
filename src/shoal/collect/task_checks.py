"""What a task may not have: messages that cannot be collected safely, or keys that two parties share."""

from collections.abc import Sequence

from shoal.errors import ParameterError
from shoal.mechanisms import Categorical, Covered, Dummies

__all__ = ["check_helpers", "check_messages"]

_MOST_DUMMIES = 100_000
"""On average; each takes a key exchange, while the round is sealed."""
_MOST_HELPERS = 16


def check_messages(mechanism: Categorical) -> None:
    """Refuse what cannot be collected safely."""
    if isinstance(mechanism, Covered) and mechanism.null is None:
        raise ParameterError(
            "fill must be below 1 in a task: a message that cannot be read counts as an empty one; 0.999999 will do",
            "fill",
        )
    if isinstance(mechanism, Dummies) and mechanism.added > _MOST_DUMMIES:
        raise ParameterError(
            f"{mechanism.added:,} dummies a round are more than the {_MOST_DUMMIES:,} that a shuffler seals at once; "
            "take fewer categories, a larger δ, or covers"
        )


def check_helpers(mechanism: Categorical, keys: Sequence[bytes], others: Sequence[bytes]) -> None:
    """Refuse keys that are not one for each helper, or that two parties would share.

    Parameters
    ----------
    mechanism : Categorical
        Whose helpers they are.
    keys : sequence of bytes
        Of the helpers.
    others : sequence of bytes
        The keys of the other parties.
    """
    wanted, named = mechanism.helpers if isinstance(mechanism, Dummies) else 0, len(keys)
    if named > _MOST_HELPERS or not max(wanted - 1, 0) <= named <= wanted:
        helpers = f"the public keys of {wanted} helpers, or of {wanted - 1} if the shuffler is one of them"
        raise ParameterError(
            f"{named} helper_keys do not fit {mechanism!r}: it takes {helpers if wanted else 'none'}, and "
            f"{_MOST_HELPERS} at most; `shoal keygen helper` makes one"
        )
    if named and len({*keys, *others}) < named + len(others):
        raise ParameterError("every helper needs a key of its own; each makes one with `shoal keygen helper`")
