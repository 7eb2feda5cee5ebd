"""Runs histories: `python -m tests.simulation --seeds 1..1000`, `--seed 42`, `--plan FILE`."""

from __future__ import annotations

import sys

from tests.simulation.command import main

sys.exit(main())
