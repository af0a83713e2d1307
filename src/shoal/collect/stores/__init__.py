"""The kinds of database that a shuffler can keep its reports in: each file in this folder is one, and registers itself.

Another package adds its own by an entry point in the group `shoal.stores` that names its module.
"""

from importlib.metadata import entry_points
from pathlib import Path

from shoal.collect.store import Store
from shoal.collect.task import Task
from shoal.errors import ParameterError
from shoal.lazy_names import gather

__all__ = ["kinds", "open_store"]

_DEFAULT = "sqlite:"


def kinds() -> dict[str, type[Store]]:
    """Return all kinds of store by the schemes of their URLs."""
    gather(__name__)
    for point in entry_points(group="shoal.stores"):
        point.load()
    return dict(sorted(Store.kinds.items()))


def open_store(url: str | None, task: Task, *, folder: Path, new: bool = True) -> Store:
    """Return the store at a URL.

    Parameters
    ----------
    url : str or None
        Its scheme says what kind of store it is; None is SQLite in the folder.
    task : Task
        Whose reports are kept there.
    folder : Path
        Where the shuffler keeps its files.
    new : bool
        Whether the first round is begun if there is none.
    """
    scheme, _, _ = (url or _DEFAULT).partition(":")
    known = kinds()
    if scheme not in known:
        # Without the URL: it may hold a password.
        raise ParameterError(
            f"database must be a URL that begins with {', '.join(f'{name}:' for name in known)}", "database"
        )
    return known[scheme].opened(url or _DEFAULT, task, folder=folder, new=new)
