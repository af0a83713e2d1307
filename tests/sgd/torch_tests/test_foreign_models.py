"""Models of transformers, tiny and with random weights, are clipped in one backward pass, as a loop would clip them."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from shoal.sgd.torch.clipping import Clipping
from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.examples import Batch, Examples, Group
from tests.sgd.torch_tests.models import clipped_loop

transformers = pytest.importorskip("transformers")

_EXAMPLES, _WORDS = 6, 7
_TEXT: dict[str, Any] = {"vocab_size": 60, "num_labels": 3, "pad_token_id": 0, "initializer_range": 0.2}
_WIDE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "initializer_range": 0.2,
}
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Bert": ("SequenceClassification", {**_TEXT, **_WIDE}),
    "DistilBert": ("SequenceClassification", {**_TEXT, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}),
    "GPT2": (
        "SequenceClassification",
        {**_TEXT, "n_embd": 16, "n_layer": 2, "n_head": 2, "bos_token_id": 1, "eos_token_id": 1},
    ),
    "Llama": ("SequenceClassification", {**_TEXT, **_WIDE}),
    "ViT": ("ImageClassification", {**_WIDE, "image_size": 8, "patch_size": 4, "num_labels": 3}),
}


class Named(nn.Module):
    """A model that is given its inputs by their names, which differ in their order."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        given = {"pixel_values": inputs} if mask is None else {"input_ids": inputs, "attention_mask": mask}
        return self.model(**given).logits  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", _MODELS)
def test_sum_is_that_of_a_loop(kind: str, attention: str) -> None:
    torch.manual_seed(1)
    task, settings = _MODELS[kind]
    config = getattr(transformers, f"{kind}Config")(**settings, attn_implementation=attention)
    model = Named(getattr(transformers, f"{kind}For{task}")(config)).eval().double()
    target = torch.randint(0, 3, (_EXAMPLES,))
    inputs: tuple[Tensor, ...] = (torch.randn(_EXAMPLES, 3, 8, 8, dtype=torch.float64),)
    if kind != "ViT":
        mask = (torch.arange(_WORDS) < torch.randint(3, _WORDS + 1, (_EXAMPLES, 1))).long()
        inputs = torch.randint(3, 50, (_EXAMPLES, _WORDS)), mask
    trained = dict(model.named_parameters())
    clipping = Clipping(model, Loss(nn.CrossEntropyLoss()), trained, clip_norm=1.0)
    examples = TensorDataset(*inputs, target)
    clipping.try_out(Examples(examples, count=_EXAMPLES, collate=None, device=target.device))
    assert clipping.route == "book-keeping", clipping.why
    sums, _ = clipping.total(Batch(0, 0, (Group(np.arange(_EXAMPLES), inputs, target),)))
    right = clipped_loop(model, nn.CrossEntropyLoss(), inputs, target, 1.0)
    for found, expected in zip(sums, right, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
