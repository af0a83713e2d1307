"""Types of numpy arrays, by what they hold."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Complex", "IntArray"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
IntArray = NDArray[np.int64]
