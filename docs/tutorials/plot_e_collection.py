"""
.. _tutorial-collection:

A collection on one machine: clients, a shuffler, an analyst
============================================================

The shuffle model as running software: a shuffler in a process of its own, with TLS; 260 people who each randomize, seal and send one report; an analyst who opens, counts and estimates. All of it on this machine, in a few
seconds. It needs the extra ``collect``.
"""

# %%
# Keys and a task
# ---------------
# The analyst makes a key that reports are sealed for. The shuffler makes one that it signs with. Whoever asks writes down the *task*: the question, the randomizer, the guarantee and both keys. Its
# id is its hash, and everybody checks it. The commands are those that you would type.

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from shoal.collect import Analyst, Connection, Sender, Task, TryAgainError, analyst_key
from shoal.digits import rounded_up

folder = Path(tempfile.mkdtemp())
answers = ["on foot", "bicycle", "bus", "train", "car"]


def run(*words):
    """Run a command of shoal in the folder."""
    return subprocess.run(
        [sys.executable, "-m", "shoal", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )


run("keygen", "analyst", "--folder", "analyst")
run("keygen", "shuffler", "--folder", "shuffler", "--host", "127.0.0.1")
run(
    *(
        "task",
        "new",
        "--question",
        "How did you travel today?",
        "--categories",
        ",".join(answers),
    ),
    *(
        "--mechanism",
        "randomized-response",
        "--local-epsilon",
        "2",
        "--epsilon-limit",
        "1",
        "--malicious",
        "10",
    ),
    *("--minimum", "250", "--round", "8s"),
    *("--analyst-key", "analyst/analyst.pub", "--shuffler-key", "shuffler/shuffler.pub"),
)
task = Task.read(folder / "task.json")
print(task.id[:16], "…")

# %%
# The shuffler
# ------------
# It listens for people at one port and for the analyst at another. It cannot read what it gets; after eight seconds, and not before 250 reports are there, it releases them in random order. (A real round
# takes a day.)

shuffler = subprocess.Popen(
    [
        *(
            sys.executable,
            "-m",
            "shoal",
            "shuffler",
            "serve",
            "--task",
            "task.json",
            "--folder",
            "rounds",
        ),
        *(
            "--key",
            "shuffler/shuffler.key",
            "--tls-certificate",
            "shuffler/shuffler-tls.crt",
        ),
        *(
            "--tls-key",
            "shuffler/shuffler-tls.key",
            "--analyst-certificate",
            "analyst/analyst-tls.crt",
        ),
        *("--port", "0", "--analyst-port", "0", "--open", "--json"),
    ],
    cwd=folder,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
)
lines = []
while not lines or not lines[-1].startswith("}"):
    lines.append(shuffler.stdout.readline())
    if not lines[-1]:
        raise RuntimeError("the shuffler did not start")
listening = json.loads("".join(lines))
ca = folder / "shuffler/shuffler-tls.crt"
print(listening["url"])

# %%
# People
# ------
# Each has a folder of their own, which remembers what was sent, so that nobody reports twice, whatever breaks. On 260 phones these would be 260 machines.

truth = np.random.default_rng(3).choice(
    len(answers), size=260, p=[0.2, 0.3, 0.15, 0.1, 0.25]
)
with Connection(listening["url"], ca) as connection:
    for person, answer in enumerate(truth):
        Sender(task, connection, folder / "people" / str(person)).send(answers[answer])
print(f"{len(truth)} reports are sealed and sent")

# %%
# The analyst
# -----------
# Pulls the round when it is over, opens and counts it, and says what holds for the reports that really came.

analyst = Analyst(folder / "work", task)
certificate, key = folder / "analyst/analyst-tls.crt", folder / "analyst/analyst-tls.key"
with Connection(listening["analyst_url"], ca, certificate, key) as connection:
    pulled = []
    while not pulled:
        try:
            pulled = list(analyst.pull(connection))
        except TryAgainError:
            pass  # the round is still open
        time.sleep(0.2)
    analyst.count(pulled[0], analyst_key(folder / "analyst/analyst.key"))
    analyst.acknowledge(connection)  # the shuffler may delete its copy
result = analyst.result(pulled[0])
shuffler.terminate()
shuffler.communicate()

facts = result.to_dict()
print(f"ε₀ = {facts['local_epsilon']}, against everybody")
print(f"{facts['reports_valid']} reports were opened")
print(
    f"ε = {rounded_up(facts['epsilon'], 3)} at δ = {facts['delta']}, if no more than 10 of the reports are made up"
)

# %%
# What would change on several machines: nothing but addresses. :doc:`/collecting` has the commands, :doc:`/security` says who learns what.
#
# The picture
# -----------
# 260 people and ε₀ = 2: the intervals are wide, and they hold the truth as often as they say.

shares = np.bincount(truth, minlength=len(answers)) / len(truth)
figure, axes = plt.subplots(figsize=(7, 4.2))
result.estimate.plot(axes, names=answers, truth=shares)
figure.tight_layout()
