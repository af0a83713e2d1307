"""The verbs of whoever runs the shuffler: `shuffler serve`, `seal`, `status` and `purge`."""

import math
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from shoal.checks import whole
from shoal.cli.app import COLLECTION, app
from shoal.cli.collect_output import print_listening, print_purged, print_rounds, print_sealed, told_time
from shoal.cli.options import Count, Flag, Json
from shoal.cli.output import show
from shoal.digits import rounded_up
from shoal.errors import (
    CollectError,
    DamagedError,
    MissingExtraError,
    ParameterError,
    TryAgainError,
    WithheldError,
    WrongKeyError,
)

if TYPE_CHECKING:
    from shoal.collect.round_state import Round
    from shoal.collect.server import Listeners
    from shoal.collect.shuffler import Shuffler
    from shoal.collect.store import Store
    from shoal.collect.task import Task

_OPEN = (
    "WARNING: open to anybody. If more than m = {malicious:,} reports of a round, the task's limit, are made up, the "
    "central ε does not hold; where all but one are, {left}. --tokens keeps others out."
)
_OPEN_DUMMIES = (
    "WARNING: open to anybody, and whoever reports many times moves the result. The dummies hide everybody all the "
    "same. --tokens keeps others out."
)

Database = Annotated[str | None, Parameter(metavar="postgresql://…")]
SigningKey = Annotated[Path, Parameter(help="the private key that signs releases, shuffler.key.")]

shuffler = App(
    name="shuffler",
    help="Collect sealed reports, and release them in rounds, in random order.",
    help_epilogue="Example:  shoal shuffler status --task task.json --folder rounds",
    group=COLLECTION,
)
app.command(shuffler)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RoundsOf:
    """The rounds of a task, and where they are.

    Parameters
    ----------
    task
        the task file; check it before with `shoal task verify`.
    folder
        where reports wait and batches are released; one for each task. Several processes with one database share it.
    database
        keep reports in PostgreSQL, for several processes; if not given, in SQLite in the folder.
    """

    task: Path
    folder: Path
    database: Database = None

    def check_standbys(self, accepted: bool) -> None:
        """Refuse to accept standbys of a PostgreSQL that is not used."""
        if accepted and self.database is None:
            raise ParameterError(
                "--accept-asynchronous-standbys is about PostgreSQL, and reports are kept in SQLite here; leave it "
                "out, or give --database"
            )

    @contextmanager
    def store(self, agreed: "Task", *, new: bool) -> Iterator["Store"]:
        """Open the store, and close it afterwards."""
        from shoal.collect.stores import open_store

        store = open_store(self.database, agreed, folder=self.folder, new=new)
        try:
            yield store
        finally:
            store.shut()

    @contextmanager
    def shuffler(
        self, key: Path, *, new: bool = True, accepts_loss: bool = True
    ) -> Iterator[tuple["Task", "Shuffler"]]:
        """Open the shuffler of the task, whose private key this must be."""
        from shoal.collect.keys import shuffler_key
        from shoal.collect.shuffler import Shuffler
        from shoal.collect.task import Task

        agreed, signing = Task.read(self.task), shuffler_key(key)
        if signing.public_key().public_bytes_raw() != agreed.shuffler_key:  # before anything is written
            raise WrongKeyError(f"{key} is not the private key of the shuffler that the task names; give that one")
        with self.store(agreed, new=new) as store:
            if store.trouble is not None:
                raise DamagedError(store.trouble)
            store.accepts_loss = accepts_loss
            store.check_durability()
            yield agreed, Shuffler(agreed, store, self.folder, signing)


@shuffler.command(
    help_epilogue="Example:  shoal shuffler serve --task task.json --key shuffler.key --folder rounds "
    "--tls-certificate shuffler-tls.crt --tls-key shuffler-tls.key --analyst-certificate analyst-tls.crt "
    "--tokens tokens --host 0.0.0.0"
)
def serve(
    *,
    rounds: RoundsOf,
    key: SigningKey,
    tls_certificate: Path,
    tls_key: Path,
    analyst_certificate: Path,
    host: str = "127.0.0.1",
    port: Count = 8440,
    analyst_port: Count = 8441,
    behind_proxy: Flag = False,
    tokens: Path | None = None,
    open_to_all: Annotated[bool, Parameter(name="--open", negative="")] = False,
    relay_token: Path | None = None,
    accept_asynchronous_standbys: Flag = False,
    json: Json = False,
) -> None:
    """Take reports, and release rounds when their time and their minimum have come; until a signal ends it.

    Addresses, times and the order of arrival are neither stored nor logged.

    Parameters
    ----------
    tls_certificate
        by which the shuffler is known, shuffler-tls.crt.
    tls_key
        its private key, shuffler-tls.key.
    analyst_certificate
        the only one that may pull, analyst-tls.crt.
    host
        the address to listen on.
    port
        for everybody; 0 takes a free one.
    analyst_port
        for the analyst; 0 takes a free one.
    behind_proxy
        a proxy on this machine ends TLS for everybody, so that the public port needs none.
    tokens
        a file with one token a line, or its hash as sha256:HEX: only who has one may report, once a round. It is read
        again when it changes, and at SIGHUP.
    open_to_all
        instead of tokens: anybody may send any number of reports, made-up ones too.
    relay_token
        a file with the tokens of relays, or their hashes, one a line, which may send many reports at once; read again
        likewise.
    accept_asynchronous_standbys
        use a PostgreSQL whose standbys may lack the last commits: a failover then loses reports, and may end the task.
    """
    from shoal.collect.server import check_system

    rounds.check_standbys(accept_asynchronous_standbys)
    check_system()
    try:
        from shoal.collect.server import Listeners
        from shoal.collect.server import serve as run
        from shoal.collect.service import Service
        from shoal.collect.tokens import TokenFiles
    except ImportError as error:
        raise MissingExtraError(f'the shuffler needs {error.name}: pip install "shoal-dp[collect]"') from None
    listeners = Listeners(
        host=host,
        port=whole(port=port, least=0, most=65535),
        analyst_port=whole(analyst_port=analyst_port, least=0, most=65535),
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        analyst_certificate=analyst_certificate,
        behind_proxy=behind_proxy,
    )
    _check_open(tokens, open_to_all)
    files = TokenFiles(tokens, relay_token)
    who = files.read()
    names = _checked(listeners)
    accepted = accept_asynchronous_standbys
    with rounds.shuffler(key, accepts_loss=accepted) as (agreed, running):

        def ready(public: int, private: int) -> None:
            scheme = "http" if behind_proxy else "https"
            named = f"[{host}]" if ":" in host else host
            facts = {
                "task": agreed.id,
                "question": agreed.question,
                "url": f"{scheme}://{named}:{public}",
                "analyst_url": f"https://{named}:{private}",
                "closes": running.current().closes,
                "names": names,
            }
            show(facts, print_listening, json=json)
            print(end="", flush=True)

        if open_to_all:
            print(open_warning(agreed), file=sys.stderr)
        run(Service(running, who), listeners, ready=ready, tokens=files if tokens or relay_token else None)


def open_warning(agreed: "Task") -> str:
    """Return what becomes of the guarantee where anybody may report."""
    local = agreed.mechanism.local_epsilon
    left = f"that person has ε₀ = {rounded_up(local)} alone" if local < math.inf else "nothing hides that person"
    return _OPEN_DUMMIES if not agreed.kind.relies_on_others else _OPEN.format(malicious=agreed.malicious, left=left)


@shuffler.command(help_epilogue="Example:  shoal shuffler seal --task task.json --key shuffler.key --folder rounds")
def seal(
    *,
    rounds: RoundsOf,
    key: SigningKey,
    accept_asynchronous_standbys: Flag = False,
    json: Json = False,
) -> None:
    """End the open round if its time has come, and release it if it has its minimum; `serve` does so by itself.

    There is no way to end a round before its time, or to release one that is too small.

    Parameters
    ----------
    accept_asynchronous_standbys
        use a PostgreSQL whose standbys may lack the last commits, as in `shoal shuffler serve`.
    """
    accepted = accept_asynchronous_standbys
    rounds.check_standbys(accepted)
    with rounds.shuffler(key, new=False, accepts_loss=accepted) as (agreed, running):
        waiting = [one for one in running.rounds() if one.state == "sealed"]  # a release that was cut off
        before = running.current()
        ended = running.close()
        if ended is not None and not ended.discarded:
            waiting.append(ended)
        for one in waiting:
            try:
                running.release(one.number)
            except CollectError:
                if any(now.number == one.number and now.state == "sealed" for now in running.rounds()):
                    raise  # and `serve` was not faster
        if not waiting:
            raise _not_sealed(agreed, before, running.current(), ended)
        released = [
            _round_facts(agreed, one) for one in running.rounds() if one.number in {one.number for one in waiting}
        ]
    show({"task": agreed.id, "rounds": released}, print_sealed, json=json)


@shuffler.command(help_epilogue="Example:  shoal shuffler status --task task.json --folder rounds")
def status(*, rounds: RoundsOf, json: Json = False) -> int:
    """List the rounds and their states, and check the store for damage.

    The exit status is 1 if the store is damaged, and 3 if a round that has ended waits for its helpers, its release or
    the analyst for longer than a round lasts. How many reports an open round has is shown to nobody.
    """
    from shoal.collect.high_water import HighWater
    from shoal.collect.log import overdue
    from shoal.collect.task import Task

    agreed = Task.read(rounds.task)
    with rounds.store(agreed, new=False) as store:
        if store.trouble is None:
            with suppress(DamagedError):  # it is the store's trouble from then on
                HighWater(rounds.folder, store).checked()
        now = store.time()
        listed = [_round_facts(agreed, one) | {"overdue": overdue(agreed, one, now)} for one in store.rounds()]
        trouble = store.trouble
    facts = {
        "task": agreed.id,
        "question": agreed.question,
        "minimum": agreed.minimum,
        "trouble": trouble,
        "rounds": listed,
    }
    show(facts, print_rounds, json=json)
    if trouble is not None:
        return 1
    return 3 if any(one["overdue"] for one in listed) else 0


@shuffler.command(help_epilogue="Example:  shoal shuffler purge --task task.json --key shuffler.key --folder rounds")
def purge(*, rounds: RoundsOf, key: SigningKey, json: Json = False) -> None:
    """Delete the reports of all rounds that the analyst has; `serve` does so by itself."""
    with rounds.shuffler(key, new=False) as (agreed, running):
        done = [one.number for one in running.rounds() if one.state == "acked"]
        for number in done:
            running.purge(number)
    show({"task": agreed.id, "purged": done}, print_purged, json=json)


def _round_facts(agreed: "Task", one: "Round") -> dict[str, Any]:
    helpers = {"helpers_missing": agreed.helpers_missing(one.helped)} if agreed.helper_keys else {}
    return helpers | {
        "round": one.number,
        "state": str(one.state),
        "closes": one.closes,
        "reports": one.reports,
        "discarded": one.discarded,
    }


def _not_sealed(task: "Task", before: "Round", after: "Round", ended: "Round | None") -> Exception:
    few = f"round {before.number:,} has ended with fewer reports than the minimum of {task.minimum:,}"
    if ended is not None:
        return WithheldError(f"{few}, and was discarded, as the task has it; nothing is released")
    if after.closes > before.closes:
        return WithheldError(f"{few}, and goes on, as the task has it, until {told_time(after.closes)}")
    left = max(0.0, after.closes - time.time())
    return TryAgainError(
        f"round {after.number:,} is open for another {left:,.0f} seconds, until {told_time(after.closes)}; no round "
        "is released before its time"
    )


def _check_open(tokens: Path | None, open_to_all: bool) -> None:
    """Want it said whether anybody may report."""
    if tokens is None and not open_to_all:
        raise ParameterError(
            "without tokens anybody can flood a round with made-up reports, and pick one person's out of it; give "
            "--tokens FILE with one token a line, or --open if anybody shall report"
        )
    if tokens is not None and open_to_all:
        raise ParameterError("--open lets anybody report, and --tokens only those who have one; give one of them")


def _checked(listeners: "Listeners") -> list[str]:
    """Return the names in the shuffler's certificate, or say what is wrong with the files for TLS."""
    from cryptography import x509

    certificate, key = listeners.tls_certificate, listeners.tls_key
    if not listeners.host.strip():
        raise ParameterError(
            "host must be an address to listen on, such as 127.0.0.1, or 0.0.0.0 for all; got nothing", "host"
        )
    if listeners.analyst_certificate.read_bytes().strip() in certificate.read_bytes():
        raise ParameterError(
            f"{listeners.analyst_certificate} is the shuffler's own certificate; give the analyst's, analyst-tls.crt: "
            "whoever has its key can pull"
        )
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
        ssl.create_default_context(cafile=listeners.analyst_certificate)
        own = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
    except (OSError, ValueError):
        raise ParameterError(
            f"{key} is not the private key of the certificate {certificate}, or {listeners.analyst_certificate} is no "
            "certificate; `shoal keygen` makes all of them"
        ) from None
    try:
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)]
