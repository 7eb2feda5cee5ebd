"""Spark's parent of Python workers, which has imported all that they need when it forks them.

A worker that imports by itself takes longer for that than for most of what a small log asks of it,
and a job has several at once. It may have no thread, which a fork would lose: the one that an
allocator of Arrow's begins with, which nobody uses here, is told not to.
"""

from __future__ import annotations

import os
from socket import socket

os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

import pyspark.worker  # noqa: F401 - for the workers
from pyspark import daemon

from analytics.job import run  # noqa: F401 - for the workers

_work = daemon.worker


def work(connection: socket, authenticated: bool) -> int:
    """Do what tasks ask for; where nobody hears of it any more, after Ctrl-C, that is no error."""
    try:
        return _work(connection, authenticated)
    except ConnectionError:
        return 1


if __name__ == "__main__":
    setattr(daemon, "worker", work)  # noqa: B010 - no type has room for it
    daemon.manager()
