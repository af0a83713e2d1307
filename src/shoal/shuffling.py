"""The shuffler: report files in, all their records in one file in a uniformly random order."""

import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import reduce
from itertools import chain
from operator import or_
from pathlib import Path

import numpy as np

from shoal.arrays import ByteArray
from shoal.durable_file import check_output, cleaned_up
from shoal.errors import ParameterError, StorageError
from shoal.files.report_file import ReportFile, joined_batches, write_reports
from shoal.mechanisms.coins import secure_coins
from shoal.progress import progress

_BUCKET_RECORDS = 1 << 22
_BUCKET_BYTES = 1 << 26
_MOST_BUCKETS = 200
"""As many files are open at once, and a byte numbers them; each bucket gets larger beyond."""


def shuffle(paths: Sequence[Path], output: Path, *, bucket_records: int = _BUCKET_RECORDS, again: bool = False) -> int:
    """Write all messages in a uniformly random order, one by one, and return how many people they are of.

    If the mechanism asks for dummies, they are drawn here, once: an empty file next to each report file says so, and a
    second shuffle of the same reports is refused. Two draws over the same messages tell more than ε.

    Every record falls into a random bucket, and every bucket is permuted: all orders of all records are equally
    likely, and no more than a bucket is in memory. The buckets are files in a folder next to the output that is removed
    whatever happens.

    With `again`, dummies are drawn although they were drawn before. If anyone has seen the first result, ε is spent
    twice.
    """
    check_output(output, paths)
    files = [ReportFile.opened(path) for path in paths]
    first = files[0]
    for index, file in enumerate(files):
        if file.mechanism != first.mechanism or file.names != first.names:
            raise ParameterError(
                f"{file.path} holds reports of {file.mechanism!r}, and {first.path} those of {first.mechanism!r}, or "
                "its categories have other names: reports that can be told apart are not shuffled"
            )
        if file.added:
            raise ParameterError(f"{file.path} has its dummies already; other ones would disclose what people sent")
        if any(file.path.samefile(other) for other in paths[:index]):
            raise ParameterError(f"{file.path} is given twice, and its people would be counted twice; name it once")
    batches = joined_batches((file.path, file.batches) for file in files)
    people = sum(file.reports for file in files)
    if not people:
        raise ParameterError(f"there are no reports in {', '.join(map(str, paths))}; {output} was not written")
    added = [first.mechanism.to_rows(messages) for messages in first.mechanism.additions()]
    if added:
        _draw_once(paths, again=again)
    total = sum(file.records for file in files) + sum(map(len, added))
    blocks = chain((block for file in files for block in file.blocks("shuffle")), added)
    with cleaned_up(), ExitStack() as stack:
        records = shuffled_records(blocks, total, first.length, output, stack, bucket_records=bucket_records)
        write_reports(
            output,
            first.mechanism,
            first.names,
            records,
            inputs=paths,
            batches=batches,
            shuffled=True,
            people=people if added else None,
            rows=reduce(or_, (file.rows for file in files)),
        )
        return people


def _draw_once(paths: Sequence[Path], *, again: bool) -> None:
    """Note that dummies are drawn for report files, before they are written; refuse if they were for one of them."""
    notes = {path: path.with_name(f"{path.name}.dummies-drawn") for path in paths}
    try:
        for path, note in notes.items():
            if note.exists() and not again:
                raise ParameterError(
                    f"dummies were drawn for {path} before ({note.name} says so), and other ones over the same reports "
                    "would disclose what people sent: take what was written then, or, if nobody has seen that, --again "
                    "(again=True) draws anew"
                )
        for note in notes.values():
            note.open("a" if again else "x").close()
    except OSError as error:
        raise StorageError(f"{note} cannot be written, which says that dummies are drawn: {error.strerror}") from error


def shuffled_records(
    blocks: Iterable[ByteArray],
    total: int,
    length: int,
    near: Path,
    stack: ExitStack,
    *,
    bucket_records: int = _BUCKET_RECORDS,
) -> Iterator[bytes]:
    """Yield records in a uniformly random order, many at once, and hold no more than a bucket in memory."""
    buckets = max(-(-total // bucket_records), -(-total * length // _BUCKET_BYTES))
    if buckets <= 1:
        rows = np.concatenate([np.empty((0, length), np.uint8), *blocks])
        yield rows.take(secure_coins().permutation(len(rows)), axis=0).tobytes()
        return
    folder = near.resolve().parent / f".{near.name[:100]}.{secrets.token_hex(6)}.part"
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise StorageError(f"cannot write next to {near}: {error.strerror}; make the folder first", error) from None
    paths = [folder / str(number) for number in range(min(buckets, _MOST_BUCKETS))]
    _deal(blocks, paths)
    coins = secure_coins()
    for path in progress(paths, total=len(paths), label="shuffle, second pass"):
        rows = np.fromfile(path, np.uint8).reshape(-1, length)
        path.unlink()
        if len(rows):
            yield rows.take(coins.permutation(len(rows)), axis=0).tobytes()


def _deal(blocks: Iterable[ByteArray], paths: Sequence[Path]) -> None:
    """Put every record into a bucket, each bucket as likely as any other."""
    coins = secure_coins()
    with ExitStack() as stack:
        open_files = [stack.enter_context(path.open("wb", buffering=1 << 16)) for path in paths]
        for rows in blocks:
            bucket = coins.below(len(paths), len(rows)).astype(np.uint8)  # bytes are sorted the fastest
            ordered = rows.take(np.argsort(bucket, kind="stable"), axis=0)
            ends = np.cumsum(np.bincount(bucket, minlength=len(paths)))
            start = 0
            for target, end in zip(open_files, ends.tolist(), strict=True):
                target.write(ordered[start:end].tobytes())
                start = end
