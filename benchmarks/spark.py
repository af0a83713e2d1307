"""A column of 10⁸ rows on Apache Spark: randomized, counted and estimated, beside the same count without privacy.

``python -m benchmarks.spark`` takes some minutes on two cores, and needs Java; ``--rows 1e7`` is a tenth of it.
"""

import argparse
import os
import time

import shoal
from shoal.collect.spark import count_column, session

_CATEGORIES = 100


def main() -> None:
    """Print how long each takes, and the largest error in standard errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--cores", type=int, default=2)
    asked = parser.parse_args()
    rows, mechanism = int(asked.rows), shoal.SubsetSelection(categories=_CATEGORIES, local_epsilon=2)
    os.environ["SHOAL_SPARK_MASTER"] = f"local[{asked.cores}]"
    with session() as spark:
        frame = spark.range(0, rows, 1, 8 * asked.cores).selectExpr(f"CAST(id * id % {_CATEGORIES} AS INT) AS answer")
        start = time.perf_counter()
        truth = {row["answer"]: row["count"] for row in frame.groupBy("answer").count().collect()}
        plain = time.perf_counter() - start
        for each in (mechanism, shoal.RandomizedResponse(categories=_CATEGORIES, local_epsilon=2)):
            start = time.perf_counter()
            estimate = each.estimate(count_column(frame, "answer", each))
            private = time.perf_counter() - start
            errors = [
                abs(frequency - truth.get(answer, 0) / rows) / error
                for answer, (frequency, error) in enumerate(
                    zip(estimate.frequencies, estimate.standard_errors, strict=True)
                )
            ]
            print(
                f"{rows:,} rows, local[{asked.cores}], {each.name}: {private:.1f} s, {rows / private / 1e6:.2f} "
                f"million rows a second; the count without privacy {plain:.1f} s; largest error {max(errors):.1f} "
                "standard errors"
            )


if __name__ == "__main__":
    main()
