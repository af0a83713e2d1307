"""The verb `train`: a private model from a table of examples."""

import io
import json as json_format
import math
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from shoal.checks import known, probability, whole
from shoal.cli.app import TRAINING, app
from shoal.cli.options import Count, Flag, Json, Number
from shoal.cli.output import show
from shoal.cli.pictures import check_plot, save_plot
from shoal.cli.train_output import print_training
from shoal.durable_file import check_output, whole_file
from shoal.errors import ParameterError, PrecisionWarning
from shoal.mechanisms.coins import Simulation, coins_for
from shoal.sgd.estimator import are_conventional
from shoal.sgd.example_table import Examples, read_examples
from shoal.sgd.guarantees import Guarantee
from shoal.sgd.logistic import LinearClassifier, LocalLogisticRegression, PrivateLogisticRegression
from shoal.sgd.sampler import SAMPLERS

_SHARE = 0.2
_WITHOUT_NOISE = "accuracy, loss and their picture are computed from data without noise: the guarantee is the model's"
_NOT_PRIVATE = "the coins come from a seed, and anybody can toss them again: for simulation only, never for real people"

Sampling = Annotated[
    str | None,
    Parameter(
        metavar="NAME",
        help="how the steps of an epoch are drawn (subsampling): "
        + "; ".join(f"{sampler.name}, {sampler.description}" for sampler in SAMPLERS.values())
        + ".",
    ),
]
Names = Annotated[str | None, Parameter(metavar="NAME,NAME,…")]
Seed = Annotated[Count | None, Parameter(metavar="SEED")]


@app.command(
    group=TRAINING, help_epilogue="Example:  shoal train people.csv --target income --epsilon 1 --output model.npz"
)
def train(
    data: Path,
    *,
    target: str | None = None,
    noise_multiplier: Number | None = None,
    epsilon: Number | None = None,
    delta: Number = 1e-6,
    clip_norm: Number = 1.0,
    epochs: Count = 1,
    batch_size: Count = 256,
    learning_rate: Number | None = None,
    noise: str | None = None,
    adjacency: str = "replace",
    sampling: Sampling = None,
    public_steps: Count | None = None,
    local: Flag = False,
    features: Names = None,
    classes: Names = None,
    row_norm: Number | None = None,
    test: Path | None = None,
    test_share: Number | None = None,
    output: Path | None = None,
    plot: Path | None = None,
    simulation: Seed = None,
    json: Json = False,
) -> None:
    """Train a private classifier on a CSV or .npz file: logistic regression, or softmax for three classes and more.

    Features are used as they are: nothing is scaled by what the data say. Scale them beforehand, by bounds that
    everybody knows, so that rows are about as long as the clip norm; --row-norm shortens those that are longer.

    Parameters
    ----------
    data
        a CSV file with a header (.csv.gz will do), numbers in all columns but the target; or an .npz file with the
        arrays X and y.
    target
        the column of labels; in an .npz file the array, y if not given.
    noise_multiplier
        the standard deviation of the noise, in units of --clip-norm; this or --epsilon.
    epsilon
        ε that must hold; the noise is chosen for it.
    delta
        δ of the guarantee.
    clip_norm
        the largest length of an example's gradient.
    epochs
        epochs, passes over the data.
    batch_size
        examples in a step, on average if the sampler has batches of varying size; with --local, how many clients get
        the same model.
    learning_rate
        of the first step; chosen without looking at the data if not given.
    noise
        batch: one draw on the sum of a batch; example: one for each of its slots.
    adjacency
        what may happen to one example: replace, or zero-out; or add-remove, with --public-steps.
    public_steps
        the steps of an epoch; examples/batch-size if not given. It must not be computed from how many examples there
        are with --adjacency add-remove, where that is a secret.
    local
        train in the local model: every row is a client that noises its own gradient, and a shuffler hands the reports
        on.
    features
        the columns to use, with commas between them; all but the target if not given. In an .npz file the array, X if
        not given.
    classes
        all labels there may be, with commas between them. If not given, they are the labels in the data, and the
        guarantee does not protect which labels occur.
    row_norm
        make longer rows this long, each by itself.
    test
        a file like the data with examples to measure the accuracy on; they are not protected.
    test_share
        the part of the data to hold out for that instead, at random; 0.2 if not given, and 0 for none.
    output
        write the model into this .npz file: coef, intercept, classes, features, and the guarantee as JSON.
    plot
        draw loss and ε into this file (.png, .svg, .pdf).
    simulation
        a seed, to repeat a training; for simulation only, never for the data of real people.
    """
    inputs = [path for path in (data, test) if path is not None]
    _check_files(output, plot, inputs)
    fields = _fields(noise_multiplier, epsilon, noise, local)
    coins = None if simulation is None else Simulation(seed=whole(simulation=simulation, least=0))
    chosen = None if features is None else [name.strip() for name in features.split(",")]
    learned, seen, kinds = _read(
        data, test=test, share=test_share, target=target, features=chosen, classes=classes, coins=coins
    )
    if row_norm is not None:
        learned, seen = learned.clipped(row_norm), None if seen is None else seen.clipped(row_norm)
    trained = (LocalLogisticRegression if local else PrivateLogisticRegression)(
        **fields,
        delta=delta,
        clip_norm=clip_norm,
        epochs=epochs,  # type: ignore[arg-type]
        batch_size=batch_size,  # type: ignore[arg-type]
        learning_rate=learning_rate,
        adjacency=adjacency,
        sampling=sampling,
        public_steps=public_steps,  # type: ignore[arg-type]
        classes=kinds,
        track_loss=True,
        simulation=coins,
    )
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", PrecisionWarning)  # it is printed below
        # Opened before the training: what can't be written is not trained first.
        file = None if output is None else stack.enter_context(whole_file(output, inputs=inputs))
        trained.fit(learned.features, learned.labels, validation=None if seen is None else (seen.features, seen.labels))
        # The classes come from all of the file, also from the examples that are held out.
        found = replace(trained.guarantee_, labels_from_data=classes is None and not are_conventional(kinds))
        facts = _facts(trained, found, learned, seen) | {
            "data": str(data),
            "local": local,
            "classes_from": "data" if classes is None else "you",
            "labels_from_data": found.labels_from_data,
            "row_norm": row_norm,
            "model": None if output is None else str(output),
            "picture": None if plot is None else str(plot),
            "private": coins is None,
            **({} if coins is None else {"seed": coins.seed, "warning": _NOT_PRIVATE}),
        }
        if file is not None:
            _write(file, trained, found, learned.names, facts)
    if plot is not None:
        from shoal.cli.train_output import training_curve

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrecisionWarning)
            axes = training_curve(found, trained.loss_curve_, held_out=seen is not None)
        save_plot(plot, axes, inputs=inputs)
    show(facts, print_training, json=json)


def _check_files(output: Path | None, plot: Path | None, inputs: list[Path]) -> None:
    """Refuse what can't be written, before anything is read."""
    if output is not None and output.suffix.lower() != ".npz":
        raise ParameterError(f"output must be an .npz file, got {str(output)!r}", "output")
    check_plot(plot)
    for path in (output, plot):
        if path is not None:
            check_output(path, inputs)
            if not path.absolute().parent.is_dir():
                raise ParameterError(f"cannot write {path}: its folder does not exist; make the folder first")
    if plot is not None:
        from shoal.cli.train_output import check_drawing

        check_drawing()


def _fields(noise_multiplier: float | None, epsilon: float | None, noise: str | None, local: bool) -> dict[str, Any]:
    if (noise_multiplier is None) == (epsilon is None):
        raise ParameterError("give either --noise-multiplier, such as 1, or --epsilon, to have the noise chosen for it")
    fields: dict[str, Any] = {"noise_multiplier": noise_multiplier, "epsilon": epsilon}
    if not local:
        return fields | {"noise": known(("batch", "example"), noise=noise or "batch")}
    if noise not in (None, "example"):
        raise ParameterError("with --local every client noises its own report; leave --noise out")
    return fields


def _read(
    data: Path,
    *,
    test: Path | None,
    share: float | None,
    target: str | None,
    features: list[str] | None,
    classes: str | None,
    coins: Simulation | None,
) -> tuple[Examples, Examples | None, NDArray[Any]]:
    """Return the examples to train on, those held out, and all labels there may be."""
    if test is not None and share is not None:
        raise ParameterError("give either --test, a file, or --test-share, a part of the data")
    held = probability(test_share=_SHARE if share is None else share, zero=True, usual="0.1 to 0.3")
    table = read_examples(data, target=target, features=features)
    kinds = _classes(table, classes)
    if test is not None:
        seen = read_examples(test, target=target, features=table.names or features)
        if seen.features.shape[1] != table.features.shape[1]:
            raise ParameterError(
                f"{test} has {seen.features.shape[1]} features, and {data} has {table.features.shape[1]}"
            )
        return table, _labelled(seen, kinds, str(test)), kinds
    if not held:
        return table, None, kinds
    count = max(1, round(held * len(table)))
    if count >= len(table):
        raise ParameterError(
            f"{data} has {len(table)} examples, too few to hold out {held:g} of them; use --test-share 0"
        )
    order = coins_for(coins).permutation(len(table))
    return table.taken(np.sort(order[count:])), table.taken(np.sort(order[:count])), kinds


def _classes(table: Examples, classes: str | None) -> NDArray[Any]:
    """Return the labels there may be, sorted, of the same type as those in the data."""
    if classes is None:
        return np.unique(table.labels)
    given = [name.strip() for name in classes.split(",")]
    if len(set(given)) < len(given) or "" in given:
        raise ParameterError(f"classes must be different names with commas between them, got {classes!r}", "classes")
    try:
        kinds = np.unique(np.array(given) if table.labels.dtype.kind == "U" else np.array(given).astype(np.int64))
    except ValueError:
        raise ParameterError(f"the labels are whole numbers, and --classes is {classes!r}") from None
    _labelled(table, kinds, "the data")
    return kinds


def _labelled(table: Examples, kinds: NDArray[Any], source: str) -> Examples:
    """Return the table with labels of the same type as the classes, or say which label is not among them."""
    texts = table.labels.astype(str)
    strange = np.flatnonzero(~np.isin(texts, kinds.astype(str)))
    if len(strange):
        shown = ", ".join(map(str, kinds[:20])) + (", …" if len(kinds) > 20 else "")
        raise ParameterError(
            f"example {strange[0] + 1:,} of {source} has the label {str(texts[strange[0]])!r}, which is none of the "
            f"classes {shown}; name all of them with --classes, or leave it out"
        )
    return Examples(table.features, texts.astype(kinds.dtype), table.names)


def _facts(trained: LinearClassifier, found: Guarantee, learned: Examples, seen: Examples | None) -> dict[str, Any]:
    """Return what was done and what came of it."""
    facts = found.to_dict() | {
        "examples": found.run.examples or None,  # a secret, where one may be added
        "features": learned.features.shape[1],
        "classes": trained.classes_.tolist(),
        "noise_multiplier": trained.noise_multiplier_,
        "learning_rate": trained.learning_rate_,
        "held_out": None,
    }
    if seen is not None:
        frequent = np.unique(seen.labels, return_counts=True)[1].max() / len(seen)
        facts["held_out"] = {
            "examples": len(seen),
            "accuracy": trained.score(seen.features, seen.labels),
            "loss": loss if math.isfinite(loss := trained.loss_curve_[-1][1]) else None,
            "most_frequent_class": float(frequent),
            "note": _WITHOUT_NOISE,
        }
    return facts


def _write(
    file: BinaryIO, trained: LinearClassifier, found: Guarantee, names: tuple[str, ...], facts: dict[str, Any]
) -> None:
    """Write the model, and nothing that was computed without noise."""
    row_norm, private = facts["row_norm"], facts["private"]
    guaranteed = found.to_dict() | {
        "local": facts["local"],
        "row_norm": row_norm,
        "private": private,
        "labels_from_data": facts["labels_from_data"],
    }
    content = io.BytesIO()
    np.savez(
        content,
        coef=trained.coef_,
        intercept=trained.intercept_,
        classes=trained.classes_,
        features=np.array(names, str),
        guarantee=np.array(json_format.dumps(guaranteed, ensure_ascii=False)),
    )
    file.write(content.getbuffer())
