"""Compare all answers with the file, or write the file anew.

Usage: python -m tests.answers [--write] [--processes 2] [FAMILY …]

A family is the first word of a key, such as amplify; without one, all are asked. With --write and families, only
their answers are replaced.
"""

import argparse
import sys
import time

from tests.answers.answering import answered, arithmetic, differences, read, write
from tests.answers.questions import cases


def main() -> int:
    """Ask, print how many answers differ and each that does, and return 1 if one does."""
    parser = argparse.ArgumentParser(prog="python -m tests.answers", description="Compare all answers with the file.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="the first word of a key; all if not given")
    parser.add_argument("--write", action="store_true", help="write the file anew")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    every = cases()
    unknown = set(given.families) - {case.family for case in every}
    if unknown:
        parser.error(f"no such family: {', '.join(sorted(unknown))}")
    asked = [case for case in every if not given.families or case.family in given.families]
    start = time.perf_counter()
    now = dict(answered(asked, given.processes))
    seconds = time.perf_counter() - start
    if given.write:
        before = read()[1] if given.families else {}
        kept = {case.key: now.get(case.key, before.get(case.key)) for case in every}
        answers = {key: value for key, value in kept.items() if value is not None}
        write(answers)
        print(f"{sum(map(len, answers.values())):,} answers of {len(answers):,} cases written, {seconds:.0f} s")
        return 0
    written, before = read()
    exact = written == arithmetic()
    found = [line for key in now for line in differences(key, before.get(key, {}), now[key], exact=exact)]
    for line in found:
        print(line)
    gone = set(before) - {case.key for case in every}
    for key in sorted(gone):
        print(f"{key}: no longer asked")
    new = sum(part not in before.get(key, {}) for key, parts in now.items() for part in parts)
    count = sum(len(before.get(key, {})) for key in now)
    how = "bit for bit" if exact else "to 1e-6, since this machine's arithmetic is another"
    print(f"{count:,} answers compared {how} in {seconds:.0f} s: {len(found):,} differ; {new:,} are not in the file")
    return 1 if found or gone else 0


if __name__ == "__main__":
    sys.exit(main())
