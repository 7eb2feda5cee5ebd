"""Engines that make the tables of a replay, of all clusters at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from analytics.ask.broker_logs import LogLine
from analytics.job.output import OutputDir
from analytics.rare.min_insync import AssumedMinIsr
from analytics.read.log_copies import LogCopy
from analytics.read.named_logs import Archive


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a user for a replay besides the logs."""

    assumed: AssumedMinIsr = field(default_factory=AssumedMinIsr)
    """`min.insync.replicas` where the log does not say."""
    broker_logs: Sequence[LogLine] = ()
    """Lines of brokers about their directories."""


class Engine(Protocol):
    """Makes tables; a ReplayInputError that its work raises reaches the caller."""

    @property
    def name(self) -> str:
        """Its name for the report; known also when it is closed."""

    def unpack(self, archives: Sequence[Archive], scratch: str) -> list[tuple[str | None, LogCopy]]:
        """Unpack archives; returns the copies in them, with the labels that were given.

        Args:
            archives: The archives.
            scratch: Path or URI of a folder that all its tasks can read.

        Raises:
            ReplayInputError: one cannot be read, or holds no metadata log.
        """

    def write(
        self, clusters: Mapping[str, Sequence[LogCopy]], output: OutputDir, options: RunOptions
    ) -> None:
        """Write every table of clusters into the scratch folder of an output."""

    def close(self) -> None:
        """Hear that no more work comes."""


def together(sizes: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """Yield names of clusters that are taken together: of logs up to so many bytes, or of one."""
    names: list[str] = []
    total = 0
    for name, size in sizes.items():
        if names and total + size > most:
            yield names
            names, total = [], 0
        names.append(name)
        total += size
    if names:
        yield names
