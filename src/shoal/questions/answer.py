"""The answer to a question: plain values for programs, and the object that they were taken from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.proofs.certificate import Certificate

__all__ = ["Answer"]


@dataclass(frozen=True)
class Answer:
    """What a question is answered with.

    Attributes
    ----------
    facts : dict or list
        Plain values, as `--json` prints them.
    result : object
        What they were taken from: a curve, a list of curves, a calibration, a plan.
    certify : callable, optional
        Returns a proof in ball arithmetic of the answer, where there is a way to ask for one.
    """

    facts: Any
    result: Any
    certify: "Callable[[], Certificate] | None" = None
