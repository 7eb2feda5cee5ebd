"""A cleaner's process as what it is to its broker: rounds on the cleaner's own thread."""

from __future__ import annotations

from jbodlab.log.compaction_plan import CleanedGroup, Look, Mapped, Rate, RoundPlan
from jbodlab.log.compaction_round import CompactionRound
from jbodlab.log.filesystem import FileSystem


class SimCompactor:
    """Makes rounds on the disk that it is given."""

    def __init__(self) -> None:
        self._round: CompactionRound | None = None

    def begin(self, fs: FileSystem, plan: RoundPlan, look: Look, rate: Rate) -> Mapped:
        """Begin a round."""
        del rate
        self._round = CompactionRound(fs, plan, look)
        return self._round.begin()

    def clean(self, number: int) -> CleanedGroup:
        """Clean a group of it."""
        assert self._round is not None
        return self._round.clean(number)

    def close(self) -> None:
        """Forget the round."""
        self._round = None
