"""A private training: the batches of a sampler, clipped, charged, noised, and handed to the optimizer.

The parameters stay as `make_private` saw them, moved by noised gradients alone (`WatchedParameters`). A learning-rate
`Schedule` goes by the number of steps, which everybody knows, and a `Validation` is of examples that are not protected.
"""

import functools
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from shoal.checks import known, whole
from shoal.digits import rounded_up
from shoal.durable_file import check_output
from shoal.errors import NotFiniteError, ParameterError
from shoal.progress import progress
from shoal.sgd.account import Account, ProgressLabel
from shoal.sgd.gradient_noise import GRID, margin_for, subkey
from shoal.sgd.guarantees import Guarantee
from shoal.sgd.sampler import Indices
from shoal.sgd.torch.checkpoint import account_of, compare, read_checkpoint, whole_fields, write_checkpoint
from shoal.sgd.torch.clipping import Clipping
from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.examples import Batch, Examples
from shoal.sgd.torch.kernels import runs_on
from shoal.sgd.torch.peers import Peers, mark_of
from shoal.sgd.torch.precision import check_arithmetic, whole_convolutions
from shoal.sgd.torch.step_noise import StepNoise

_NOTHING = nullcontext()
_NOISE_STREAM = 2
"""What the normal numbers of the central processor are made of; another number whenever the same key gives others."""
_HOOKS: WeakKeyDictionary[Optimizer, Any] = WeakKeyDictionary()
"""The hook of each optimizer that trains privately; a later `make_private` replaces it."""
_ADVICE = (
    "Call make_private again with the model and an optimizer as they are to be. That is another "
    "training with its own guarantee, and what was spent until now is spent"
)


class Schedule:
    """A scheduler of torch, stepped after every epoch or after every step; or none.

    The learning rate then is a function of how many steps were made, which everybody knows.

    `per` is "epoch" or "step".
    """

    def __init__(self, scheduler: LRScheduler | None, optimizer: Optimizer, per: str) -> None:
        self._scheduler = scheduler
        self._per = known(("epoch", "step"), scheduler_per=per)
        if scheduler is None:
            return
        if not isinstance(scheduler, LRScheduler):
            raise ParameterError(
                f"scheduler must be one of torch.optim.lr_scheduler, got {type(scheduler).__name__}", "scheduler"
            )
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ParameterError(
                "ReduceLROnPlateau goes by a loss, which tells of the data without noise; use a scheduler that goes by "
                "the number of steps, such as CosineAnnealingLR"
            )
        if scheduler.optimizer is not optimizer:
            raise ParameterError("the scheduler has another optimizer; make it from the one that make_private is given")

    @property
    def name(self) -> str | None:
        """What it is, for a checkpoint to compare."""
        return None if self._scheduler is None else f"{type(self._scheduler).__qualname__} per {self._per}"

    def after(self, *, last: bool) -> None:
        """Count a step, the last of its epoch or not."""
        if self._scheduler is not None and (last or self._per == "step"):
            self._scheduler.step()

    def state(self) -> dict[str, Any] | None:
        """Return what `restore` takes."""
        return None if self._scheduler is None else self._scheduler.state_dict()

    def restore(self, state: dict[str, Any] | None) -> None:
        """Go on from there."""
        if self._scheduler is not None and state is not None:
            self._scheduler.load_state_dict(state)


class Validation:
    """Held-out examples, and the mean loss of a model on them.

    Nothing is changed by asking: the model is evaluated without gradients, and goes on as it was.

    The guarantee is not about the held-out examples, of which `together` are computed at once.
    """

    def __init__(self, model: nn.Module, loss: Loss, examples: Examples, *, together: int) -> None:
        self._model = model
        self._loss = loss
        self._examples = examples
        self._together = together

    def mean_loss(self, share: Callable[[Indices], Indices]) -> tuple[float, int]:
        """Return the mean loss of those that `share` leaves of all their indices, and how many they are."""
        chosen = share(np.arange(self._examples.count))
        modes: list[tuple[nn.Module, Any]] = [(module, module.training) for module in self._model.modules()]
        losses = []
        self._model.eval()
        try:
            with torch.no_grad():
                for start in range(0, len(chosen), self._together):
                    for group in self._examples.load(chosen[start : start + self._together]):
                        losses += self._loss(self._model(*group.inputs), group.target).double().tolist()
        finally:
            for module, mode in modes:
                module.training = mode
        return math.fsum(losses) / len(losses) if losses else math.nan, len(losses)


class WatchedParameters:
    """The modules and parameters of a model, and the only way for its optimizer to step.

    From here on `optimizer.step()` is refused outside of `step`: it would apply gradients that
    are neither clipped nor noised.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, trained: Sequence[nn.Parameter]) -> None:
        self._model = model
        self._optimizer = optimizer
        self._trained = trained
        self._known = _members(model)
        self._known_held = _held(optimizer)
        self._stepping = False
        if earlier := _HOOKS.pop(optimizer, None):
            earlier.remove()
        _HOOKS[optimizer] = optimizer.register_step_pre_hook(self._refuse)

    def check(self) -> None:
        """Refuse modules or parameters that were frozen, unfrozen, replaced, added or removed."""
        members = _members(self._model)
        for name in self._known | members:
            if change := _change(self._known.get(name), members.get(name)):
                raise ParameterError(f"{name} was {change} after make_private. {_ADVICE}")
        held = _held(self._optimizer)
        if list(map(id, held)) != list(map(id, self._known_held)):
            raise ParameterError(
                f"the optimizer has {len(held):,} parameters, and had {len(self._known_held):,}, or "
                f"the same in another order, at make_private. {_ADVICE}"
            )

    def clear(self) -> None:
        """Drop every gradient that the optimizer holds, including gradients of frozen parameters."""
        for parameter in _held(self._optimizer):
            parameter.grad = None

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Let the optimizer step by these gradients of the trained parameters, and by no others."""
        self.clear()
        for parameter, gradient in zip(self._trained, gradients, strict=True):
            parameter.grad = gradient
        self._stepping = True
        try:
            self._optimizer.step()
        finally:
            self._stepping = False

    def _refuse(self, *_: Any) -> None:
        """Refuse a step that this training does not make; torch calls it before every step."""
        if not self._stepping:
            raise ParameterError(
                "optimizer.step() was called outside of training.step(batch), which calls it with "
                "noised gradients. Leave the call out; to train this model without a guarantee, or "
                "by another make_private, use another optimizer"
            )


def _members(model: nn.Module) -> dict[str, tuple[object, bool]]:
    """Return every module and parameter by a name, and whether it is trained."""
    members: dict[str, tuple[object, bool]] = {
        f"the module {name or 'itself'}": (module, False) for name, module in model.named_modules()
    }
    for name, parameter in model.named_parameters():
        members[f"the parameter {name}"] = (parameter, parameter.requires_grad)
    return members


def _held(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _change(before: tuple[object, bool] | None, now: tuple[object, bool] | None) -> str:
    """Return the change of a module or a parameter as a word, empty if there is none."""
    if before is None:
        return "added"
    if now is None:
        return "removed"
    if before[0] is not now[0]:
        return "replaced by another (by load_state_dict(assign=True), or an assignment)"
    return "" if before[1] == now[1] else "frozen" if before[1] else "unfrozen"


class Training:
    """A model in private training; `make_private` returns it.

    `settings` are all else that has to be the same when a training is resumed.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        trained: dict[str, nn.Parameter],
        examples: Examples,
        clipping: Clipping,
        account: Account,
        schedule: Schedule,
        validation: Validation | None,
        key: bytes,
        settings: dict[str, Any],
        peers: Peers,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.account = account
        self.run = account.run
        self._trained = list(trained.values())
        self._device = self._trained[0].device
        self._watched = WatchedParameters(model, optimizer, self._trained)
        sizes = [parameter.numel() for parameter in self._trained]
        self._sum = torch.zeros(sum(sizes), dtype=self._trained[0].dtype, device=self._device)
        pieces = torch.split(self._sum, sizes)
        self._parts = [piece.view_as(each) for piece, each in zip(pieces, self._trained, strict=True)]
        self._spacing = GRID * self.run.sum_deviation
        # For as many examples as a batch can have, and not for as many as it has, which nobody may know.
        largest = self.run.sampler.largest(self.run, account.delta)
        self._margin = margin_for(largest, single=self._trained[0].dtype == torch.float32)
        self._examples = examples
        self._clipping = clipping
        self._settings = settings
        self._schedule = schedule
        self._validation = validation
        self._peers = peers
        # With one example more, or one of another shape, batches have other shapes.
        self._fixed_shapes = self.run.adjacency != "add-remove" and examples.same_shapes
        self.validation_losses = list[tuple[int, float]]()
        """Pairs of epochs made and the mean loss on the examples given as `validation`, which are not protected."""
        self._take(key)
        self._epoch = self._step = 0
        self._current: Batch | None = None
        self._own: set[Path] = set()
        self._losses: list[tuple[int, int, float]] = []

    def _take(self, key: bytes) -> None:
        self._key = key
        self._noise = StepNoise(key=key)
        self._drawn: tuple[int, list[Indices]] = (-1, [])

    @property
    def route(self) -> str:
        """How gradients are clipped: "book-keeping", in one backward pass, or "per-example", formed one by one."""
        return self._clipping.route

    @property
    def epochs(self) -> int:
        """How many epochs have begun."""
        return self.account.epochs

    @property
    def epsilon(self) -> float:
        """ε of the plan from the first epoch on, which holds wherever it ends; beyond the plan, of the epochs begun."""
        return self.account.epsilon

    def guarantee(self) -> Guarantee | None:
        """Return the guarantee of the plan, or of the epochs begun beyond it; nothing before the first."""
        return self.account.guarantee()

    @property
    def history(self) -> list[dict[str, float]]:
        """One entry for each step: `epoch` and `step`, both counted from 1, the `loss` of its batch, and ε by then.

        Its `epsilon` holds if it was fixed in advance that the training ends with that epoch. The losses are computed
        from the data without noise: they are not private, and only for people who may see the data.
        """
        return [
            {"epoch": epoch + 1, "step": step + 1, "loss": loss, "epsilon": self.account.spent(epoch + 1)}
            for epoch, step, loss in self._losses
        ]

    def plot(self, *, batch_losses: bool = False) -> Any:
        """Draw ε against epochs, spent and planned, with the budget, below the validation losses if there are any.

        Returns the matplotlib axes of ε; ``training.plot().figure.savefig("training.png")`` writes a file.

        Parameters
        ----------
        batch_losses : bool
            Whether the losses of batches are drawn too, which are not private: for those who may see the data.
        """
        from shoal.sgd.torch.progress_curve import progress_curve

        losses = self._losses if batch_losses else []
        return progress_curve(self.account, batch_losses=losses, validation_losses=self.validation_losses)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of an epoch, or the rest of an epoch that was interrupted.

        Every batch has to be given to `step` before the next one is asked for: to skip some could tell of the data.
        Of several processes, each gets its share of a batch.
        """
        epoch = self._epoch
        # What the parameters are follows from noised sums alone, so that this says nothing more of the data.
        if not self._step and not all(bool(torch.isfinite(parameter).all()) for parameter in self._trained):
            raise NotFiniteError(
                "the model has diverged: its parameters are not finite. Make the learning rate smaller"
            )
        if self.account.most is not None and epoch >= self.account.most:
            self.account.charge()  # which refuses
        step = self._step
        shares = [self._peers.share(self._batch_of(epoch, each)) for each in range(step, self.run.steps)]
        loaded = self._examples.stream(shares)
        while self._epoch == epoch:
            if self._step != step:  # these examples would be trained on as those of another step
                raise ParameterError(
                    "another loop over batches(), or restore(), has changed the step since; call batches() again"
                )
            step += 1
            self._peers.seed(self._key, self._done)
            with self._peers.telling("step"):
                batch = self._current = Batch(epoch, self._step, next(loaded))
            yield batch
            if self._current is batch:
                raise ParameterError("the last batch was not trained on; give every batch to step(), once")

    def _batch_of(self, epoch: int, step: int) -> Indices:
        if self._drawn[0] != epoch:
            self._drawn = epoch, self.run.batches(key=self._key, epoch=epoch)
        return self._drawn[1][step]

    def step(self, batch: Batch) -> float:
        """Train on a batch: clip every example's gradient, add up, charge, add noise, let the optimizer step.

        Parameters
        ----------
        batch : Batch
            The one that `batches` has just yielded; no other, and no data from elsewhere.

        Returns
        -------
        float
            The mean loss of the batch, without noise, and NaN if it is empty: not private, and not to be published. Nor
            is how many examples the batch has, or what tells that, such as the time that the step takes.

        Raises
        ------
        MixedError
            if the model mixes the examples of the batch; one step in 16 is tested for that.
        """
        loss = self._peers.mean(
            "step",
            lambda: self._summed(batch),
            position=self._done,
            mark=() if self._step else self._trained,
        )
        self._current = None
        self._advance()  # charged, and past this step, before anything is seen of it
        self._update(batch)
        self._schedule.after(last=self._step == 0)
        self._losses.append((batch.epoch, batch.step, loss))
        return loss

    def _summed(self, batch: Batch) -> tuple[float, int]:
        """Put the clipped sum of a batch into memory; return its mean loss, and how many examples it has."""
        if not isinstance(batch, Batch) or batch is not self._current:
            raise ParameterError(
                "step() takes the batch that batches() has just yielded, once: for batch in training.batches(): "
                "training.step(batch)"
            )
        batch.check_unchanged()
        check_arithmetic(self._device, fixed_shapes=self._fixed_shapes)
        self._watched.check()
        self._watched.clear()  # sums without noise will be where the gradients were
        # The words are part of the key: other words would be another test.
        draw = subkey(self._key, "test of pass", batch.epoch * self.run.steps + batch.step)
        with _NOTHING if self._fixed_shapes else whole_convolutions(self._device):
            _, loss = self._clipping.total(batch, scale=1 / self._spacing, room=self._parts, draw=draw)
        return loss, len(batch)

    def _advance(self) -> None:
        if self.account.epochs <= self._epoch:
            self.account.charge()
        self._step += 1
        if self._step == self.run.steps:
            self._epoch = self._epoch + 1
            self._step = 0

    def _update(self, batch: Batch) -> None:
        self._peers.add_up(self._sum)
        if self._peers.rank == 0:  # once: two noised sums that differ in rounding would have two noises
            self._noise.add(
                self._sum,
                margin=self._margin,
                unit=self._spacing / self.run.batch_size,
                epoch=batch.epoch,
                step=batch.step,
            )
        self._peers.spread(self._sum)
        self._watched.step(self._parts)

    def fit(
        self,
        *,
        epochs: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int | None = None,
        after_epoch: Callable[["Training"], object] | None = None,
    ) -> "Training":
        """Train until this many epochs have been made in all, with a progress bar.

        A training that was interrupted, and is resumed, ends where it would have ended: epochs that were made before
        count. The bar shows the loss of the last batch and ε so far.

        This number of epochs is the plan, unless the run has more. ε is the ε of the plan, also if the training is
        stopped earlier. With a budget, more epochs than it covers are refused (`BudgetError`).

        Parameters
        ----------
        epochs : int, optional
            How many epochs there are in all; those of the run, if it is None.
        checkpoint : str or PathLike, optional
            A file to save the training in, at the end and every so often.
        every : int, optional
            How many steps lie between two savings; an epoch, if it is None.
        after_epoch : callable, optional
            Is called with the training at the end of every epoch, such as to print its validation loss. What it returns
            is not looked at: to end a training for what was seen, give `make_private` a budget and go through
            `batches` yourself.
        """
        with self._peers.together("fit") as facts:
            epochs = whole(epochs=self.run.epochs if epochs is None else epochs)
            if every is not None and checkpoint is None:
                raise ParameterError("every= says how often checkpoint= is written; give it a file name")
            every = whole(every=self.run.steps if every is None else every)
            if checkpoint is not None and self._peers.rank == 0:
                self._check_checkpoint(Path(checkpoint))
            self.account.plan(epochs)
            facts.update(epochs=epochs, every=every, checkpoint=checkpoint is not None)
        steps = self._until(epochs)
        if self._peers.rank == 0:
            left = epochs * self.run.steps - self._done
            steps = progress(steps, total=left, label=ProgressLabel(self.account, self._losses))
        for batch in steps:
            self.step(batch)
            if not self._step:
                self._end_epoch(after_epoch)
            if checkpoint is not None and (self._done % every == 0 or self._epoch == epochs):
                self.save(checkpoint)
        return self

    def _end_epoch(self, after_epoch: Callable[["Training"], object] | None) -> None:
        if self._validation is not None:
            shared = functools.partial(self._validation.mean_loss, self._peers.share)
            self.validation_losses.append((self._epoch, self._peers.mean("validation", shared, position=self._epoch)))
        if after_epoch is not None:
            after_epoch(self)

    def _check_checkpoint(self, path: Path) -> None:
        """Refuse a file that can't be written, or is another training's, before anything is spent."""
        check_output(path, [])
        if not path.absolute().parent.is_dir():
            raise ParameterError(f"cannot write {path}: its folder does not exist; make the folder first")
        if path.exists() and path.resolve() not in self._own:
            raise ParameterError(
                f"{path} is there already; go on with that training by make_private(..., resume={os.fspath(path)!r}), "
                "or give another name"
            )

    def _until(self, epochs: int) -> Iterator[Batch]:
        while self._epoch < epochs:
            yield from self.batches()

    @property
    def _done(self) -> int:
        return self._epoch * self.run.steps + self._step

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the training, so that `make_private(..., resume=path)` goes on with it. The file is secret.

        It holds the key of draws and noise. The model's own `state_dict` is what can be published. Of several
        processes the first alone writes, and all of them read it again.
        """
        if self._peers.rank:
            return
        state = {"cpu": torch.get_rng_state()}
        if self._device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self._device)
        fields = {
            "account": self.account.to_dict(),
            "epoch": self._epoch,
            "key": self._key.hex(),
            "losses": [list(entry) for entry in self._losses],
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": state,
            "schedule": self._schedule.state(),
            "settings": self._known_settings(),
            "step": self._step,
            "validation_losses": [list(entry) for entry in self.validation_losses],
        }
        write_checkpoint(Path(path), fields)
        self._own.add(Path(path).resolve())

    def _known_settings(self) -> dict[str, Any]:
        settings = {**self._settings, "data": self._examples.fingerprint}
        if not runs_on(self._trained[0]):
            # A step that is run again has to have the same noise: files of 0.2.0, whose noise was another, are refused.
            settings["noise_stream"] = _NOISE_STREAM
        return settings

    def facts(self) -> dict[str, Any]:
        """Return what has to be the same in all processes that train together."""
        groups: list[dict[str, Any]] = self.optimizer.param_groups
        return {
            **self._known_settings(),
            "key": hashlib.sha256(self._key).hexdigest(),
            "account": self.account.to_dict(),
            "epoch": self._epoch,
            "step": self._step,
            "weights": mark_of([each for each in self.model.state_dict().values() if isinstance(each, torch.Tensor)]),
            "optimizer_settings": [repr({name: group[name] for name in group if name != "params"}) for group in groups],
        }

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on with the training in a file; all of its settings and its data have to be those of this one."""
        fields = read_checkpoint(Path(path))
        advice = "resume with all settings and data as they were, or begin a new training"
        with whole_fields(path):
            compare(fields["settings"], self._known_settings(), who=os.fspath(path), advice=advice)
            self.account = account_of(fields, self.account)
            self.model.load_state_dict(fields["model"])
            self.optimizer.load_state_dict(fields["optimizer"])
            self._schedule.restore(fields["schedule"])
            self.validation_losses = [(epoch, loss) for epoch, loss in fields["validation_losses"]]
            self._take(bytes.fromhex(fields["key"]))
            self._epoch = fields["epoch"]
            self._step = fields["step"]
            self._current = None
            self._losses = [(epoch, step, loss) for epoch, step, loss in fields["losses"]]
            torch.set_rng_state(fields["random"]["cpu"])
            if self._device.type == "cuda" and "cuda" in fields["random"]:
                torch.cuda.set_rng_state(fields["random"]["cuda"], self._device)
        self._own.add(Path(path).resolve())

    def __repr__(self) -> str:
        """Show how far it is."""
        examples = self.run.public.examples
        return (
            f"Training({f'examples={examples}, ' if examples else ''}batch_size={self.run.batch_size}, "
            f"noise_multiplier={self.run.multiplier:g}, epochs={self.epochs}, step={self._step} of "
            f"{self.run.steps}, epsilon={rounded_up(self.epsilon, 4)}, which {self.account.condition})"
        )
