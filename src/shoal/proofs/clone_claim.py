"""Claims about all randomizers with certain numbers: clones, strong clones, two ratios, decompositions, swap chains.

For clones and decompositions W has two or three values in closed form (docs/theory/certificates.md, section 2). Swap
chains are Theorem N (docs/theory/tighter.md, whose names are used here): sizes of the pool, of the smoothing and of the
windows are doubles that floating point chooses, for each ε. Whatever they are, the theorem holds, and its right side is
what the balls enclose. All sums are in units of e^ε₀ − 1.
"""

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from shoal.assumptions import (
    ADAPTIVE,
    APPROXIMATE,
    CLONES,
    DECOMPOSES,
    DECOMPOSITION,
    PURE,
    RATIOS,
    SHARPER,
    STRONG,
    SWAP_CHAINS,
    TWO_RATIOS,
    Assumption,
)
from shoal.errors import ParameterError
from shoal.proofs.balls import INFINITE, ZERO, Ball, Summand, above, ball, density, normal, precision, total
from shoal.proofs.claim import LADDER, RoundClaim, Witness, choice, double
from shoal.proofs.inversion import chernoff
from shoal.proofs.work import spend

_FAMILIES = ("clones", "strong-clones")
_LARGEST = 1.7e308  # the largest ε₀: its exponential is a ball, and need not be a double
_ROUNDING = 1e-12  # what rounding p and q may add to the largest possible ε₀: k-ary randomized response is at the limit
# The part of δ for charges, people in the pool over √n, and the smoothing of the main sum and of the pool, over the
# variance: chosen by search for about the least ε, and every choice gives a bound.
_SHARE, _POOL, _MAIN_NOISE, _POOL_NOISE = 2e-3, 14.0, 12.0, 70.0
_LARGEST_LOCAL, _FEWEST = 12.0, 200  # with a larger ε₀, or fewer reports, Theorem S is the bound
# Of neighbouring ends of windows, and how many nodes of the main sum: for one round, and for one of many.
_RATIO, _NODES, _COARSE = 1.03, 192, 96
_LEAST_ROOM = 0.2  # of 1 − v/τ: with less of it, the replacement by a normal variable costs too much
_LEAST = 1e-280  # a smaller δ is not looked at
_FAR_BELOW = 0.02  # of Chernoff's bound for the strong clones: what is below this part of it is below them


def clone_summand(local: Ball, growth: Ball, probability: Ball) -> Summand:
    """Return W of clones of this probability, of which half are of each kind: δ = E[(ΣW)₊]/n by (ID)."""
    # W = c·β and c·(β − 1) for c = 2(1 + e^ε)(E − 1)/((E + 1)p) and β = (E − e^ε)/((E − 1)(1 + e^ε)).
    factor = 2 / ((local + 1) * probability)
    values = factor * (local - growth), factor * (1 - local * growth)
    return Summand(values, (probability / 2, probability / 2), ZERO)


@dataclass(frozen=True)
class CloneClaim(RoundClaim, name="clones"):
    """The pair of n reports from (ε₀, δ₀)-DP randomizers, by the paper's theorem or by Theorem S."""

    reports: int
    local_epsilon: float
    local_delta: float
    family: str

    sentence = (
        "{0.reports:,} shuffled reports of any randomizer with local_epsilon={0.local_epsilon!r}, "
        "local_delta={0.local_delta!r} ({0.family})"
    )

    def _check(self) -> None:
        double(0.0, _LARGEST, local_epsilon=self.local_epsilon)
        double(0.0, 1.0, local_delta=self.local_delta)
        choice(_FAMILIES, family=self.family)

    @property
    def theorem(self) -> str:
        """Where the pair is proved."""
        if self.family == "clones":
            return f"{CLONES[0]}; {CLONES[1]}" if self.local_delta else CLONES[0]
        return f"{STRONG}; {SHARPER}" if self.local_delta else STRONG

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true."""
        return (APPROXIMATE if self.local_delta else PURE, *ADAPTIVE)

    @property
    def floor(self) -> float:
        """δ₀."""
        return self.local_delta

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W of the clones."""
        local = ball(self.local_epsilon).exp()
        probability = 1 / local if self.family == "clones" else 2 / (local + 1)
        return [clone_summand(local, growth, probability)]

    def charge(self, growth: Ball) -> Ball:
        """Return what δ₀ costs: the paper's theorem for the clones, the sharper one for the strong clones."""
        if not self.local_delta:
            return ZERO
        local = ball(self.local_epsilon).exp()
        if self.family == "clones":
            factor = (growth + 1) * (1 + 1 / (2 * local)) * self.reports
        else:
            factor = (self.reports - 1) * (2 / local) * (1 + growth) + 1
        return factor * ball(self.local_delta)


@dataclass(frozen=True)
class RatioClaim(RoundClaim, name="two-ratios"):
    """The strong clones with p = e^ε₀ between the victim's two reports, and q = e^log_ratio to those of others."""

    reports: int
    local_epsilon: float
    log_ratio: float

    sentence = (
        "{0.reports:,} shuffled reports with two ratios, local_epsilon={0.local_epsilon!r}, log_ratio={0.log_ratio!r}"
    )
    theorem = TWO_RATIOS
    assumptions = (RATIOS, *ADAPTIVE)

    def _check(self) -> None:
        double(0.0, _LARGEST, local_epsilon=self.local_epsilon)
        double(self.local_epsilon, _LARGEST, log_ratio=self.log_ratio)

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W of the clones."""
        local, ratio = ball(self.local_epsilon).exp(), ball(self.log_ratio).exp()
        return [clone_summand(local, growth, 2 * local / (ratio * (local + 1)))]


@dataclass(frozen=True)
class DecompositionClaim(RoundClaim, name="decomposition"):
    """The pair of Theorem 4.1: W is q/p, −e^ε·q/p or −(e^ε − 1)(1 − q)/p, each with probability p."""

    reports: int
    blanket_probability: float
    own_probability: float
    local_epsilon: float

    sentence = (
        "{0.reports:,} shuffled reports of a randomizer that decomposes with p={0.blanket_probability!r}, "
        "q={0.own_probability!r}, local_epsilon={0.local_epsilon!r}"
    )
    theorem = DECOMPOSITION
    assumptions = (DECOMPOSES, PURE, *ADAPTIVE)

    def _check(self) -> None:
        blanket = double(0.0, 1 / 3, blanket_probability=self.blanket_probability)
        own = double(0.0, 1.0, own_probability=self.own_probability)
        if not (blanket > 0 and own > 0):
            raise ParameterError(f"both probabilities must be greater than 0, got {blanket!r} and {own!r}")
        double(0.0, 700.0, local_epsilon=self.local_epsilon)
        with precision(256):
            both = 2 / ball(own) if own > 2 / 3 else 1 / (1 - ball(own))
            largest = (1 + ball(own) * (1 / ball(blanket) - both)).log() * (1 + _ROUNDING)
            possible = ball(self.local_epsilon) <= largest
        if not possible:
            raise ParameterError(
                f"no randomizer has local_epsilon={self.local_epsilon!r} with these probabilities, {blanket!r} and "
                f"{own!r}: they leave at most {float(largest):.6g}"
            )

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W."""
        probability, own = ball(self.blanket_probability), ball(self.own_probability)
        values = own / probability, -growth * own / probability, -(growth - 1) * (1 - own) / probability
        return [Summand(values, (probability,) * 3, ZERO)]


@dataclass(frozen=True)
class SwapChainClaim(RoundClaim, name="swap-chains"):
    """Reports of any ε₀-DP randomizers: Theorem N, or Theorem S at an ε where that is below."""

    reports: int
    local_epsilon: float

    sentence = "{0.reports:,} shuffled reports of any randomizer with local_epsilon={0.local_epsilon!r}"
    theorem = SWAP_CHAINS
    assumptions = (PURE, *ADAPTIVE)

    def _check(self) -> None:
        double(0.0, 700.0, local_epsilon=self.local_epsilon)

    @property
    def _strong(self) -> CloneClaim:
        return CloneClaim(self.reports, self.local_epsilon, 0.0, "strong-clones")

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield ever more of ε: first for Theorem N alone, where it may be enough, then as for the strong clones."""
        if self.at(epsilon * (1 + LADDER[-1]), fineness=0.0) <= delta:
            yield from super().attempts(epsilon, delta)
        for larger, witness in self._strong.attempts(epsilon, delta):
            if witness["fineness"]:
                yield larger, witness

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε): by Theorem N alone, or with a fineness the lesser of two."""
        if epsilon >= self.local_epsilon:
            return ZERO
        value = INFINITE
        if self.reports >= _FEWEST and 1e-9 <= self.local_epsilon <= _LARGEST_LOCAL:
            value = _Chains(self.reports, self.local_epsilon, epsilon).bound(_COARSE if fineness else _NODES)
        if value.is_finite():
            (summand,) = self._strong.summands(ball(epsilon).exp())
            if not fineness or value < _FAR_BELOW * chernoff(summand, self.reports) / self.reports:
                return value
        strong = self._strong.at(epsilon, fineness=fineness)
        return strong if strong < value else value


class _Chains:
    """The numbers of a question in balls, and I, a double that is at least every variance of X."""

    def __init__(self, reports: int, local_epsilon: float, epsilon: float) -> None:
        spend(600)
        self.reports = reports
        self.ratio = big = ball(local_epsilon).exp()
        self.growth = lam = ball(epsilon).exp()
        self.gap = big - 1
        self.excess = lam - 1
        self.sizes = (ball(1.0), 1 / big, lam, lam / big, self.excess, self.excess / big)
        two = 1 / (big + 1)
        three = 1 / (big + 2)
        pairs = 1 / (2 * big + 1)
        # Each extreme distribution of X: probability, which of the sizes, sign.
        self.vertices = (
            ((two, 0, 1), (big * two, 1, -1)),
            ((two, 2, -1), (big * two, 3, 1)),
            ((three, 0, 1), (three, 2, -1), (big * three, 5, 1)),
            ((pairs, 4, -1), (big * pairs, 3, 1), (big * pairs, 1, -1)),
        )
        # I, the largest variance of an extreme distribution
        squares = (total([p * self.sizes[which] ** 2 for p, which, _ in each]) for each in self.vertices)
        self.variance = max(above(each) for each in squares)

    def bound(self, count: int) -> Ball:
        """Return a ball whose upper end is at least δ(ε); an infinite one where there is nothing to say."""
        n = self.reports
        wide = math.sqrt(self.variance * n)
        drift = float(self.excess / self.gap) * n / wide
        # About the δ of a normal sum, which says how deep the charges must go.
        likely = float(self.gap) / n * wide * float(_excess(ball(min(drift, 40.0))))
        if not (self.excess < self.gap / 2 and likely > _LEAST):
            return INFINITE
        share = _SHARE * likely
        spread = self.gap**2 / self.ratio
        square = 1 + spread / 4
        # m, the size of the pool, whose weights are close to one
        pool = min(round(_POOL * math.sqrt(float(square) * n)), n // 4)
        weights = _Weights(pool, square * spread, self.ratio * self.gap / 3)
        main = _Main.of(self, n - 1 - pool, weights, share)
        if main is None:
            return INFINITE
        value = self._summed(main, weights, square, share, count)
        return self.gap / n * (value + main.lost) + main.rare if value.is_finite() else INFINITE

    def proxies(self, ends: list[Ball]) -> list[Ball]:
        """Return V at falling ends H: the least v with E[e^hX] ≤ e^(vh²/2) for |h| ≤ H, or more."""
        spend(16 * len(ends))
        halves = []
        for end in ends:
            powers = [(end * size).exp() for size in self.sizes]
            inverse = [1 / power for power in powers]
            means = [
                total([p * (powers if sign * way > 0 else inverse)[which] for p, which, sign in each])
                for each in self.vertices
                for way in (1, -1)
            ]
            # No mean is below its quadratic part: the largest has the largest (E[e^hX] − 1)/h².
            halves.append([(mean - 1) / end**2 for mean in means])
        best = ball(self.variance)
        for half in halves[-1]:
            best = best.max(2 * half)
        values = [best]
        for index in range(len(ends) - 2, -1, -1):
            low = ends[index + 1] ** 2
            for one, two in zip(halves[index], halves[index + 1], strict=True):
                # (E[e^hX] − 1)/h² is convex in h, hence largest at an end of the cell; log(1 + h²C)/h² falls with h.
                best = best.max(2 * (1 + low * one.max(two)).log() / low)
            values.append(best)
        return values[::-1]

    def _rising(self, largest: float, least: float) -> tuple[list[float], list[Ball]]:
        """Return ends of windows from half of the least to the largest, and V at each."""
        number = 2 + math.ceil(_steps(2 * largest / least))
        ends = [largest * _RATIO**-index for index in range(number)]
        return ends[::-1], self.proxies([ball(end) for end in ends])[::-1]

    def _summed(self, main: "_Main", weights: "_Weights", square: Ball, share: float, count: int) -> Ball:
        """Return a bound of the mean of the positive part of everything, from its bounds at nodes of the main sum."""
        pool = weights.pool
        variance = self.variance
        allowed = share * self.reports / float(self.gap)
        aside = min(_POOL_NOISE * float(self.ratio) ** 2 * variance, 0.25 * float(main.most))
        smooth = main.noise + aside
        rough = math.sqrt(smooth)
        noise = ball(smooth).sqrt()
        kept = (1 - aside / main.most).sqrt()
        root = (ball(variance) * main.people).sqrt()
        deviation = kept * root
        drift = self.excess / self.gap
        centre = drift * self.reports
        # Floating point chooses the nodes of the main sum and the window of the smoothing.
        spread = (pool * float(square) + 1) * variance
        about = math.sqrt(smooth + spread)
        middle = float(centre / deviation)
        first = middle - _deviations(about / allowed) * about / float(deviation)
        last = max(_deviations(math.sqrt(float(main.most)) / allowed), middle) + 0.3
        window = _deviations(spread / rough / allowed)
        window += 1.2 * float(self.ratio) * float(self.growth) / rough
        nodes = [first + (last - first) * index / (count - 1) for index in range(count)]
        tilts = [abs(node * deviation - drift * main.people) * self.gap / pool for node in nodes]
        scales = [self.ratio * (1 + tilt) for tilt in tilts]
        reaches = [above(window * scale / noise) for scale in scales]
        pairs = zip(reaches, scales, strict=True)
        usable = [reach for reach, scale in pairs if scale**2 * variance < 0.7 * smooth]
        if not usable:
            return INFINITE
        rising, proxies = self._rising(max(usable), min(usable))
        spend(8 * len(nodes))
        # Bounds of E[(everything)₊] given the main sum at a node; between nodes they are convex in it.
        heights: list[Ball] = []
        for node, tilt, scale, reach in zip(nodes, tilts, scales, reaches, strict=True):
            spend(50)
            place = bisect.bisect_left(rising, reach)
            inside = window - scale * self.growth / noise
            if place == len(rising) or not inside > 1:
                break
            room = 1 - scale**2 * proxies[place] / smooth
            if not room > _LEAST_ROOM:
                break
            people = pool * square * (1 + tilt) ** 2 + 1
            width = (smooth + people * proxies[place] / room).sqrt()
            height = people * variance * density(inside) / (2 * noise)
            mean = node * deviation - centre
            if node > 0:  # the variance of the main sum is larger where weights are
                depth = math.log(max(float(deviation) / allowed, 1.0)) + 1 - node**2 / 2
                apart = weights.distance(max(depth, 2.0))
                factor = kept * node / (2 * main.low)
                mean += factor * (main.high**2 * main.extra / root + root * ball(apart) ** 2)
                height += factor * root * weights.beyond(apart)
            heights.append(height + width * _excess(-mean / width))
        if len(heights) < 2:
            return INFINITE
        # The mean over a normal main sum, by chords from node to node and a bound beyond the last.
        return _joined([ball(node) for node in nodes[: len(heights)]], heights, main.most.sqrt())


def _joined(nodes: list[Ball], heights: list[Ball], slope: Ball) -> Ball:
    """Return the mean over a normal variable of the chords between nodes, with this slope beyond the last."""
    tails = [_excess(node) for node in nodes]
    value = heights[0] + slope * tails[-1]
    for i in range(len(nodes) - 1):
        chord = (heights[i + 1] - heights[i]) / (nodes[i + 1] - nodes[i])
        value += chord * (tails[i] - tails[i + 1])
    return value


class _Weights(NamedTuple):
    """Pr(|ζ| ≥ y) ≤ 2·exp(−m·y²/(2(c + by))) for the weight 1 + ζ of one person: m, c and b."""

    pool: int
    variance: Ball
    jump: Ball

    def distance(self, depth: float) -> float:
        """Return about the y at which the exponent is this."""
        half = depth * float(self.jump) / self.pool
        return half + math.sqrt(half**2 + 2 * depth * float(self.variance) / self.pool)

    def depth(self, distance: float) -> Ball:
        """Return the exponent."""
        return self.pool * ball(distance) ** 2 / (2 * (self.variance + self.jump * distance))

    def beyond(self, distance: float) -> Ball:
        """Return a bound of E[(ζ² − y²)₊]: the exponent is convex, and lies above its tangent at y."""
        whole = self.variance + self.jump * distance
        slope = self.pool * distance * (2 * self.variance + self.jump * distance) / (2 * whole**2)
        return 4 * (-self.depth(distance)).exp() * (distance / slope + 1 / slope**2)


class _Main(NamedTuple):
    """What the people outside the pool add: smoothing, 1 ∓ x, X_s, the largest variance, and two charges."""

    people: int
    noise: float
    low: Ball
    high: Ball
    extra: Ball
    most: Ball
    lost: Ball
    rare: Ball

    @classmethod
    def of(cls, chains: _Chains, people: int, weights: _Weights, share: float) -> "_Main | None":
        """Return it, or nothing if weights are too far from one, or smoothing is too little."""
        variance = chains.variance
        allowed = share * chains.reports / float(chains.gap)
        worth = 2 * people * chains.ratio * (chains.gap - chains.excess)
        farthest = weights.distance(math.log(max(float(worth) / share, 2.0)))
        if not farthest < 0.8:
            return None
        low = 1 - ball(farthest)
        high = 1 + ball(farthest)
        noise = _MAIN_NOISE * float(chains.ratio) * variance
        least = low**2 * variance
        end = noise + least * people
        charge = high**2 * variance * (end.sqrt() / least + 1 / (2 * ball(noise).sqrt()))
        edge = high * chains.growth / ball(noise).sqrt()
        window = _deviations(float(charge) / allowed) + float(edge)
        number = 2 + math.ceil(_steps(float(end) / noise) / 2)
        starts = [noise * _RATIO ** (2 * index) for index in range(number)]
        if not (end < starts[-1] and window - edge > 0):
            return None
        proxies = chains.proxies([window * high / ball(start).sqrt() for start in starts])
        more = []
        for start, proxy in zip(starts, proxies, strict=True):
            room = 1 - high**2 * proxy / start
            if not room > _LEAST_ROOM:
                return None
            more.append((proxy / room - variance).max(ZERO))
        steps = zip(pairwise(starts), more[:-1], strict=True)
        extra = more[0] + total([(ball(b) - a) * each for (a, b), each in steps]) / least
        most = high**2 * (ball(variance) * people + extra)
        rare = worth * (-weights.depth(farthest)).exp()
        return cls(people, noise, low, high, extra, most, charge * density(window - edge), rare)


def _steps(ratio: float) -> float:
    return math.log(max(ratio, 1.0)) / math.log(_RATIO)


def _deviations(odds: float) -> float:
    """Return about the t with φ(t)·odds = 1, at least one."""
    return math.sqrt(max(2 * math.log(max(odds / math.sqrt(2 * math.pi), 1.0)), 1.0))


def _excess(point: Ball) -> Ball:
    """Return E[(Z − t)₊]."""
    return density(point) - point * normal(-point)
