"""The strong clones with two ratios: one between the victim's two distributions, one between theirs and others'."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.errors import ParameterError
from shoal.pairs.clone_pair import CloneLike

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

__all__ = ["RatioPair"]


@dataclass(frozen=True)
class RatioPair(CloneLike, name="ratio-pair"):
    """The strong clones with two ratios: p = e^ε₀ between the victim's distributions, q between theirs and others'.

    A clone has the probability 2p/(q(p + 1)) (docs/theory/strong-clones.md, two ratios); `log_ratio` is ln q.
    """

    reports: int
    local_epsilon: float
    log_ratio: float

    def __post_init__(self) -> None:
        """Check that q is at least p: otherwise a clone would have a probability above one."""
        if not isinstance(self.log_ratio, float) or not 0 <= self.local_epsilon <= self.log_ratio < math.inf:
            raise ParameterError(
                f"local_epsilon must be at least 0 and at most log_ratio, a float; got {self.local_epsilon!r} and "
                f"{self.log_ratio!r}",
                parameter="local_epsilon",
            )

    @property
    def clone_probability(self) -> float:
        """The probability that one person is a clone."""
        return 2 * math.exp(-self.log_ratio) / (1 + math.exp(-self.local_epsilon))

    @property
    def other_probability(self) -> float:
        """The probability that one is not."""
        small, own = math.exp(-self.log_ratio), math.exp(-self.local_epsilon)
        return (-math.expm1(-self.log_ratio) + own - small) / (1 + own)

    def provable(self) -> "Claim | None":
        """Return the claim of these clones."""
        from shoal.proofs.clone_claim import RatioClaim

        if type(self) is not RatioPair:
            return None
        return RatioClaim(self.reports, float(self.local_epsilon), self.log_ratio)
