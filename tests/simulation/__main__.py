"""Runs histories: `python -m tests.simulation --seeds 1..1000`, `--seed 42`, `--plan FILE`."""

from __future__ import annotations

import os
import sys

from tests.simulation.command import main

status = main()
sys.stdout.flush()
sys.stderr.flush()
# Nothing of dead processes is to be collected.
os._exit(status)
