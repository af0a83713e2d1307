"""One person's share of geometric noise: negative binomial numbers of shape 1/H, drawn exactly with whole numbers."""

import numpy as np
from numpy.typing import NDArray

from shoal.pairs.dummy_pair import DECAYS
from shoal.randomizers.coins import Coins

__all__ = ["noise_shares"]


def noise_shares(coins: Coins, decay: int, parts: int, count: int) -> NDArray[np.int64]:
    """Return independent K of shape 1/parts: as many of them as parts add up to G, Pr(G = g) = (1 − a)·a^g.

    Given G, one of the shares is drawn by a Pólya urn: each of G steps adds one to it with the probability (1/parts +
    what it has)/(1 + steps before). All probabilities are ratios of whole numbers, and so no digit is rounded.

    Parameters
    ----------
    coins : Coins
        To toss.
    decay : int
        2⁶⁴·a.
    parts : int
        How many shares make a whole.
    count : int
        How many to return.
    """
    totals = _geometric(coins, decay, count)
    result = np.zeros(count, np.int64)
    left = np.arange(count)
    step = 0
    while len(left := left[totals[left] > step]):  # nothing yet: one in `parts` of a step
        hit = coins.happen(1, parts * (1 + step), len(left))
        for place in left[hit].tolist():
            result[place] = _grown(coins, parts, step + 1, int(totals[place]))
        left = left[~hit]
        step += 1
    return result


def _grown(coins: Coins, parts: int, step: int, total: int) -> int:
    """Return the rest of the urn, from the first that it has got."""
    own = 1
    for done in range(step, total):
        own += int(coins.happen(1 + own * parts, parts * (1 + done), 1)[0])
    return own


def _geometric(coins: Coins, decay: int, count: int) -> NDArray[np.int64]:
    """Return geometric numbers: independent binary digits, that of 2ⁱ one with odds a^(2ⁱ) : 1; then whole blocks."""
    result = np.zeros(count, np.int64)
    power, whole, digit = decay, DECAYS, 0
    while 4 * power > whole and digit < 20:  # until a block is rare
        result += coins.happen(power, power + whole, count).astype(np.int64) << digit
        power, whole, digit = power * power, whole * whole, digit + 1
    left = np.arange(count)
    while len(left := left[coins.happen(power, whole, len(left))]):
        result[left] += 1 << digit
    return result
