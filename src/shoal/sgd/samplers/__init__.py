"""Samplers: how the steps of an epoch are drawn, one file each. A new file registers itself."""

from shoal.folder_modules import gather

gather(__name__)
