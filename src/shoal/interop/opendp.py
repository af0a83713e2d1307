"""OpenDP: a measurement of one value is amplified by shuffling, and a shuffled round is a measurement to compose there.

Numbers of OpenDP are upper bounds, rounded up, and so are shoal's: neither side rounds again.
"""

from collections.abc import Callable
from typing import Any

from shoal.amplification.amplify import amplify
from shoal.checks import probability
from shoal.curve import PrivacyCurve
from shoal.errors import MissingExtraError, ParameterError
from shoal.mechanisms.coins import secure_coins

_CHANGE_ONE = "neighbours of shoal differ in one person's value, and hence are at a change-one distance of 1"


def amplify_measurement(measurement: Any, *, reports: float, bound: str = "tightest") -> PrivacyCurve:
    """Return what shuffling makes of a measurement that each person runs on a value of their own.

    Parameters
    ----------
    measurement : object
        An OpenDP measurement of one value: discrete distance in (any two values are neighbours), pure or approximate
        differential privacy out.
    reports : int or float
        How many people run it, n.
    bound : str
        As `shoal.amplify` takes it.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> amplify_measurement(dp.m.make_randomized_response_bool(0.75), reports=100_000)
    PrivacyCurve(ε=0.0127173 at δ=1e-06, n=100,000, ε₀=1.09861, swap-chains)
    """
    local_epsilon, local_delta = _local(measurement)
    return amplify(local_epsilon=local_epsilon, local_delta=local_delta, reports=reports, bound=bound)


def to_measurement(
    curve: PrivacyCurve, function: Callable[[Any], Any], *, input_domain: Any, delta: float | None = None
) -> Any:
    """Return an OpenDP measurement with the guarantee of a curve, which composes there with all others.

    OpenDP takes the function on trust, and so its features "contrib" and "honest-but-curious" have to be enabled.

    Parameters
    ----------
    curve : PrivacyCurve
        What the function guarantees.
    function : callable
        What is released, from a list of the values of all people: the shuffled reports, or what is computed from them.
    input_domain : object
        The domain of such a list, of a fixed size: how many people there are is public.
    delta : float, optional
        With it, the output measure is `approximate(max_divergence())`, and the map returns (ε, δ). Without it, it is
        `renyi_divergence()`, whose compositions lose less.
    """
    dp = _prelude()
    if str(input_domain).startswith("VectorDomain") and "size" not in str(input_domain):
        raise ParameterError("how many people there are must be public: give the vector domain a size")
    if delta is None:
        curve.renyi(2.0)  # a bound without Rényi divergences says so now, and not in the map
        measure = dp.renyi_divergence()

        def divergence(distance: int) -> Callable[[float], float]:
            return lambda order: curve.renyi(order) if _changed(distance) else 0.0

        privacy_map: Callable[[int], Any] = divergence
    else:
        delta = probability(delta=delta)
        epsilon, measure = curve.epsilon(delta), dp.approximate(dp.max_divergence())

        def pair(distance: int) -> tuple[float, float]:
            return (epsilon, delta) if _changed(distance) else (0.0, 0.0)

        privacy_map = pair
    return dp.m.make_user_measurement(
        input_domain, dp.change_one_distance(), measure, function=function, privacy_map=privacy_map
    )


def make_shuffled(measurement: Any, *, reports: int, delta: float | None = None, bound: str = "tightest") -> Any:
    """Return the OpenDP measurement that runs this one on each of n values, and releases the outputs in random order.

    Parameters
    ----------
    measurement : object
        What each person runs, as `amplify_measurement` takes it.
    reports : int
        How many people there are, n.
    delta : float, optional
        As `to_measurement` takes it.
    bound : str
        As `shoal.amplify` takes it.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> survey = make_shuffled(dp.m.make_randomized_response_bool(0.75), reports=1000, delta=1e-6)
    >>> sorted(set(survey([True, False] * 500))), survey.map(1)
    ([False, True], (0.1682..., 1e-06))
    """
    dp = _prelude()
    curve = amplify_measurement(measurement, reports=reports, bound=bound)

    def released(values: list[Any]) -> list[Any]:
        if len(values) != curve.reports:
            raise ParameterError(f"there are {len(values):,} values, and the guarantee is for {curve.reports:,}")
        outputs = [measurement(value) for value in values]
        return [outputs[index] for index in secure_coins().permutation(len(outputs)).tolist()]

    domain = dp.vector_domain(measurement.input_domain, size=curve.reports)
    return to_measurement(curve, released, input_domain=domain, delta=delta)


def _local(measurement: Any) -> tuple[float, float]:
    """Return ε₀ and δ₀ of a measurement of one value, or say why they are not known."""
    dp = _prelude()
    if not isinstance(measurement, dp.Measurement):
        raise ParameterError(f"this is no measurement of OpenDP: {measurement!r}")
    metric, measure = measurement.input_metric, measurement.output_measure
    if metric == dp.change_one_distance():
        raise ParameterError(
            "this measurement takes the values of many people; shuffling amplifies what each person runs on one value, "
            "whose metric is discrete_distance()"
        )
    if metric != dp.discrete_distance():
        raise ParameterError(
            f"the input metric is {metric}, and shuffling needs a guarantee for any two values of a person, which is "
            "discrete_distance(); if no two values are farther apart than d, amplify with "
            "local_epsilon=measurement.map(d)"
        )
    if measure == dp.max_divergence():
        return float(measurement.map(1)), 0.0
    if measure == dp.approximate(dp.max_divergence()):
        epsilon, delta = measurement.map(1)
        return float(epsilon), float(delta)
    raise ParameterError(
        f"the output measure is {measure}, and amplification starts from max_divergence() or "
        "approximate(max_divergence()); for zero-concentrated divergence, use dp.c.make_zCDP_to_approxDP and "
        "dp.c.make_fix_delta first"
    )


def _changed(distance: int) -> bool:
    """Return whether a value was changed, and refuse several."""
    if distance > 1:
        raise ParameterError(f"{_CHANGE_ONE}; a distance of {distance} is not known to this map")
    return distance == 1


def _prelude() -> Any:
    try:
        import opendp.prelude
    except ImportError:
        raise MissingExtraError('this needs OpenDP: pip install "shoal-dp[opendp]"') from None
    return opendp.prelude
