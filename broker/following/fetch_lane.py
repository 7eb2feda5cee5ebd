"""Followers: fetch from the leader, append, and report the written end with the next fetch.

One task and one connection serve the replicas of a *lane*: those with the same leader and the same
local directory. Replicas of a lane wait for the same disk anyway, and a hung disk does not block
others. In a lane all fetched records are written before the next fetch, because the offset of that
fetch promises the leader that all earlier records are on this disk.

The leader knows the lane's replicas by a fetch session (`lane_session`), so a fetch names only
changed replicas. If a fetch waits at the leader when replicas are added or get a new leader epoch,
another request behind it makes the leader answer at once; otherwise this could take
`replica.fetch.wait.max.ms`.

A lane whose directory is full stops. It closes its connection, so that the leader forgets its
requests, and starts again when there is space. It reports its log ends once to leaders that are
elected meanwhile.

Source: `kafka.server.AbstractFetcherThread`, `ReplicaFetcherThread`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from broker.clients.traffic import Traffic
from broker.disk.directory import LogDir
from broker.following import fetch_messages
from broker.following.lane_replicas import NEVER, FetcherSettings, Followed, LaneReplicas
from broker.following.lane_session import LaneSession, SessionReplica
from broker.following.quota import ByteQuota
from broker.following.replica_sync import (
    append_fetched,
    begin_with,
    follows,
    truncate_to_leader,
)
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from broker.replica.replica_state import Following
from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.peers.peer_pool import Address, PeerConnection, PeerPool
from jbodlab.runtime.supervised import supervised
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, JbodlabError, KafkaError, LogDirError
from jbodlab.vocabulary.ids import BrokerId, TopicIdPartition, TopicPartition

SESSION_ERRORS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)

LATEST, EARLIEST = -1, -2
"""Timestamps of ListOffsets that mean the two ends of a log."""

logger = logging.getLogger(__name__)


class Lane:
    """The replicas with one leader in one directory."""

    def __init__(
        self,
        leader: BrokerId,
        log_dir: LogDir,
        settings: FetcherSettings,
        *,
        peers: PeerPool,
        address: Callable[[], Address | None],
        broker_epoch: Callable[[], int],
        quota: ByteQuota | None = None,
        traffic: Traffic,
    ) -> None:
        self.leader = leader
        self.log_dir = log_dir
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._quota = quota
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()
        self._replicas = LaneReplicas(settings, quota, self._loop)
        # A session belongs to the connection: after a lost one nobody knows what was lost with it.
        self._connection = PeerConnection(
            peers,
            f"broker {leader}",
            address=address,
            timeout_s=settings.replica_socket_timeout_ms / 1000,
            on_opened=self._replicas.begin_anew,
        )
        self._changed = asyncio.Event()
        self._is_fetching = False
        self._fetch_number = 0
        self._hurrying: asyncio.Task[None] | None = None
        self._failures = 0
        self._complaint = ""
        self._task = supervised(self._run_anew, name=f"follow broker {leader} in {log_dir.path}")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is followed any more."""
        return self._replicas.is_empty

    def follow(self, partition: Partition) -> None:
        """Follow a replica, or its leader's new epoch, from now on."""
        self._replicas.add(partition)
        self._failures = 0
        self._changed.set()
        if self._is_fetching and self._hurrying is None and self._connection.is_there:
            self._hurrying = self._loop.create_task(self._hurry())

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop to follow; what is on its way for the replica is dropped."""
        self._replicas.remove(topic_partition)

    def condition_changed(self) -> None:
        """Stop where the directory takes no more records, go on where it does again."""
        if self._must_stop():
            self._connection.close()
        self._changed.set()

    def _must_stop(self) -> bool:
        return self.log_dir.condition.is_full

    def close(self) -> asyncio.Task[None]:
        """Stop everything; returns the task that ends."""
        self._replicas.clear()
        self._connection.close()
        self._task.cancel()
        return self._task

    async def _run_anew(self) -> None:
        """Begin with a new connection, whatever became of the one before."""
        self._connection.close()
        self._replicas.begin_anew()
        await self._run()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            await self._replicas.complete()
            if self._must_stop():
                await self._wait_until_room()
                continue
            self._replicas.end_pauses()
            if self._replicas.has_nothing_to_ask:
                await self._pause(self._replicas.next_due - self._loop.time())
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
                    self._replicas.begin_anew()
                    if self._failures == 1:
                        continue
                else:
                    self._connection.close()
                level = logging.DEBUG if str(error) == self._complaint else logging.INFO
                self._complaint = str(error)
                logger.log(level, "cannot fetch from broker %d: %s", self.leader, error)
                await self._pause(self._replicas.backoff_s(self._failures))

    async def _wait_until_room(self) -> None:
        """Take no records while the directory is full, but say once what is there.

        A leader that has just taken over from a replica in here may know less of the high watermark
        than that one told its clients.
        """
        if untold := self._replicas.untold():
            try:
                await self._report_offsets(untold)
                self._failures = 0
            except (OSError, TimeoutError, DecodeError, KafkaError) as error:
                self._failures += 1
                logger.debug("broker %d was not told what is here: %s", self.leader, error)
                await self._pause(self._replicas.backoff_s(self._failures))
            finally:
                self._connection.close()
            return
        await self._changed.wait()

    async def _report_offsets(self, untold: Sequence[SessionReplica]) -> None:
        """Send a fetch that wants nothing.

        Raises:
            KafkaError: the leader did not take it for all replicas.
            OSError, TimeoutError, DecodeError: nor for any.
        """
        await self._connection.open()
        request = fetch_messages.fetch_request(
            untold,
            LaneSession.none(),
            broker_id=self._settings.broker_id,
            broker_epoch=self._broker_epoch(),
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=0,
            partition_max_bytes=0,
        )
        response = await self._fetch(request)
        if int(response.error_code) != ErrorCode.NONE:
            raise KafkaError(ErrorCode(int(response.error_code)))
        by_key = {
            (each.partition.topic_id, each.partition.topic_partition.partition): each.partition
            for each in untold
        }
        refusal = ErrorCode.NONE
        for topic_id, data in fetch_messages.fetched_partitions(response):
            code = ErrorCode(int(data.error_code))
            if code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                self._replicas.told(by_key[topic_id, data.partition_index].topic_partition)
            else:
                refusal = code
        if refusal is not ErrorCode.NONE:
            raise KafkaError(refusal)

    async def _hurry(self) -> None:
        """Let the leader answer the waiting fetch by asking something else behind it."""
        hurried = -1
        try:
            with suppress(OSError, TimeoutError, DecodeError):
                # The next fetch may have been sent, and replicas come, before this was answered.
                while (
                    self._is_fetching
                    and self._replicas.has_changes
                    and hurried != self._fetch_number
                ):
                    hurried = self._fetch_number
                    request = request_class(ApiKey.API_VERSIONS, 0)()
                    await self._connection.call(ApiKey.API_VERSIONS, 0, request)
        finally:
            self._hurrying = None

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until the lane's replicas change."""
        try:
            async with asyncio.timeout(None if seconds == NEVER else max(seconds, 0)):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _fetch_once(self) -> None:
        replicas, session, settings = self._replicas, self._replicas.session, self._settings
        await self._connection.open()
        await replicas.settled()
        if self._must_stop():
            return
        # From here to the sending nothing waits, so what is asked is what is so.
        max_bytes = replicas.throttle()
        asked = replicas.changes()
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
            partition_max_bytes=settings.max_bytes,
        )
        session.sent()
        self._is_fetching = True
        self._fetch_number += 1
        try:
            response = await self._fetch(request)
        finally:
            self._is_fetching = False
        if int(response.error_code) != ErrorCode.NONE:
            raise KafkaError(ErrorCode(int(response.error_code)))
        known = dict(session.known) if int(response.session_id) == 0 else session.known
        session.answered(int(response.session_id))
        await self._append_response(known, response)
        if not session.is_begun:
            self._replicas.begin_anew()

    async def _append_response(
        self, known: Mapping[TopicIdPartition, SessionReplica], response: Any
    ) -> None:
        appended: list[tuple[Partition, PartitionLog, int]] = []
        fetched = fetch_messages.fetched_partitions(response)
        for number, (topic_id, data) in enumerate(fetched, 1):
            asked = known.get(TopicIdPartition(topic_id, data.partition_index))
            if asked is None:
                continue
            partition, log = asked.partition, asked.log
            topic_partition = partition.topic_partition
            followed = self._replicas.get(topic_partition)
            if followed is None or followed.partition is not partition or log.failed:
                continue
            epoch = asked.leader_epoch
            if partition.registration.leader_epoch != epoch or partition.log is not log:
                continue
            is_last = number == len(fetched)
            if await self._append_partition(followed, log, data, epoch, is_last=is_last):
                appended.append((partition, log, data.high_watermark))
            if not asked.is_as_asked:
                self._replicas.name_again(topic_partition)
        for partition, log, high_watermark in appended:
            await log.written()
            if partition.log is log and isinstance(partition.state, Following):
                partition.leader_says(high_watermark)

    async def _append_partition(
        self, followed: Followed, log: PartitionLog, data: Any, epoch: int, *, is_last: bool
    ) -> bool:
        """Process one partition's data; returns whether its high watermark is to be taken.

        `is_last` is said of the last partition of a response.
        """
        partition = followed.partition
        code = ErrorCode(int(data.error_code))
        try:
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                if not await self._find_offset(partition, log, epoch):
                    self._replicas.pause(followed, code)
                    return False
            elif code is not ErrorCode.NONE:
                self._replicas.pause(followed, code)
                return False
            elif data.diverging_epoch.end_offset >= 0:
                await truncate_to_leader(
                    partition,
                    log,
                    data.diverging_epoch.epoch,
                    data.diverging_epoch.end_offset,
                    partial(follows, partition, log, epoch),
                )
            else:
                if data.records and not log.log_dir.space.takes(len(data.records)):
                    # The lane has stopped; it will ask for the same again.
                    return False
                if log.start_offset == log.end_offset:
                    is_wanted = partial(follows, partition, log, epoch)
                    if not await begin_with(partition, log, data.records, is_wanted):
                        return False
                append_fetched(log, data.records, is_last=is_last)
                topic = partition.topic_partition.topic
                self._traffic.replicated(topic, len(data.records or b""))
                if self._quota is not None and self._replicas.is_throttled(partition):
                    self._quota.record(len(data.records or b""))
                if data.log_start_offset > log.start_offset:
                    log.advance_start_to(min(data.log_start_offset, log.end_offset))
        except LogDirError:
            # Everybody was told already, and the replica is offline.
            return False
        except (OSError, TimeoutError):
            # The connection, when the leader was asked for its offsets.
            raise
        except JbodlabError as error:
            self._replicas.complain(followed, str(error))
            self._replicas.pause(followed, None)
            return False
        except Exception:
            # One replica must not stop the others of its lane.
            logger.exception("replication of %s failed", partition.topic_partition)
            self._replicas.pause(followed, None)
            return False
        self._replicas.recovered(followed)
        return code is ErrorCode.NONE and data.diverging_epoch.end_offset < 0

    async def _find_offset(self, partition: Partition, log: PartitionLog, epoch: int) -> bool:
        """The log's end is not within the leader's log: cut it there, or begin at its start.

        Returns:
            Whether there was anything to do; the leader's log may have changed meanwhile.
        """
        leader_end = await self._ask_offset(partition, epoch, LATEST)
        if leader_end < log.end_offset:
            logger.warning(
                "%s ends at offset %d, but its leader at %d: truncating the log",
                partition.topic_partition,
                log.end_offset,
                leader_end,
            )
            is_wanted = partial(follows, partition, log, epoch)
            committed = partition.high_watermark
            if await log.truncate(leader_end, committed=committed, is_wanted=is_wanted):
                partition.truncated()
            return True
        leader_start = await self._ask_offset(partition, epoch, EARLIEST)
        if leader_start <= log.end_offset:
            return False
        logger.warning(
            "%s ends at offset %d, but its leader begins at %d: replacing the log",
            partition.topic_partition,
            log.end_offset,
            leader_start,
        )
        is_wanted = partial(follows, partition, log, epoch)
        committed = partition.high_watermark
        if await log.restart_at(leader_start, committed=committed, is_wanted=is_wanted):
            partition.truncated()
        return True

    async def _fetch(self, request: Any) -> Any:
        return await self._connection.call(ApiKey.FETCH, fetch_messages.FETCH_VERSION, request)

    async def _ask_offset(self, partition: Partition, epoch: int, timestamp: int) -> int:
        """Return the latest or the earliest offset of the leader's log.

        Raises:
            KafkaError: the leader refused.
            OSError, TimeoutError: the connection failed.
        """
        await self._connection.open()
        request = fetch_messages.list_offsets_request(
            partition.topic_partition,
            broker_id=self._settings.broker_id,
            leader_epoch=epoch,
            timestamp=timestamp,
        )
        version = fetch_messages.LIST_OFFSETS_VERSION
        response = await self._connection.call(ApiKey.LIST_OFFSETS, version, request)
        return fetch_messages.listed_offset(response)

    def _max_wait_ms(self) -> int:
        """Return how long the leader may hold the fetch: until a pausing replica is due again."""
        wait_s = min(self._replicas.next_due - self._loop.time(), self._settings.wait_max_ms / 1000)
        return max(1, int(wait_s * 1000))
