"""The processes of one training, by torch's DistributedDataParallel: one account, one key, one noise.

Every process draws the same batches and computes the clipped sum of its share. The sums are added up, the first process
adds the noise, once, and all get the result. What only one process knows, such as an error, is said to all.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from shoal.errors import ParameterError, PeerError
from shoal.sgd.gradient_noise import subkey
from shoal.sgd.sampler import Indices
from shoal.sgd.torch.checkpoint import compare

_MARK_BYTES = 6
"""As many as a float64 holds exactly."""
_ADVICE = "all processes need the same arguments, the same model and the same whole dataset"


class _Word(NamedTuple):
    """What every process says to all others, as numbers: what it does, whether it failed, where it is, and a mean."""

    kind: float
    failed: float
    position: float
    mark: float
    mean: float
    weight: float


_KINDS = ("make_private", "fit", "step", "validation")


class Peers:
    """The processes that train together; or one alone, for which everything here does nothing."""

    def __init__(self, group: "dist.ProcessGroup | None") -> None:
        self._group = self._words = group
        self.rank, self.count = (0, 1) if group is None else (dist.get_rank(group), dist.get_world_size(group))
        if self.count > 1 and dist.get_backend(group) != "gloo":
            # Words go from processor to processor, so that who waits for a dead process is told at once.
            ranks = dist.get_process_group_ranks(group)
            with self._heard():
                self._words = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)

    @property
    def alone(self) -> bool:
        """Whether there is one process only."""
        return self.count == 1

    def share(self, indices: Indices) -> Indices:
        """Return those of the examples of a step that this process computes."""
        return indices if self.alone else indices[self.rank :: self.count]

    def seed(self, key: bytes, position: int) -> None:
        """Give torch random numbers that process and step decide: others than those of the other processes.

        So a training that is resumed goes on with them, though one process alone writes its checkpoint.
        """
        if not self.alone:
            words = subkey(key, f"random numbers of process {self.rank} in step", position)
            torch.manual_seed(int.from_bytes(words[:8], "big", signed=True))

    @contextmanager
    def together(self, kind: str) -> Iterator[dict[str, Any]]:
        """Do something in all processes, and go on only if all succeed and have the same facts.

        The block fills the dict that it gets with what has to be the same. Otherwise this
        raises `ParameterError`, and `PeerError` if another process failed, does something
        else, or does not answer.
        """
        facts = dict[str, Any]()
        with self.telling(kind):
            yield facts
        if self.alone:
            return
        self._exchange(kind, None)
        said = self._gathered(facts)
        for rank in range(1, self.count):
            compare(said[rank], said[0], who=f"process {rank}", advice=_ADVICE)

    @contextmanager
    def telling(self, kind: str) -> Iterator[None]:
        """Say an error of this process to the others, which are in the midst of something, or about to be."""
        try:
            yield
        except Exception as error:
            if not self.alone:
                self._exchange(kind, error)
            raise

    def of_first(self, value: bytes) -> bytes:
        """Return what the first process has."""
        if self.alone:
            return value
        result: bytes = self._gathered(value if self.rank == 0 else b"")[0]
        return result

    def _gathered(self, value: Any, error: Exception | None = None) -> list[Any]:
        """Return what all processes have, in their order."""
        values: list[Any] = [None] * self.count
        with self._heard(error):
            dist.all_gather_object(values, value, self._words)
        return values

    def mean(
        self, kind: str, compute: Callable[[], tuple[float, int]], *, position: int = 0, mark: Sequence[Tensor] = ()
    ) -> float:
        """Return the mean of what the processes compute, or fail in all of them if one does.

        `compute` returns the mean of this process, and how many examples it is of. The
        number of the step, and the tensors in `mark`, bit for bit, must be the same
        everywhere.
        """
        if self.alone:
            return compute()[0]
        value = math.nan
        weight = 0
        error = None
        try:
            value, weight = compute()
        except Exception as failure:
            error = failure
        words = self._exchange(
            kind, error, position=position, mark=mark_of(mark) if mark else 0, mean=value, weight=weight
        )
        known = [word for word in words if word.weight and not math.isnan(word.mean)]
        if not known:
            return math.nan
        return math.fsum(word.mean * word.weight for word in known) / sum(word.weight for word in known)

    def _exchange(self, kind: str, error: Exception | None, **said: float) -> list[_Word]:
        """Say how it went, hear the same of all, and raise an error unless it went well everywhere."""
        numbers = {"position": 0.0, "mark": 0.0, "mean": 0.0, "weight": 0.0, **said}
        own = _Word(kind=_KINDS.index(kind), failed=float(error is not None), **numbers)
        with self._heard(error):
            heard = [torch.empty(len(own), dtype=torch.float64) for _ in range(self.count)]
            dist.all_gather(heard, torch.tensor(own, dtype=torch.float64), self._words)
        words = [_Word(*each.tolist()) for each in heard]
        failed = [rank for rank, word in enumerate(words) if word.failed]
        if failed:
            texts = self._gathered("" if error is None else f"{type(error).__name__}: {error}", error)
            if error is not None:
                raise error
            raise PeerError(
                f"process {failed[0]} of {self.count} failed, and nothing was spent by that: {texts[failed[0]]}"
            )
        doing = [_KINDS[int(word.kind)] for word in words]
        if len(set(doing)) > 1:
            raise PeerError(
                f"the processes do different things: {', '.join(doing)}; all have to make the same calls, in the same "
                "order"
            )
        if len({word.position for word in words}) > 1:
            steps = ", ".join(f"{word.position:.0f}" for word in words)
            raise PeerError(f"the processes are at different steps: {steps}; each has to make every step")
        if len({word.mark for word in words}) > 1:
            raise PeerError(
                "the parameters of the processes are no longer the same; change them in no process alone, and use an "
                "optimizer that is deterministic. Begin all processes again, with resume= if there is a checkpoint"
            )
        return words

    def add_up(self, total: Tensor) -> None:
        """Put the sum over all processes in the place of each one's own."""
        if not self.alone:
            with self._heard():
                dist.all_reduce(total, group=self._group)

    def spread(self, values: Tensor) -> None:
        """Put what the first process has into all of them."""
        if not self.alone:
            assert self._group is not None
            with self._heard():
                dist.broadcast(values, dist.get_global_rank(self._group, 0), group=self._group)

    @contextmanager
    def _heard(self, error: Exception | None = None) -> Iterator[None]:
        """Say in plain words that a process is not there any more."""
        try:
            yield
        except RuntimeError as lost:
            if error is not None:
                raise error from None
            raise PeerError(
                f"another of {self.count} processes ended, or does not answer ({str(lost).splitlines()[0]}); nothing "
                "is made of a part of the sums. Look at its output, and begin all processes again, with resume= if "
                "there is a checkpoint"
            ) from lost


def joined(model: nn.Module) -> tuple[nn.Module, Peers]:
    """Return the module inside of DistributedDataParallel, and the processes; or the model, and one process."""
    if isinstance(model, DistributedDataParallel):
        return model.module, Peers(model.process_group)
    if isinstance(model, nn.DataParallel):
        raise ParameterError(
            "DataParallel copies the model in every step; use torch.nn.parallel.DistributedDataParallel, with a "
            "process for every graphics processor"
        )
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise ParameterError(
            f"{dist.get_world_size()} processes run together, and the model is of one alone, so that each would train "
            "on all of the data and spend its own ε; give make_private DistributedDataParallel(model), and its "
            "parameters to the optimizer. For a training of one process: process_group=dist.new_group([rank])"
        )
    return model, Peers(None)


def mark_of(tensors: Sequence[Tensor]) -> int:
    """Return a short hash of tensors, bit for bit."""
    digest = hashlib.sha256()
    for tensor in tensors:
        part = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(memoryview(part.view(torch.uint8).numpy()))  # type: ignore[arg-type]
    return int.from_bytes(digest.digest()[:_MARK_BYTES], "big")
