"""Samplers: how the steps of an epoch are drawn, one file each. A new file registers itself."""

from shoal.lazy_names import gather

gather(__name__)
