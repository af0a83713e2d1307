"""The verb `analyst next`: the list of prefixes of the next round of a search, charged, signed and handed over."""

from pathlib import Path

from shoal.cli.collect_output import print_listed
from shoal.cli.options import Json
from shoal.cli.output import show
from shoal.cli.verbs.analyst import analyst
from shoal.cli.verbs.report import Url


@analyst.command(
    name="next",
    help_epilogue="Example:  shoal analyst next --task task.json --folder work --key lists.key --ledger people.json "
    "--shuffler https://shuffler.example.org:8441 --ca shuffler-tls.crt --certificate analyst-tls.crt "
    "--certificate-key analyst-tls.key",
)
def next_list(
    *,
    task: Path,
    folder: Path,
    key: Path,
    ledger: Path,
    shuffler: Url,
    certificate: Path,
    certificate_key: Path,
    ca: Path | None = None,
    json: Json = False,
) -> None:
    """Sign the list of prefixes of the next round of a search, and hand it to the shuffler. Clients then report.

    The list of the first round has all prefixes, each one after it those that extend what had enough people. A round is
    charged to the ledger before its list is signed. A list that is made stays: to repeat this does no harm.

    Parameters
    ----------
    task
        the task file.
    folder
        the folder that `shoal analyst count` has; made if it is not there.
    key
        the private key that signs lists, lists.key.
    ledger
        the ledger of what was released about the same people; made if it is not there. Its budget, if it has one, is
        kept.
    shuffler
        its address for the analyst, such as https://shuffler.example.org:8441.
    certificate
        the analyst's certificate, analyst-tls.crt.
    certificate_key
        its private key, analyst-tls.key.
    ca
        the certificate to trust, such as shuffler-tls.crt; if not given, those that this machine trusts.
    """
    import shoal
    from shoal.collect.analyst import Analyst
    from shoal.collect.connection import Connection
    from shoal.collect.keys import signing_key
    from shoal.collect.kinds.heavy_hitter_rounds import HeavyHitterRounds
    from shoal.collect.prefix_lists import PrefixLists
    from shoal.collect.task import Task

    agreed, signing = Task.read(task), signing_key(key, "lists")
    terms, plan = HeavyHitterRounds.of(agreed), HeavyHitterRounds.plan_of(agreed)
    book = shoal.Ledger(ledger)
    with Connection(shuffler, ca, certificate, certificate_key) as connection:
        opened = Analyst(folder, agreed)
        lists, counted = PrefixLists(folder, agreed), opened.counted()
        listed = lists.next(counted, opened.result(counted[-1]) if counted else None, signing, book)
        lists.publish(connection, listed)
    facts = {
        "task": agreed.id,
        "round": listed.round,
        "rounds": plan.rounds,
        "bits": terms.depth(listed.round),
        "kept": len(listed.kept),
        "listed": len(listed.listed),
        "sha256": listed.sha256,
        "file": str(folder / "lists" / f"{listed.round}.json"),
        "ledger": str(ledger),
        "delta": agreed.delta,
        "spent": book.spent(agreed.delta),
    }
    show(facts, print_listed, json=json)
