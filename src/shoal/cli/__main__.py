"""Run the command line as ``python -m shoal.cli``."""

import sys

from shoal.cli import main

sys.exit(main())
