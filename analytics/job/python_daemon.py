"""Spark's parent of Python workers, which has imported all that they need when it forks them.

A worker that imports by itself takes longer for that than for most of what a small log asks of it,
and a job has several at once. Nothing of what is imported starts a thread, which a fork would lose.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401 - for the workers
from pyspark.daemon import manager

import analytics.job.run  # noqa: F401 - for the workers

if __name__ == "__main__":
    manager()
