"""Logarithms and exponentials of complex numbers, relatively accurate where they are close to zero."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["expm1", "log1p"]

Complex = NDArray[np.complex128]


def log1p(z: Complex) -> Complex:
    """Return log(1 + z), accurate where z is close to zero: numpy's own is not."""
    moduli = 2 * z.real + z.real**2 + z.imag**2
    with np.errstate(divide="ignore"):
        far = np.log(np.hypot(1 + z.real, z.imag))
    sizes = np.where(np.abs(moduli) < 0.5, 0.5 * np.log1p(np.maximum(moduli, -0.6)), far)
    return np.asarray(sizes + 1j * np.arctan2(z.imag, 1 + z.real))


def expm1(z: Complex) -> Complex:
    """Return exp(z) − 1, accurate where z is close to zero."""
    halves = np.sin(z.imag / 2)
    return np.asarray(np.expm1(z.real) * np.cos(z.imag) - 2 * halves**2 + 1j * np.exp(z.real) * np.sin(z.imag))
