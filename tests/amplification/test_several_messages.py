"""Covers and dummies against every outcome of the whole protocol, in fractions; golden values; certificates; rounds."""

import json
import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import shoal
from shoal.assumptions import COLLUDE
from shoal.errors import ParameterError, UnreachableError
from shoal.mechanisms.dummies import decay_of
from shoal.pairs import CoverPair, DummyPair
from shoal.pairs.cover_pair import covered_response
from shoal.pairs.discrete_laplace import DECAYS
from shoal.proofs.balls import above, precision
from shoal.proofs.claim import RoundClaim
from shoal.proofs.several_messages_claim import CoverClaim
from tests.exhaustive import representative

Law = dict[tuple[int, ...], Fraction]
Row = tuple[Fraction, ...]

_GROWTHS = (Fraction(1), Fraction(3, 2), Fraction(3))


def _with(law: Law, message: Row) -> Law:
    """Return the law of counts with one more message, drawn from a row of probabilities; the rest is no message."""
    result: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for counts, chance in law.items():
        for output, share in enumerate(message):
            if share:
                result[*counts[:output], counts[output] + 1, *counts[output + 1 :]] += chance * share
        if sum(message) < 1:
            result[counts] += chance * (1 - sum(message))
    return dict(result)


def _covered(rows: list[Row], values: tuple[int, ...], slots: int, fill: Fraction) -> Law:
    """Return the law of all counts if people hold these values, with covers in all slots."""
    outputs = len(rows[0])
    law: Law = {(0,) * outputs: Fraction(1)}
    for value in values:
        law = _with(law, rows[value])
    for _ in range(slots):
        law = _with(law, (fill / outputs,) * outputs)
    return law


def _divergence(first: Law, second: Law, growth: Fraction) -> Fraction:
    return sum((max(Fraction(0), p - growth * second.get(each, Fraction(0))) for each, p in first.items()), Fraction(0))


def _categories(count: int) -> list[Row]:
    return [tuple(Fraction(int(x == y)) for y in range(count)) for x in range(count)]


def _pair_exactly(slots: int, share: Fraction, growth: Fraction) -> Fraction:
    """Return E(1 − λB/(A + 1))₊, each slot in A or in B with the probability `share`."""
    total = Fraction(0)
    for a, b in product(range(slots + 1), repeat=2):
        if a + b <= slots:
            ways = math.comb(slots, a) * math.comb(slots - a, b)
            chance = ways * share ** (a + b) * (1 - 2 * share) ** (slots - a - b)
            total += chance * max(Fraction(0), 1 - growth * Fraction(b, a + 1))
    return total


@pytest.mark.slow
@pytest.mark.parametrize("fill", [Fraction(1), Fraction(1, 4)])
@pytest.mark.parametrize(("people", "categories"), [(1, 2), (2, 2), (3, 2), (4, 2), (1, 3), (2, 3), (3, 3), (4, 3)])
def test_covers_are_exact_for_every_dataset(people: int, categories: int, fill: Fraction) -> None:
    """Equality, in fractions, for all other people's values and every two of the victim; and so for the pair."""
    rows = _categories(categories)
    for slots in (1, 2, 3, 4):
        pair = CoverPair(slots, float(fill), categories)
        for growth in _GROWTHS:
            exact = _pair_exactly(slots, fill / categories, growth)
            low, high = pair.delta_bracket(math.log(growth))
            assert low <= float(exact) * (1 + 1e-15) and float(exact) <= high * (1 + 4e-16) <= float(exact) * (1 + 1e-9)
            for others in product(range(categories), repeat=people - 1):
                laws = [_covered(rows, (x, *others), slots, fill) for x in range(categories)]
                for x, y in product(range(categories), repeat=2):
                    if x != y:
                        assert _divergence(laws[x], laws[y], growth) == exact


@pytest.mark.parametrize("slots", [1, 3])
def test_covers_of_absent_people_are_caught(slots: int) -> None:
    """Counting the slots of one who is not there promises less than what is seen."""
    rows, growth = _categories(2), Fraction(3, 2)
    first, second = (_covered(rows, (x,), slots, Fraction(1)) for x in (0, 1))
    there = _divergence(first, second, growth)
    assert float(there) > CoverPair(slots + 1, 1.0, 2).delta(math.log(growth)) * (1 + 1e-6)


def _responses(sets: list[set[int]], outputs: int, truth: Fraction) -> list[Row]:
    return [
        tuple(truth * Fraction(int(y in own), len(own)) + (1 - truth) / outputs for y in range(outputs)) for own in sets
    ]


_FANO = [{(x + shift) % 7 for shift in (0, 1, 3)} for x in range(3)]
_HADAMARD = [{y for y in range(4) if (x & y).bit_count() % 2 == 0} for x in (1, 2, 3)]
_DESIGNS = {
    "3-ary": ([{0}, {1}, {2}], 3, 0),
    "Hadamard": (_HADAMARD, 4, 1),
    "geometry": (_FANO, 7, 1),
    "two blocks": ([{0, 1}, {2, 3}], 4, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "truth", "fill"),
    representative(
        product(_DESIGNS, (Fraction(1), Fraction(9, 10), Fraction(1, 2)), (Fraction(1), Fraction(1, 2))), 10
    ),
)
def test_covers_over_designs_are_never_above(name: str, truth: Fraction, fill: Fraction) -> None:
    """Others randomize as well, and with one person the bound is attained."""
    sets, outputs, common = _DESIGNS[name]
    rows = _responses(sets, outputs, truth)
    supporting = len(sets[0])
    for people, slots in ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)):
        for growth in _GROWTHS:
            epsilon = math.log(growth)
            numbers = {"outputs": outputs, "supporting": supporting, "common": common}
            pair: CoverPair | shoal.pairs.LikelihoodPair = (
                CoverPair(slots, float(fill), **numbers)
                if truth == 1
                else covered_response(slots, float(fill), **numbers, truth=truth)
            )
            worst = Fraction(0)
            for others in product(range(len(rows)), repeat=people - 1):
                laws = [_covered(rows, (x, *others), slots, fill) for x in range(len(rows))]
                for x, y in product(range(len(rows)), repeat=2):
                    worst = max(worst, _divergence(laws[x], laws[y], growth)) if x != y else worst
            low, high = pair.delta_bracket(epsilon)
            assert float(worst) <= high * (1 + 4e-15)
            if people == 1:
                assert low <= float(worst) * (1 + 4e-15) and high <= float(worst) * (1 + 1e-9) + 1e-15


def _noise(decay: Fraction, limit: int) -> dict[int, Fraction]:
    powers = {z: decay ** abs(z) for z in range(-limit, limit + 1)}
    return {z: power / sum(powers.values()) for z, power in powers.items()}


def _with_dummies(counts: tuple[int, ...], noise: dict[int, Fraction], limit: int, draws: int = 1) -> Law:
    """Return the law of all counts with dummies; of several draws over the same messages, that of all results."""
    law: Law = {(): Fraction(1)}
    for _ in range(draws):
        for count in counts:
            law = {
                (*seen, count + limit + z): chance * share for seen, chance in law.items() for z, share in noise.items()
            }
    return law


@pytest.mark.slow
@pytest.mark.parametrize(("decay", "limit"), [(Fraction(1, 2), 1), (Fraction(3, 4), 2), (Fraction(5, 8), 3)])
@pytest.mark.parametrize("categories", [2, 3])
def test_dummies_are_exact_for_every_dataset(decay: Fraction, limit: int, categories: int) -> None:
    pair, noise = DummyPair(int(decay * DECAYS), limit), _noise(decay, limit)
    for people in (1, 2, 3, 4):
        for others in product(range(categories), repeat=people - 1):
            if others != tuple(sorted(others)):
                continue
            held = [tuple(map([x, *others].count, range(categories))) for x in range(categories)]
            laws = [_with_dummies(counts, noise, limit) for counts in held]
            for growth in (*_GROWTHS, 1 / decay, 1 / decay**2, 5 / decay**2):
                exact = float(_divergence(laws[0], laws[1], growth))
                assert exact == float(_divergence(laws[1], laws[0], growth))
                low, high = pair.delta_bracket(math.log(growth))
                assert low <= exact * (1 + 1e-15) and exact <= high * (1 + 4e-16)
                assert high - low <= 1e-12


def test_dummies_that_are_drawn_twice_are_caught() -> None:
    decay, limit = Fraction(3, 4), 2
    pair, noise = DummyPair(int(decay * DECAYS), limit), _noise(decay, limit)
    for epsilon in (0.0, 0.3, pair.end):
        growth = Fraction(math.exp(epsilon))
        first, second = (_with_dummies(counts, noise, limit, draws=2) for counts in ((1, 0), (0, 1)))
        assert float(_divergence(first, second, growth)) > pair.delta(epsilon) * 1.3


_COVERS = [
    (3, 3, 1.0, 0.5, 0.385374626563),
    (4, 40, 1.0, 0.5, 0.0394339663419),
    (100, 500, 1.0, 0.5, 0.104627775896),
    (100, 500, 1.0, 100.0, 0.00657048),
    (100, 5000, 1.0, 0.5, 6.303168501e-4),
    (100, 13605, 1.0, 0.5, 9.998658e-7),
    (100, 13604, 1.0, 0.5, 1.0005634e-6),
    (100, 4261, 1.0, 1.0, 9.981171e-7),
    (100, 264109, 1.0, 0.1, 9.9999856e-7),
    (2, 268, 1.0, 0.5, 9.880092e-7),
    (10, 1357, 1.0, 0.5, 9.940567e-7),
    (100, 10**5, 0.1361, 0.5, 9.992776e-7),
]
"""k, S, r, ε and δ, to the digits that they were computed with, by another program."""


def _digits(value: float) -> int:
    """Return how many digits a number is written with."""
    return len(repr(value).replace(".", "").split("e")[0].lstrip("0"))


@pytest.mark.parametrize(("categories", "slots", "fill", "epsilon", "golden"), _COVERS)
def test_covers_have_the_golden_values(categories: int, slots: int, fill: float, epsilon: float, golden: float) -> None:
    pair = CoverPair(slots, fill, categories)
    low, high = pair.delta_bracket(epsilon)
    assert high == pytest.approx(golden, rel=max(1e-6, 10.0 ** (1 - _digits(golden))))
    claim = pair.provable()
    assert isinstance(claim, CoverClaim)
    with precision(160):
        proved = above(claim.at(epsilon, fineness=0.0))
    assert low <= proved * (1 + 1e-12)
    assert proved <= high <= proved * (1 + 1e-6)  # never below, and to six digits


def test_the_epsilon_of_covers_has_its_golden_value() -> None:
    pair = CoverPair(13_600, 1.0, 100)
    low, high = pair.bracket(1e-6)
    assert f"{high:.11f}" == "0.50009906510" and low <= high <= low * (1 + 1e-9)
    assert pair.epsilon(1e-6) == high


@pytest.mark.parametrize(
    ("epsilon", "categories", "ratio", "digits"),
    [
        (0.1, 100, 2641.1, 1), (0.5, 100, 136.05, 2), (1.0, 100, 42.61, 2), (0.5, 10, 135.7, 1), (1.0, 10, 42.2, 1),
        (0.5, 2, 134.0, 1), (1.0, 2, 40.0, 1),
    ],
)  # fmt: skip
def test_the_least_number_of_covers_of_a_category(epsilon: float, categories: int, ratio: float, digits: int) -> None:
    """The least N is one whose quotient is N/k, rounded, and one less is too few."""
    near = round(ratio * categories)
    fewest = next(
        n for n in range(near - categories, near + categories) if CoverPair(n, 1.0, categories).delta(epsilon) <= 1e-6
    )
    assert fewest / categories == pytest.approx(ratio, abs=0.51 * 10**-digits)
    assert CoverPair(fewest - 1, 1.0, categories).delta_bracket(epsilon)[0] > 1e-6


@pytest.mark.parametrize(
    ("epsilon", "delta", "mean"),
    [(0.1, 1e-10, 5887.8), (0.5, 1e-10, 274.02), (1.0, 1e-10, 82.133), (0.5, 1e-6, 136.10), (1.0, 1e-6, 42.65)],
)
def test_the_mean_of_poisson_covers(epsilon: float, delta: float, mean: float) -> None:
    """Of very many categories, to the four digits that all of them have: a little more is enough, and less is not."""
    for factor, enough in ((1 + 1.2e-4, True), (1 - 1.2e-4, False)):
        pair = CoverPair(round(mean * factor * 10**7), 1.0, 10**7)
        assert (pair.delta(epsilon) <= delta) is enough


@pytest.mark.parametrize(("missing", "epsilon"), [(0.1, 0.531), (0.3, 0.613), (0.5, 0.747)])
def test_covers_of_missing_people_cost(missing: float, epsilon: float) -> None:
    assert CoverPair(round(13_605 * (1 - missing)), 1.0, 100).epsilon(1e-6) == pytest.approx(epsilon, abs=6e-4)


@pytest.mark.parametrize(
    ("outputs", "supporting", "common", "fewest"),
    [(43**2 + 44, 44, 1, 5727), (101**2 + 102, 102, 1, 13_617), (32, 1, 0, 4351), (64, 32, 16, 142)],
)
def test_the_least_number_of_covers_of_designs(outputs: int, supporting: int, common: int, fewest: int) -> None:
    enough, less = (CoverPair(slots, 1.0, outputs, supporting, common).delta(0.5) for slots in (fewest, fewest - 1))
    assert enough <= 1e-6 < less


@pytest.mark.parametrize(
    ("epsilon", "limit", "end", "golden"),
    [
        (0.5, 50, 0.5, 9.268438e-7),
        (0.25, 50, 0.5, 0.069909197460),
        (0.3, 4, -2 * math.log(0.7), 0.207941788355),
        (0.6, 3, -2 * math.log(0.8), 0.197908821643),
    ],
)
def test_dummies_have_the_golden_values(epsilon: float, limit: int, end: float, golden: float) -> None:
    pair = DummyPair(decay_of(end), limit)
    low, high = pair.delta_bracket(epsilon)
    assert high == pytest.approx(golden, rel=5.1 * 10.0 ** -min(9, _digits(golden)))
    claim = pair.provable()
    assert isinstance(claim, RoundClaim)
    with precision(160):
        proved = above(claim.at(epsilon, fineness=0.0))
    assert low <= proved <= high <= low * (1 + 1e-8)


@pytest.mark.parametrize(
    ("epsilon", "delta", "limit", "deviation"),
    [
        (0.1, 1e-6, 217, 28.26),
        (0.5, 1e-6, 50, 5.641),
        (1.0, 1e-6, 27, 2.799),
        (0.1, 1e-10, 401, None),
        (0.5, 1e-10, 87, None),
        (1.0, 1e-10, 45, None),
    ],
)
def test_the_least_limit_of_dummies(epsilon: float, delta: float, limit: int, deviation: float | None) -> None:
    enough, less = (DummyPair(decay_of(epsilon), each) for each in (limit, limit - 1))
    assert enough.epsilon(delta) <= epsilon and less.epsilon(delta) == math.inf
    if deviation is not None:
        made = shoal.Dummies(categories=2, epsilon=epsilon, limit=limit)
        assert math.sqrt(made.noise_variance) == pytest.approx(deviation, rel=2e-4)


def test_a_smaller_delta_than_that_of_an_infinite_loss_has_no_epsilon() -> None:
    few = shoal.amplify(shoal.Covered(categories=100, fill=1), reports=500)
    assert few.epsilon(1e-6) == few.epsilon(0) == math.inf
    assert few.epsilon(0.0066) < math.log(501)
    assert few.epsilon_bracket(0.0065) == (math.inf, math.inf)
    with pytest.raises(shoal.errors.NoPairError, match="infinite"):
        few.renyi(2)
    dummies = shoal.amplify(shoal.Dummies(categories=3, epsilon=1, limit=5), reports=2)
    assert dummies.epsilon(1e-6) == math.inf and dummies.epsilon(0.1) < 1
    with pytest.raises(shoal.errors.NoPairError, match="infinite"):
        dummies.renyi(2)
    both = shoal.compose([few, dummies])
    with pytest.raises(shoal.errors.UnreachableError, match="larger delta"):
        both.epsilon(1e-3)
    assert both.epsilon(0.1) < 3


def test_covers_hide_more_the_more_there_are() -> None:
    deltas = [
        CoverPair(slots, fill, 20).delta(0.7)
        for slots, fill in ((400, 0.2), (500, 0.2), (500, 0.4), (800, 0.4), (800, 1.0))
    ]
    assert deltas == sorted(deltas, reverse=True) and len(set(deltas)) == 5
    truths = [
        covered_response(300, 0.5, outputs=7, supporting=3, common=1, truth=Fraction(part, 20)).delta(0.1)
        for part in range(1, 20)
    ]
    assert truths == sorted(truths)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        shoal.Covered(categories=100, fill=0.1361),
        shoal.Covered(categories=2, slots=2, fill=1),
        shoal.Covered(
            categories=1000,
            fill=0.9,
            response=shoal.ProjectiveGeometryResponse(
                categories=1000, local_epsilon=12, order=43, dimension=3, blocks=1
            ),
        ),
        shoal.Dummies(categories=100, epsilon=0.5, limit=50),
    ],
)
def test_certificates(mechanism: shoal.Covered | shoal.Dummies) -> None:
    curve = shoal.amplify(mechanism, reports=10**5)
    certificate = curve.certify(delta=1e-6)
    assert certificate.printed_epsilon == curve.epsilon(1e-6)
    assert certificate.epsilon <= curve.epsilon(1e-6) * (1 + 1e-6)
    again = shoal.Certificate.from_json(certificate.to_json())
    assert again.verify() and again == certificate
    assert certificate.claim.theorem == curve.citation and certificate.claim.assumptions == curve.assumptions
    assert COLLUDE in curve.assumptions and "nothing remains" in COLLUDE.text
    field = "slots" if isinstance(mechanism, shoal.Covered) else "limit"
    content = json.loads(certificate.to_json())
    content["claim"][field] += 1
    with pytest.raises(shoal.errors.DamagedError):
        shoal.Certificate.from_json(json.dumps(content))


def _lessened(claim: RoundClaim) -> RoundClaim:
    return (
        CoverClaim(claim.slots - 40, claim.fill, claim.outputs, claim.supporting, claim.common, claim.truth)
        if isinstance(claim, CoverClaim)
        else DummyPair(claim.decay, claim.limit - 1).provable()  # type: ignore[attr-defined,return-value]
    )


@pytest.mark.parametrize(
    "mechanism", [shoal.Covered(categories=100, fill=1), shoal.Dummies(categories=2, epsilon=0.5, limit=50)]
)
def test_certificates_of_less_hiding_are_not_proved(mechanism: shoal.Covered | shoal.Dummies) -> None:
    curve = shoal.amplify(mechanism, reports=13_605)
    proof = curve.certify(delta=1e-6)
    claim = curve.claim()
    assert isinstance(claim, RoundClaim)
    less = shoal.Certificate(**{**vars(proof), "claim": _lessened(claim)})
    assert not less.verify()


@pytest.mark.slow
def test_rounds_of_covers_and_dummies_add_up() -> None:
    """The Poisson means that several rounds need, from another program; and a bracket around the atoms of dummies."""
    for rounds, epsilon, mean in ((4, 0.5, 522.2), (5, 0.5, 652.7), (4, 1.0, 145.1), (5, 1.0, 180.5)):
        good, bad = (
            shoal.amplify(shoal.Covered(categories=10**4, fill=1), reports=round(1e4 * mean * factor))
            for factor in (1.003, 0.99)
        )
        assert good.repeated(rounds).epsilon(1e-6) <= epsilon < bad.repeated(rounds).epsilon(1e-6)
    mechanism = shoal.Dummies(categories=2, epsilon=0.4, limit=80)
    pair = mechanism.profile(1)
    upper, decay = math.sqrt(pair.largest), mechanism.decay / DECAYS
    once = {2: upper**2, 0: 2 * decay * upper**2, -2: (decay * upper) ** 2}
    law = {0: 1.0}
    for _ in range(5):
        law = {
            loss: sum(law.get(loss - step, 0.0) * chance for step, chance in once.items())
            for loss in {before + step for before in law for step in once}
        }
    target = 1e-5

    def delta(epsilon: float) -> float:
        finite = sum(chance * max(0.0, -math.expm1(epsilon - 0.2 * loss)) for loss, chance in law.items())
        return 1 - (1 - pair.infinite) ** 5 + finite

    curve = shoal.amplify(mechanism, reports=10).repeated(5)
    assert delta(curve.epsilon(target)) <= target < delta(curve.epsilon(target) * 0.998)
    mixed = shoal.compose([(curve, 1), shoal.amplify(local_epsilon=1, reports=10_000)])
    assert curve.epsilon(target) < mixed.epsilon(target) < curve.epsilon(target) + 0.05
    certificate = shoal.compose([shoal.amplify(mechanism, reports=10), good]).certify(delta=1e-5)
    assert shoal.Certificate.from_json(certificate.to_json()).verify()


@pytest.mark.slow
def test_pairs_enclose_the_exact_sums() -> None:
    """At sizes drawn once and for all: neither end is ever on the wrong side, also where a is tiny or nearly one."""
    random = np.random.default_rng(19)
    for _ in range(150):
        categories, slots = int(random.choice([2, 3, 5, 20])), int(10 ** random.uniform(0, 1.3))
        fill = math.ceil(2**10 * random.choice([1.0, random.random()])) / 2**10
        growth = Fraction(random.choice([1.0, math.exp(random.uniform(0, 1.2 * math.log(slots + 1)))]))
        exact = _pair_exactly(slots, Fraction(fill) / categories, growth)
        low, high = CoverPair(slots, fill, categories).delta_bracket(math.log(growth))
        assert low <= float(exact) * (1 + 1e-13) and float(exact) <= high * (1 + 1e-13)
    for _ in range(300):
        end = float(random.choice([10 ** random.uniform(-3, 0), random.uniform(1, 75)]))
        pair = DummyPair(decay_of(end), int(random.integers(1, 200)))
        epsilon = float(random.uniform(0, 1.1 * pair.end))
        claim = pair.provable()
        assert isinstance(claim, RoundClaim)
        with precision(200):
            proved = claim.at(epsilon, fineness=0.0)
            low, high = pair.delta_bracket(epsilon)
            assert low <= proved.upper() and (proved.lower() <= high or high == 1)
        target = float(10 ** random.uniform(-12, 0))
        if pair.epsilon(target) < math.inf:
            assert pair.delta(pair.epsilon(target)) <= target


def test_no_epsilon_of_dummies_is_zero_unless_delta_allows_it() -> None:
    """Next to δ(0), where ε is rounded up: also where a quotient says that zero will do."""
    pair, delta = DummyPair(3722500577167143374, 200), 0.664174342807847
    assert 0 < pair.epsilon(delta) < 1e-12 and pair.delta(pair.epsilon(delta)) <= delta
    random = np.random.default_rng(1)
    for _ in range(300):
        pair = DummyPair(int(random.integers(1, DECAYS, dtype=np.uint64)), int(random.integers(1, 300)))
        for delta in (pair.delta(0.0) * (1 + step * 2.0**-53) for step in range(-6, 7)):
            if pair.unhidden_bracket[1] <= delta < 1:
                assert pair.delta(pair.epsilon(delta)) <= delta


def test_sentences_name_what_was_given() -> None:
    dummies = shoal.amplify(shoal.Dummies(categories=10, epsilon=0.5, limit=2), reports=1000)
    approximate = shoal.amplify(local_epsilon=1, local_delta=1e-5, reports=1000)
    for curve, delta, left in ((dummies, 0.55, "0.591672"), (approximate, 1e-6, "2e-05")):
        with pytest.raises(
            UnreachableError, match=rf"no ε is known at delta={delta:g}: .* is {left} \(the local_delta"
        ):
            shoal.compose([curve, curve]).epsilon(delta)
    covers = shoal.Covered(categories=100, slots=64, fill=0.5)
    with pytest.raises(ParameterError, match=r"slots=64 have more than .*; ask for reports=15625000000000,"):
        shoal.amplify(covers, reports=10**15)
    assert shoal.amplify(covers, reports=15625000000000).reports == 15625000000000
