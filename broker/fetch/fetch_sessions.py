"""Fetch sessions of followers: only what changes is asked and answered (KIP-227).

A follower names its partitions once. From then on its requests name those whose offset or epoch
moved, and the answers those that have news. With a thousand partitions of which one gets records, a
round costs what that one costs.

For this a session does not stand in its partitions only while a fetch waits, but as long as it
lives, and each of its partitions is in one of two states:

* *quiet*: the follower has everything, records, high watermark and log start, is in the ISR, and
  would be told nothing. Requests and answers pass it by.
* *active*: anything else. It is looked at in each request, as if it had been named there.

Every event of a partition makes it active (`Waiters.tell_sessions`), and only an answer without
news makes it quiet again. The news of a request for a quiet partition, that the follower was still
there and had everything, is written down when it becomes active (`_Item.wake_up`).

Consumers get no sessions. Those that die without a word cost as much as those that live, and a
consumer asks for few partitions.

Source: KIP-227, `kafka.server.FetchSession`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial

from broker.bounds.limits import SESSIONS_MAX, UNUSED_MAX_MS
from broker.fetch.fetch_answer import FetchAnswer, Readable
from broker.fetch.fetch_requests import (
    FetchEntry,
    FetchParams,
    FetchResult,
    SessionFetched,
    SessionRequest,
)
from broker.fetch.fetching import FetchService, must_wait
from broker.replica.partition import Partition
from broker.replica.waiting import News
from jbodlab.runtime.prompt_future import PromptFuture
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, TopicIdPartition

FIRST_EPOCH = 0
"""Of a request that names everything and asks for a session."""

LAST_EPOCH = (1 << 31) - 1


NOT_SENT = -1


class FetchSessions:
    """All sessions of the followers of this broker.

    Args:
        fetches: Looks at partitions and reads.
        loop: The event loop.
        now_ms: Monotonic clock of the partitions.
        random_bytes: Where ids of sessions come from, which nobody shall guess.
    """

    def __init__(
        self,
        fetches: FetchService,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._fetches = fetches
        self._loop = loop
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._sessions: dict[int, FetchSession] = {}
        """By id; the longest unused one first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def fetch(
        self, params: FetchParams, request: SessionRequest, entries: Sequence[FetchEntry]
    ) -> asyncio.Future[SessionFetched]:
        """Begin a session, or go on with one.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND or INVALID_FETCH_SESSION_EPOCH; the follower
                then begins a new session.
        """
        if request.epoch == FIRST_EPOCH:
            self._close(request.session_id, params.replica_id)
            session = self._begin(params)
        else:
            found = self._sessions.get(request.session_id)
            if found is None or found.replica_id != params.replica_id:
                raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if request.epoch != found.next_epoch:
                raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            session = found
            self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return session.fetch(params, entries, request.forgotten)

    def hurry(self, session_id: int) -> None:
        """Let the waiting fetch of a session be answered now, with whatever there is."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.answer_soon()

    def _begin(self, params: FetchParams) -> FetchSession:
        unused_since = self._now_ms() - UNUSED_MAX_MS
        for session in list(self._sessions.values()):
            # Of an earlier process of that broker, or of a lane that is no more.
            if session.last_fetch_ms < unused_since or (
                session.replica_id == params.replica_id
                and session.replica_epoch != params.replica_epoch
            ):
                self._close(session.session_id, session.replica_id)
        if len(self._sessions) >= SESSIONS_MAX:
            oldest = next(iter(self._sessions.values()))
            self._close(oldest.session_id, oldest.replica_id)
        session_id = 0
        while not session_id or session_id in self._sessions:
            session_id = int.from_bytes(self._random_bytes(4)) >> 1
        session = FetchSession(session_id, params, self._fetches, self._loop, self._now_ms)
        self._sessions[session_id] = session
        return session

    def _close(self, session_id: int, replica_id: BrokerId) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.replica_id == replica_id:
            del self._sessions[session_id]
            session.close()


class _State(Enum):
    """Of a partition in a session; see the module's text."""

    ACTIVE = auto()
    QUIET = auto()


class _Item:
    """One partition of a session, and its observer."""

    __slots__ = (
        "entry",
        "key",
        "partition",
        "sent_high_watermark",
        "sent_start",
        "session",
        "state",
    )

    def __init__(self, session: FetchSession, key: TopicIdPartition, entry: FetchEntry) -> None:
        self.session = session
        self.key = key
        self.entry = entry
        self.partition: Partition | None = None
        self.state = _State.ACTIVE
        self.sent_high_watermark = NOT_SENT
        self.sent_start = NOT_SENT

    @property
    def is_new(self) -> bool:
        """Whether the follower was told nothing yet."""
        return self.sent_high_watermark == NOT_SENT

    def observe(self, partition: Partition | None) -> None:
        """Hear of the events of this partition, and no longer of another one of that name."""
        if partition is not self.partition:
            if self.partition is not None:
                self.partition.waiters.sessions.pop(self, None)
            if partition is not None:
                partition.waiters.sessions[self] = None
            self.partition = partition

    def partition_changed(self, news: News) -> None:
        """Called by the partition: look at it in the next request, or in the waiting one."""
        self.wake_up()
        self.session.heard(self, news)

    def wake_up(self) -> None:
        """Become active; until its session's last request the follower had everything."""
        if self.state is _State.QUIET:
            self.state = _State.ACTIVE
            self.session.active[self.key] = self
            if self.partition is not None:
                self.partition.in_sync.follower_had_all(
                    self.session.replica_id, self.entry.fetch_offset, self.session.last_fetch_ms
                )

    def told(self, result: FetchResult) -> None:
        """Remember what an answer says; an error or a diverging epoch leaves nothing known."""
        if result.error_code is ErrorCode.NONE and result.diverging_epoch is None:
            self.sent_high_watermark = result.high_watermark
            self.sent_start = result.log_start_offset
        else:
            self.sent_high_watermark = self.sent_start = NOT_SENT

    def has_news(self, result: FetchResult) -> bool:
        """Whether an answer must contain this result."""
        return (
            result.error_code is not ErrorCode.NONE
            or result.records_size > 0
            or result.diverging_epoch is not None
            or result.high_watermark != self.sent_high_watermark
            or result.log_start_offset != self.sent_start
        )

    def may_be_quiet(self) -> bool:
        """Whether there is nothing left to tell or to find out."""
        partition = self.partition
        if partition is None or partition.leader is None or partition.log is None:
            return False
        leader, log = partition.leader, partition.log
        known = leader.followers.get(self.session.replica_id)
        return (
            self.entry.fetch_offset == log.written_end
            # Asked before there was a log, it has told this leadership nothing: the lag check would
            # take it for one that never came.
            and known is not None
            and known.end_offset == self.entry.fetch_offset
            and partition.high_watermark == self.sent_high_watermark
            and log.start_offset == self.sent_start
            and leader.proposed_isr is None
            and self.session.replica_id in leader.isr
        )


class FetchSession:
    """One session: the replicas that one follower has in one of its directories."""

    def __init__(
        self,
        session_id: int,
        params: FetchParams,
        fetches: FetchService,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
    ) -> None:
        self.session_id = session_id
        self.replica_id = params.replica_id
        self.replica_epoch = params.replica_epoch
        self.next_epoch = FIRST_EPOCH
        self.last_fetch_ms = 0
        self.active: dict[TopicIdPartition, _Item] = {}
        """In the order in which they are read: who got records goes to the end."""
        self._items: dict[TopicIdPartition, _Item] = {}
        self._fetches = fetches
        self._loop = loop
        self._now_ms = now_ms
        self._params = params
        self._answer: PromptFuture[SessionFetched] | None = None
        self._timer: asyncio.TimerHandle | None = None
        """Runs while a fetch waits."""

    def fetch(
        self,
        params: FetchParams,
        changed: Sequence[FetchEntry],
        forgotten: Sequence[TopicIdPartition],
    ) -> asyncio.Future[SessionFetched]:
        """Take the next request; the future is cancelled by a follower that is gone."""
        if self._answer is not None:
            # Of a connection that is given up.
            self._answer.cancel()
        self._stop_waiting()
        self._check_epoch(params)
        self._params = params
        for entry in changed:
            self._take(entry)
        for key in forgotten:
            self._forget(key)
        found = [self._look(item, news=True) for item in self.active.values()]
        # After the active ones were looked at, and before any other becomes active.
        self.last_fetch_ms = self._now_ms()
        self.next_epoch = self.next_epoch + 1 if self.next_epoch < LAST_EPOCH else 1
        answer: PromptFuture[SessionFetched] = PromptFuture(loop=self._loop)
        self._answer = answer
        answer.add_done_callback(self._answered)
        # A follower that is new wants to know at least that it was understood.
        if (
            params.max_wait_ms <= 0
            or any(item.is_new or self._must_tell(item) for item in self.active.values())
            or not must_wait(found, params.min_bytes)
        ):
            self._read(answer, found)
        else:
            wait_ms = min([params.max_wait_ms, *_waits_ms(found)])
            self._timer = self._loop.call_later(wait_ms / 1000, self.answer_soon)
        return answer

    def _must_tell(self, item: _Item) -> bool:
        """Whether consumers that were sent to the follower wait for what is committed."""
        partition = item.partition
        return (
            self._fetches.sends_consumers_away
            and partition is not None
            and partition.leader is not None
            and partition.high_watermark != item.sent_high_watermark
        )

    def heard(self, item: _Item, news: News) -> None:
        """Take notice that a partition has changed."""
        if self._timer is None or news is News.LATER:
            return
        if news is News.COMMITTED:
            is_urgent = self._fetches.sends_consumers_away
        else:
            is_urgent = news is News.URGENT or self._has_enough(item)
        if is_urgent:
            self.answer_soon()

    def answer_soon(self) -> None:
        """Answer what waits; once the events that come together have all been heard."""
        if self._timer is not None and self._answer is not None:
            self._stop_waiting()
            self._loop.call_soon(partial(self._read, self._answer))

    def close(self) -> None:
        """Leave all partitions."""
        if self._answer is not None:
            self._answer.cancel()
        self._stop_waiting()
        for key in list(self._items):
            self._forget(key)

    def _take(self, entry: FetchEntry) -> None:
        """Let a partition into the session, or ask for it from elsewhere on."""
        assert entry.topic_id is not None
        key = TopicIdPartition(entry.topic_id, entry.topic_partition.partition)
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = self.active[key] = _Item(self, key, entry)
            return
        item.wake_up()
        if entry.current_leader_epoch != item.entry.current_leader_epoch:
            # A high watermark told under another epoch may not have been believed.
            item.sent_high_watermark = NOT_SENT
        item.entry = entry

    def _forget(self, key: TopicIdPartition) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            item.wake_up()
            item.observe(None)
            del self.active[key]

    def _check_epoch(self, params: FetchParams) -> None:
        """Look at everything anew where the follower's broker epoch is another one."""
        registered = self._fetches.replicas.registered_epoch(params.replica_id)
        if params.replica_epoch != registered or params.replica_epoch != self.replica_epoch:
            self.replica_epoch = params.replica_epoch
            for item in self._items.values():
                item.wake_up()

    def _look(self, item: _Item, *, news: bool) -> Readable | FetchResult:
        item.observe(self._fetches.replicas.partition(item.entry.topic_partition))
        return self._fetches.find(self._params, item.entry, news=news)

    def _has_enough(self, changed: _Item) -> bool:
        missing = self._params.min_bytes
        for item in (changed, *self.active.values()):
            if missing <= 0:
                break
            partition = item.partition
            if partition is not None and partition.log is not None:
                readable = self._fetches.readable(
                    self._params, item.entry, partition, partition.log
                )
                missing -= readable.available(missing)
        return missing <= 0

    def _read(
        self,
        answer: PromptFuture[SessionFetched],
        found: Sequence[Readable | FetchResult] | None = None,
    ) -> None:
        """Read what the active partitions have."""
        if answer.done():
            return
        try:
            items = list(self.active.values())
            if found is None:
                found = [self._look(item, news=False) for item in items]
            results: asyncio.Future[list[FetchResult]] = self._loop.create_future()
            FetchAnswer(self._params, found, results, self._loop).start()
        except Exception as error:  # noqa: BLE001 - it is logged where the answer is sent
            answer.set_exception(error)
            return
        if results.done():
            self._finish(answer, items, results)
        else:
            results.add_done_callback(partial(self._finish, answer, items))

    def _finish(
        self,
        answer: PromptFuture[SessionFetched],
        items: Sequence[_Item],
        results: asyncio.Future[list[FetchResult]],
    ) -> None:
        if answer.done():
            return
        try:
            told = self._told(items, results.result())
        except Exception as error:  # noqa: BLE001 - it is logged where the answer is sent
            answer.set_exception(error)
        else:
            # Not by the callback, which a turn of the loop would have to be made for.
            answer.remove_done_callback(self._answered)
            self._answered(answer)
            answer.succeed(told)

    def _told(self, items: Sequence[_Item], results: Sequence[FetchResult]) -> SessionFetched:
        """Return what is news, and remember that it was told."""
        told: list[FetchResult] = []
        for item, result in zip(items, results, strict=True):
            if item.has_news(result):
                told.append(result)
                item.told(result)
            if result.records_size:
                # Others are read first next time, so that a full answer starves nobody.
                self.active[item.key] = self.active.pop(item.key)
            elif result.error_code is ErrorCode.NONE and item.may_be_quiet():
                item.state = _State.QUIET
                del self.active[item.key]
        return SessionFetched(session_id=self.session_id, results=told)

    def _answered(self, answer: asyncio.Future[SessionFetched]) -> None:
        if answer is self._answer:
            self._answer = None
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _waits_ms(found: Sequence[Readable | FetchResult]) -> list[int]:
    """Return how long those that are held back have to wait until they may be read."""
    return [
        item.quota.wait_ms
        for item in found
        if isinstance(item, Readable) and item.quota is not None and item.is_held_back
    ]
