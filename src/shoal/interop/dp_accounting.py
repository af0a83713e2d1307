"""Privacy losses and events of Google's dp-accounting as curves of shoal: one ledger for shuffled and central releases.

Neighbours of shoal differ in one person's value. A distribution for another relation is carried over by two steps, the
value is taken away and another one is put in, and (P − stQ)₊ ≤ (P − sR)₊ + s·(R − tQ)₊: docs/theory/central.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.checks import known, whole
from shoal.composition.central_curve import CentralCurve
from shoal.composition.compose import compose
from shoal.composition.composition_method import MOST_TIMES
from shoal.curve import PrivacyCurve
from shoal.errors import MissingExtraError, ParameterError
from shoal.numerics.profile_grid import DeltaGrid, Mesh, grid_of
from shoal.privacy_profile import ListedProfile, knotted_mesh
from shoal.rounding import UNIT, slack, up

Array = NDArray[np.float64]

ADJACENCIES = ("replace", "add-or-remove", "zero-out")
"""What the neighbours of a loss distribution may differ in: a value, a person, or a value that is blanked."""

_FRESH = 2.0**-45
"""What δ of a distribution fresh from dp-accounting may be too small by: six times the most that was seen (4.8e-15)."""
_RELATIVE = 2.0**-32
"""The same relatively, where δ is small: a hundred times the most that was seen for Gaussian noise up to σ = 100."""
_TRANSFORM = 32 * UNIT
"""What a fast Fourier transform may be off by for each of its log₂ N levels, relative to the norm."""
_MISSING = 1e-9
"""So much mass may be missing, and counts as infinite loss; if more is, something else is wrong."""
_LARGEST = 300.0
"""Larger losses count as infinite, so that no exponential overflows."""
_NEGLIGIBLE = 2.0**-50
_SHARES = np.linspace(0.0, 1.0, 65)
"""How ε is divided between the two steps of a replacement: the least bound counts, and all are true."""
_GOAL = 1e-3
"""How far apart, relatively, the logarithms of moments of the losses and of their knots may be: ledgers keep these."""
_FINENESS, _FINEST, _COARSE = 100, 1e-6, 1e-2
"""Grid points to a standard deviation of the loss; the finest interval, and the one for a first look."""


def from_loss_distribution(
    distribution: Any, *, adjacency: str, compositions: int, mechanism: str = "privacy losses of dp-accounting"
) -> CentralCurve:
    """Return the curve of a `dp_accounting.pld.PrivacyLossDistribution`, for neighbours that differ in one value.

    Parameters
    ----------
    distribution : object
        A pessimistic one. An optimistic one is refused: it is no guarantee.
    adjacency : {"replace", "add-or-remove", "zero-out"}
        What it was made for; it does not say so itself. `from_gaussian_mechanism(1.0)` is for sensitivity 1: that of
        whichever relation you measured it for.
    compositions : int
        How many mechanisms were composed to make it, 1 if none: the rounding of their Fourier transforms is charged. It
        is better to compose here: `shoal.compose`.
    mechanism : str
        What it is, in a line.

    Examples
    --------
    >>> from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism
    >>> import shoal
    >>> noisy = from_loss_distribution(from_laplace_mechanism(10), adjacency="replace", compositions=1)
    >>> weekly = shoal.amplify(local_epsilon=2, reports=1_000_000)
    >>> round(shoal.compose([(weekly, 52), noisy]).epsilon(1e-6), 4)
    0.1742
    """
    known(ADJACENCIES, adjacency=adjacency)
    count = whole(compositions=compositions, most=MOST_TIMES)
    remove, add = (_Heights.of(pmf, count) for pmf in _directions(distribution))
    if adjacency == "replace":
        bound: _Worse | _TwoSteps = _Worse(remove, add)
        steps = "for neighbours that differ in one value, as was said"
    else:
        bound = _TwoSteps(remove, add)
        relation = "add or remove a person" if adjacency == "add-or-remove" else "blank a value"
        steps = f"for neighbours that {relation}, as was said; two of these steps are a replacement"
    charged = remove.charged if add is remove else max(remove.charged, add.charged)
    source = f"dp-accounting, a pessimistic distribution {steps}; {charged:.3g} was added to δ for its rounding"
    return CentralCurve.of(_listed(bound), mechanism=mechanism, source=source)


def from_event(event: Any) -> PrivacyCurve:
    """Return the curve of a `dp_accounting.DpEvent`, for neighbours that differ in one value.

    Events that are composed are taken apart, each is handed to the PLD accountant, and shoal composes. Where that
    accountant knows an event for replacement, its answer is taken (of a Gaussian mechanism, it doubles the
    sensitivity); where it knows the event for adding and removing only, two such steps are a replacement.

    Parameters
    ----------
    event : object
        Gaussian, Laplace, discrete Laplace or a mixture of Gaussians; Poisson-sampled or truncated; randomized
        response; composed and self-composed ones. Others are refused, with a word.

    Examples
    --------
    >>> import dp_accounting
    >>> from_event(dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(50.0), 4))
    PrivacyCurve(ε=0.312... at δ=1e-06, 4 rounds, n=1, pld)
    """
    parts = [(_curve(part), times) for part, times in _taken_apart(event, 1)]
    if not parts:
        raise ParameterError("this event releases nothing, and has no cost to compose")
    return compose(parts)


def _library() -> Any:
    try:
        import dp_accounting
        from dp_accounting import pld  # noqa: F401
    except ImportError:
        raise MissingExtraError('this needs dp-accounting: pip install "shoal-dp[dp-accounting]"') from None
    return dp_accounting


def _taken_apart(event: Any, times: int) -> Iterator[tuple[Any, int]]:
    """Yield the events that are not composed of others, and how many there are of each."""
    library = _library()
    if not isinstance(event, library.DpEvent):
        raise ParameterError(f"this is no DpEvent: {event!r}; for losses, use from_loss_distribution")
    if isinstance(event, library.NoOpDpEvent):
        return
    if isinstance(event, library.SelfComposedDpEvent):
        yield from _taken_apart(event.event, times * whole(count=event.count, most=MOST_TIMES))
    elif isinstance(event, library.ComposedDpEvent):
        for part in event.events:
            yield from _taken_apart(part, times)
    else:
        yield event, times


def _curve(event: Any) -> CentralCurve:
    """Return the curve of an event that is not composed."""
    library = _library()
    relations = library.NeighboringRelation
    if isinstance(event, library.NonPrivateDpEvent):
        raise ParameterError("a NonPrivateDpEvent has no privacy to account for")
    for relation, adjacency in ((relations.REPLACE_ONE, "replace"), (relations.ADD_OR_REMOVE_ONE, "add-or-remove")):
        if not library.pld.PLDAccountant(relation).supports(event):
            continue
        rough = _accounted(event, relation, _COARSE)
        spread = math.sqrt(2 * math.pi) * min(0.5, float(rough.get_delta_for_epsilon(0.0)))
        if not spread > 0:
            raise ParameterError(f"{event} tells nothing, or less than a double can say; leave it out")
        interval = min(_COARSE, max(_FINEST, 2.0 ** math.floor(math.log2(spread / _FINENESS))))
        words = " ".join(str(event).split())
        fine = _accounted(event, relation, interval)
        return from_loss_distribution(fine, adjacency=adjacency, compositions=1, mechanism=words)
    raise ParameterError(
        f"dp-accounting's PLD accountant knows no privacy losses of {event}, neither for replacement nor for adding "
        "and removing"
    )


def _accounted(event: Any, relation: Any, interval: float) -> Any:
    accountant = _library().pld.PLDAccountant(relation, value_discretization_interval=interval)
    accountant.compose(event)
    if accountant._contains_non_dp_event:
        raise ParameterError(f"{event} adds no noise, and has no privacy to account for")
    return accountant._pld


def _directions(distribution: Any) -> tuple[Any, Any]:
    """Return the masses of both directions, dense, or say why they are no guarantee."""
    _library()
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    if not isinstance(distribution, PrivacyLossDistribution):
        raise ParameterError(f"this is no PrivacyLossDistribution of dp-accounting: {distribution!r}")
    pmfs = []
    for pmf in (distribution._pmf_remove, distribution._pmf_add):
        if not pmf._pessimistic_estimate:
            raise ParameterError(
                "this distribution is optimistic: its losses are rounded down, and it is no guarantee; make it with "
                "pessimistic_estimate=True"
            )
        pmfs.append(pmf.to_dense_pmf())
    return pmfs[0], pmfs[1]


@dataclass(frozen=True, eq=False)
class _Heights:
    """H(e^ε) = E[(1 − e^(ε − L))₊] of losses on a lattice, rounded up; between its points it is linear in e^ε."""

    interval: float
    values: Array
    charged: float

    @classmethod
    def of(cls, pmf: Any, compositions: int) -> "_Heights":
        """Return the heights of these masses, with all that rounding may have taken from them."""
        interval, masses = float(pmf._discretization), np.array(pmf._probs, dtype=np.float64)
        infinite = float(pmf._infinity_mass)
        if not (np.all(np.isfinite(masses)) and 0 <= infinite <= 1 and 0 < interval < math.inf):
            raise ParameterError("the masses of this distribution are not numbers from 0 to 1")
        if masses.min(initial=0.0) < -_MISSING:
            raise ParameterError(f"this distribution has a mass of {masses.min():.3g}, which is below 0")
        # Negative masses are what a transform left of zeros; raising them to zero only adds.
        masses = np.maximum(masses, 0.0)
        missing = max(0.0, 1 - math.fsum(masses) - infinite)
        if missing > _MISSING:
            raise ParameterError(f"{missing:.3g} of the mass of this distribution is missing; nobody knows its losses")
        positions = pmf._lower_loss + np.arange(len(masses))
        far = interval * positions > _LARGEST
        infinite += math.fsum(masses[far])
        some = (positions > 0) & ~far
        masses, positions = masses[some], positions[some]
        greatest = int(positions[-1]) if len(positions) else 0
        dense = np.bincount(positions, masses, greatest + 1)
        points = interval * np.arange(greatest + 1)
        # H falls by (t₁ − t₀)·Σ p·e^−x from a point to the next, with the sum over all x beyond: positive terms.
        beyond = np.cumsum((dense * np.exp(-points))[::-1])[::-1]
        falls = np.exp(points[:-1]) * math.expm1(interval) * beyond[1:]
        finite = np.append(np.cumsum(falls[::-1])[::-1], 0.0)
        charged = _charge(pmf._probs, compositions) + missing + slack(8) * (1 + points[-1])
        values = up(up(finite, roundings=4 * len(points) + 64) * (1 + _RELATIVE) + infinite + charged, roundings=8)
        enough = int(np.argmax(finite <= _NEGLIGIBLE)) + 1
        return cls(interval, np.minimum(values[:enough], 1.0), charged)

    @property
    def reach(self) -> float:
        """From here on, nothing falls any more."""
        return self.interval * (len(self.values) - 1)

    def at(self, epsilons: Array) -> Array:
        """Return the heights at these ε ≥ 0, rounded up."""
        index = np.clip(np.floor(epsilons / self.interval).astype(np.int64), 0, len(self.values) - 1)
        following = np.minimum(index + 1, len(self.values) - 1)
        rest = epsilons * (1 - slack(4)) - self.interval * index
        share = np.clip(np.expm1(rest) / math.expm1(self.interval) * (1 - slack(16)), 0.0, 1.0)
        return np.asarray(up((1 - share) * self.values[index] + share * self.values[following], roundings=8))


def _charge(masses: Array, compositions: int) -> float:
    """Return how much too small δ may be by the rounding of dp-accounting.

    Each mechanism is off by a few units of the last digit when it is made. A transform of N points and back changes the
    norm of what is off by log₂ N units of the norm of the masses, and a k-th power between them by k times as much for
    masses whose norm is at most one; the sum of all that is at most √N times the norm. Masses of less than 1e-15 are
    cut off after each composition, and before that there were fewer than 4N.
    """
    points = 4.0 * max(len(masses), 2)
    norm = float(np.sqrt((masses**2).sum())) + (0.0 if compositions == 1 else compositions)
    return compositions * _FRESH + norm * math.sqrt(points) * math.log2(points) * _TRANSFORM


@dataclass(frozen=True, eq=False)
class _Worse:
    """The larger of both directions, at every ε."""

    remove: _Heights
    add: _Heights

    @property
    def interval(self) -> float:
        return self.remove.interval

    @property
    def reach(self) -> float:
        return max(self.remove.reach, self.add.reach)

    def at(self, epsilons: Array) -> Array:
        return np.maximum(self.remove.at(epsilons), self.add.at(epsilons))


@dataclass(frozen=True, eq=False)
class _TwoSteps:
    """A value is removed and another one added: δ(a + b) ≤ δ₁(a) + e^a·δ₂(b), for the best a."""

    remove: _Heights
    add: _Heights

    @property
    def interval(self) -> float:
        return self.remove.interval

    @property
    def reach(self) -> float:
        return self.remove.reach + self.add.reach

    def at(self, epsilons: Array) -> Array:
        # b is rounded down, so that a + b is at most ε.
        ends = (np.minimum(self.remove.reach, epsilons), np.maximum(epsilons - self.add.reach, 0.0))
        first = np.concatenate((_SHARES[:, None] * epsilons, ends))
        second = np.maximum((epsilons - first) - slack(4) * epsilons, 0.0)
        heights = self.remove.at(first) + np.exp(first) * self.add.at(second)
        return np.asarray(np.minimum(up(heights.min(axis=0), roundings=16), 1.0))


@dataclass(frozen=True, eq=False)
class _Fine:
    """All that is known of the losses, at any ε, from which a few hundred knots are chosen."""

    bound: _Worse | _TwoSteps

    def grid(self, mesh: Mesh) -> DeltaGrid:
        return grid_of(lambda points: (np.zeros(len(points)), self.bound.at(points)), mesh)


def _listed(bound: _Worse | _TwoSteps) -> ListedProfile:
    """Return the bound at as few knots as one round and many need: chords between any knots are bounds."""
    reach = bound.reach
    if reach == 0:
        return ListedProfile((0.0,), (float(bound.at(np.zeros(1))[0]),))
    fine = _Fine(bound)
    grid = fine.grid(knotted_mesh(fine, bound.interval, reach)._replace(goal=_GOAL))
    deltas = np.minimum.accumulate(np.minimum(grid.upper, 1.0))
    epsilons = grid.step * grid.knots
    # What is left at the end is nearly all infinite: no knot is needed beyond.
    flat = deltas <= deltas[-1] * (1 + 1e-6)
    last = int(np.argmax(flat)) + 1
    return ListedProfile(tuple(epsilons[:last].tolist()), tuple(deltas[:last].tolist()))
