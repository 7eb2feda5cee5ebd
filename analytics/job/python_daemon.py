"""Spark's parent of Python workers, which has imported all that they need when it forks them.

A worker that imports by itself takes longer for that than for most of what a small log asks of it,
and a job has several at once. It may have no thread, which a fork would lose: the one that an
allocator of Arrow's begins with, which nobody uses here, is told not to.
"""

from __future__ import annotations

import os

os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

import pyspark.worker  # noqa: F401 - for the workers
from pyspark.daemon import manager

from analytics.job import run  # noqa: F401 - for the workers

if __name__ == "__main__":
    manager()
