"""What `--input` names: the copies of metadata logs there, cluster by cluster.

The driver lists folders only. Archives are unpacked by the runner, one by one, into the scratch
folder of the run, where every task can read them; those that a former run has seen and that have
not changed stay packed until something of their cluster is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain

from analytics.job.runner import Runner, without_rows
from analytics.read.layout import Layout
from analytics.read.log_copies import LogCopy
from analytics.read.named_logs import Archive, layout_of, unpack_archive

UNPACKED = "inputs"
"""Folder of the scratch folder that archives are unpacked to."""


def unpack_archives(
    runner: Runner, archives: Sequence[Archive], scratch: str
) -> list[tuple[str | None, LogCopy]]:
    """Unpack archives; returns the copies in them, with the labels that were given.

    Args:
        runner: Does it.
        archives: The archives.
        scratch: Path or URI of the scratch folder.

    Raises:
        ReplayInputError: one cannot be read, or holds no metadata log.
    """
    work = without_rows(partial(_unpack, scratch))
    with closing(runner.map(work, list(enumerate(archives)))) as unpacked:
        return list(chain.from_iterable(unpacked.answers))


def _unpack(scratch: str, item: tuple[int, Archive]) -> Sequence[tuple[str | None, LogCopy]]:
    number, archive = item
    return unpack_archive(archive, scratch, f"{UNPACKED}/{number}")


def read_layouts(runner: Runner, clusters: Mapping[str, Sequence[LogCopy]]) -> dict[str, Layout]:
    """Return the layout of each cluster's log.

    Of one log little is read, so that the driver does it.

    Raises:
        ReplayInputError: a log cannot be read.
    """
    copies = [tuple(each) for each in clusters.values()]
    if len(copies) == 1:
        return dict(zip(clusters, map(layout_of, copies), strict=True))
    with closing(runner.map(without_rows(layout_of), copies)) as found:
        return dict(zip(clusters, found.answers, strict=True))
