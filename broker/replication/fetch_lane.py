"""Followers: fetch from the leader, append, and by the next fetch tell what is written.

One task and one connection serve the replicas of one *lane*: those that have the same leader and
lie in the same local directory. Replicas of a lane wait for the same disk anyway; a disk that hangs
holds up nobody else. In a lane everything fetched is written before the next fetch, because the
offset of that fetch promises the leader that all before it is on this disk.

A change of the lane's replicas, or of their leader epochs, interrupts a fetch that waits at the
leader: the connection is closed and opened anew, which takes about a millisecond, where waiting
would take up to `replica.fetch.wait.max.ms`.

Replicas that met an error pause. Kafka pauses a second each time (`replica.fetch.backoff.ms`); here
the pause begins small and doubles up to that, since most often the leader just has not heard yet
that it leads, and every client waits meanwhile.

Source: `kafka.server.AbstractFetcherThread`, `ReplicaFetcherThread`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.logdirs.log_dir import LogDir
from broker.replication import fetch_messages
from broker.replication.partition import Partition, ReplicaState
from broker.replication.partition_log import PartitionLog
from broker.replication.replica_sync import append_fetched, truncate_to_leader
from jbodlab.client import KafkaConnection
from jbodlab.error_code import ErrorCode
from jbodlab.errors import DecodeError, JbodlabError, KafkaError, LogDirError
from jbodlab.ids import BrokerId, TopicIdPartition, TopicPartition
from jbodlab.protocol.api_table import ApiKey

FIRST_PAUSE_S = 0.02
CONNECT_TIMEOUT_S = 5.0
NEVER = float("inf")

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
    ) -> None:
        self.leader = leader
        self.log_dir = log_dir
        self._settings = settings
        self._address_of = address_of
        self._broker_epoch = broker_epoch
        self._followed: dict[TopicPartition, _Followed] = {}
        self._connection: KafkaConnection | None = None
        self._changed = asyncio.Event()
        self._is_fetching = False
        self._interrupted = False
        self._version = 0
        """Counts the calls of `follow`: what is asked must include the latest of them."""
        self._failures = 0
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
        self._followed[partition.topic_partition] = _Followed(partition)
        self._failures = 0
        self._version += 1
        self._changed.set()
        if self._is_fetching and self._connection is not None:
            self._interrupted = True
            self._connection.close()

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop to follow; what is on its way for the replica is dropped."""
        self._followed.pop(topic_partition, None)

    def close(self) -> asyncio.Task[None]:
        """Stop everything; returns the task that ends."""
        self._followed.clear()
        if self._connection is not None:
            self._connection.close()
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            version = self._version
            now = self._loop.time()
            ready = [f for f in self._followed.values() if f.due <= now]
            if not ready:
                await self._pause(self._next_due() - now)
                continue
            # Whoever was first comes last next time, so that a full response starves nobody.
            first = next(iter(self._followed))
            self._followed[first] = self._followed.pop(first)
            try:
                await self._fetch_once([f.partition for f in ready], version)
                self._failures = 0
            except (OSError, TimeoutError, DecodeError, KafkaError) as error:
                self._drop_connection()
                if self._interrupted:
                    self._interrupted = False
                    continue
                logger.info("fetch from broker %d failed: %s", self.leader, error)
                self._failures += 1
                await self._pause(self._backoff_s(self._failures))

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until the lane's replicas change."""
        try:
            async with asyncio.timeout(None if seconds == NEVER else max(seconds, 0)):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _fetch_once(self, partitions: list[Partition], version: int) -> None:
        asked: list[tuple[Partition, PartitionLog]] = []
        for partition in partitions:
            log = partition.log
            if log is not None and partition.state is ReplicaState.FOLLOWER:
                # A leader until just now may have batches on their way to the disk.
                await log.written()
                if not log.failed:
                    asked.append((partition, log))
            else:
                self.unfollow(partition.topic_partition)
        if not asked:
            return
        connection = await self._connected()
        if version != self._version:
            return
        epochs = {p.topic_partition: p.registration.leader_epoch for p, _ in asked}
        settings = self._settings
        request = fetch_messages.fetch_request(
            asked,
            broker_id=settings.broker_id,
            broker_epoch=self._broker_epoch(),
            max_wait_ms=self._max_wait_ms(),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            partition_max_bytes=settings.partition_max_bytes,
        )
        self._is_fetching = True
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
        await self._take(asked, epochs, response)

    async def _take(
        self,
        asked: list[tuple[Partition, PartitionLog]],
        epochs: Mapping[TopicPartition, int],
        response: Any,
    ) -> None:
        by_id = {
            TopicIdPartition(p.topic_id, p.topic_partition.partition): (p, log) for p, log in asked
        }
        appended: list[tuple[Partition, PartitionLog, Any]] = []
        for topic_id, data in fetch_messages.fetched_partitions(response):
            found = by_id.get(TopicIdPartition(topic_id, data.partition_index))
            if found is None:
                continue
            partition, log = found
            followed = self._followed.get(partition.topic_partition)
            if followed is None or followed.partition is not partition or log.failed:
                continue
            epoch = epochs[partition.topic_partition]
            if partition.registration.leader_epoch != epoch or partition.log is not log:
                continue
            if await self._take_one(followed, log, data, epoch):
                appended.append((partition, log, data))
        for partition, log, data in appended:
            await log.written()
            if partition.log is log and partition.state is ReplicaState.FOLLOWER:
                partition.leader_says(data.high_watermark)

    async def _take_one(
        self, followed: _Followed, log: PartitionLog, data: Any, epoch: int
    ) -> bool:
        """Process one partition's data; returns whether its high watermark is to be taken."""
        partition = followed.partition
        code = ErrorCode(int(data.error_code))
        try:
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._find_offset(partition, log, epoch)
            elif code is not ErrorCode.NONE:
                self._pause_replica(followed, code)
                return False
            elif data.diverging_epoch.end_offset >= 0:
                await truncate_to_leader(
                    partition, log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset
                )
            else:
                append_fetched(log, data.records)
                if data.log_start_offset > log.start_offset:
                    await log.advance_start_to(min(data.log_start_offset, log.end_offset))
        except LogDirError:
            # Everybody was told already, and the replica is offline.
            return False
        except (OSError, TimeoutError):
            # The connection, when the leader was asked for its offsets.
            raise
        except JbodlabError as error:
            logger.warning("following %s failed: %s", partition.topic_partition, error)
            self._pause_replica(followed, None)
            return False
        except Exception:
            # One replica must not stop the others of its lane.
            logger.exception("following %s failed", partition.topic_partition)
            self._pause_replica(followed, None)
            return False
        followed.failures = 0
        followed.due = 0.0
        return code is ErrorCode.NONE

    async def _find_offset(self, partition: Partition, log: PartitionLog, epoch: int) -> None:
        """The log's end is not within the leader's log: cut it there, or begin at its start."""
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
            return
        leader_start = await self._ask_offset(partition, epoch, -2)
        if leader_start > log.end_offset:
            logger.warning(
                "%s ends at %d, its leader starts at %d: starting anew",
                partition.topic_partition,
                log.end_offset,
                leader_start,
            )
            await log.restart_at(leader_start)
            partition.truncated()

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
        self._interrupted = False
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
        logger.debug("%s pauses after %s", followed.partition.topic_partition, code)

    def _backoff_s(self, failures: int) -> float:
        longest = self._settings.backoff_ms / 1000
        return min(longest, FIRST_PAUSE_S * (1 << min(failures - 1, 16)))

    def _next_due(self) -> float:
        return min((f.due for f in self._followed.values()), default=NEVER)

    def _max_wait_ms(self) -> int:
        """Return how long the leader may hold the fetch: until a pausing replica is due again."""
        now = self._loop.time()
        later = [f.due for f in self._followed.values() if f.due > now]
        wait_s = min(min(later, default=NEVER) - now, self._settings.wait_max_ms / 1000)
        return max(1, int(wait_s * 1000))


def _report_crash(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s ended", task.get_name(), exc_info=error)
