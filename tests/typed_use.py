"""Types of the public interface, checked by mypy (`make types`) and never run.

An ignored error that is not there is an error, too: each such line shows that mypy tells types apart.
"""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import shoal
from shoal.catalogue import Theorem
from shoal.curve import BoundTable, Comparison
from shoal.lower_limit import LowerBound


def numbers_stay_numbers(curve: shoal.PrivacyCurve, limit: LowerBound) -> None:
    assert_type(curve.epsilon(1e-6), float)
    assert_type(curve.epsilon(1e-6), int)  # type: ignore[assert-type]
    assert_type(curve.epsilon(np.float64(1e-6)), float)
    assert_type(curve.delta(1), float)
    assert_type(curve.renyi(2), float)
    assert_type(limit.epsilon(1e-6), float)
    assert_type(limit.delta(0.5), float)


def arrays_stay_arrays(curve: shoal.PrivacyCurve | Comparison) -> None:
    assert_type(curve.epsilon([1e-6, 1e-8]), NDArray[np.float64])
    assert_type(curve.delta(np.linspace(0, 1, 5)), NDArray[np.float64])


def answers_have_types() -> None:
    curve = shoal.amplify(local_epsilon=1, reports=1e6)
    assert_type(curve, shoal.PrivacyCurve)
    assert_type(curve.repeated(3), shoal.PrivacyCurve)
    assert_type(curve.renyi([2, 4]), NDArray[np.float64])
    assert_type(curve.lower, LowerBound | None)
    assert_type(shoal.amplify(reports=np.int64(10), local_epsilon=np.float64(1)), shoal.PrivacyCurve)
    assert_type(shoal.compare(local_epsilon=1, reports=100, delta=1e-6), BoundTable)
    assert_type(shoal.lower_bound(local_epsilon=1, reports=100), LowerBound)
    assert_type(shoal.compose([curve, (curve, 3)], method="renyi"), shoal.PrivacyCurve)
    assert_type(shoal.calibrate(epsilon=1, delta=1e-6, reports=100).local_epsilon, float)
    assert_type(shoal.explain("pld"), Theorem)
    assert_type(shoal.theorems("training"), tuple[Theorem, ...])
    shoal.amplify(local_epsilon="1", reports=10)  # type: ignore[arg-type]
    curve.epsilon("1e-6")  # type: ignore[arg-type]
