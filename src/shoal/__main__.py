"""Run the command line as ``python -m shoal``."""

import sys

from shoal.cli import main

sys.exit(main())
