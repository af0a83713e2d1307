"""The analytic bounds of the privacy blanket: Hoeffding's and Bennett's, for three kinds of randomizers.

Balle, Bell, Gascón and Nissim, "The privacy blanket of the shuffle model", arXiv 1903.02837 (CRYPTO 2019), Lemma 5.3
and the bounds after it. Every randomizer draws, with some probability γ, from a distribution common to all inputs, the
blanket ω/γ. If M ~ Bin(n, γ) people do so, and l = γ·(R(x) − e^ε·R(x′))/ω at a draw from it, then for every dataset

    δ(ε)  ≤  E[(l₁ + … + l_M)₊]/(γn),        E[l] = −a,   a = e^ε − 1.

Both bounds say E[(l₁ + … + l_m)₊] ≤ K·e^−sm for every m ≥ 1, because (x)₊ = ∫ 1{x > t} dt:

* Hoeffding, where l lies in an interval of length b: Pr(Σl > t) ≤ exp(−2(t + ma)²/(mb²)), and (t + ma)² ≥ m²a² + 2mat,
  so that s = 2a²/b² and K = b²/(4a);
* Bennett, where l ≤ b₊ and E[l²] ≤ c: E[e^θl] ≤ exp(−θa + c·(e^θb₊ − 1 − θb₊)/b₊²), as (e^x − 1 − x)/x² rises. At θ =
  ln(1 + β)/b₊, β = ab₊/c, this is e^−s with s = (c/b₊²)·φ(β), φ(u) = (1 + u)·ln(1 + u) − u, and K = 1/θ.

The mean over M is then the generating function of a binomial distribution, (1 − γ + γe^−s)ⁿ − (1 − γ)ⁿ: nothing is
summed.

Any function below every R(x) serves as ω. Hence γ may be made smaller, by scaling ω down, without changing l: for a
randomizer of which only ε₀ is known, γ = e^−ε₀ in front and in the binomial distribution goes together with constants
that hold for all γ ≤ 1.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

from shoal.amplification.setting import BlanketRow, Setting, ShufflingBound
from shoal.assumptions import FIXED, PURE
from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack
from shoal.searches import bisect_safe

Inequality = Literal["hoeffding", "bennett"]

_UP = 1 + slack(512)
"""Covers the rounding of a hundred operations, none of which cancels."""
_LARGEST_LOCAL_EPSILON = 100.0
"""Beyond, the bounds are above one for any number of reports, and doubles would overflow."""


@dataclass(frozen=True)
class BlanketForm(UpperProfile):
    """Hoeffding's or Bennett's bound of the privacy blanket; for a randomizer that does not depend on other reports.

    The row is "generic" for any ε₀-DP randomizer, "response" for k-ary randomized response with k `categories`, and
    "laplace" for the Laplace mechanism with scale 1/ε₀ on [0, 1].

    The constants are those of the authors' release (github.com/BorjaBalle/amplification-by-shuffling), derived again.
    With E = e^ε₀ and e = e^ε:

    ========  =============  ==============  ===================  =============================================
    row       γ              b₊              b                    c
    ========  =============  ==============  ===================  =============================================
    generic   1/E            E − e/E         (e + 1)(E − 1/E)     E(e² + 1) − 2e/E³
    response  k/(E + k − 1)  γ(E − e)        γ(e + 1)(E − 1)      (γ²/k)((E−e)² + (1−eE)² + (k−2)(e−1)²)
    laplace   E^−½           √E − e/√E       (e + 1)(√E − 1/√E)   (e² + 1)(2√E + 1/E)/3 − 2e(2/√E − 1/E)
    ========  =============  ==============  ===================  =============================================

    The rows "response" and "laplace" are exact: some pair of inputs reaches b₊, b and c at once. The generic row is
    valid and not the smallest: R(x)/ω lies between 1 and E for every x, so that E − e, (e + 1)(E − 1) and
    E(e² + 1) − 2e would do.
    """

    reports: int
    local_epsilon: float
    inequality: Inequality
    randomizer: BlanketRow = "generic"
    categories: int = 2

    no_bracket = 'a closed form has no pair, and hence not an exact value to bracket; use bound="blanket"'

    def delta(self, epsilon: float) -> float:
        """Return the bound of δ(ε), rounded up."""
        if epsilon >= self.local_epsilon:
            return 0.0
        if epsilon <= 1e-100 or self.local_epsilon > _LARGEST_LOCAL_EPSILON:  # nothing is lost, and nothing underflows
            return 1.0
        probability, complement = self._blanket_probability()
        highest, width, square = self._constants(epsilon, probability)
        rise = math.expm1(epsilon)
        if self.inequality == "hoeffding":
            rate = 2 * (rise / width) ** 2
            factor = width**2 / (4 * rise)
        else:
            ratio = rise * highest / square
            rate = square / highest**2 * _entropy(ratio)
            factor = highest / math.log1p(ratio)
        # The larger exponent is moved up and the smaller one down, each by more than its rounding.
        kept = self.reports * _log_mix(probability, complement, rate) / _UP
        none = self.reports * math.log(complement) * _UP
        scale = math.log(factor) - math.log(probability) - math.log(self.reports)
        log_delta = kept + scale + slack(512) * (1 + abs(scale)) + math.log(-math.expm1(min(none - kept, -1e-300)))
        return max(SMALLEST_DELTA, math.exp(min(0.0, log_delta)))

    def epsilon(self, delta: float) -> float:
        """Return an ε at which the bound of δ was evaluated and is small enough, or ε₀."""
        if delta < SMALLEST_DELTA:
            return self.local_epsilon
        return bisect_safe(
            lambda epsilon: self.delta(epsilon) <= delta, unsafe=0.0, good=self.local_epsilon, relative=1e-12
        )

    def _blanket_probability(self) -> tuple[float, float]:
        """Return γ and 1 − γ."""
        if self.randomizer == "response":
            total = math.expm1(self.local_epsilon) + self.categories
            return self.categories / total, math.expm1(self.local_epsilon) / total
        power = self.local_epsilon if self.randomizer == "generic" else self.local_epsilon / 2
        return math.exp(-power), -math.expm1(-power)

    def _constants(self, epsilon: float, probability: float) -> tuple[float, float, float]:
        """Return b₊, b and c, written so that nothing cancels."""
        local = math.exp(self.local_epsilon)
        factor = math.exp(epsilon)
        rise = math.expm1(epsilon)
        gap = -math.expm1(epsilon - self.local_epsilon)
        excess = math.expm1(self.local_epsilon)
        if self.randomizer == "generic":
            highest = -local * math.expm1(epsilon - 2 * self.local_epsilon)
            width = -(factor + 1) * local * math.expm1(-2 * self.local_epsilon)
            return highest, width, local * (rise**2 - 2 * factor * math.expm1(-4 * self.local_epsilon))
        if self.randomizer == "response":
            # (E − e)² + (1 − eE)² = (E − 1)²(e² + 1) + 2E(e − 1)²
            square = excess**2 * (factor**2 + 1) + (2 * local + self.categories - 2) * rise**2
            return (
                probability * local * gap,
                probability * excess * (factor + 1),
                probability**2 / self.categories * square,
            )
        root = math.exp(self.local_epsilon / 2)
        growth = math.expm1(self.local_epsilon / 2)
        alone = (2 * root + 1 / local) / 3  # γ·∫R(x)²/ω; less γ·∫R(x)R(x′)/ω it is (2/(3E))(√E − 1)²(√E + 2)
        square = rise**2 * alone + factor * 4 / (3 * local) * growth**2 * (root + 2)
        return root * gap, (factor + 1) * excess / root, square


def _entropy(ratio: float) -> float:
    """Return φ(u) = (1 + u)·ln(1 + u) − u, with no cancellation where u is small."""
    if ratio > 0.25:
        return (1 + ratio) * math.log1p(ratio) - ratio
    total = 0.0
    power = ratio
    for term in range(2, 40):
        power *= -ratio
        total -= power / (term * (term - 1))
    return total


def _log_mix(probability: float, complement: float, rate: float) -> float:
    """Return ln(1 − γ + γe^−s), accurate where it is close to zero and where it is not."""
    drop = -probability * math.expm1(-rate)
    return math.log1p(-drop) if drop < 0.5 else math.log(complement + probability * math.exp(-rate))


def _of_setting(inequality: Inequality, setting: Setting) -> BlanketForm:
    """Return the row for the randomizer that is given, or the one for any."""
    return BlanketForm(setting.reports, setting.local_epsilon, inequality, *setting.blanket_row)


register(
    ShufflingBound(
        name="blanket-bennett",
        statement=(
            "δ = b₊/(γn·ln(1 + ab₊/c))·((1 − γ + γe^−s)ⁿ − (1 − γ)ⁿ), a = e^ε − 1, s = (c/b₊²)·φ(ab₊/c), "
            "φ(u) = (1 + u)ln(1 + u) − u; γ, b₊ and c are those of any ε₀-DP randomizer, of k-ary randomized "
            "response, or of Laplace noise on [0, 1]."
        ),
        citation="Balle, Bell, Gascón and Nissim, arXiv 1903.02837 (CRYPTO 2019): the blanket lemma, then Bennett",
        assumptions=(PURE, *FIXED),
        numerical=False,
        make=partial(_of_setting, "bennett"),
        adaptive=False,
        proof="the paper, and again in shoal.amplification.blanket_form",
    ),
    ShufflingBound(
        name="blanket-hoeffding",
        statement=(
            "δ = b²/(4aγn)·((1 − γ + γe^{−2a²/b²})ⁿ − (1 − γ)ⁿ), a = e^ε − 1; γ and b are those of any ε₀-DP "
            "randomizer, of k-ary randomized response, or of Laplace noise on [0, 1]."
        ),
        citation="Balle, Bell, Gascón and Nissim, arXiv 1903.02837 (CRYPTO 2019): the blanket lemma, then Hoeffding",
        assumptions=(PURE, *FIXED),
        numerical=False,
        make=partial(_of_setting, "hoeffding"),
        adaptive=False,
        proof="the paper, and again in shoal.amplification.blanket_form",
    ),
)
