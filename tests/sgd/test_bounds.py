"""The accountant of a run: known values, lower bound ≤ ε ≤ plain on a grid, and refusals."""

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import sgd
from shoal.documentation import address
from shoal.errors import ParameterError, UnreachableError
from shoal.numerics.noise import GaussianRatio
from shoal.pairs.noise_profile import NoiseProfile
from shoal.sgd.bounds import allocation, bounds
from shoal.sgd.run import Run
from tests.exhaustive import EXHAUSTIVE, amount, representative

CLOSED = [  # n, σ, δ, ε of the paper's theorem with numeric clones, of Theorem G
    (10_000, 4.0, 1e-6, 0.387, 0.0312),
    (60_000, 2.0, 1e-6, 1.70, 0.0543),
    (1_000_000, 2.0, 1e-6, 0.344, 0.0120),
    (100_000_000, 2.0, 1.6e-9, 0.084, 0.00213),
]


@pytest.mark.slow
@pytest.mark.parametrize(("examples", "noise", "delta", "paper", "known"), CLOSED)
def test_known_values(examples: int, noise: float, delta: float, paper: float, known: float) -> None:
    found = {bound.name: bound.epsilon for bound in bounds(Run(examples=examples, noise_multiplier=noise), delta)}
    assert set(found) == {"gaussian-clones", "plain"}
    assert found["gaussian-clones"] == pytest.approx(known, rel=5e-3)
    assert found["gaussian-clones"] < 0.09 * paper


@pytest.mark.slow
@pytest.mark.parametrize("examples", [10_000, 1_000_000, 100_000_000])
def test_little_noise_hides_nobody(examples: int) -> None:
    delta = 1e-6 if examples < 10**8 else 1.6e-9
    assert sgd.guarantee(Run(examples=examples, noise_multiplier=0.4), delta=delta).bound == "plain"


GRID: list[dict[str, Any]] = [
    {"examples": examples, "batch_size": size, "noise_multiplier": noise, "adjacency": adjacency, "epochs": epochs}
    for examples, size, noise, adjacency, epochs in itertools.product(
        (100, 6_000, 1_000_000), (1, 7, 250), (0.5, 1.0, 4.0, 20.0), ("replace", "zero-out"), (1, 5)
    )
    if size < examples
]


@pytest.mark.slow
@pytest.mark.parametrize("fields", representative(GRID, 5), ids=lambda fields: "-".join(map(str, fields.values())))
def test_between_the_lower_bound_and_the_gaussian(fields: dict[str, Any]) -> None:
    for noise in ("batch", "example") if fields["epochs"] == 1 else ("batch",):
        run = Run(**fields, noise=noise, releases="sums" if noise == "example" else "every-step")
        delta = 1e-6
        # Every theorem for one epoch; for several, the two of which one always wins.
        found = bounds(run, delta)[0].epsilon if run.epochs == 1 else run.sampler.epsilon(run, delta)
        plain = NoiseProfile(1, GaussianRatio(run.sum_multiplier / run.sensitivity / math.sqrt(run.epochs))).alone(
            delta
        )
        least = sgd.lower_bound(run, delta=delta)
        assert least <= found <= plain * (1 + 1e-6), (run, least, found, plain)


@pytest.mark.slow
def test_every_alternative_is_above_the_lower_bound() -> None:
    for run in (
        Run(examples=60_000, noise_multiplier=2),
        Run(examples=60_000, batch_size=64, noise_multiplier=64),
        Run(examples=10_000, noise_multiplier=4, epochs=10),
    ):
        least = sgd.lower_bound(run, delta=1e-6)
        assert all(bound.epsilon >= least for bound in bounds(run, 1e-6))


@pytest.mark.slow
def test_several_epochs_cost_more_and_less_than_apart() -> None:
    one, ten, fifty = (
        sgd.guarantee(Run(examples=10_000, noise_multiplier=4, epochs=epochs), delta=1e-6).epsilon
        for epochs in (1, 10, 50)
    )
    assert one < ten < 10 * one
    assert ten < fifty < 5 * ten
    assert ten < 0.115  # advanced composition of the paper's bound gives 5.18


def test_a_fixed_order_has_the_plain_bound_alone() -> None:
    kept = sgd.guarantee(Run(examples=10**6, noise_multiplier=4, epochs=3, sampling="fixed-order"), delta=1e-6)
    assert kept.bound == "plain" and kept.alternatives == ()
    mean = 2 * math.sqrt(3) / 4
    assert kept.epsilon == pytest.approx(NoiseProfile(1, GaussianRatio(1 / mean)).alone(1e-6), rel=1e-9)


def test_reports_that_are_seen_one_by_one_have_no_sum() -> None:
    common: dict[str, Any] = {"examples": 60_000, "batch_size": 64, "noise_multiplier": 2}
    seen = sgd.guarantee(Run(**common, noise="example", releases="every-step"), delta=1e-6)
    sums = sgd.guarantee(Run(**common, noise="example", releases="sums"), delta=1e-6)
    assert seen.plain_epsilon == pytest.approx(4.887, abs=1e-3)
    assert sums.plain_epsilon == pytest.approx(0.504, abs=1e-3)
    same = sgd.guarantee(Run(**common | {"noise_multiplier": 16}, noise="batch"), delta=1e-6)
    assert same.epsilon == pytest.approx(sums.epsilon, rel=1e-9)


def test_a_batch_is_not_one_record() -> None:
    """With 1000 batches of 60 and noise 10 on the sum, record-level ε₀ = 1 would claim far too little."""
    run = Run(examples=60_000, batch_size=60, noise_multiplier=10)
    strict = [bound for bound in bounds(run, 1e-6) if bound.elements == "batches"]
    assert strict and all(bound.epsilon > bounds(run, 1e-6)[0].epsilon for bound in strict)


@pytest.mark.slow
@settings(max_examples=amount(10, 25), deadline=None)
@given(st.integers(2, 10**9), st.floats(0.3, 100.0), st.sampled_from([1e-3, 1e-6, 1e-12]), st.floats(1.05, 3.0))
def test_more_noise_never_costs_more(examples: int, noise: float, delta: float, factor: float) -> None:
    less = sgd.guarantee(Run(examples=examples, noise_multiplier=noise), delta=delta).epsilon
    more = sgd.guarantee(Run(examples=examples, noise_multiplier=noise * factor), delta=delta).epsilon
    assert more <= less * (1 + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    representative(
        [
            {"examples": 500, "batch_size": 500, "epsilon": 1.0},
            {"examples": 60_000, "batch_size": 64, "epsilon": 0.5},
            {"examples": 10**6, "batch_size": 64, "noise": "example", "releases": "sums", "epsilon": 0.2},
        ],
        2,
    )
    + (  # half a minute each
        [{"examples": 60_000, "batch_size": 256, "epsilon": 8.0, "epochs": 3}, {"examples": 10**6, "epsilon": 0.1}]
        if EXHAUSTIVE
        else []
    ),
)
def test_calibrated_noise_is_enough_and_hardly_more(fields: dict[str, Any]) -> None:
    target = fields["epsilon"]
    run = Run(**{name: value for name, value in fields.items() if name != "epsilon"}, clip_norm=0.5)
    noised = sgd.calibrate(run, epsilon=target, delta=1e-6)
    assert replace(noised, noise_multiplier=None) == run
    assert sgd.guarantee(noised, delta=1e-6).epsilon <= target
    less = replace(noised, noise_multiplier=noised.multiplier * 0.99)
    assert sgd.guarantee(less, delta=1e-6).epsilon > target * 0.999
    assert sgd.calibrate(less, epsilon=target, delta=1e-6) == noised  # the noise that was there is not looked at


def test_a_run_without_noise_has_no_guarantee() -> None:
    run = Run(examples=100)
    for ask in (sgd.guarantee, sgd.lower_bound, sgd.poisson_comparison, sgd.Account):
        with pytest.raises(ParameterError, match=r"no noise_multiplier; give Run one, or let calibrate"):
            ask(run, delta=1e-6)
    with pytest.raises(ParameterError, match="no noise_multiplier"):
        sgd.Filter(epsilon=1, delta=1e-6).charge(run)


def test_calibration_that_cannot_be() -> None:
    with pytest.raises(UnreachableError, match="larger delta"):
        sgd.calibrate(Run(examples=10), epsilon=1e-14, delta=1e-15)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"noise_multiplier": 0}, "noise_multiplier must be greater than 0"),
        ({"noise_multiplier": -1}, "noise_multiplier must be greater than 0"),
        ({"noise_multiplier": math.nan}, "noise_multiplier"),
        ({"noise_multiplier": 1e300}, "noise_multiplier must be between"),
        ({"clip_norm": 1e-7}, "clip_norm must be between"),
        ({"clip_norm": 0}, "clip_norm must be greater than 0"),
        ({"examples": 0}, "examples must be at least 1"),
        ({"batch_size": 101}, "batch_size must be at most examples=100"),
        ({"epochs": 0}, "epochs"),
        ({"delta": 0}, "delta"),
        ({"noise": "none"}, "noise must be one of"),
        ({"releases": "model"}, "releases must be one of"),
        ({"adjacency": "add-remove"}, "a deletion shifts every later batch"),
        ({"sampling": "allocation", "adjacency": "add-remove"}, "needs public_steps"),
        ({"sampling": "poisson", "adjacency": "add-remove"}, "needs public_steps"),
        ({"public_steps": 10}, 'public_steps is for sampling="allocation" and "poisson"'),
        ({"sampling": "allocation", "public_steps": 0}, "public_steps must be at least 1"),
        ({"sampling": "allocation", "noise": "example"}, "has batches without slots"),
        ({"sampling": "poisson", "noise": "example", "releases": "sums"}, "has batches without slots"),
        (
            {"sampling": "allocation", "adjacency": "add-remove", "batch_size": 7, "public_steps": 7},
            r"at most 98 examples, which is public",
        ),
        ({"sampling": "with-replacement"}, "sampling must be one of"),
    ],
)
def test_refusals(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        delta = fields.pop("delta", 1e-6)
        sgd.guarantee(Run(**{"examples": 100, "noise_multiplier": 1, **fields}), delta=delta)


@pytest.mark.slow
def test_poisson_is_what_others_print_and_is_too_small() -> None:
    for examples, least, wrong in ((60_032, 6.06, "12.3 times"), (60_000, 2.77, "5.62 times")):
        run = Run(examples=examples, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
        compared = sgd.poisson_comparison(run, delta=1e-6)
        assert compared.poisson_epsilon == pytest.approx(0.492, abs=0.002)
        assert compared.least == pytest.approx(least, abs=0.01)
        assert not compared.valid and compared.guarantee.epsilon >= compared.least
        assert f"not valid for this run, {wrong} too small" in repr(compared)


@pytest.mark.slow
def test_poisson_against_another_accountant() -> None:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(0.004, GaussianDpEvent(1.0)), 750))
    run = Run(examples=60_000, batch_size=240, noise_multiplier=1.0, epochs=3, adjacency="zero-out")
    assert sgd.poisson_comparison(run, delta=1e-6).poisson_epsilon == pytest.approx(
        accountant.get_epsilon(1e-6), rel=0.01
    )


@pytest.mark.parametrize(("size", "noise", "least"), [(256, 1.0, 4.46), (64, 0.8, 6.06), (64, 1.5, 0.630)])
def test_published_lower_bounds(size: int, noise: float, least: float) -> None:
    """The event of Chua et al., arXiv 2403.17673, for full batches gives at least what their code does."""
    run = Run(examples=-(-60_000 // size) * size, batch_size=size, noise_multiplier=noise, adjacency="zero-out")
    assert sgd.lower_bound(run, delta=1e-6) >= least - 0.01


def test_a_guarantee_says_what_it_is() -> None:
    found = sgd.guarantee(Run(examples=60_000, batch_size=64, noise_multiplier=16), delta=1e-6)
    text = found.explain()
    for part in (
        "representatives",
        address("theory/samplers"),
        "fresh",
        "one noised gradient",
        "says nothing of this run",
        "clipped",
    ):
        assert part in text
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert again["epsilon"] == found.epsilon and Run.from_dict(again["run"]) == found.run
    assert found.local_epsilon == pytest.approx(NoiseProfile(1, GaussianRatio(8.0)).alone(1e-6), rel=1e-9)


@pytest.mark.slow
def test_an_account_charges_whole_passes() -> None:
    account = sgd.Account(Run(examples=10_000, noise_multiplier=4, epochs=7), delta=1e-6)
    assert account.epsilon == 0 and account.guarantee() is None
    account.charge()
    account.charge()
    whole, made = (
        sgd.guarantee(Run(examples=10_000, noise_multiplier=4, epochs=epochs), delta=1e-6).epsilon for epochs in (7, 2)
    )
    assert (account.epsilon, account.spent(2)) == (whole, made)
    again = sgd.Account.from_dict(json.loads(json.dumps(account.to_dict())))
    assert (again.epochs, again.run, again.epsilon) == (2, account.run, account.epsilon)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "examples"),
    representative(itertools.product((1e-6, 1e-3, 0.1, 0.234, 1e6, 1e12), (1, 2, 100, 10**12)), 8),
)
def test_absurd_runs_have_an_answer(noise: float, examples: int) -> None:
    found = sgd.guarantee(Run(examples=examples, noise_multiplier=noise), delta=1e-6)
    assert 0 <= found.epsilon <= found.plain_epsilon
    assert sgd.lower_bound(found.run, delta=1e-6) <= found.epsilon


@pytest.mark.slow
def test_poisson_is_compared_for_the_same_neighbours() -> None:
    """With one batch there is no sampling, and Poisson accounting is right for the neighbours of the run."""
    for adjacency in ("replace", "zero-out"):
        run = Run(examples=1000, batch_size=1000, noise_multiplier=4, adjacency=adjacency)
        compared = sgd.poisson_comparison(run, delta=1e-6)
        assert compared.poisson_epsilon == pytest.approx(compared.guarantee.epsilon, rel=1e-3)
        assert compared.poisson_epsilon == pytest.approx(compared.least, rel=1e-3)
    run = Run(examples=6_000, batch_size=64, noise_multiplier=1, sampling="allocation")
    by_name = {each.run.sampling: each.epsilon for each in sgd.compare_samplers(run, delta=1e-6)}
    assert sgd.poisson_comparison(run, delta=1e-6).poisson_epsilon == by_name["poisson"]
    tiny = sgd.poisson_comparison(Run(examples=1000, noise_multiplier=1e-3), delta=1e-6)
    assert math.isnan(tiny.poisson_epsilon) and "not computed for this little noise" in repr(tiny)


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [10_000, 1_000_000])
def test_very_many_epochs(epochs: int) -> None:
    run = Run(examples=60_000, batch_size=64, noise_multiplier=16, epochs=epochs)
    assert sgd.lower_bound(run, delta=1e-6) <= run.sampler.epsilon(run, 1e-6)


GOLDEN = [  # σ, t, and ε at δ = 1e-6 for one epoch: zero-out, replace
    (4.0, 938, 0.02751929, 0.05708625),
    (4.0, 59, 0.12173021, 0.25090903),
    (2.0, 1000, 0.05923146, 0.11657337),
    (2.0, 235, 0.12919377, 0.25278140),
    (2.0, 59, 0.27291061, 0.52909809),
    (1.0, 10_000, 0.04582223, 0.07741792),
    (1.0, 938, 0.17885276, 0.27698407),
    (1.0, 235, 0.47336152, 0.60423969),
]


REPRESENTED = [  # b, σ, adjacency, ε at δ = 1e-6, for 60,000 examples
    (64, 4.0, "replace", 0.1110),
    (64, 4.0, "zero-out", 0.0538),
    (256, 2.0, "replace", 1.2320),
    (256, 2.0, "zero-out", 0.6344),
    (64, 16.0, "replace", 0.0150),
]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "noise", "adjacency", "known"), REPRESENTED)
def test_one_representative_of_every_batch(size: int, noise: float, adjacency: str, known: float) -> None:
    run = Run(examples=60_000, batch_size=size, noise_multiplier=noise, adjacency=adjacency)
    best = min(bounds(run, 1e-6))
    assert best.name == "representatives" and best.number == run.steps
    assert abs(best.epsilon - known) <= 1e-4
    assert run.sampler.epsilon(run, 1e-6) == best.epsilon


@pytest.mark.parametrize(("noise", "steps", "zeroed", "replaced"), GOLDEN)
def test_allocation_is_at_the_values_of_its_exact_pair(
    noise: float, steps: int, zeroed: float, replaced: float
) -> None:
    """They come from another method, a contour integral: within 2e-7."""
    for adjacency, exact in (("zero-out", zeroed), ("replace", replaced)):
        run = Run(examples=8 * steps, batch_size=8, noise_multiplier=noise, adjacency=adjacency)
        assert exact - 2e-7 <= allocation(run, 1e-6).epsilon <= exact * 1.001


USUAL = [  # epochs; ε at δ = 1e-6, b = 256, σ = 1, 235 steps: allocation, Poisson, and the least of a permutation
    (1, 0.47336, 0.5229, 4.459),
    (10, 1.2081, 1.2807, 6.572),
    (100, 4.1255, 4.2147, 15.10),
]


@pytest.mark.slow
@pytest.mark.parametrize(("epochs", "allocated", "sampled", "permuted"), USUAL)
def test_three_samplers_of_a_usual_run(epochs: int, allocated: float, sampled: float, permuted: float) -> None:
    """The first two come from other methods, with an uncertainty of 1e-4 of themselves."""
    setting: dict[str, Any] = {"batch_size": 256, "noise_multiplier": 1, "epochs": epochs}
    for run in (
        Run(**setting, examples=60_000, sampling="allocation", adjacency="zero-out"),
        Run(**setting, public_steps=235, sampling="allocation", adjacency="add-remove"),
    ):
        assert allocated * (1 - 1e-4) <= sgd.guarantee(run, delta=1e-6).epsilon <= allocated * 1.001
    by_coins = Run(**setting, examples=60_000, sampling="poisson", adjacency="zero-out")
    assert sampled * (1 - 1e-4) <= sgd.guarantee(by_coins, delta=1e-6).epsilon <= sampled * 1.001
    full = Run(**setting, examples=235 * 256, adjacency="zero-out")
    least = sgd.lower_bound(full, delta=1e-6)
    assert permuted <= least <= sgd.guarantee(full, delta=1e-6).epsilon
    assert least > 3 * sgd.guarantee(by_coins, delta=1e-6).epsilon
