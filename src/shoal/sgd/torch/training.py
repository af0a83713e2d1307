"""A private training: the batches of a sampler, clipped, charged, noised, and handed to the optimizer."""

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from shoal.checks import whole
from shoal.digits import rounded_up
from shoal.durable_file import check_output
from shoal.errors import NotFiniteError, ParameterError
from shoal.progress import progress
from shoal.sgd.account import Account
from shoal.sgd.gradient_noise import GRID, margin_for, subkey
from shoal.sgd.guarantees import Guarantee
from shoal.sgd.progress_label import ProgressLabel
from shoal.sgd.sampler import Indices
from shoal.sgd.torch.checkpoint import account_of, compare, read_checkpoint, whole_fields, write_checkpoint
from shoal.sgd.torch.clipping import Clipping
from shoal.sgd.torch.examples import Batch, Examples
from shoal.sgd.torch.peers import Peers, mark_of
from shoal.sgd.torch.precision import check_arithmetic, whole_convolutions
from shoal.sgd.torch.progress_curve import progress_curve
from shoal.sgd.torch.schedule import Schedule
from shoal.sgd.torch.step_noise import StepNoise
from shoal.sgd.torch.sum_buffer import SumBuffer
from shoal.sgd.torch.validation import Validation
from shoal.sgd.torch.watched_parameters import WatchedParameters

__all__ = ["Training"]

_NOTHING = nullcontext()


class Training:
    """A model in private training; `make_private` returns it.

    Parameters
    ----------
    model, optimizer : nn.Module, torch.optim.Optimizer
        What is trained, and by what.
    trained : dict
        The trained parameters, by name.
    examples : Examples
        The data.
    clipping : Clipping
        Computes the sums of clipped gradients.
    account : Account
        What is spent.
    schedule : Schedule
        Of the learning rate.
    validation : Validation, optional
        Examples that are not protected, for `validation_losses`.
    key : bytes
        32 secret bytes, which draws and noise come from.
    settings : dict
        All else that has to be the same when a training is resumed.
    peers : Peers
        The processes that train together.
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
        self.model, self.optimizer, self.account = model, optimizer, account
        self.run = account.run
        self._trained = list(trained.values())
        self._device = self._trained[0].device
        self._watched = WatchedParameters(model, optimizer, self._trained)
        self._buffer = SumBuffer(self._trained)
        self._spacing = GRID * self.run.sum_deviation
        # For as many examples as a batch can have, and not for as many as it has, which nobody may know.
        largest = self.run.sampler.largest(self.run, account.delta)
        self._margin = margin_for(largest, single=self._trained[0].dtype == torch.float32)
        self._examples, self._clipping, self._settings = examples, clipping, settings
        self._schedule, self._validation, self._peers = schedule, validation, peers
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
        self._key, self._noise = key, StepNoise(key=key)
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
    def history(self) -> list[dict[str, Any]]:
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
        self._update(self._buffer, batch)
        self._schedule.after(last=self._step == 0)
        self._losses.append((batch.epoch, batch.step, loss))
        return loss

    def _summed(self, batch: Batch) -> tuple[float, int]:
        """Put the clipped sum of a batch into the buffer; return its mean loss, and how many examples it has."""
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
            _, loss = self._clipping.total(batch, scale=1 / self._spacing, room=self._buffer.parts, draw=draw)
        return loss, len(batch)

    def _advance(self) -> None:
        if self.account.epochs <= self._epoch:
            self.account.charge()
        self._step += 1
        if self._step == self.run.steps:
            self._epoch, self._step = self._epoch + 1, 0

    def _update(self, buffer: SumBuffer, batch: Batch) -> None:
        self._peers.add_up(buffer.flat)
        if self._peers.rank == 0:  # once: two noised sums that differ in rounding would have two noises
            self._noise.add(
                buffer.flat,
                margin=self._margin,
                unit=self._spacing / self.run.batch_size,
                epoch=batch.epoch,
                step=batch.step,
            )
        self._peers.spread(buffer.flat)
        self._watched.step(buffer.parts)

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

        This number of epochs is the plan, unless `make_private` had more. ε is that of the plan, also if the training
        is stopped earlier. With `epsilon=` or `budget=` more epochs than they cover are refused (`BudgetError`).

        Parameters
        ----------
        epochs : int, optional
            How many epochs there are in all; what was planned with `make_private`, if it is None.
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
        return {**self._settings, "data": self._examples.fingerprint}

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
            self._epoch, self._step, self._current = fields["epoch"], fields["step"], None
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
