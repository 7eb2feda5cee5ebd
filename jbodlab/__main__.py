"""`python -m jbodlab`: the program `jbodlab`."""

from __future__ import annotations

import sys

from jbodlab.cli.program import main

if __name__ == "__main__":
    sys.exit(main())
