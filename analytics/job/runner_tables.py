"""The tables of clusters by a runner, one cluster after the other, a few at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from analytics.job.engine import RunOptions
from analytics.job.inputs import read_layouts, unpack_archives
from analytics.job.output import OutputDir
from analytics.job.run import run
from analytics.job.runner import Runner
from analytics.read.log_copies import LogCopy
from analytics.read.named_logs import Archive

CLUSTERS_AT_ONCE_MAX = 8
"""Each keeps a thread of the driver; while one plans, others compute."""


class RunnerTables:
    """Makes tables by the work of a runner.

    Args:
        runner: Does it.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def name(self) -> str:
        """What it is, for the report."""
        return self._runner.name

    def unpack(self, archives: Sequence[Archive], scratch: str) -> list[tuple[str | None, LogCopy]]:
        """Unpack archives; see `Engine`."""
        return unpack_archives(self._runner, archives, scratch)

    def write(
        self, clusters: Mapping[str, Sequence[LogCopy]], output: OutputDir, options: RunOptions
    ) -> None:
        """Write every table of clusters; see `Engine`."""
        layouts = read_layouts(self._runner, clusters)
        with ThreadPoolExecutor(min(len(clusters), CLUSTERS_AT_ONCE_MAX)) as pool:
            jobs = [
                pool.submit(run, self._runner, layouts[name], output.cluster(name), options)
                for name in clusters
            ]
            for job in jobs:
                job.result()

    def close(self) -> None:
        """Hear that no more work comes."""
        self._runner.close()
