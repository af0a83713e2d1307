"""Noisy SGD: what a run guarantees, what others would print, and a model from a file."""

import csv
from pathlib import Path

import numpy as np

from examples.story import Story


def training(story: Story) -> None:
    """Ask the accountant, then train on made-up clients, with a trusted trainer and without one."""
    folder = story.folder
    story.chapter("A model")
    story.say("Noisy SGD over 60,032 examples in 938 batches. What is true, and what does Poisson accounting print?")
    story.run("sgd --examples 60_032 --batch-size 64 --noise-multiplier 0.8 --adjacency zero-out --poisson")
    story.say("With more noise, the shuffle helps:")
    story.run("sgd --examples 60_000 --batch-size 64 --noise-multiplier 16 --epochs 3")
    clients = folder / "clients.csv"
    _write_clients(clients)
    story.say("20,000 clients: train a model on them, with cryptographic noise.")
    story.run(
        f"train {clients} --target buys --noise-multiplier 40 --row-norm 1 --epochs 3 --output {folder}/model.npz "
        f"--plot {folder}/training.png"
    )
    story.shows("training.png", "The loss on clients who were held out, and the ε that each epoch has cost so far.")
    story.say("The same where nobody is trusted: every client clips and noises their own gradient.")
    story.run(f"train {clients} --target buys --noise-multiplier 3 --row-norm 1 --local")


def _write_clients(path: Path) -> None:
    random = np.random.default_rng(5)
    features = random.normal(size=(20_000, 4))
    probabilities = 1 / (1 + np.exp(-features @ [2.0, -1.5, 1.0, 0.0]))
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["visits", "distance", "age", "height", "buys"])
        for row, probability in zip(features.round(3).tolist(), probabilities.tolist(), strict=True):
            writer.writerow([*row, "yes" if random.random() < probability else "no"])
