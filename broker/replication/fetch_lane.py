"""Followers: fetch from the leader, append, and by the next fetch tell what is written.

One task and one connection serve the replicas of one *lane*: those that have the same leader and
lie in the same local directory. Replicas of a lane wait for the same disk anyway; a disk that hangs
holds up nobody else. In a lane everything fetched is written before the next fetch, because the
offset of that fetch promises the leader that all before it is on this disk.

The leader knows the lane's replicas by a fetch session (`lane_session`), so that a fetch names only
those that changed. One that waits at the leader when replicas come or get a new leader epoch is
hurried by another request behind it; waiting would take up to `replica.fetch.wait.max.ms`.

Replicas that met an error pause. Kafka pauses a second each time (`replica.fetch.backoff.ms`); here
the pause begins small and doubles up to that, since most often the leader just has not heard yet
that it leads, and every client waits meanwhile.

A lane whose directory is full stops: it gives its connection up, so that the leader forgets what
was asked for, and begins anew when there is room again.

Source: `kafka.server.AbstractFetcherThread`, `ReplicaFetcherThread`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from broker.logdirs.log_dir import LogDir
from broker.replication import fetch_messages
from broker.replication.lane_session import Asked, LaneSession
from broker.replication.partition import Partition, ReplicaState
from broker.replication.partition_log import PartitionLog
from broker.replication.quota import ByteQuota
from broker.replication.replica_sync import append_fetched, truncate_to_leader
from jbodlab.client import KafkaConnection
from jbodlab.error_code import ErrorCode
from jbodlab.errors import DecodeError, JbodlabError, KafkaError, LogDirError
from jbodlab.ids import BrokerId, TopicIdPartition, TopicPartition
from jbodlab.protocol.api_table import ApiKey

FIRST_PAUSE_S = 0.02
CONNECT_TIMEOUT_S = 5.0
NEVER = float("inf")
SESSION_ERRORS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)

Address = tuple[str, int]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherSettings:
    """Kafka's `replica.fetch.*` and `replica.socket.timeout.ms`."""

    broker_id: BrokerId
    wait_max_ms: int = 500
    min_bytes: int = 1
    partition_max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    backoff_ms: int = 1_000
    socket_timeout_ms: int = 30_000


@dataclass(slots=True)
class _Followed:
    """A replica in a lane; `due` is the loop's time of its next fetch."""

    partition: Partition
    due: float = 0.0
    failures: int = 0
    complaint: str = ""
    """The last failure that was logged; the same one is not logged again with each retry."""


class Lane:
    """The replicas with one leader in one directory."""

    def __init__(
        self,
        leader: BrokerId,
        log_dir: LogDir,
        settings: FetcherSettings,
        *,
        address_of: Callable[[BrokerId], Address | None],
        broker_epoch: Callable[[], int],
        quota: ByteQuota | None = None,
    ) -> None:
        self._quota = quota
        self.leader = leader
        self.log_dir = log_dir
        self._settings = settings
        self._address_of = address_of
        self._broker_epoch = broker_epoch
        self._followed: dict[TopicPartition, _Followed] = {}
        self._dirty: dict[TopicPartition, None] = {}
        """Replicas that the next fetch has to name."""
        self._paused: dict[TopicPartition, None] = {}
        """Replicas that are not asked for until they are due again."""
        self._session = LaneSession()
        self._connection: KafkaConnection | None = None
        self._changed = asyncio.Event()
        self._is_fetching = False
        self._fetch_number = 0
        self._hurrying: asyncio.Task[None] | None = None
        self._failures = 0
        self._complaint = ""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(
            self._run(), name=f"follow broker {leader} in {log_dir.path}"
        )
        self._task.add_done_callback(_report_crash)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is followed any more."""
        return not self._followed

    def follow(self, partition: Partition) -> None:
        """Follow a replica, or its leader's new epoch, from now on."""
        topic_partition = partition.topic_partition
        before = self._followed.get(topic_partition)
        if before is not None and before.partition is not partition:
            self._session.forget(before.partition)
        self._followed[topic_partition] = _Followed(partition)
        self._paused.pop(topic_partition, None)
        self._dirty[topic_partition] = None
        self._failures = 0
        self._changed.set()
        if self._is_fetching and self._hurrying is None and self._connection is not None:
            self._hurrying = self._loop.create_task(self._hurry(self._connection))

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop to follow; what is on its way for the replica is dropped."""
        followed = self._followed.pop(topic_partition, None)
        if followed is not None:
            self._session.forget(followed.partition)
            self._dirty.pop(topic_partition, None)
            self._paused.pop(topic_partition, None)

    def condition_changed(self) -> None:
        """Stop where the directory takes no more records, go on where it does again."""
        if self._must_stop():
            self._drop_connection()
        self._changed.set()

    def _must_stop(self) -> bool:
        return self.log_dir.condition.is_full

    def close(self) -> asyncio.Task[None]:
        """Stop everything; returns the task that ends."""
        self._followed.clear()
        self._dirty.clear()
        self._paused.clear()
        if self._connection is not None:
            self._connection.close()
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            if self._must_stop():
                await self._changed.wait()
                continue
            self._end_pauses()
            if not self._dirty and self._session.is_empty:
                await self._pause(self._next_due() - self._loop.time())
                continue
            try:
                await self._fetch_once()
                self._failures = 0
                self._complaint = ""
            except (OSError, TimeoutError, DecodeError, KafkaError) as error:
                if self._must_stop():
                    continue
                self._failures += 1
                if isinstance(error, KafkaError) and error.code in SESSION_ERRORS:
                    self._begin_anew()
                    if self._failures == 1:
                        continue
                else:
                    self._drop_connection()
                level = logging.DEBUG if str(error) == self._complaint else logging.INFO
                self._complaint = str(error)
                logger.log(level, "fetch from broker %d failed: %s", self.leader, error)
                await self._pause(self._backoff_s(self._failures))

    async def _hurry(self, connection: KafkaConnection) -> None:
        """Let the leader answer the waiting fetch by asking something else behind it."""
        hurried = -1
        try:
            with suppress(OSError, TimeoutError, DecodeError):
                # The next fetch may have been sent, and replicas come, before this was answered.
                while self._is_fetching and self._dirty and hurried != self._fetch_number:
                    hurried = self._fetch_number
                    await connection.call_raw(ApiKey.API_VERSIONS, 0, ())
        finally:
            self._hurrying = None

    def _end_pauses(self) -> None:
        now = self._loop.time()
        for topic_partition in [t for t in self._paused if self._followed[t].due <= now]:
            del self._paused[topic_partition]
            self._dirty[topic_partition] = None

    def _begin_anew(self) -> None:
        """Name everything in the next fetch."""
        self._session.reset()
        self._dirty = dict.fromkeys(t for t in self._followed if t not in self._paused)

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until the lane's replicas change."""
        try:
            async with asyncio.timeout(None if seconds == NEVER else max(seconds, 0)):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _fetch_once(self) -> None:
        connection = await self._connected()
        await self._settled()
        if self._must_stop():
            return
        # From here to the sending nothing waits, so what is asked is what is so.
        max_bytes = self._throttle()
        asked = self._changes()
        session, settings = self._session, self._settings
        if not asked and session.is_empty:
            return
        request = fetch_messages.fetch_request(
            asked,
            session,
            broker_id=settings.broker_id,
            broker_epoch=self._broker_epoch(),
            max_wait_ms=self._max_wait_ms(),
            min_bytes=settings.min_bytes,
            max_bytes=max_bytes,
            partition_max_bytes=settings.partition_max_bytes,
        )
        session.sent()
        self._is_fetching = True
        self._fetch_number += 1
        try:
            response = await connection.call(
                ApiKey.FETCH,
                fetch_messages.FETCH_VERSION,
                request,
                timeout_s=settings.socket_timeout_ms / 1000,
            )
        finally:
            self._is_fetching = False
        if int(response.error_code) != ErrorCode.NONE:
            raise KafkaError(ErrorCode(int(response.error_code)))
        known = dict(session.known) if int(response.session_id) == 0 else session.known
        session.answered(int(response.session_id))
        await self._take(known, response)
        if not session.is_begun:
            self._begin_anew()

    async def _settled(self) -> None:
        """Return when no replica that is to be asked for has batches on their way to the disk.

        One that led until just now may have.
        """
        while True:
            for topic_partition in self._dirty:
                log = self._followed[topic_partition].partition.log
                if log is not None and not log.failed and log.end_offset != log.written_end:
                    break
            else:
                return
            await log.written()

    def _throttle(self) -> int:
        """Let throttled replicas pause while their quota is exceeded; returns the size to ask for.

        Replicas in sync are never held back, as that would throttle producers.
        """
        largest, quota = self._settings.response_max_bytes, self._quota
        if quota is None or not quota.is_limited:
            return largest
        held = [
            followed
            for topic_partition, followed in self._followed.items()
            if topic_partition not in self._paused
            and self._is_throttled(followed.partition)
            and self._settings.broker_id not in followed.partition.registration.isr
        ]
        if not held:
            return largest
        if not quota.is_exceeded:
            return min(largest, quota.room_bytes)
        due = self._loop.time() + quota.wait_ms / 1000
        for followed in held:
            self._put_off(followed, due)
        return largest

    def _is_throttled(self, partition: Partition) -> bool:
        return partition.settings.follower_throttled.covers(
            partition.topic_partition.partition, self._settings.broker_id
        )

    def _put_off(self, followed: _Followed, due: float) -> None:
        """Do not ask for a replica before the loop's time `due`."""
        topic_partition = followed.partition.topic_partition
        followed.due = due
        self._session.forget(followed.partition)
        self._dirty.pop(topic_partition, None)
        self._paused[topic_partition] = None

    def _changes(self) -> list[Asked]:
        """Return the replicas that the next fetch has to name."""
        asked = []
        for topic_partition in list(self._dirty):
            partition = self._followed[topic_partition].partition
            log = partition.log
            if log is None or partition.state is not ReplicaState.FOLLOWER:
                self.unfollow(topic_partition)
                continue
            del self._dirty[topic_partition]
            if log.failed:
                self._session.forget(partition)
            else:
                one = Asked.now(partition, log)
                self._session.ask(one)
                asked.append(one)
        return asked

    async def _take(self, known: Mapping[TopicIdPartition, Asked], response: Any) -> None:
        appended: list[tuple[Partition, PartitionLog, int]] = []
        for topic_id, data in fetch_messages.fetched_partitions(response):
            asked = known.get(TopicIdPartition(topic_id, data.partition_index))
            if asked is None:
                continue
            partition, log = asked.partition, asked.log
            topic_partition = partition.topic_partition
            followed = self._followed.get(topic_partition)
            if followed is None or followed.partition is not partition or log.failed:
                continue
            epoch = asked.leader_epoch
            if partition.registration.leader_epoch != epoch or partition.log is not log:
                continue
            if await self._take_one(followed, log, data, epoch):
                appended.append((partition, log, data.high_watermark))
            if not asked.is_as_asked and topic_partition not in self._paused:
                self._dirty[topic_partition] = None
        for partition, log, high_watermark in appended:
            await log.written()
            if partition.log is log and partition.state is ReplicaState.FOLLOWER:
                partition.leader_says(high_watermark)

    async def _take_one(
        self, followed: _Followed, log: PartitionLog, data: Any, epoch: int
    ) -> bool:
        """Process one partition's data; returns whether its high watermark is to be taken."""
        partition = followed.partition
        code = ErrorCode(int(data.error_code))
        try:
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                if not await self._find_offset(partition, log, epoch):
                    self._pause_replica(followed, code)
                    return False
            elif code is not ErrorCode.NONE:
                self._pause_replica(followed, code)
                return False
            elif data.diverging_epoch.end_offset >= 0:
                await truncate_to_leader(
                    partition, log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset
                )
            else:
                if data.records and not log.has_room(len(data.records)):
                    # The lane has stopped; it will ask for the same again.
                    return False
                append_fetched(log, data.records)
                if self._quota is not None and self._is_throttled(partition):
                    self._quota.record(len(data.records or b""))
                if data.log_start_offset > log.start_offset:
                    await log.advance_start_to(min(data.log_start_offset, log.end_offset))
        except LogDirError:
            # Everybody was told already, and the replica is offline.
            return False
        except (OSError, TimeoutError):
            # The connection, when the leader was asked for its offsets.
            raise
        except JbodlabError as error:
            self._complain(followed, str(error))
            self._pause_replica(followed, None)
            return False
        except Exception:
            # One replica must not stop the others of its lane.
            logger.exception("following %s failed", partition.topic_partition)
            self._pause_replica(followed, None)
            return False
        followed.failures = 0
        followed.complaint = ""
        return code is ErrorCode.NONE and data.diverging_epoch.end_offset < 0

    @staticmethod
    def _complain(followed: _Followed, complaint: str) -> None:
        """Log a failure once, not with every retry."""
        topic_partition = followed.partition.topic_partition
        level = logging.DEBUG if complaint == followed.complaint else logging.WARNING
        followed.complaint = complaint
        logger.log(
            level,
            "following %s failed: %s",
            topic_partition,
            complaint,
            extra={"topic": topic_partition.topic, "partition": topic_partition.partition},
        )

    async def _find_offset(self, partition: Partition, log: PartitionLog, epoch: int) -> bool:
        """The log's end is not within the leader's log: cut it there, or begin at its start.

        Returns:
            Whether there was anything to do; the leader's log may have changed meanwhile.
        """
        leader_end = await self._ask_offset(partition, epoch, -1)
        if leader_end < log.end_offset:
            logger.warning(
                "%s ends at %d, its leader at %d: truncating",
                partition.topic_partition,
                log.end_offset,
                leader_end,
            )
            await log.truncate(leader_end)
            partition.truncated()
            return True
        leader_start = await self._ask_offset(partition, epoch, -2)
        if leader_start <= log.end_offset:
            return False
        logger.warning(
            "%s ends at %d, its leader starts at %d: starting anew",
            partition.topic_partition,
            log.end_offset,
            leader_start,
        )
        await log.restart_at(leader_start)
        partition.truncated()
        return True

    async def _ask_offset(self, partition: Partition, epoch: int, timestamp: int) -> int:
        connection = await self._connected()
        request = fetch_messages.list_offsets_request(
            partition.topic_partition,
            broker_id=self._settings.broker_id,
            leader_epoch=epoch,
            timestamp=timestamp,
        )
        response = await connection.call(
            ApiKey.LIST_OFFSETS,
            fetch_messages.LIST_OFFSETS_VERSION,
            request,
            timeout_s=self._settings.socket_timeout_ms / 1000,
        )
        return fetch_messages.listed_offset(response)

    async def _connected(self) -> KafkaConnection:
        if self._connection is not None and self._connection.is_open:
            return self._connection
        address = self._address_of(self.leader)
        if address is None:
            raise ConnectionError(f"the address of broker {self.leader} is not known")
        # A session belongs to the connection: what was lost with that nobody knows.
        self._begin_anew()
        self._connection = await KafkaConnection.open(
            *address,
            client_id=f"follower-{self._settings.broker_id}",
            timeout_s=min(CONNECT_TIMEOUT_S, self._settings.socket_timeout_ms / 1000),
        )
        return self._connection

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _pause_replica(self, followed: _Followed, code: ErrorCode | None) -> None:
        followed.failures += 1
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            # The leader knows of a newer epoch; this broker hears of it by the metadata.
            followed.due = NEVER
        else:
            followed.due = self._loop.time() + self._backoff_s(followed.failures)
        topic_partition = followed.partition.topic_partition
        if self._followed.get(topic_partition) is followed:
            self._session.forget(followed.partition)
            self._dirty.pop(topic_partition, None)
            self._paused[topic_partition] = None
        logger.debug("%s pauses after %s", followed.partition.topic_partition, code)

    def _backoff_s(self, failures: int) -> float:
        longest = self._settings.backoff_ms / 1000
        return min(longest, FIRST_PAUSE_S * (1 << min(failures - 1, 16)))

    def _next_due(self) -> float:
        return min((self._followed[t].due for t in self._paused), default=NEVER)

    def _max_wait_ms(self) -> int:
        """Return how long the leader may hold the fetch: until a pausing replica is due again."""
        wait_s = min(self._next_due() - self._loop.time(), self._settings.wait_max_ms / 1000)
        return max(1, int(wait_s * 1000))


def _report_crash(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s ended", task.get_name(), exc_info=error)
