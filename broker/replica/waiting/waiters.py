"""Everything that waits for one replica, and how it is notified of changes.

A produce request may wait until records are written or the high watermark advances, a fetch for
either or for any change, and a fetch session for changes. Requests that arrive before the log
exists wait for the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from broker.replica.waiting.append_entries import LeaderHint
from broker.replica.waiting.waiting import AppendQueue, FetchQueue
from jbodlab.runtime.supervised import call_each
from jbodlab.vocabulary.error_code import ErrorCode

logger = logging.getLogger(__name__)


class News(Enum):
    """News of a partition for a fetch session."""

    RECORDS = auto()
    """There is more to read."""
    URGENT = auto()
    """Fetches that wait must be answered: role, epoch, directory or the log's start changed."""
    COMMITTED = auto()
    """The high watermark moved."""
    LATER = auto()
    """Something that may wait for the next answer."""


class SessionObserver(Protocol):
    """A fetch session that contains a partition."""

    def partition_changed(self, news: News) -> None:
        """Look at the partition again; called in the middle of its change."""


class Waiters:
    """Requests that wait for one replica.

    Attributes:
        written_appends: Until their records are written here.
        replicated_appends: Until the high watermark covers their records.
        follower_fetches: Of brokers, until there is more written.
        consumer_fetches: Of clients, until the high watermark moves.
        deletions: Of records, until every replica begins behind them.
        sessions: Fetch sessions that contain the partition.
        until_ready: Called as soon as appends are taken or refused; nothing overtakes them.
    """

    __slots__ = (
        "consumer_fetches",
        "deletions",
        "follower_fetches",
        "replicated_appends",
        "sessions",
        "until_ready",
        "written_appends",
    )

    def __init__(self) -> None:
        self.written_appends = AppendQueue()
        self.replicated_appends = AppendQueue()
        self.follower_fetches = FetchQueue()
        self.consumer_fetches = FetchQueue()
        self.deletions = FetchQueue()
        self.sessions: dict[SessionObserver, None] = {}
        self.until_ready: list[Callable[[], None]] = []

    @property
    def count(self) -> int:
        """How many produce entries and fetches wait here."""
        return (
            len(self.written_appends.waiting)
            + len(self.replicated_appends.waiting)
            + len(self.follower_fetches.waiting)
            + len(self.consumer_fetches.waiting)
        )

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call back as soon as appends are taken or refused, for the first or another time."""
        self.until_ready.append(callback)

    def call_back(self) -> None:
        """Appends need to wait no longer: they are taken or refused."""
        callbacks, self.until_ready = self.until_ready, []
        call_each(callbacks, "a replica that is ready")

    def ready(self) -> None:
        """The log is there, or never will be."""
        self.call_back()
        self.wake_everybody()

    def written(self, end_offset: int) -> None:
        """Records up to here are written."""
        if self.written_appends.waiting:
            self.written_appends.reached(end_offset)
        if self.follower_fetches.waiting:
            self.follower_fetches.wake()
        if self.sessions:
            self.tell_sessions(News.RECORDS)

    def replicated(self, high_watermark: int) -> None:
        """The high watermark moved."""
        if self.replicated_appends.waiting:
            self.replicated_appends.reached(high_watermark)
        if self.consumer_fetches.waiting:
            self.consumer_fetches.wake()
        if self.sessions:
            self.tell_sessions(News.COMMITTED)

    def leadership_lost(self, replicated: int, hint: LeaderHint | None) -> None:
        """Sort out the produce entries of a leader that leads no more.

        An entry that only has to be written here is answered when it is written: one with acks=1,
        and one with acks=all that everybody else in the ISR has already. The next leader is one of
        these. If the disk has no room for it, the partition refuses it.

        Args:
            replicated: The high watermark if all were written here.
            hint: The leader now.
        """
        for waiting in self.replicated_appends.take_reached(replicated):
            self.written_appends.add(waiting)
        self.replicated_appends.refuse_all(ErrorCode.NOT_LEADER_OR_FOLLOWER, hint=hint)

    def cut(self, end_offset: int, hint: LeaderHint | None) -> None:
        """Refuse the appends of a lost leadership beyond an offset, where the log was cut."""
        self.written_appends.refuse_beyond(end_offset, ErrorCode.NOT_LEADER_OR_FOLLOWER, hint=hint)

    def refuse_appends(
        self, error_code: ErrorCode, *, message: str | None = None, hint: LeaderHint | None = None
    ) -> None:
        """Answer all produce entries with an error."""
        for queue in (self.written_appends, self.replicated_appends):
            queue.refuse_all(error_code, message=message, hint=hint)

    def wake_everybody(self) -> None:
        """Have all fetches answered: role, epoch or directory changed."""
        self.wake_followers()
        self.consumer_fetches.wake(forced=True)
        self.deletions.wake()

    def isr_changed(self) -> None:
        """The controller has written another ISR."""
        self.deletions.wake()
        self.tell_sessions(News.LATER)

    def wake_followers(self) -> None:
        """Have the fetches of other brokers answered."""
        self.follower_fetches.wake(forced=True)
        self.tell_sessions(News.URGENT)

    def tell_sessions(self, news: News) -> None:
        """Have the fetch sessions of followers look at this partition again."""
        for observer in tuple(self.sessions):
            try:
                observer.partition_changed(news)
            except Exception:
                # Clients wait for what follows, and so do the other followers.
                logger.exception("a fetch session failed to process %s", news.name)
