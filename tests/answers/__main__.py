"""Ask all questions, compare the answers with the file, and append rows for new questions.

Usage: python -m tests.answers [--processes 2] [FAMILY …]

A family is the first word of a key, such as amplify; without one, all are asked. A row that is in the
file is never changed.
"""

import argparse
import sys
import time

from tests.answers.answering import append, asked, crossed, read, rows_of
from tests.answers.questions import cases


def main() -> int:
    """Print each answer that is not where its row says, and return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.answers", description="Compare all answers with the file.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="the first word of a key; all if not given")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    every = cases()
    unknown = set(given.families) - {case.family for case in every}
    if unknown:
        parser.error(f"no such family: {', '.join(sorted(unknown))}")
    keys = [case.key for case in every if not given.families or case.family in given.families]
    rows = read()
    start = time.perf_counter()
    found = []
    for key, answers in asked([key for key in keys if key in rows], given.processes):
        found += crossed(key, rows[key], answers)
    for line in found:
        print(line)
    new = [key for key in keys if key not in rows]
    append({key: rows_of(key) for key in new})
    count = sum(len(rows[key]) for key in keys if key in rows)
    seconds = time.perf_counter() - start
    print(f"{count:,} answers compared in {seconds:.0f} s: {len(found):,} crossed a limit; {len(new):,} rows appended")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
