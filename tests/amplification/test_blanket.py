"""The blanket of a given randomizer: above the truth, below every other bound, close to what real inputs reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement, permutations, product

import pytest

import shoal
from shoal.amplification.blanket import BlanketProfile
from shoal.mechanisms import Categorical, Likelihoods
from shoal.pairs import LikelihoodPair
from tests.exhaustive import representative
from tests.oracles import enumeration, mechanisms


class OneBlock(shoal.HadamardResponse):
    """Hadamard response with one block, as the matrix of the oracle has it."""

    def settle(self) -> None:
        object.__setattr__(self, "blocks", 1)


KINDS = (
    shoal.RandomizedResponse,
    OneBlock,
    shoal.Rappor,
    shoal.UnaryEncoding,
    shoal.SubsetSelection,
)
SHARES = (0.0, 0.1, 0.3, 0.6, 0.9, 0.999)


def matrix_of(randomizer: Categorical) -> list[list[float]]:
    """Return the matrix of a mechanism, from its definition."""
    sizes = (randomizer.categories, randomizer.local_epsilon)
    if isinstance(randomizer, shoal.SubsetSelection):
        return mechanisms.subset_selection(*sizes, randomizer.subset_size)
    makers: dict[type[Categorical], Callable[[int, float], list[list[float]]]] = {
        shoal.RandomizedResponse: enumeration.randomized_response,
        OneBlock: mechanisms.hadamard_response,
        shoal.Rappor: mechanisms.rappor,
        shoal.UnaryEncoding: mechanisms.unary_encoding,
    }
    return makers[type(randomizer)](*sizes)


def naive(likelihoods: Likelihoods, reports: int, epsilon: float) -> float:
    """Return E[(W₁ + … + Wₙ)₊]/n as the plain sum over all counts."""
    rows = [(math.exp(one) - math.exp(epsilon + two), probability) for one, two, probability in likelihoods.rows]
    rows.append((0.0, likelihoods.missing))

    def counts(left: int, places: int) -> Iterator[tuple[int, ...]]:
        if places == 1:
            yield (left,)
            return
        for first in range(left + 1):
            yield from ((first, *rest) for rest in counts(left - first, places - 1))

    terms = []
    for count in counts(reports, len(rows)):
        total = math.fsum(number * value for number, (value, _) in zip(count, rows, strict=True))
        if total > 0:
            ways = math.factorial(reports) // math.prod(math.factorial(number) for number in count)
            terms.append(total * ways * math.prod(c**number for number, (_, c) in zip(count, rows, strict=True)))
    return math.fsum(terms) / reports


def truth(matrix: Sequence[Sequence[float]], reports: int, epsilons: Sequence[float]) -> list[float]:
    """Return the exact δ at each ε, the worst of all victims, datasets and directions."""
    worst = [0.0] * len(epsilons)
    inputs = range(len(matrix))
    for others in combinations_with_replacement(inputs, reports - 1):
        distributions = [enumeration.shuffled_distribution(matrix, (victim, *others)) for victim in inputs]
        for one, two in permutations(distributions, 2):
            deltas = [enumeration.hockey_stick(one, two, epsilon) for epsilon in epsilons]
            worst = [max(pair) for pair in zip(worst, deltas, strict=True)]
    return worst


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "categories", "reports"),
    [
        *((kind, 2, reports) for kind in KINDS for reports in (1, 2, 4)),
        *((kind, 3, reports) for kind in KINDS for reports in (1, 2, 3)),
        *((kind, 4, 2) for kind in KINDS),
        (shoal.RandomizedResponse, 4, 4),
        (OneBlock, 3, 4),
        (shoal.SubsetSelection, 4, 3),
        (shoal.SubsetSelection, 5, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("local_epsilon", [0.3, 1.5, 4.0])
def test_no_dataset_exceeds_the_blanket(
    kind: type[Categorical], categories: int, reports: int, local_epsilon: float
) -> None:
    randomizer = kind(categories=categories, local_epsilon=local_epsilon)
    matrix = matrix_of(randomizer)
    curve = shoal.amplify(randomizer, reports=reports)
    exactly = getattr(randomizer, "bit", None) is not None
    assert curve.bound == ("one-bit" if exactly else "blanket")
    assert curve.randomizer is randomizer
    epsilons = [share * local_epsilon for share in SHARES]
    for epsilon, exact in zip(epsilons, truth(matrix, reports, epsilons), strict=True):
        assert exact <= curve.delta(epsilon) * (1 + 1e-11) + 1e-15
        assert not exactly or curve.delta(epsilon) <= exact * (1 + 1e-6) + 1e-12
        assert curve.lower is not None
        assert curve.lower.delta(epsilon) <= exact * (1 + 1e-11) + 1e-15
        if reports == 1:
            assert curve.delta(epsilon) == pytest.approx(exact, rel=1e-10)
    for delta in (1e-3, 0.05):
        assert truth(matrix, reports, [curve.epsilon(delta)])[0] <= delta * (1 + 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("local_epsilon", [0.05, 1.0, 5.0])
@pytest.mark.parametrize("reports", [2, 7, 20])
def test_brackets_hold_the_plain_sum(kind: type[Categorical], local_epsilon: float, reports: int) -> None:
    randomizer = kind(categories=6, local_epsilon=local_epsilon)
    for likelihoods in (*randomizer.blanket, *randomizer.homogeneous):
        if reports == 20 and len(likelihoods.rows) > 5:
            continue
        pair = LikelihoodPair(reports, likelihoods)
        for share in (0.0, 0.2, 0.7, 0.99):
            exact = naive(likelihoods, reports, share * local_epsilon)
            lower, upper = pair.delta_bracket(share * local_epsilon)
            assert lower <= exact * (1 + 1e-10)
            assert exact <= upper * (1 + 1e-10)
            assert upper <= exact * (1 + 1e-5) + 1e-300


def test_a_pair_that_is_not_symmetric_is_asked_in_both_directions() -> None:
    likelihoods = Likelihoods(((1.0, 0.0, 0.2), (-1.0, 0.0, 0.8)))
    assert not likelihoods.symmetric
    pairs = tuple(LikelihoodPair(5, one) for one in (likelihoods, likelihoods.swapped))
    profile = BlanketProfile(pairs, 1.0)
    for epsilon in (0.1, 0.5):
        assert profile.delta(epsilon) == max(pair.delta_bracket(epsilon)[1] for pair in pairs)
    assert profile.delta(profile.epsilon(1e-3)) <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reports", [2, 300, 10**6])
@pytest.mark.parametrize(("categories", "local_epsilon"), [(2, 0.1), (3, 1.0), (20, 2.0), (10**9, 8.0)])
def test_the_blanket_is_between_the_limits(
    kind: type[Categorical], reports: int, categories: int, local_epsilon: float
) -> None:
    randomizer = kind(categories=categories, local_epsilon=local_epsilon)
    curve = shoal.amplify(randomizer, reports=reports)
    others = [shoal.amplify(randomizer, reports=reports, bound="strong-clones")]
    if isinstance(randomizer, shoal.RandomizedResponse):
        others.append(shoal.amplify(randomizer, reports=reports, bound="decomposition"))
    for delta in (1e-3, 1e-20):
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) <= delta
        assert curve.lower is not None
        assert curve.lower.epsilon(delta) <= epsilon
        for other in others:
            assert epsilon <= other.epsilon(delta) * (1 + 1e-6) + 1e-15


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("reports", "categories", "local_epsilon"),
    [(50, 3, 0.5), (1000, 10, 2.0), (10**4, 100, 4.0), (10**6, 2, 1.0), (10**6, 1000, 8.0), (10**9, 50, 3.0)],
)
def test_brackets_are_narrow(kind: type[Categorical], reports: int, categories: int, local_epsilon: float) -> None:
    curve = shoal.amplify(kind(categories=categories, local_epsilon=local_epsilon), reports=reports)
    for delta in (1e-3, 1e-6, 1e-10, 1e-20):
        lower, upper = curve.epsilon_bracket(delta)
        assert lower <= upper <= lower * (1 + 1e-4) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "local_epsilon", "categories", "reports"),
    representative(
        product(KINDS, (1e-300, 1e-3, 14.0, 40.0, 299.0, 301.0, 700.0, 800.0), (2, 3, 10**9), (1, 2, 10**15)),
        3 * len(KINDS),
    ),
)
def test_absurd_settings_are_safe(kind: type[Categorical], local_epsilon: float, categories: int, reports: int) -> None:
    randomizer = kind(categories=categories, local_epsilon=local_epsilon)
    assert 0 < randomizer.local_epsilon <= local_epsilon
    local_epsilon = randomizer.local_epsilon  # what 64-bit coins make of it
    curve = shoal.amplify(randomizer, reports=reports)
    for delta in (1e-300, 1e-6):
        epsilon = curve.epsilon(delta)
        assert 0 <= epsilon <= local_epsilon
        assert curve.delta(epsilon) <= delta
        assert curve.lower is not None
        assert 0 <= curve.lower.epsilon(delta) <= epsilon
    alone = shoal.amplify(randomizer, reports=1)
    for share in (0.0, 0.5, 0.999):
        delta = curve.delta(share * local_epsilon)
        assert curve.lower.delta(share * local_epsilon) <= delta <= alone.delta(share * local_epsilon)  # type: ignore[union-attr]
    assert curve.delta(local_epsilon) == 0
    assert curve.epsilon(0) == local_epsilon


@pytest.mark.slow
def test_only_known_likelihoods_have_a_blanket() -> None:
    bare = shoal.Decomposition(blanket_probability=0.05, own_probability=0.4, local_epsilon=2.0)
    assert shoal.amplify(bare, reports=1000).bound in ("decomposition", "strong-clones")
    with pytest.raises(shoal.ParameterError, match="likelihoods are known"):
        shoal.amplify(bare, reports=1000, bound="blanket")
    with pytest.raises(shoal.ParameterError, match="decompose"):
        shoal.amplify(shoal.Rappor(categories=9, local_epsilon=1), reports=1000, bound="decomposition")
    curve = shoal.amplify(shoal.Rappor(categories=9, local_epsilon=1), reports=1000)
    assert curve.certify(delta=1e-6).verify()
    strong = shoal.amplify(local_epsilon=1, reports=1000)
    for order in (1.5, 2.0, 30.0):
        assert 0 < curve.renyi(order) < strong.renyi(order)
    with pytest.raises(shoal.ParameterError, match="either a randomizer"):
        shoal.lower_bound(shoal.Rappor(categories=9, local_epsilon=1), reports=10, local_epsilon=1)


@pytest.mark.slow
@pytest.mark.parametrize("local_epsilon", [7.9, 8.2, 8.2997, 8.5, 8.8])
def test_a_few_dozen_unusual_people_have_a_tight_bracket(local_epsilon: float) -> None:
    """Too many for the whole list, and too few for an integral: the list is cut where δ no longer needs it."""
    for randomizer in (
        shoal.HadamardResponse(categories=50, local_epsilon=local_epsilon, blocks=32),
        shoal.RandomizedResponse(categories=50, local_epsilon=local_epsilon),
    ):
        profile = shoal.amplify(randomizer, reports=10_000).profile
        lower, upper = profile.pairs[0].delta_bracket(5.0)  # type: ignore[attr-defined]
        assert 0 < lower <= upper <= lower * (1 + 1e-3)
