"""Types of numpy arrays, by what they hold."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
ByteArray = NDArray[np.uint8]
Complex = NDArray[np.complex128]
IntArray = NDArray[np.int64]
WordArray = NDArray[np.uint64]
