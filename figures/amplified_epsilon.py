"""What shuffling makes of a local guarantee as more people join: the picture to show first."""

from figures.figure import Axis, Curve, CurveFigure, Dot, pointwise
from figures.gallery import figure
from figures.palette import BEST, BLUE, GREEN, ORANGE, VERMILION, Ink
from shoal.amplification.amplify import amplify
from shoal.amplification.lower_bounds import lower_bound

__all__ = ["amplification"]

_DELTA = 1e-6


def _central(local_epsilon: float, colour: str) -> Curve:
    def epsilon(reports: float) -> float:
        return float(amplify(reports=round(reports), local_epsilon=local_epsilon).epsilon(_DELTA))

    return Curve(f"local ε₀ = {local_epsilon:g}", pointwise(epsilon), Ink(colour, width=2.8), chunk=31)


def _possible(local_epsilon: float) -> Curve:
    def epsilon(reports: float) -> float:
        return float(lower_bound(reports=round(reports), local_epsilon=local_epsilon).epsilon(_DELTA))

    return Curve(f"at least, ε₀ = {local_epsilon:g}", pointwise(epsilon), BEST, chunk=8)


@figure("amplification", order=10)
def amplification() -> CurveFigure:
    """Return the central ε against the number of reports, for several local ε₀."""
    inks = {8.0: VERMILION, 4.0: ORANGE, 2.0: GREEN, 1.0: BLUE}
    return CurveFigure(
        name="amplification",
        title="Shuffling makes a weak local guarantee a strong central one",
        caption=(
            "The central ε of n shuffled reports at δ = 1e-6, for any randomizer with this local ε₀: the lesser of "
            "strong clones and swap-chains. A line starts at ε₀, which holds without a shuffler; dashed is what real "
            "inputs reach, for ε₀ = 8 and 1, and so no bound can be below."
        ),
        axis=Axis("number of people n", "reports", 10, 1e9, points=65, whole=True),
        label="central ε",
        curves=(*(_central(local, colour) for local, colour in inks.items()), _possible(8.0), _possible(1.0)),
        dots=(Dot("local ε₀ = 8", 1e6, "among a million: {}"),),
    )
