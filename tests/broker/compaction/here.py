"""Rounds of compaction in this process."""

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
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.ids import TopicPartition


class Here:
    """Makes rounds in this process; lets a test look between the steps."""

    def __init__(self) -> None:
        self.before_clean: Callable[[], object] = lambda: None
        self.rounds = 0
        self.rate = Rate()
        self.error: BaseException | None = None
        self.fails_for: TopicPartition | None = None
        """Whose rounds fail; None: all."""
        self._round: CompactionRound | None = None

    def begin(self, fs: FileSystem, plan: RoundPlan, throttle: Throttle, rate: Rate) -> Mapped:
        self.rate = rate
        self.rounds += 1
        if self.error is not None and self.fails_for in (
            None,
            names.parse_partition_dir(plan.folder.name).topic_partition,
        ):
            raise self.error
        self._round = CompactionRound(fs, plan, throttle)
        return self._round.begin()

    def clean(self, number: int) -> CleanedGroup:
        assert self._round is not None
        self.before_clean()
        return self._round.clean(number)

    def close(self) -> None:
        self._round = None
