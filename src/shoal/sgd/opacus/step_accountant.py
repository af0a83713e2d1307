"""An accountant for Opacus, `PrivacyEngine(accountant="shoal")`, which sees every step and who made it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opacus.accountants import IAccountant, register_accountant

from shoal.errors import ParameterError

if TYPE_CHECKING:
    from shoal.sgd.opacus.engine_account import EngineAccount

__all__ = ["MECHANISM", "StepAccountant"]

MECHANISM = "shoal"


class StepAccountant(IAccountant):  # type: ignore[misc]
    """The steps of an engine: how many there were, each with its noise and sample rate.

    It knows no loader, and so no ε by itself: `account(engine, loader)` ties the two before the first step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: list[tuple[float, float, int]] = []
        self.account: EngineAccount | None = None
        self.epochs = 0
        self.earlier: dict[str, Any] | None = None
        """How the steps of a checkpoint were drawn, and how many epochs were begun there."""
        self._hooks = self._tied = 0

    def tie(self, account: "EngineAccount") -> None:
        """Count from now on what is drawn by the loader of this account, in steps of the last `make_private`."""
        if self.earlier is not None and account.draws.to_dict() != self.earlier["draws"]:
            raise ParameterError(
                f"the steps of the checkpoint were drawn by {self.earlier['draws']}, and this loader is "
                f"{account.draws.to_dict()}; go on with one that is the same"
            )
        if self.earlier is not None:
            account.draws.seen.update(self.earlier["orders"])
            account.watched.noise.seen.update(self.earlier.get("noise", ()))
        self.account, self._tied = account, self._hooks

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step."""
        if self.account is None:
            raise ParameterError(
                "which loader the batches come from is not known, and so no ε can be; call "
                "shoal.sgd.opacus.account(engine, loader) after make_private, before the first step"
            )
        self.account.check_drawn(1)
        last = self.history[-1] if self.history else None
        if last is not None and last[:2] == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, last[2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))
        if self.account.draws.order is not None:
            self.epochs = self.account.draws.order.epochs

    def get_epsilon(self, delta: float, *, adjacency: str = "zero-out", **_: Any) -> float:
        """Return ε of all steps that were counted, by the loader that was watched.

        Parameters
        ----------
        delta : float
            δ of the guarantee.
        adjacency : str
            "zero-out" or "replace": what may happen to one example.
        """
        if self.account is None:
            raise ParameterError(
                "which loader the batches come from is not known, and so no ε can be; call "
                "shoal.sgd.opacus.account(engine, loader) first. To choose the noise for an ε: noise_multiplier_for"
            )
        return self.account.epsilon(delta=delta, adjacency=adjacency)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """Return what Opacus calls in every step, after the noise."""
        count = super().get_optimizer_hook_fn(sample_rate)
        self._hooks += 1
        number = self._hooks

        def hook_fn(optimizer: Any) -> None:
            if self.account is not None and number != self._tied:
                raise ParameterError(
                    "make_private was called more than once, and the account is for another loader than that of this "
                    "optimizer; use one engine for each"
                )
            if self.account is not None:
                self.account.watched.check(optimizer)
            count(optimizer)
            if self.account is not None:
                self.account.counted_by = (optimizer, optimizer.step_hook)

        return hook_fn

    @property
    def epochs_begun(self) -> int:
        """How many epochs had begun when the last step was made, those of a checkpoint too."""
        return self.epochs + (0 if self.earlier is None else int(self.earlier["epochs"]))

    def state_dict(self, destination: Any = None) -> Any:
        """Return what `load_state_dict` takes: also the epochs that were begun, which the steps do not tell."""
        state = super().state_dict(destination)
        if self.account is not None:
            draws = self.account.draws
            state["drawn"] = {
                "draws": draws.to_dict(),
                "epochs": self.epochs_begun,
                "orders": sorted(draws.seen),
                "noise": sorted(self.account.watched.noise.seen),
            }
        else:
            state["drawn"] = self.earlier
        return state

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from a checkpoint; an epoch that was broken off counts, and the next one is another."""
        if self.account is not None:
            raise ParameterError("load a checkpoint before account(engine, loader), and before the first step")
        super().load_state_dict(state_dict)
        self.earlier = state_dict.get("drawn")
        if self.history and self.earlier is None:
            raise ParameterError("the checkpoint does not say how its steps were drawn; it was not written by shoal")

    def __len__(self) -> int:
        """Return how many steps were counted."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """Return the name by which Opacus finds it."""
        return MECHANISM


register_accountant(MECHANISM, StepAccountant, force=True)
