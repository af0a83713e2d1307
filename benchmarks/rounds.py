"""How fast and how tight composition and the blankets are."""

import time

import numpy as np

import shoal

__all__ = ["blankets", "composition"]

_DELTA = 1e-6


def composition() -> None:
    """Time T rounds at three settings, and a thousand different ones, and show the width of the bracket."""
    print(f"\nComposition at δ = {_DELTA:g}, one core (must: width ≤ 0.1 %, ≤ 5 s for everything)")
    print(f"{'ε₀':>5} {'n':>8} {'T':>7} {'lower':>12} {'upper':>12} {'width %':>8} {'s':>6}")
    start = time.process_time()
    for local_epsilon, reports in ((1, 10**4), (2, 10**6), (4, 10**8)):
        curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports)
        for times in (1, 10, 100, 1_000, 10_000):
            before = time.process_time()
            lower, upper = curve.repeated(times).epsilon_bracket(_DELTA)
            seconds = time.process_time() - before
            print(
                f"{local_epsilon:>5g} {reports:>8.0e} {times:>7} {lower:>12.7g} {upper:>12.7g} "
                f"{100 * (upper / lower - 1):>8.4f} {seconds:>6.2f}"
            )
    print(f"all together: {time.process_time() - start:.1f} s")
    _against_dp_accounting()
    generator = np.random.default_rng(1)
    curves = [
        shoal.amplify(local_epsilon=float(generator.uniform(0.5, 4)), reports=int(10 ** generator.uniform(4, 8)))
        for _ in range(1000)
    ]
    start = time.process_time()
    lower, upper = shoal.compose(curves).epsilon_bracket(_DELTA)
    width = 100 * (upper / lower - 1)
    print(
        f"a thousand different rounds: {lower:.6g} to {upper:.6g}, {width:.3f} % wide (must ≤ 0.5), "
        f"{time.process_time() - start:.0f} s (must ≤ 60)"
    )


def _against_dp_accounting() -> None:
    """Compose 10,000 rounds with dp-accounting, from its own default grid, in the same run."""
    curve = shoal.amplify(local_epsilon=2, reports=10**6, bound="clones")
    start = time.process_time()
    ours = curve.repeated(10_000).epsilon(_DELTA)
    middle = time.process_time()
    theirs = curve.repeated(10_000).to_dp_accounting().get_epsilon_for_delta(_DELTA)
    end = time.process_time()
    print(
        f"10,000 rounds of clones at ε₀ = 2, n = 10⁶: {ours:.6g} in {middle - start:.2f} s; by dp-accounting at its "
        f"grid of 1e-4, from our dots: {theirs:.6g} in {end - middle:.2f} s, "
        f"{(end - middle) / (middle - start):.1f} times as long"
    )


def blankets() -> None:
    """Time one ε query of every randomizer, at two δ."""
    print("\nBlankets of given randomizers, ε₀ = 2 (σ = 1), n = 10⁶, one core")
    print(f"{'randomizer':<22} {'δ':>6} {'ε':>12} {'best possible':>14} {'s':>7}")
    randomizers = [
        kind(categories=100, local_epsilon=2)
        for kind in (
            shoal.RandomizedResponse,
            shoal.HadamardResponse,
            shoal.Rappor,
            shoal.UnaryEncoding,
            shoal.SubsetSelection,
        )
    ]
    for randomizer in (*randomizers, shoal.Laplace(local_epsilon=2), shoal.Gaussian(deviation=1)):
        for delta in (1e-6, 1e-20):
            curve = shoal.amplify(randomizer, reports=10**6)
            start = time.process_time()
            epsilon = curve.epsilon(delta)
            seconds = time.process_time() - start
            limit = curve.lower.epsilon(delta) if curve.lower else float("nan")
            name = type(randomizer).__name__
            print(f"{name:<22} {delta:>6.0e} {epsilon:>12.8f} {limit:>14.8f} {seconds:>7.3f}")
