"""How long the ε of a sampled training takes, and what no bound can beat: `python -m benchmarks.samplers [EVERY]`.

One line of CSV for each run, or every so many of them, and then the slowest. Seconds are those of the processor, for a
first question.
"""

import csv
import itertools
import subprocess
import sys

SAMPLINGS = ("allocation", "poisson")
ADJACENCIES = ("zero-out", "replace")
NOISES = (0.4, 0.6, 1.0, 2.0, 10.0, 100.0)
STEPS = (2, 16, 235, 10_000, 10**7)
EPOCHS = (1, 10, 100, 10_000)
DELTAS = (1e-6, 1e-12)
FIELDS = ("sampling", "adjacency", "noise", "steps", "epochs", "delta", "epsilon", "least", "seconds")

_QUESTION = """
import sys, time
from shoal.sgd import Run, guarantee, lower_bound
sampling, adjacency, noise, steps, epochs, delta = sys.argv[1:]
run = Run(
    examples=int(steps) * 10, batch_size=10, noise_multiplier=float(noise), epochs=int(epochs), adjacency=adjacency,
    sampling=sampling,
)
start = time.process_time()
epsilon = guarantee(run, delta=float(delta)).epsilon
seconds = time.process_time() - start
print(epsilon, lower_bound(run, delta=float(delta)), seconds)
"""
"""In a process of its own: nothing is remembered."""


def measured(*question: object) -> tuple[float, float, float]:
    """Return ε, the limit below which none is, and the seconds that the question took."""
    arguments = [sys.executable, "-c", _QUESTION, *map(str, question)]
    output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    epsilon, least, seconds = map(float, output.split())
    return epsilon, least, seconds


def main(every: int = 1) -> None:
    """Print the table, of every so many runs of the grid, and its worst lines."""
    table = csv.writer(sys.stdout)
    table.writerow(FIELDS)
    rows = []
    grid = itertools.product(SAMPLINGS, ADJACENCIES, NOISES, STEPS, EPOCHS, DELTAS)
    for question in itertools.islice(grid, 0, None, every):
        epsilon, least, seconds = measured(*question)
        rows.append((*question, epsilon, least, round(seconds, 3)))
        table.writerow(rows[-1])
        sys.stdout.flush()
    slow = sorted(rows, key=lambda row: -float(row[-1]))[:5]
    print(
        f"# {len(rows)} runs; over 50 ms for one epoch: {sum(row[4] == 1 and row[-1] > 0.05 for row in rows)}; "
        f"over 1 s for more: {sum(row[4] > 1 and row[-1] > 1 for row in rows)}"
    )
    for row in slow:
        print("# slow:", *row)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
