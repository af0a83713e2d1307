"""From a model, an optimizer and a dataset to a private training; what cannot be trained with a guarantee is refused.

Each refusal of a model, an optimizer, a loader or repeated examples says what to do instead.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)

from shoal.checks import whole
from shoal.errors import KindError, ParameterError
from shoal.mechanisms.coins import Simulation
from shoal.sgd.account import Account
from shoal.sgd.gradient_noise import key_of
from shoal.sgd.run import Run
from shoal.sgd.sampler import Indices, usual_sampling
from shoal.sgd.torch.clipping import Clipping
from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.examples import Examples
from shoal.sgd.torch.peers import joined
from shoal.sgd.torch.training import Schedule, Training, Validation

_WORKERS = ("multiprocessing_context", "num_workers", "pin_memory", "prefetch_factor", "timeout", "worker_init_fn")
"""Settings of a loader that say how its workers load examples, and nothing about which."""
_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
_INSTANCE_NORMS = (nn.modules.instancenorm._InstanceNorm,)


def make_private(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    dataset: Dataset[object] | DataLoader[object] | Sequence[object],
    run: Run | None = None,
    *,
    loss: Callable[..., Tensor],
    delta: float = 1e-6,
    budget: float | None = None,
    virtual_batch_size: int | None = None,
    collate: Callable[..., Sequence[Tensor]] | None = None,
    one_by_one: bool = False,
    scheduler: LRScheduler | None = None,
    scheduler_per: str = "epoch",
    validation: Dataset[object] | Sequence[object] | None = None,
    simulation: Simulation | None = None,
    resume: str | os.PathLike[str] | None = None,
    **misplaced: object,
) -> Training:
    """Return a training that makes a run: it clips every example's gradient, adds noise, and gives the guarantee.

    Nothing is spent before the first step. The gradient that the optimizer sees is the noised sum divided by the batch
    size of the run, whatever the reduction of the loss. Class weights of a loss weigh the examples; they do not divide.

    On a GPU everything works unchanged, and noise is made there if Triton is installed with torch. `training.step` may
    be called under `torch.autocast` to bfloat16, and convolutions and products may be rounded as torch is set: norms
    and sums are not. With "add-remove" or `collate`, shapes depend on the data, and nothing may be rounded more than
    float32 is.

    Several processes, each with a GPU, train one model that is wrapped in torch's `DistributedDataParallel`. Each makes
    the same calls, with the same arguments and the same whole dataset, and computes its share of every step. The run is
    the run of all processes together, noise is added once, and the guarantee is the same as for one process. What goes
    from one process to another is not private, and not encrypted.

    Parameters
    ----------
    model : nn.Module
        Any module that treats examples one by one, in float32 or float64. Linear, Conv1d, Conv2d, Embedding, LayerNorm,
        RMSNorm and GroupNorm layers, Conv1D of transformers, and parameters that a module broadcasts over examples
        (gates, scales, class tokens) are clipped in one backward pass; with others all gradients are formed. Batch
        normalization has to be frozen and in eval mode. Or one of those in `DistributedDataParallel`.
    optimizer : torch.optim.Optimizer
        Any of torch.optim, over the model's parameters, that needs no closure. From here on only `training.step` may
        call its `step`. Parameters and modules that change later (frozen, replaced, added) are refused at the next
        step: call `make_private` again.
    dataset : object
        With a length, and examples (inputs, …, target) by number; or a plain `DataLoader` of one, with the batch size
        of the run, whose workers load the examples of the batches that are drawn here.
    run : shoal.sgd.Run
        Examples, batch size, epochs, sampling, noise and clip norm; `shoal.sgd.calibrate` returns one for a target ε.
        The first `run.examples` of the dataset are used; all of them if the run does not say how many. Sums are divided
        by `run.batch_size`, however many examples a batch really has. ε is the ε of all epochs of the run, also if the
        training ends earlier, for whatever was seen. Without a `budget` more epochs can be made; their ε holds if
        their number was fixed in advance.
    loss : callable
        A loss of torch.nn, or a function of outputs and targets that gives one value for each example.
    delta : float
        δ of the guarantee.
    budget : float, optional
        ε that may be spent in all. The training then refuses to begin an epoch too many, its ε is the ε of all epochs
        within the budget, and it may end at any time, for whatever was seen.
    virtual_batch_size : int, optional
        How many examples are computed at once (a microbatch), to save memory; it changes nothing else. Sums are
        accumulated, and noise is added once: it is how a large batch fits into a small memory.
    collate : callable, optional
        Makes a list of examples into a batch of tensors, the target last. It is called with one example at a time, so
        that it cannot mix them; examples of different shapes are not padded, but computed shape by shape.
    one_by_one : bool
        Form every example's gradient by itself. It is slower, and no model can mix examples then. Without it, that none
        does is tested: at the start, for the first eight numbers of examples, and in one step of 16.
    scheduler : LRScheduler, optional
        Of torch.optim.lr_scheduler, over the optimizer. The training steps it, and its checkpoint remembers it.
    scheduler_per : str
        "epoch" or "step": after what the scheduler is stepped.
    validation : object, optional
        A dataset of examples that are **not protected**, whose mean loss after every epoch of `fit` is in
        `validation_losses`.
    simulation : Simulation, optional
        Coins for simulations and tests, **never** for real people's data.
    resume : str or PathLike, optional
        A file that `save` wrote. Model, optimizer, random numbers of torch and position are taken from it.
    **misplaced : object
        Refused: settings of the run belong to `Run`.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from torch.utils.data import TensorDataset
    >>> from shoal import sgd
    >>> points = torch.linspace(-1, 1, 400).reshape(400, 1)
    >>> data = TensorDataset(points, (points[:, 0] > 0).long())
    >>> model = nn.Linear(1, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    >>> run = sgd.Run(examples=400, batch_size=50, epochs=3, sampling="allocation")
    >>> run = sgd.calibrate(run, epsilon=2, delta=1e-6)
    >>> training = make_private(
    ...     model, optimizer, data, run, loss=nn.CrossEntropyLoss(), simulation=Simulation(seed=7)
    ... )
    >>> for batch in training.batches():
    ...     loss = training.step(batch)
    >>> training.epochs, training.guarantee().epsilon <= 2
    (1, True)
    """
    if misplaced or not isinstance(run, Run):
        raise KindError(_translated(run, misplaced, delta))
    model, peers = joined(model)
    with peers.together("make_private"):
        key = key_of(simulation)
    key = peers.of_first(key)
    with peers.together("make_private") as facts:
        trained = check_model(model)
        check_optimizer(optimizer, model, trained)
        loaded = unwrapped(dataset)
        run = _run_on(run, loaded)
        check_repeats(loaded.dataset, run.examples)
        account = Account(run, delta=delta, budget=budget)
        if virtual_batch_size is not None:
            virtual_batch_size = whole(virtual_batch_size=virtual_batch_size)
        measured = Loss(loss)
        device = next(iter(trained.values())).device
        collate = collate or loaded.collate
        data = Examples(loaded.dataset, count=run.examples, collate=collate, device=device, workers=loaded.workers)
        clipping = Clipping(
            model,
            measured,
            trained,
            clip_norm=run.clip_norm,
            batch_size=-(-run.batch_size // peers.count),
            virtual_batch_size=virtual_batch_size,
            one_by_one=one_by_one,
        )
        clipping.try_out(data)
        schedule = Schedule(scheduler, optimizer, scheduler_per)
        held_out = None
        if validation is not None:
            others = Examples(validation, count=length_of(validation), collate=collate, device=device)
            held_out = Validation(model, measured, others, together=virtual_batch_size or run.batch_size)
        settings = {
            **{name: value for name, value in run.to_dict().items() if name != "epochs"},
            "budget": account.budget,
            "delta": account.delta,
            "loss": measured.name,
            "model": repr(model),
            "optimizer": type(optimizer).__qualname__,
            "parameters": [
                [name, list(p.shape), str(p.dtype), p.requires_grad] for name, p in model.named_parameters()
            ],
            "processes": peers.count,
            "scheduler": schedule.name,
            "simulation": None if simulation is None else simulation.seed,
            "virtual_batch_size": virtual_batch_size,
        }
        training = Training(
            model,
            optimizer,
            trained=trained,
            examples=data,
            clipping=clipping,
            account=account,
            schedule=schedule,
            validation=held_out,
            key=key,
            settings=settings,
            peers=peers,
        )
        if resume is not None:
            training.restore(resume)
        if not peers.alone:
            facts.update(
                planned_epochs=run.epochs,
                one_by_one=one_by_one,
                collate=not data.same_shapes,
                validation=None if held_out is None else others.fingerprint,
                **training.facts(),
            )
    return training


def _translated(run: object, misplaced: dict[str, object], delta: float) -> str:
    """Return how to give `make_private` a run, with the settings that were given as arguments."""
    strange = sorted(misplaced.keys() - {"epsilon", *Run.__dataclass_fields__})
    if strange:
        return f"make_private has no argument {strange[0]!r}"
    if run is not None and not misplaced:
        return f"run must be a shoal.sgd.Run, got {type(run).__name__}"
    epsilon = misplaced.pop("epsilon", None)
    usual = {"examples": "len(dataset)", "sampling": repr(usual_sampling(str(misplaced.get("noise", "batch"))))}
    shown = usual | {name: repr(value) for name, value in misplaced.items() if value is not None}
    described = f"Run({', '.join(f'{name}={value}' for name, value in shown.items())})"
    if epsilon is not None:
        described = f"calibrate({described}, epsilon={epsilon!r}, delta={delta!r})"
    return (
        "make_private takes what is done as a run, after the dataset: from shoal import sgd; "
        f"make_private(model, optimizer, dataset, sgd.{described.replace('(Run', '(sgd.Run')}, loss=loss)"
    )


def _run_on(run: Run, loaded: "Loaded") -> Run:
    """Return the run on this dataset, whose examples are counted if the run does not say how many there are."""
    there = length_of(loaded.dataset)
    if loaded.batch_size not in (None, run.batch_size):
        raise ParameterError(
            f"the run has batch_size={run.batch_size}, and the loader has {loaded.batch_size}; give both the same",
            "batch_size",
        )
    if run.examples > there:
        raise ParameterError(f"the run has {run.examples:,} examples, and the dataset {there:,}", "examples")
    examples = run.examples or there
    full = there // run.batch_size * run.batch_size
    if loaded.drop_last and full not in (there, examples):
        raise ParameterError(
            f"drop_last would leave out {there - full} of {there} examples, others in every epoch, and the guarantee "
            "is for an epoch that uses every example once. Leave drop_last out: empty slots fill the batches. Or "
            f"train on the first {full} alone: Run(examples={full})"
        )
    return replace(run, examples=examples, releases="sums")


def check_model(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trained parameters of a model, by name."""
    if not isinstance(model, nn.Module):
        raise ParameterError(f"model must be a torch.nn.Module, got {type(model).__name__}", "model")
    for name, module in model.named_modules():
        where = f"{type(module).__name__} ({name or 'the model'})"
        if isinstance(module, _INSTANCE_NORMS):
            if module.track_running_stats:
                raise ParameterError(
                    f"{where} keeps running statistics, which are not noised; use track_running_stats=False"
                )
        elif isinstance(module, _BATCH_NORMS) and not _is_fixed(module):
            raise ParameterError(
                f"{where} mixes the examples of a batch, so that no gradient belongs to one example; use "
                f"nn.GroupNorm({_groups(module.num_features)}, {module.num_features}), or keep its public statistics: "
                "freeze its parameters by requires_grad_(False), and call eval() on it"
            )
        elif isinstance(module, nn.Embedding) and (module.max_norm or module.scale_grad_by_freq or module.sparse):
            raise ParameterError(
                f"{where}: max_norm changes weights without noise, scale_grad_by_freq mixes examples, and noise is not "
                "sparse; use none of them"
            )
        elif hasattr(module, "_orig_mod") or module._compiled_call_impl is not None:
            raise ParameterError(
                f"{where} is compiled, and what its layers do is not seen; give make_private the module that "
                "torch.compile was given: both have the same parameters, and the compiled one can be used to evaluate"
            )
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not trained:
        raise ParameterError("the model has no parameter to train: none has requires_grad")
    kinds = {(parameter.dtype, parameter.device) for parameter in trained.values()}
    if len(kinds) > 1 or next(iter(kinds))[0] not in (torch.float32, torch.float64):
        mixed = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise ParameterError(
            f"the trained parameters must all be float32, or all float64, on one device, got {mixed}; use model.float()"
        )
    return trained


def _is_fixed(module: nn.Module) -> bool:
    """Return whether a batch normalization is a fixed function: in eval mode, with statistics, and frozen."""
    trained = any(parameter.requires_grad for parameter in module.parameters())
    return not module.training and module.running_mean is not None and not trained


def _groups(features: int) -> int:
    return next(groups for groups in (32, 16, 8, 4, 2, 1) if features % groups == 0)


def check_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, trained: dict[str, nn.Parameter]) -> None:
    """Check that the optimizer trains this model, all of it, from gradients alone."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ParameterError(f"optimizer must be one of torch.optim, got {type(optimizer).__name__}", "optimizer")
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if held - {id(parameter) for parameter in model.parameters()}:
        raise ParameterError(
            "the optimizer has parameters that are not the model's; make it from model.parameters(), after the model "
            "is on its device"
        )
    for name, parameter in trained.items():
        if id(parameter) not in held:
            raise ParameterError(
                f"{name} is trainable, and the optimizer does not have it; add it there, or freeze it: "
                "requires_grad_(False)"
            )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ParameterError(
            f"{type(optimizer).__name__} computes the loss more than once a step; use another, such as SGD or Adam"
        )


class Loaded(NamedTuple):
    """A dataset, and what a plain loader of it says: its batch size, its own collate, and how its workers load."""

    dataset: Any
    batch_size: int | None = None
    drop_last: bool = False
    collate: Callable[[list[Any]], Any] | None = None
    workers: dict[str, Any] | None = None


def unwrapped(dataset: Any) -> Loaded:
    """Return the dataset of a plain loader with the loader's settings, or a dataset alone."""
    if not isinstance(dataset, DataLoader):
        return Loaded(dataset)
    _check_iterable(dataset.dataset)
    plain = type(dataset.batch_sampler) is BatchSampler
    sampler = dataset.sampler
    if type(sampler) is RandomSampler:
        plain = plain and not sampler.replacement and sampler.num_samples == len(sampler.data_source)
    elif type(sampler) is not SequentialSampler:
        plain = False
    if isinstance(sampler, DistributedSampler):
        raise ParameterError(
            "the loader has a DistributedSampler, and batches are drawn and shared out here; give make_private the "
            "whole dataset in every process, and batch_size= of all processes together"
        )
    if not plain:
        raise ParameterError(
            f"the loader has its own sampler ({type(sampler).__name__}, {type(dataset.batch_sampler).__name__}), and "
            "batches are drawn here, by `sampling`, for the guarantee to be true; give make_private the dataset itself"
        )
    collate = None if dataset.collate_fn is default_collate else dataset.collate_fn
    workers = {name: getattr(dataset, name) for name in _WORKERS} if dataset.num_workers else None
    return Loaded(dataset.dataset, dataset.batch_size, bool(dataset.drop_last), collate, workers)


def _check_iterable(dataset: Any) -> None:
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise ParameterError(
            f"{type(dataset).__name__} has no examples by number, so it cannot be permuted; use a dataset with "
            "__len__ and __getitem__"
        )


def length_of(dataset: Any) -> int:
    """Return how many examples a dataset has."""
    _check_iterable(dataset)
    if len(dataset) == 0:
        raise ParameterError("the dataset is empty; it must have at least one example")
    return len(dataset)


def check_repeats(dataset: Any, count: int) -> None:
    """Refuse a dataset among whose first entries one is there twice, as far as torch's own wrappers show it.

    Subsets and concatenations, nested or not, are followed to the datasets that they take examples from, and a
    `TensorDataset` to the memory of its rows.
    """
    sources: dict[object, list[tuple[Indices, Indices]]] = {}
    for source, positions, entries in _sources(dataset, np.arange(count), np.arange(count)):
        sources.setdefault(source, []).append((positions, entries))
    for parts in sources.values():
        positions, entries = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(positions, kind="stable")
        same = np.flatnonzero(np.diff(positions[order]) == 0)
        if len(same):
            first = same[0]
            pair = sorted((int(entries[order[first]]), int(entries[order[first + 1]])))
            raise ParameterError(
                f"entries {pair[0]} and {pair[1]} of the dataset are the same example, and {len(same):,} in all are "
                "repeated: the guarantee is for examples that are used once an epoch. Leave repeated indices out of "
                "Subset and ConcatDataset; to weigh an example more, give the loss a weight, which clipping bounds"
            )


def _sources(dataset: Any, indices: Indices, entries: Indices) -> Iterator[tuple[object, Indices, Indices]]:
    """Yield what examples come from, their positions there, and which entries they are."""
    if isinstance(dataset, Subset):
        try:
            taken = np.array([int(index) for index in dataset.indices], np.int64)
        except (TypeError, ValueError):  # names, and not numbers
            yield id(dataset), indices, entries
            return
        inner: Any = dataset.dataset
        positions = taken[indices]
        if hasattr(inner, "__len__"):
            positions = np.where(positions < 0, positions + len(inner), positions)
        yield from _sources(inner, positions, entries)
    elif isinstance(dataset, ConcatDataset):
        ends = np.array(dataset.cumulative_sizes)
        which = np.searchsorted(ends, indices, side="right")
        for number, part in enumerate(dataset.datasets):
            own = which == number
            start = ends[number - 1] if number else 0
            yield from _sources(part, indices[own] - start, entries[own])
    elif type(dataset) is TensorDataset:
        for tensor in dataset.tensors:
            if tensor.numel() and tensor.stride(0):
                positions = tensor.data_ptr() + indices * (tensor.stride(0) * tensor.element_size())
                yield ("memory", str(tensor.device)), positions, entries
                return
        yield id(dataset), np.zeros_like(indices), entries  # one row, many times
    else:
        yield id(dataset), indices, entries
