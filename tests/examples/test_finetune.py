"""Fine-tuning by adapters: a model of transformers that is built here, and the parts that need torch alone."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

from examples.finetune import add_adapters, finetune, load, per_text, reviews, tiny  # noqa: E402
from shoal.mechanisms.coins import Simulation  # noqa: E402
from shoal.sgd import Run  # noqa: E402
from shoal.sgd.torch import make_private  # noqa: E402
from tests.sgd.torch_tests.models import clipped_loop  # noqa: E402

NEEDED = "transformers is not installed; python -m pip install transformers"


def test_adapters_change_nothing_at_first_and_are_all_that_is_trained() -> None:
    torch.manual_seed(1)
    model = nn.ModuleDict({"query": nn.Linear(4, 6), "other": nn.Linear(6, 6), "head": nn.Linear(6, 2)})

    def forward() -> Any:
        return model["head"](model["other"](model["query"](points)))

    points = torch.randn(5, 4)
    before = forward()
    trained = add_adapters(model, rank=2, layers=("query",), head="head")
    assert torch.equal(forward(), before)
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert names == ["query.down.weight", "query.up.weight", "head.weight", "head.bias"]
    assert [id(each) for each in trained] == [id(dict(model.named_parameters())[name]) for name in names]


def test_reviews_are_two_kinds() -> None:
    texts, labels = reviews(200, seed=3)
    assert len(texts) == len(labels) == 200 and 60 < int(labels.sum()) < 140
    assert reviews(200, seed=3)[0] == texts != reviews(200, seed=4)[0]


def examples(tokens: Any, count: int = 40) -> TensorDataset:
    texts, labels = reviews(count, seed=3)
    made = tokens(texts)
    return TensorDataset(made["input_ids"], made["attention_mask"], labels)


def check_sums(model: nn.Module, data: TensorDataset, trained: list[nn.Parameter]) -> None:
    """Compare a sum of clipped gradients with a loop over texts, and make a step that leaves the rest as it was."""
    optimizer = torch.optim.AdamW(trained, lr=0.01)
    described = Run(examples=len(data), batch_size=8, noise_multiplier=1.0, clip_norm=0.5, sampling="allocation")
    settings: dict[str, Any] = {"loss": per_text, "virtual_batch_size": 3, "simulation": Simulation(seed=7)}
    run = make_private(model, optimizer, data, described, **settings)
    assert run.route == "book-keeping"
    batch = next(run.batches())
    sums, _ = run._clipping.total(batch)
    expected = clipped_loop(model, per_text, batch.inputs, batch.target, 0.5)
    for total, right in zip(sums, expected, strict=True):
        assert torch.allclose(total, right, atol=1e-5)
    frozen = {name: each.clone() for name, each in model.named_parameters() if not each.requires_grad}
    changed = [each.clone() for each in trained]
    run.step(batch)
    assert all(torch.equal(each, frozen[name]) for name, each in model.named_parameters() if name in frozen)
    assert not any(map(torch.equal, changed, trained))


@pytest.mark.slow
def test_clipped_sums_of_a_model_of_transformers() -> None:
    pytest.importorskip("transformers", reason=NEEDED)
    torch.manual_seed(1)
    model, tokens = tiny()
    trained = add_adapters(model, rank=2, layers=("query", "value"), head="classifier")
    assert len(trained) == 2 * 2 * 2 + 2
    check_sums(model, examples(tokens), trained)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["DistilBert", "Roberta", "Electra"])
def test_other_models_of_transformers(kind: str) -> None:
    transformers = pytest.importorskip("transformers", reason=NEEDED)
    torch.manual_seed(1)
    small: dict[str, Any] = {"vocab_size": 60, "max_position_embeddings": 40, "num_labels": 2, "initializer_range": 0.2}
    if kind == "DistilBert":
        small |= {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32}
    else:
        small |= {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = getattr(transformers, f"{kind}Config")(**small, attn_implementation="eager")
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config).eval()
    trained = add_adapters(model, rank=2, layers=("query", "value", "q_lin", "v_lin"), head="classifier")
    check_sums(model, examples(tiny()[1]), trained)


@pytest.mark.slow
def test_adapters_of_peft() -> None:
    pytest.importorskip("transformers", reason=NEEDED)
    peft = pytest.importorskip("peft", reason="peft is not installed; python -m pip install peft")
    torch.manual_seed(1)
    model, tokens = tiny()
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=False)
    model = peft.get_peft_model(model, config)
    check_sums(model, examples(tokens), [each for each in model.parameters() if each.requires_grad])


@pytest.mark.slow
def test_fine_tuning_learns(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason=NEEDED)
    torch.manual_seed(1)
    model, tokens = tiny()
    described = Run(
        examples=4000, batch_size=256, epochs=5, noise_multiplier=0.8, adjacency="zero-out", sampling="allocation"
    )
    run = finetune(model, tokens, run=described, simulation=Simulation(seed=7))
    assert run.epochs == 5 and run.epsilon > 0
    losses = [loss for _, loss in run.validation_losses]
    assert losses[-1] < 0.55 and losses[-1] < losses[0]
    assert len(capsys.readouterr().out.splitlines()) == 5
    texts, labels = reviews(500, seed=9)
    model.eval()
    with torch.no_grad():
        right = (model(**tokens(texts)).logits.argmax(1) == labels).float().mean()
    assert right > 0.75


@pytest.mark.slow
def test_a_model_in_a_folder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason=NEEDED)
    tokenizers = pytest.importorskip("tokenizers")
    torch.manual_seed(1)
    model, tokens = tiny()
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    texts, _ = reviews(30, seed=3)
    ids = tokens([word for text in texts for word in text.split()])["input_ids"][:, 0].tolist()
    words = dict(zip((word for text in texts for word in text.split()), ids, strict=True))
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[PAD]": 0, **words}, unk_token="[PAD]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]").save_pretrained(tmp_path)
    again, other_tokens = load(str(tmp_path))
    made = other_tokens(texts)
    assert torch.equal(made["input_ids"], tokens(texts)["input_ids"])
    model.eval(), again.eval()
    with torch.no_grad():
        assert torch.allclose(model(**tokens(texts)).logits, again(made["input_ids"], made["attention_mask"]).logits)
