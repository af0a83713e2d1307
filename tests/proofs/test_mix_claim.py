"""Certificates of split and mix: the noise against all sums, the whole protocol against all views, edits, rounds."""

import json
import math
import time
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import shoal
from shoal.assumptions import SPLIT_AND_MIX, THEOREM_M
from shoal.pairs.discrete_laplace import DECAYS, MixProfile
from shoal.proofs.balls import above, precision
from shoal.proofs.claim import claim_from
from shoal.proofs.several_messages_claim import MixClaim
from tests.exhaustive import representative

_GROWTHS = (Fraction(1), Fraction(5, 4), Fraction(3, 2), Fraction(3))


@pytest.mark.slow
@pytest.mark.parametrize(("decay", "steps"), [(Fraction(1, 2), 1), (Fraction(3, 4), 2), (Fraction(7, 8), 5)])
def test_the_noise_is_that_of_all_sums(decay: Fraction, steps: int) -> None:
    """Equality in fractions, but for a tail: the worst of all moves by 1 to Δ is Δ, and so for claim and profile."""
    most = 400
    masses = {z: (1 - decay) / (1 + decay) * decay ** abs(z) for z in range(-most, most + 1)}
    numbers = (10**6, 12, 1 << 20, int(decay * DECAYS), steps)  # with a distance far below
    claim, profile = MixClaim(*numbers), MixProfile(*numbers)
    for growth in (*_GROWTHS, 1 / decay**steps, 2 / decay**steps):
        exact = [
            sum(max(Fraction(0), p - growth * masses.get(z + move, Fraction(0))) for z, p in masses.items())
            for move in range(1, steps + 1)
        ]
        assert exact == sorted(exact)
        epsilon = math.log(growth)
        with precision(160):
            proved = above(claim.at(epsilon, fineness=0.0))
        tail = 4 * float(growth) * float(decay) ** (most - steps)
        assert float(exact[-1]) - tail <= proved * (1 + 1e-12) + 1e-16
        assert proved <= float(exact[-1]) + 1e-12 + tail
        assert proved <= profile.delta(epsilon) <= proved + 1e-13


def _share(shape: Fraction, decay: Fraction, root: Fraction, most: int) -> list[Fraction]:
    """Return NB(shape, decay), the first mass of which is a power of a root that is known."""
    masses = [root]
    for k in range(most):
        masses.append(masses[-1] * decay * (shape + k) / (k + 1))
    return masses


def _views(inputs: tuple[int, ...], messages: int, modulus: int) -> dict[tuple[int, ...], Fraction]:
    seen: Counter[tuple[int, ...]] = Counter()
    for drawn in product(range(modulus), repeat=(messages - 1) * len(inputs)):
        view = list(drawn)
        for person, value in enumerate(inputs):
            view.append((value - sum(drawn[person * (messages - 1) : (person + 1) * (messages - 1)])) % modulus)
        seen[tuple(sorted(view))] += 1
    every = modulus ** ((messages - 1) * len(inputs))
    return {view: Fraction(count, every) for view, count in seen.items()}


def _seen(values: tuple[int, ...], messages: int, modulus: int, noise: list[Fraction]) -> dict[Any, Fraction]:
    """Return how likely every view of all people is, whose shares of noise have these probabilities modulo q."""
    law: dict[Any, Fraction] = defaultdict(Fraction)
    for shares in product(range(modulus), repeat=len(values)):
        chance = math.prod((noise[share] for share in shares), start=Fraction(1))
        inputs = tuple((value + share) % modulus for value, share in zip(values, shares, strict=True))
        for view, p in _views(inputs, messages, modulus).items():
            law[view] += chance * p
    return law


@pytest.mark.slow
@pytest.mark.parametrize(("messages", "modulus", "steps"), [(3, 2, 1), (3, 4, 1), (3, 4, 3), (4, 3, 1)])
def test_the_whole_protocol_is_never_above_the_claim(messages: int, modulus: int, steps: int) -> None:
    """Two people, all values, all shares of noise, all views, in fractions; a = 5/9, whose √(1 − a) is 2/3."""
    decay, most = Fraction(5, 9), 60
    each = _share(Fraction(1, 2), decay, Fraction(2, 3), most)
    noise = [Fraction(0)] * modulus
    for plus, minus in product(range(most + 1), repeat=2):
        noise[(plus - minus) % modulus] += each[plus] * each[minus]
    missing = 1 - sum(noise)  # of one person, at both ends
    claim = MixClaim(2, messages, modulus, math.ceil(decay * DECAYS), steps)
    laws = {
        values: _seen(values, messages, modulus, noise) for values in {(0, 0), (0, steps), (steps, 0), (steps, steps)}
    }
    worst = 0.0
    for growth in _GROWTHS:
        with precision(160):
            proved = above(claim.at(math.log(growth), fineness=0.0))
        for first, second in (((0, 0), (steps, 0)), ((steps, 0), (0, 0)), ((0, steps), (steps, steps))):
            told = sum(max(Fraction(0), p - growth * laws[second].get(view, 0)) for view, p in laws[first].items())
            assert float(told) - 4 * float(growth * missing) <= proved
            worst = max(worst, float(told))
    assert worst > 0.05  # it tells something


@pytest.mark.parametrize(
    "mechanism",
    [
        shoal.SplitAndMix.fitted(epsilon=0.5, delta=1e-6, honest=10**5, people=10**5),
        shoal.SplitAndMix.fitted(epsilon=2, delta=1e-9, honest=10**6, people=10**7, lower=-3, upper=8),
        shoal.SplitAndMix(epsilon=0.1, honest=90, people=100, messages=20, steps=7),
        shoal.SplitAndMix(epsilon=1, honest=1000, people=1000, messages=64, steps=1),
    ],
    ids=str,
)
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_certificates(mechanism: shoal.SplitAndMix, delta: float) -> None:
    curve = shoal.amplify(mechanism, reports=mechanism.people)
    start = time.process_time()
    certificate = curve.certify(delta=delta)
    text = certificate.to_json()
    again = shoal.Certificate.from_json(text)
    assert again.verify() and again == certificate
    assert time.process_time() - start < 10 and len(text) < 200_000
    assert certificate.printed_epsilon == curve.epsilon(delta)
    assert certificate.epsilon <= curve.epsilon(delta) * (1 + 1e-9)
    claim = certificate.claim
    assert isinstance(claim, MixClaim) and claim_from(claim.to_dict()) == claim
    assert (claim.theorem, claim.assumptions) == (curve.citation, curve.assumptions) == (THEOREM_M, SPLIT_AND_MIX)
    for name in ("honest", "messages", "modulus", "decay", "steps"):
        content = json.loads(text)
        content["claim"][name] += 1
        with pytest.raises((shoal.errors.DamagedError, shoal.errors.FormatError)):
            shoal.Certificate.from_json(json.dumps(content))


@pytest.mark.parametrize(
    "change", [{"honest": 50_000}, {"messages": 5}, {"modulus": 1 << 40}, {"steps": 300}, {"decay": DECAYS // 2}]
)
def test_what_hides_less_is_not_proved(change: dict[str, int]) -> None:
    """With fewer people or messages, a larger modulus, more steps or less noise, whoever recomputes the digest."""
    mechanism = shoal.SplitAndMix.fitted(epsilon=0.5, delta=1e-6, honest=10**5, people=10**5)
    proof = shoal.amplify(mechanism, reports=10**5).certify(delta=1e-6)
    claim = claim_from({**proof.claim.to_dict(), **change})
    other = shoal.Certificate(**{**vars(proof), "claim": claim})
    assert not shoal.Certificate.from_json(other.to_json()).verify()


@pytest.mark.parametrize(
    "numbers", [(1, 3, 4, 9, 1), (2, 2, 4, 9, 1), (2, 3, 1, 9, 1), (2, 3, 4, 0, 1), (2, 3, 4, 9, 0), (2, 3, 4, 9, 1.0)]
)
def test_claims_that_state_nothing_are_refused(numbers: Any) -> None:
    with pytest.raises(shoal.ParameterError):
        MixClaim(*numbers)


@pytest.mark.slow
def test_rounds_with_every_other_kind_are_proved() -> None:
    """Split and mix twice, and once something else: what is printed is above the sum of parts by little, and proved."""
    split = shoal.SplitAndMix.fitted(epsilon=0.5, delta=1e-8, honest=10**4, people=10**4)
    curve = shoal.amplify(split, reports=10**4)
    others = [
        shoal.amplify(shoal.Dummies(categories=5, epsilon=0.5, limit=60), reports=10**4),
        shoal.amplify(shoal.Covered(categories=5, fill=1), reports=10**4),
        shoal.amplify(local_epsilon=1, reports=10**4),
        shoal.amplify(local_epsilon=1, local_delta=1e-12, reports=10**4),
        shoal.amplify(shoal.RandomizedResponse(categories=4, local_epsilon=2), reports=10**4),
        shoal.amplify(shoal.Laplace(local_epsilon=1), reports=10**4),
        shoal.amplify(shoal.Gaussian(sigma=2), reports=10**4),
        shoal.amplify(shoal.OneBitMean(local_epsilon=1), reports=10**4),
        shoal.plan_heavy_hitters(people=10**4, epsilon=1).of_round,
    ]
    for other in representative(others, 3):
        both = shoal.compose([(curve, 2), other])
        epsilon = both.epsilon(1e-6)
        assert 2 * curve.epsilon(1e-6) < epsilon < 2 * curve.epsilon(1e-6) + 1.3 * other.epsilon(1e-6)
        certificate = both.certify(delta=1e-6)
        assert epsilon <= certificate.epsilon <= epsilon * (1 + 1e-3)
        assert shoal.Certificate.from_json(certificate.to_json()).verify()
    ledger = shoal.Ledger()
    ledger.record(both)
    ledger.record(curve, rounds=3)
    read = shoal.Ledger.from_json(json.dumps(ledger.to_dict()))
    assert read.spent(1e-5) == ledger.spent(1e-5) < 3
    assert curve.to_dp_accounting().get_epsilon_for_delta(1e-6) == pytest.approx(curve.epsilon(1e-6), rel=1e-3)
    with pytest.raises(shoal.errors.NoPairError, match="Rényi"):
        curve.renyi(2)
