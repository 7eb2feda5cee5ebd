"""What takes longer than a second says what it waits for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from jbodlab.cli.output import PROGRESS_AFTER_S


@contextmanager
def note_wait(text: str) -> Iterator[None]:
    """Print a line on stderr once the body has taken a second."""
    timer = threading.Timer(PROGRESS_AFTER_S, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
