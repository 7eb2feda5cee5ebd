"""What `--input` names: the copies of metadata logs there, cluster by cluster.

The driver lists folders only. Archives are unpacked by tasks, one each, into the scratch folder of
the run, where every task can read them; those that a former run has seen and that have not changed
stay packed until something of their cluster is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

from pyspark.sql import SparkSession

from analytics.bytes.layout import Layout
from analytics.bytes.log_copies import LogCopy, labelled
from analytics.bytes.named_logs import Archive, layout_of, unpack_archive
from analytics.job.pieces import answers, start_workers
from analytics.job.session import is_local
from analytics.store.table_files import DRIVER_BYTES_MAX

UNPACKED = "inputs"
"""Folder of the scratch folder that archives are unpacked to."""


def unpack_archives(
    spark: SparkSession, archives: Sequence[Archive], scratch: str
) -> list[tuple[str | None, LogCopy]]:
    """Unpack archives; returns the copies in them, with the labels that were given.

    Args:
        spark: The session.
        archives: The archives.
        scratch: Path or URI of the scratch folder.

    Raises:
        ReplayInputError: one cannot be read, or holds no metadata log.
    """
    jobs = [
        partial(unpack_archive, one, scratch, f"{UNPACKED}/{number}")
        for number, one in enumerate(archives)
    ]
    return list(chain.from_iterable(answers(spark, jobs)))


def clusters_of(
    found: Sequence[tuple[str | None, LogCopy]],
) -> Mapping[str, Sequence[LogCopy]]:
    """Return the copies of each cluster by its label; see `log_copies.labelled`."""
    return labelled(found)


def read_layouts(
    spark: SparkSession, clusters: Mapping[str, Sequence[LogCopy]]
) -> dict[str, Layout]:
    """Return the layout of each cluster's log: tasks look at them.

    The driver does if they are small, or if it is where the only log is: of one copy little is
    read, and the workers start meanwhile.

    Raises:
        ReplayInputError: a log cannot be read.
    """
    jobs = [partial(layout_of, tuple(copies)) for copies in clusters.values()]
    copies = [copy for each in clusters.values() for copy in each]
    is_small = sum(copy.size_bytes for copy in copies) <= DRIVER_BYTES_MAX
    is_only_one = len(copies) == 1 and is_local(spark)
    if is_only_one and not is_small:
        start_workers(spark)
    found = [job() for job in jobs] if is_small or is_only_one else answers(spark, jobs)
    return dict(zip(clusters, found, strict=True))
