"""`python -m analytics.job`: `jbodlab replay`."""

from __future__ import annotations

import sys

from jbodlab.cli.program import main

sys.exit(main(["replay", *sys.argv[1:]]))
