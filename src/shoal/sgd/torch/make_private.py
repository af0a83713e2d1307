"""From a model, an optimizer and a dataset to a private training."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from shoal.checks import whole
from shoal.errors import ParameterError
from shoal.randomizers.coins import Simulation
from shoal.sgd.account import Account
from shoal.sgd.gradient_noise import key_of
from shoal.sgd.guarantees import calibrate
from shoal.sgd.run import Run
from shoal.sgd.sampler import usual_sampling
from shoal.sgd.torch.clipping import Clipping
from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.examples import Examples
from shoal.sgd.torch.peers import joined
from shoal.sgd.torch.refusals import check_model, check_optimizer, check_repeats, size_of, unwrapped
from shoal.sgd.torch.training import Schedule, Training, Validation

__all__ = ["make_private"]


def make_private(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    dataset: Any,
    *,
    loss: Callable[..., Any],
    batch_size: int | None = None,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    budget: float | None = None,
    clip_norm: float = 1.0,
    delta: float = 1e-6,
    noise: str = "batch",
    adjacency: str = "replace",
    sampling: str | None = None,
    public_steps: int | None = None,
    epochs: int = 1,
    virtual_batch_size: int | None = None,
    drop_last: bool = False,
    examples: int | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    one_by_one: bool = False,
    scheduler: LRScheduler | None = None,
    scheduler_per: str = "epoch",
    validation: Any = None,
    simulation: Simulation | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> Training:
    """Return a training that clips every example's gradient and adds noise, with the guarantee of what it does.

    By default every example joins one random step of each epoch, and so is used exactly once. Nothing is spent yet.

    The gradient that the optimizer sees is the noised sum divided by `batch_size`, whatever the reduction of the loss.
    Class weights of a loss weigh the examples; they do not divide. On a graphics processor all works unchanged, and
    noise is made there, if Triton is installed with torch. `training.step` may be called under `torch.autocast` to
    bfloat16, and convolutions and products may be rounded as torch is set: norms and sums are not. With "add-remove" or
    `collate`, shapes depend on the data, and nothing may be rounded more than float32 is.

    Several processes, each with a graphics processor, train one model that is wrapped in torch's
    `DistributedDataParallel`. Each makes the same calls, with the same arguments and the same whole dataset, and
    computes its share of every step. `batch_size` is that of all of them together, noise is added once, and the
    guarantee is the same as for one process. What goes from one to another is not private, and not encrypted.

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
        With a length, and examples (inputs, …, target) by number; or a plain `DataLoader` of one, whose workers load
        the examples of the batches that are drawn here.
    loss : callable
        A loss of torch.nn, or a function of outputs and targets that gives one value for each example.
    batch_size : int, optional
        b; that of the loader, if it is None. Sums are divided by it; how many examples a batch really has may vary.
    noise_multiplier : float, optional
        The standard deviation of the noise, in units of `clip_norm`; this or `epsilon`.
    epsilon : float, optional
        ε of all planned `epochs`; the noise is calibrated to it, and more epochs are refused.
    budget : float, optional
        ε that may be spent in all, together with `noise_multiplier`. The training then refuses to begin an epoch too
        many, its ε is that of all epochs within the budget, and it may end at any time, for whatever was seen.
    clip_norm : float
        The largest length of an example's gradient, over all trained parameters together.
    delta : float
        δ of the guarantee.
    noise : str
        "batch", one draw on the sum of a batch; "example", one draw for each of its slots.
    adjacency : str
        "replace" or "zero-out", what two neighbouring datasets differ in; or "add-remove", with `public_steps`.
    sampling : str, optional
        How the steps of an epoch are drawn (subsampling): "allocation", every example in a random step of its own,
        "permutation", "poisson", or another of `shoal.sgd.SAMPLERS`. The guarantee is that of the sampler that ran.
        None is "allocation", whose ε is proved to be no larger than any that holds for a permutation; with
        noise="example", where it has nothing to hide among, it is "permutation".
    public_steps : int, optional
        How many steps an epoch has; ⌈examples/batch_size⌉ if it is None. With adjacency="add-remove" it must be given,
        and not be computed from the number of examples, which is a secret.
    epochs : int
        How many epochs are planned. ε is that of the plan, also if the training ends earlier, for whatever was seen.
        Without `epsilon` and `budget` more epochs can be made; their ε holds if their number was fixed in advance.
    virtual_batch_size : int, optional
        How many examples are computed at once (a microbatch), to save memory; it changes nothing else. Sums are
        accumulated, and noise is added once: it is how a large batch fits into a small memory.
    drop_last : bool
        Refused, unless `examples` says how many examples there then are.
    examples : int, optional
        Use only this many, the first ones.
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

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from torch.utils.data import TensorDataset
    >>> points = torch.linspace(-1, 1, 400).reshape(400, 1)
    >>> model = nn.Linear(1, 2)
    >>> training = make_private(
    ...     model, torch.optim.SGD(model.parameters(), lr=1.0), TensorDataset(points, (points[:, 0] > 0).long()),
    ...     loss=nn.CrossEntropyLoss(), batch_size=50, noise_multiplier=4, simulation=Simulation(seed=7),
    ... )
    >>> for batch in training.batches():
    ...     loss = training.step(batch)
    >>> training.epochs, training.guarantee().epsilon == training.epsilon
    (1, True)
    """
    model, peers = joined(model)
    with peers.together("make_private"):
        key = key_of(simulation)
    key = peers.of_first(key)
    with peers.together("make_private") as facts:
        trained = check_model(model)
        check_optimizer(optimizer, model, trained)
        dataset, loader_size, loader_drops, loader_collate, workers = unwrapped(dataset)
        if batch_size is None and loader_size is None:
            raise ParameterError("batch_size is missing; it has to be given where there is no loader", "batch_size")
        if None not in (batch_size, loader_size) and batch_size != loader_size:
            raise ParameterError(
                f"batch_size={batch_size}, and the loader has {loader_size}; give one of them", "batch_size"
            )
        size = whole(batch_size=loader_size if batch_size is None else batch_size)
        count = size_of(dataset, examples=examples, batch_size=size, drop_last=drop_last or loader_drops)
        if (noise_multiplier is None) == (epsilon is None):
            raise ParameterError("give either noise_multiplier= or epsilon=, and not both")
        if budget is not None and noise_multiplier is None:
            raise ParameterError(
                "budget= needs noise_multiplier=; with epsilon= the noise is calibrated to `epochs`, and that ε covers "
                "every number of epochs up to them"
            )
        check_repeats(dataset, count)
        run = Run(
            examples=count,
            batch_size=size,
            noise_multiplier=noise_multiplier,
            clip_norm=clip_norm,
            epochs=epochs,
            noise=noise,
            releases="sums",
            adjacency=adjacency,
            sampling=sampling or usual_sampling(noise),
            public_steps=public_steps,
        )
        if epsilon is not None:
            run = calibrate(run, epsilon=epsilon, delta=delta)
            account = Account(run, delta=delta, budget=epsilon, most=run.epochs)
        else:
            account = Account(run, delta=delta, budget=budget)
        if virtual_batch_size is not None:
            virtual_batch_size = whole(virtual_batch_size=virtual_batch_size)
        measured = Loss(loss)
        device = next(iter(trained.values())).device
        data = Examples(dataset, count=count, collate=collate or loader_collate, device=device, workers=workers)
        clipping = Clipping(
            model,
            measured,
            trained,
            clip_norm=run.clip_norm,
            batch_size=-(-size // peers.count),
            virtual_batch_size=virtual_batch_size,
            one_by_one=one_by_one,
        )
        clipping.try_out(data)
        schedule, held_out = Schedule(scheduler, optimizer, scheduler_per), None
        if validation is not None:
            count = size_of(validation, examples=None, batch_size=1, drop_last=False)
            others = Examples(validation, count=count, collate=collate or loader_collate, device=device)
            held_out = Validation(model, measured, others, together=virtual_batch_size or size)
        settings = {
            **{name: value for name, value in run.to_dict().items() if name != "epochs"},
            "budget": None if budget is None else account.budget,
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
                planned_epochs=epochs,
                one_by_one=one_by_one,
                collate=not data.same_shapes,
                validation=None if held_out is None else others.fingerprint,
                **training.facts(),
            )
    return training
