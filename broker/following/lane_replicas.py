"""The replicas of a lane: which of them the next fetch names, and which pause until when.

Replicas pause after an error. Kafka pauses for a second each time (`replica.fetch.backoff.ms`).
Here the pause begins small and doubles up to that value: usually the leader just has not learned
yet that it leads, and all clients wait meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import msgspec

from broker.bounds.limits import FIRST_PAUSE_S
from broker.following.lane_session import LaneSession, SessionReplica
from broker.following.quota import ByteQuota
from broker.following.replica_sync import drop_incomplete, follows
from broker.replica.partition import Partition
from broker.replica.replica_state import Following
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import BrokerId, TopicPartition

NEVER = float("inf")

logger = logging.getLogger(__name__)


class FetcherSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka's `replica.fetch.*` and `replica.socket.timeout.ms`."""

    broker_id: BrokerId
    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    backoff_ms: int = 1_000
    replica_socket_timeout_ms: int = 30_000


class Followed(msgspec.Struct):
    """A replica in a lane; `due` is the loop's time of its next fetch."""

    partition: Partition
    due: float = 0.0
    failures: int = 0
    complaint: str = ""
    """The last failure that was logged; the same one is not logged again with each retry."""


class LaneReplicas:
    """The replicas that follow in one lane, and their news for the leader.

    Attributes:
        session: The session as the leader knows it.
    """

    def __init__(
        self,
        settings: FetcherSettings,
        quota: ByteQuota | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.session = LaneSession()
        self._settings = settings
        self._quota = quota
        self._loop = loop
        self._followed: dict[TopicPartition, Followed] = {}
        # Replicas that the next fetch has to name.
        self._dirty: dict[TopicPartition, None] = {}
        # Replicas whose leader was told nothing in this leader epoch.
        self._untold: dict[TopicPartition, None] = {}
        # Replicas that are not asked for until they are due again.
        self._paused: dict[TopicPartition, None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is followed any more."""
        return not self._followed

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to tell the leader."""
        return bool(self._dirty)

    @property
    def has_nothing_to_ask(self) -> bool:
        """Whether no replica is to be asked for just now."""
        return not self._dirty and self.session.is_empty

    @property
    def next_due(self) -> float:
        """The loop's time at which the first pause ends."""
        return min((self._followed[t].due for t in self._paused), default=NEVER)

    def get(self, topic_partition: TopicPartition) -> Followed | None:
        """Return a replica that is followed."""
        return self._followed.get(topic_partition)

    def add(self, partition: Partition) -> None:
        """Follow a replica, or its leader's new epoch, from now on."""
        topic_partition = partition.topic_partition
        before = self._followed.get(topic_partition)
        if before is not None and before.partition is not partition:
            self.session.forget(before.partition)
        self._followed[topic_partition] = Followed(partition)
        self._paused.pop(topic_partition, None)
        self._dirty[topic_partition] = None
        self._untold[topic_partition] = None

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop to follow; what is on its way for the replica is dropped."""
        followed = self._followed.pop(topic_partition, None)
        if followed is not None:
            self.session.forget(followed.partition)
            self._dirty.pop(topic_partition, None)
            self._paused.pop(topic_partition, None)
            self._untold.pop(topic_partition, None)

    def clear(self) -> None:
        """Stop to follow everything."""
        self._followed.clear()
        self._dirty.clear()
        self._paused.clear()
        self._untold.clear()

    def begin_anew(self) -> None:
        """Name everything in the next fetch."""
        self.session.reset()
        self._dirty = dict.fromkeys(t for t in self._followed if t not in self._paused)

    def end_pauses(self) -> None:
        """Ask again for those whose pause is over."""
        now = self._loop.time()
        for topic_partition in [t for t in self._paused if self._followed[t].due <= now]:
            del self._paused[topic_partition]
            self._dirty[topic_partition] = None

    def untold(self) -> list[SessionReplica]:
        """Return what a leader has to know of replicas that it was told nothing of."""
        asked = []
        for topic_partition in list(self._untold):
            partition = self._followed[topic_partition].partition
            log = partition.log
            if log is not None and not log.failed and isinstance(partition.state, Following):
                asked.append(SessionReplica.now(partition, log))
            else:
                self.told(topic_partition)
        return asked

    def told(self, topic_partition: TopicPartition) -> None:
        """Take notice that the leader knows what there is of a replica."""
        self._untold.pop(topic_partition, None)

    def name_again(self, topic_partition: TopicPartition) -> None:
        """Have a replica named in the next fetch, as something of it has changed."""
        if topic_partition not in self._paused:
            self._dirty[topic_partition] = None

    async def complete(self) -> None:
        """Return when no leader is about to be told of a log of which a disk has lost segments."""
        for topic_partition in list(self._untold):
            followed = self._followed.get(topic_partition)
            while followed is not None and topic_partition not in self._paused:
                partition, log = followed.partition, followed.partition.log
                if log is None or partition.leader is not None or log.lost_range is None:
                    break
                epoch = partition.registration.leader_epoch
                try:
                    await drop_incomplete(partition, log, partial(follows, partition, log, epoch))
                except JbodlabError as error:
                    self.complain(followed, str(error))
                    self.pause(followed, None)
                followed = self._followed.get(topic_partition)

    async def settled(self) -> None:
        """Return when no replica that is to be asked for has batches on their way to the disk.

        One that led until just now may have. One that waits for room on the disk pauses.
        """
        while True:
            for topic_partition in list(self._dirty):
                followed = self._followed[topic_partition]
                log = followed.partition.log
                if log is None or log.failed or log.is_settled:
                    continue
                if not log.is_blocked:
                    break
                self.pause(followed, ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                return
            await log.written()

    def throttle(self) -> int:
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
            and self.is_throttled(followed.partition)
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

    def is_throttled(self, partition: Partition) -> bool:
        """Return whether the bytes of a replica count."""
        return partition.settings.follower_throttled.covers(
            partition.topic_partition.partition, self._settings.broker_id
        )

    def changes(self) -> list[SessionReplica]:
        """Return the replicas that the next fetch has to name."""
        asked = []
        for topic_partition in list(self._dirty):
            partition = self._followed[topic_partition].partition
            log = partition.log
            if log is None or not isinstance(partition.state, Following):
                self.remove(topic_partition)
                continue
            del self._dirty[topic_partition]
            if log.failed:
                self.session.forget(partition)
            else:
                one = SessionReplica.now(partition, log)
                self.session.ask(one)
                self.told(topic_partition)
                asked.append(one)
        return asked

    def recovered(self, followed: Followed) -> None:
        """Take notice that a replica was fetched for without an error."""
        followed.failures = 0
        followed.complaint = ""

    def pause(self, followed: Followed, code: ErrorCode | None) -> None:
        """Ask no more for a replica for a while, longer with each failure."""
        followed.failures += 1
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            # The leader knows of a newer epoch; this broker hears of it by the metadata.
            followed.due = NEVER
        else:
            followed.due = self._loop.time() + self.backoff_s(followed.failures)
        if self._followed.get(followed.partition.topic_partition) is followed:
            self._put_off(followed, followed.due)
        logger.debug("%s pauses after %s", followed.partition.topic_partition, code)

    def backoff_s(self, failures: int) -> float:
        """Return how long to pause after so many failures."""
        longest = self._settings.backoff_ms / 1000
        return min(longest, FIRST_PAUSE_S * (1 << min(failures - 1, 16)))

    @staticmethod
    def complain(followed: Followed, complaint: str) -> None:
        """Log a failure once, not with every retry."""
        topic_partition = followed.partition.topic_partition
        level = logging.DEBUG if complaint == followed.complaint else logging.WARNING
        followed.complaint = complaint
        logger.log(
            level,
            "replication of %s failed: %s",
            topic_partition,
            complaint,
            extra={"topic": topic_partition.topic, "partition": topic_partition.partition},
        )

    def _put_off(self, followed: Followed, due: float) -> None:
        """Do not ask for a replica before the loop's time `due`."""
        topic_partition = followed.partition.topic_partition
        followed.due = due
        self.session.forget(followed.partition)
        self._dirty.pop(topic_partition, None)
        self._paused[topic_partition] = None
