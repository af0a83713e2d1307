"""Earlier bounds of what shuffling buys, one class each, for comparison with the bounds that replaced them.

Erlingsson, Feldman, Mironov, Raghunathan, Talwar and Thakurta, arXiv 1811.12469 (SODA 2019); Cheu, Smith, Ullman, Zeber
and Zhilyaev, arXiv 1808.01394 (EUROCRYPT 2019); Balle, Kairouz, McMahan, Thakkar and Thakurta, arXiv 2007.06605
(NeurIPS 2020); Bassily, Smith and Thakurta, arXiv 1405.7085 (FOCS 2014). Koskela, Heikkilä and Honkela, arXiv
2106.00477 (TMLR 2023): the clones pair through its privacy-loss distribution. Each class says whether it is proven, and
how.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.closed_form import FormulaProfile
from shoal.amplification.setting import ShufflingBound
from shoal.assumptions import ADAPTIVE, FIXED, PURE, REPLACE, Assumption, Topic
from shoal.catalogue import register
from shoal.errors import RangeError
from shoal.numerics.convolution import SummedLosses
from shoal.numerics.profile_grid import DeltaGrid, Mesh, short
from shoal.pairs import ClonePair
from shoal.rounding import slack

_UP = 1 + slack(128)
"""Covers the rounding of a dozen operations."""
_DEPTH = 50.0
_SMALLEST = 1e-14
"""A smaller δ is below what the grid reaches; the pair itself is asked then."""
_TOLERANCE = 1e-7
_FINENESS = 20
"""Grid points per standard deviation of the loss, every one of them a knot: time, or δ."""


@dataclass(frozen=True)
class _Formula:
    """A formula of n and ε₀, asked from both sides; it has no pair."""

    reports: int
    local_epsilon: float

    def _profile(self) -> FormulaProfile:
        raise NotImplementedError

    def epsilon(self, delta: float) -> float:
        """Return the formula's ε, or what always holds where that is smaller."""
        return self._profile().epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Return the least δ at which the formula gives at most ε; one, if there is none."""
        return self._profile().delta(epsilon)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Refuse: out of its range, or as every formula does."""
        return self._profile().bracket(delta)

    def provable(self) -> None:
        """Return nothing: a formula has no proof in ball arithmetic."""

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Refuse: out of its range, or as every formula does."""
        return self._profile().renyi(orders)


class FirstForm(_Formula):
    """The first bound: ε = 12·ε₀·√(ln(1/δ)/n), for n ≥ 1000, ε₀ < 1/2 and δ < 1/100.

    Amplification by shuffling, arXiv 1811.12469 (SODA 2019), with the constants of the form that the release of Balle,
    Bell, Gascón and Nissim carries. Adaptive. Proven: where the formula is below ε₀, n > 144·ln(1/δ), and there
    Theorem C for the strong clones gives at most 3·ε₀·√(ln(1/δ)/n).
    """

    def _profile(self) -> FormulaProfile:
        if self.reports < 1000 or self.local_epsilon >= 0.5:
            raise RangeError(
                f"this bound needs reports >= 1000 and local_epsilon < 0.5; got {self.reports} and "
                f'{self.local_epsilon:g}. Use bound="strong-clones".'
            )
        largest = math.nextafter(0.01, 0)  # what holds with this δ holds with any larger one

        def formula(delta: float) -> float:
            return 12 * self.local_epsilon * math.sqrt(-math.log(min(delta, largest)) / self.reports) * _UP

        return FormulaProfile(formula, 0.0, self.local_epsilon, str, "strong-clones")


class CheckInForm(_Formula):
    """The bound of "random check-ins": ε = s²/2 + s·√(2·ln(1/δ)), s = e^(3ε₀/2)·(e^ε₀ − 1)/√n.

    Privacy amplification via random check-ins, arXiv 2007.06605 (NeurIPS 2020). Adaptive. For comparison only: the
    order e^(5ε₀/2)/√n is the one quoted in arXiv 2012.12803v3, but the constants were not checked against the paper. It
    is nowhere below the strong clones as far as tested, so nothing is lost by not relying on it.
    """

    def _profile(self) -> FormulaProfile:
        step = math.exp(min(1.5 * self.local_epsilon, 300.0)) * math.expm1(min(self.local_epsilon, 200.0))
        step /= math.sqrt(self.reports)

        def formula(delta: float) -> float:
            return (step * step / 2 + step * math.sqrt(-2 * math.log(delta))) * _UP

        return FormulaProfile(formula, 0.0, self.local_epsilon, str, "strong-clones")


class BinaryResponseForm(_Formula):
    """The bound for binary randomized response: ε = √(32·L/x)·(1 − x/n), L = ln(4/δ), where λ ≥ 14·L.

    Distributed differential privacy via shuffling, arXiv 1808.01394 (EUROCRYPT 2019). Here λ = 2n/(e^ε₀ + 1) is the
    mean number of people who answer with a fair coin and x = λ − √(2λ·ln(2/δ)). It holds for binary randomized response
    only, and is not adaptive.

    Proven for δ ≤ 1/10; a larger δ gives the ε of 1/10. With probability 1 − δ/2 at least x people use the coin
    (Chernoff). If h ≥ x do, the victim does with probability h/n, and otherwise shifts T + Bin(h, 1/2) by one. Up to
    δ/4 this changes probabilities by a factor of at most 1 + (2t + 1)/(h/2 − t), t = √(hL/2) (Hoeffding), which is at
    most 1 + √(32L/h) as soon as h ≥ 8L + 4 + 1/(2L), and x is that large if λ ≥ 14·L and L ≥ ln 40. Exchanging the
    victim with a random coin user changes the sum by one at most too, so that sampling multiplies what exceeds one by 1
    − h/n.
    """

    def _profile(self) -> FormulaProfile:
        small = math.exp(-self.local_epsilon)
        mean = 2 * self.reports * small / (1 + small) * (1 - slack(8))

        def formula(delta: float) -> float:
            delta = min(delta, 0.1)
            coins = mean - math.sqrt(2 * mean * math.log(2 / delta))
            # 1 − x/n, without cancellation where nearly everybody uses the coin
            rest = math.tanh(self.local_epsilon / 2) + (mean - coins) / self.reports + slack(16)
            return math.sqrt(32 * math.log(4 / delta) / coins) * rest * (1 + slack(512))

        def refusal(delta: float) -> str:
            log = math.log(4 / min(delta, 0.1))
            fewest = math.ceil(7 * log * (1 + math.exp(min(self.local_epsilon, 700.0))))
            return (
                f"this bound needs 2*reports/(exp(local_epsilon) + 1) >= {14 * log:.6g} at delta={delta:g}; got "
                f'{mean:.6g}. Use bound="strong-clones", or at least {fewest:,} reports.'
            )

        if mean < 14 * math.log(40):
            smallest = math.inf
        else:
            smallest = 4 * math.exp(-mean / 14 * (1 - slack(32))) if mean < 9800 else 0.0
        return FormulaProfile(formula, smallest, self.local_epsilon, refusal, "strong-clones")


@dataclass(frozen=True)
class ReplacementForm(_Formula):
    """What n steps on records drawn *with* replacement give: ε = √(2n·ln(1/δ))·ε′ + (e^ε₀ − 1)·ε′.

    Here ε′ = ln(1 + (e^ε₀ − 1)/n), what one step on a random record costs. It is no bound for shuffling, but what
    Bassily, Smith and Thakurta, arXiv 1405.7085 (FOCS 2014), prove for the other way to draw records, as quoted in
    arXiv 2012.12803v3 (equation "bassilybound", there with unspecified constants). Adaptive.

    Proven: each step is (ε′, δ₀/n)-DP by amplification by subsampling, and n(e^ε′ − 1) = e^ε₀ − 1 in the advanced
    composition of Dwork, Rothblum and Vadhan (2010, Theorem III.3), which costs δ + n·δ₀/n. The δ printed in arXiv
    2012.12803v3, nδ + δ₀/n, is too small: the part of δ₀ should not be divided by n. What always holds is n·ε′, with
    δ₀. `local_delta` is δ₀ of a step.
    """

    local_delta: float = 0.0

    def epsilon(self, delta: float) -> float:
        """Return ε at a total δ, of which δ₀ is spent by the steps."""
        rest = delta if self.local_delta == 0 else math.nextafter(delta - self.local_delta, 0)
        if delta < self.local_delta:
            raise RangeError(f"this bound needs delta >= local_delta = {self.local_delta:g}; got {delta:g}")
        return self._profile().epsilon(rest)

    def delta(self, epsilon: float) -> float:
        """Return the total δ, that of the steps included."""
        return min(1.0, (self._profile().delta(epsilon) + self.local_delta) * (1 + slack(4)))

    def _profile(self) -> FormulaProfile:
        excess = math.expm1(min(self.local_epsilon, 700.0))
        step = math.log1p(excess / self.reports)

        def formula(delta: float) -> float:
            return (math.sqrt(-2 * self.reports * math.log(delta)) + excess) * step * _UP

        return FormulaProfile(formula, 0.0, self.reports * step * _UP, str, "strong-clones")


register(
    ShufflingBound(
        name="erlingsson",
        statement="ε = 12·ε₀·√(ln(1/δ)/n).",
        citation=(
            "Erlingsson, Feldman, Mironov, Raghunathan, Talwar and Thakurta, arXiv 1811.12469 (SODA 2019), with the "
            "constants of the release of arXiv 1903.02837"
        ),
        assumptions=(PURE, *ADAPTIVE),
        numerical=False,
        make=lambda setting: FirstForm(setting.reports, setting.local_epsilon),
        range="n ≥ 1000, ε₀ < 1/2, δ < 1/100",
        proof="shoal.amplification.published, from Theorem C",
    ),
    ShufflingBound(
        name="cheu",
        statement=(
            "For binary randomized response, with L = ln(4/δ), λ = 2n/(e^ε₀ + 1) ≥ 14L and x = λ − √(2λ·ln(2/δ)): "
            "ε = √(32L/x)·(1 − x/n)."
        ),
        citation="Cheu, Smith, Ullman, Zeber and Zhilyaev, arXiv 1808.01394 (EUROCRYPT 2019)",
        assumptions=(Assumption("every report is binary randomized response", Topic.RANDOMIZER), *FIXED),
        numerical=False,
        make=lambda setting: BinaryResponseForm(setting.reports, setting.local_epsilon),
        needs="binary randomized response, RandomizedResponse(categories=2, local_epsilon=…)",
        applies=lambda setting: setting.binary,
        range="2n/(e^ε₀ + 1) ≥ 14·ln(4/δ), δ ≤ 1/10",
        adaptive=False,
        proof="shoal.amplification.published",
    ),
    ShufflingBound(
        name="check-ins",
        statement="ε = s²/2 + s·√(2·ln(1/δ)), s = e^{3ε₀/2}·(e^ε₀ − 1)/√n. The constants could not be confirmed.",
        citation="after Balle, Kairouz, McMahan, Thakkar and Thakurta, arXiv 2007.06605 (NeurIPS 2020)",
        assumptions=(PURE, *ADAPTIVE),
        numerical=False,
        make=lambda setting: CheckInForm(setting.reports, setting.local_epsilon),
        proof="none: the constants are not confirmed",
        proven=False,
    ),
    ShufflingBound(
        name="bassily",
        statement=(
            "Not for shuffling: n steps, each on a record drawn with replacement. With ε′ = ln(1 + (e^ε₀ − 1)/n), "
            "ε = √(2n·ln(1/δ))·ε′ + (e^ε₀ − 1)·ε′."
        ),
        citation=(
            "Bassily, Smith and Thakurta, arXiv 1405.7085 (FOCS 2014), as in arXiv 2012.12803v3, with the constants "
            "of advanced composition"
        ),
        assumptions=(PURE, Assumption("every step draws its record with replacement"), REPLACE),
        numerical=False,
        make=lambda setting: ReplacementForm(setting.reports, setting.local_epsilon),
        proof="shoal.amplification.published; it holds for another way to sample, and says nothing about shuffling",
        proven=False,
    ),
)


@dataclass(frozen=True)
class KoskelaProfile:
    """The profile of the losses of one round, on a grid of a twentieth of their standard deviation.

    Koskela, Heikkilä and Honkela, arXiv 2106.00477 (TMLR 2023); the pair is that of Theorem 3.2, arXiv 2012.12803v3.
    """

    reports: int
    local_epsilon: float

    @property
    def _pair(self) -> ClonePair:
        return ClonePair(self.reports, self.local_epsilon, "clones")

    @property
    def _extreme(self) -> bool:
        """Whether no grid has enough digits; then the pair is asked itself."""
        return not 1e-150 < self.local_epsilon < 600

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        if epsilon >= self.local_epsilon:
            return 0.0
        if self._extreme:
            return self._pair.delta(epsilon)
        value = _losses(self.reports, self.local_epsilon).above.delta(epsilon)
        return min(1.0, value) if value > _SMALLEST else self._pair.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        if self._extreme or delta < _SMALLEST:
            return self._pair.epsilon(delta)
        return min(_losses(self.reports, self.local_epsilon).above.epsilon(delta), self.local_epsilon)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) rounded down and up."""
        if self._extreme or delta < _SMALLEST:
            return self._pair.bracket(delta)
        upper = self.epsilon(delta)
        lower = _losses(self.reports, self.local_epsilon).below.least_epsilon(delta) if upper else 0.0
        return min(upper, lower), upper

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at every point of the grid."""
        return self._pair.grid(mesh)

    def provable(self) -> None:
        """Return nothing: the clones, by their own name, have a proof."""

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Rényi divergences of the pair."""
        return self._pair.renyi(orders)


@lru_cache(maxsize=16)
def _losses(reports: int, local_epsilon: float) -> SummedLosses:
    pair = KoskelaProfile(reports, local_epsilon)._pair
    spread = min(math.sqrt(2 * math.pi) * pair.delta(0.0), local_epsilon)
    step = short(local_epsilon / math.ceil(_FINENESS * local_epsilon / spread))
    return SummedLosses(((pair.grid(Mesh(step, local_epsilon, _DEPTH, _TOLERANCE)), 1),))


register(
    ShufflingBound(
        name="koskela",
        statement=(
            "The pair of clones, through its privacy-loss distribution on a grid: the way to composition. The dots of "
            "δ(ε) are connected, where the authors round every loss up."
        ),
        citation=(
            "Koskela, Heikkilä and Honkela, arXiv 2106.00477 (TMLR 2023), for the pair of Theorem 3.2, "
            "arXiv 2012.12803v3"
        ),
        assumptions=(PURE, *ADAPTIVE),
        make=lambda setting: KoskelaProfile(setting.reports, setting.local_epsilon),
        proof="docs/theory/composition.md",
        certified_by="clones",
    ),
)
