"""Certificates of Theorem N: read again, proved again, and refused where they say too much."""

import math

import pytest

import shoal
from shoal.errors import UnreachableError
from shoal.proofs.balls import above, precision
from shoal.proofs.certificate import Certificate
from shoal.proofs.clone_claim import CloneClaim, SwapChainClaim


@pytest.mark.parametrize(("local_epsilon", "reports"), [(1.0, 10**6), (0.3, 2_000), (2.0, 10**8)])
def test_a_certificate_is_of_the_printed_number(local_epsilon: float, reports: int) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="swap-chains")
    certificate = curve.certify(delta=1e-6)
    assert isinstance(certificate.claim, SwapChainClaim)
    assert certificate.epsilon <= curve.epsilon(1e-6) * (1 + 1e-5)
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert again.verify()


@pytest.mark.slow
def test_less_is_not_proved() -> None:
    claim = SwapChainClaim(10**6, 1.0)
    epsilon = shoal.amplify(local_epsilon=1, reports=10**6, bound="swap-chains").epsilon(1e-6)
    with pytest.raises(UnreachableError):
        Certificate.prove(claim, epsilon=0.99 * epsilon, delta=1e-6)
    proved = Certificate.prove(claim, epsilon=epsilon, delta=1e-6)
    forged = Certificate(**{**vars(proved), "epsilon": 0.99 * epsilon, "printed_epsilon": 0.99 * epsilon})
    assert not forged.verify()


@pytest.mark.slow
@pytest.mark.parametrize(("local_epsilon", "reports"), [(1.0, 50), (1.0, 1_000), (4.0, 10**5)])
def test_where_it_says_nothing_the_strong_clones_are_proved(local_epsilon: float, reports: int) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="swap-chains")
    certificate = curve.certify(delta=1e-6)
    assert isinstance(certificate.claim, SwapChainClaim)
    assert certificate.epsilon <= curve.epsilon(1e-6) * (1 + 1e-3)
    assert certificate.verify()


def test_with_a_fineness_the_lesser_of_two_theorems() -> None:
    claim = SwapChainClaim(10**4, 1.0)
    strong = CloneClaim(10**4, 1.0, 0.0, "strong-clones")
    with precision(160):
        for epsilon in (0.0, 0.04, 0.3):
            value = claim.at(epsilon, fineness=0.01)
            assert value.is_finite()
            assert above(value) <= above(strong.at(epsilon, fineness=0.01))
        assert claim.at(1.0, fineness=0.01) == 0
        assert claim.at(math.nextafter(1.0, 0), fineness=0.0) < 1e-15


@pytest.mark.slow
def test_a_certificate_of_rounds() -> None:
    curve = shoal.amplify(local_epsilon=1, reports=10**6, bound="swap-chains").repeated(12)
    certificate = curve.certify(delta=1e-6)
    assert certificate.epsilon <= curve.epsilon(1e-6) * (1 + 1e-3)
    assert certificate.verify()
