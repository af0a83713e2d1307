"""Fine-tune a Hugging Face model for classifying texts, privately, by adapters of low rank (LoRA).

    python -m examples.finetune                            a tiny model that is made here: no download, half a minute
    python -m examples.finetune distilbert-base-uncased    one that transformers downloads, or a folder that has one

The texts are made up; put your own into `reviews`. Needs the extra [torch], and transformers.
"""

import argparse
import random
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from shoal.sgd import Run, calibrate
from shoal.sgd.torch import Training, make_private

__all__ = ["LowRank", "add_adapters", "finetune", "load", "reviews", "tiny"]

GOOD = ["wonderful", "delightful", "brilliant", "moving", "clever", "charming", "fresh", "funny"]
BAD = ["boring", "clumsy", "dreadful", "tedious", "stale", "awkward", "noisy", "shallow"]
FILLER = ["the", "film", "story", "house", "by", "a", "sea", "and", "its", "music", "plot", "cast", "ending"]
LENGTH = 16
"""All texts are cut or padded to this many tokens, a number that does not come from the data."""


class LowRank(nn.Module):
    """A frozen layer, plus a product of two thin layers, which alone are trained (LoRA)."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)  # so that it begins as what it was

    def forward(self, x: Tensor) -> Tensor:
        """Add what the thin layers make of it."""
        return self.frozen(x) + self.up(self.down(x))  # type: ignore[no-any-return]


def add_adapters(model: nn.Module, *, rank: int, layers: Iterable[str], head: str) -> list[nn.Parameter]:
    """Freeze a model but for its head, put adapters into layers of these names, and return what is trained."""
    model.requires_grad_(False)
    names = set(layers)
    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if name in names and isinstance(layer, nn.Linear):
                setattr(module, name, LowRank(layer, rank))
    model.get_submodule(head).requires_grad_(True)
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def reviews(count: int, seed: int) -> tuple[list[str], Tensor]:
    """Return made-up texts, and whether each is a praise."""
    draw = random.Random(seed)
    texts, labels = [], []
    for _ in range(count):
        good = draw.random() < 0.5
        words = draw.choices(FILLER, k=draw.randint(6, 12)) + draw.choices(GOOD if good else BAD, k=2)
        draw.shuffle(words)
        texts.append(" ".join(words))
        labels.append(int(good))
    return texts, torch.tensor(labels)


def tiny() -> tuple[nn.Module, Callable[[list[str]], dict[str, Tensor]]]:
    """Return a small untrained BERT, and its tokenizer: a number for every word."""
    from transformers import BertConfig, BertForSequenceClassification

    words = ["[PAD]", *dict.fromkeys(GOOD + BAD + FILLER)]
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.2,  # nobody has trained it, and adapters need something to adapt
        # Attention as it is written, for any mask: a shortcut for batches without padding would let one text decide
        # how others are computed.
        attn_implementation="eager",
    )

    def tokens(texts: list[str]) -> dict[str, Tensor]:
        rows = [[words.index(word) for word in text.split()[:LENGTH]] for text in texts]
        ids = torch.tensor([row + [0] * (LENGTH - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": (ids > 0).long()}

    return BertForSequenceClassification(config), tokens


def load(name: str) -> tuple[nn.Module, Callable[[list[str]], dict[str, Tensor]]]:
    """Return a pretrained model, and its tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=2, attn_implementation="eager")

    def tokens(texts: list[str]) -> dict[str, Tensor]:
        made: dict[str, Tensor] = tokenizer(
            texts, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt"
        )
        return made

    return model, tokens


def per_text(output: Any, target: Tensor) -> Tensor:
    """Return one loss for each text, from what a model of transformers returns."""
    return functional.cross_entropy(output.logits, target, reduction="none")


def finetune(
    model: nn.Module,
    tokens: Callable[[list[str]], dict[str, Tensor]],
    *,
    run: Run,
    rate: float = 0.02,
    head: str = "classifier",
    **settings: Any,
) -> Training:
    """Fine-tune a model on made-up texts; further settings are those of `make_private`.

    Parameters
    ----------
    model : nn.Module
        Of transformers, for sequence classification.
    tokens : callable
        Makes texts into tensors.
    run : Run
        How many texts it is trained on, in how many epochs, and with how much noise.
    rate : float
        The learning rate.
    head : str
        The name of the model's last layer, which is trained as a whole.
    """

    def examples(count: int, seed: int) -> TensorDataset:
        written, labels = reviews(count, seed)
        made = tokens(written)
        return TensorDataset(made["input_ids"], made["attention_mask"], labels)

    model.train()
    trained = add_adapters(model, rank=4, layers=("query", "value", "q_lin", "v_lin"), head=head)
    return make_private(
        model,
        torch.optim.AdamW(trained, lr=rate),
        examples(run.examples, seed=1),
        run,
        loss=per_text,
        virtual_batch_size=64,
        validation=examples(500, seed=2),
        **settings,
    ).fit(after_epoch=_tell)


def _tell(training: Training) -> None:
    epoch, loss = training.validation_losses[-1]
    print(f"epoch {epoch}: validation loss {loss:.3f}, ε = {training.epsilon:.3f}", flush=True)


def main() -> None:
    """Fine-tune what was asked for, and print the guarantee."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a name or a folder, as from_pretrained takes it")
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rate", type=float, help="the learning rate: 0.001, and 0.02 for the tiny model")
    options = parser.parse_args()
    torch.manual_seed(1)
    model, tokens = load(options.model) if options.model else tiny()
    rate = options.rate or (0.001 if options.model else 0.02)
    run = Run(examples=4000, batch_size=256, epochs=options.epochs, sampling="allocation")
    training = finetune(model, tokens, run=calibrate(run, epsilon=options.epsilon, delta=1e-6), rate=rate)
    trained = sum(each.numel() for each in model.parameters() if each.requires_grad)
    print(f"{trained:,} of {sum(each.numel() for each in model.parameters()):,} parameters, by {training.route}")
    print(training.guarantee())


if __name__ == "__main__":
    main()
