"""What one client runs: descriptions of local randomizers, one file a mechanism."""

from shoal.randomizers.decomposition import Decomposition
from shoal.randomizers.randomized_response import RandomizedResponse

__all__ = ["Decomposition", "RandomizedResponse", "Randomizer"]

Randomizer = Decomposition | RandomizedResponse
"""Every description that `shoal.amplify` understands."""
