"""A cleaner's process as what it is to its broker: rounds on the cleaner's own thread."""

from __future__ import annotations

from collections.abc import Callable

from jbodlab.storage.compaction.compaction_plan import (
    CleanedGroup,
    Mapped,
    Rate,
    RoundPlan,
    Throttle,
)
from jbodlab.storage.compaction.compaction_round import CompactionRound
from jbodlab.storage.directory.filesystem import FileSystem


class SimCompactor:
    """Makes rounds on the disk that it is given."""

    clean: Callable[[int], CleanedGroup]
    """Cleans a group of the round."""

    def begin(self, fs: FileSystem, plan: RoundPlan, throttle: Throttle, rate: Rate) -> Mapped:
        """Begin a round."""
        made = CompactionRound(fs, plan, throttle)
        self.clean = made.clean
        return made.begin()

    def close(self) -> None:
        """Nothing is bound to it."""
