"""`python -m analytics.job`: the command `jbod-replay`."""

from __future__ import annotations

import sys

from analytics.start import replay

sys.exit(replay())
