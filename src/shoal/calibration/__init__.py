"""The question backwards: the largest local ε₀, the fewest reports or the most rounds for a central (ε, δ)."""

from shoal.calibration.calibrate import Calibration, calibrate
from shoal.calibration.largest import largest_private
from shoal.calibration.spending import Spending, Stretch
from shoal.calibration.target import gaussian_spread

__all__ = ["Calibration", "Spending", "Stretch", "calibrate", "gaussian_spread", "largest_private"]
