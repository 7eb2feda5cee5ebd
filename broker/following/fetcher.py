"""Keeps the followers of this broker fetching: which lane each of them is in.

See `fetch_lane` for how a lane works. Lanes begin with their first replica and end with their last.

Source: `kafka.server.ReplicaFetcherManager`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from broker.bounds.limits import LEADER_CONNECT_TIMEOUT_S
from broker.clients.traffic import Traffic
from broker.disk.directory import LogDir
from broker.following.fetch_lane import Lane
from broker.following.lane_replicas import FetcherSettings
from broker.following.quota import ByteQuota
from broker.replica.partition import Partition
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import Address, PeerPool
from jbodlab.vocabulary.ids import BrokerId, TopicPartition


class FetcherManager:
    """All lanes of this broker.

    Args:
        settings: Sizes and times.
        address_of: Returns where a leader is reached by brokers; None while that is not known.
        broker_epoch: Returns this broker's epoch.
        quota: Of throttled replicas; None is without limit.
        traffic: Where what followers append is counted.
        security: How leaders are reached.
    """

    def __init__(
        self,
        settings: FetcherSettings,
        *,
        address_of: Callable[[BrokerId], Address | None],
        broker_epoch: Callable[[], int],
        quota: ByteQuota | None = None,
        traffic: Traffic,
        security: ClientSecurity | None = None,
    ) -> None:
        self._quota = quota
        self._traffic = traffic
        self._settings = settings
        self._address_of = address_of
        self._broker_epoch = broker_epoch
        self._peers = PeerPool(
            f"follower-{settings.broker_id}",
            min(LEADER_CONNECT_TIMEOUT_S, settings.replica_socket_timeout_ms / 1000),
            security,
        )
        self._lanes: dict[tuple[BrokerId, LogDir], Lane] = {}
        self._lane_of: dict[TopicPartition, Lane] = {}
        self._is_closed = False

    def follow(self, partition: Partition) -> None:
        """Let a follower fetch from its leader; replaces what it did before."""
        assert partition.log is not None
        leader, log_dir = partition.registration.leader, partition.log.log_dir
        lane = self._lane_of.get(partition.topic_partition)
        if lane is not None and (lane.leader, lane.log_dir) != (leader, log_dir):
            self.unfollow(partition.topic_partition)
        if leader < 0 or self._is_closed:
            self.unfollow(partition.topic_partition)
            return
        lane = self._lanes.get((leader, log_dir))
        if lane is None:
            lane = self._lanes[leader, log_dir] = Lane(
                leader,
                log_dir,
                self._settings,
                peers=self._peers,
                address=partial(self._address_of, leader),
                broker_epoch=self._broker_epoch,
                quota=self._quota,
                traffic=self._traffic,
            )
        self._lane_of[partition.topic_partition] = lane
        lane.follow(partition)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop to fetch for a partition."""
        lane = self._lane_of.pop(topic_partition, None)
        if lane is None:
            return
        lane.unfollow(topic_partition)
        if lane.is_empty:
            self._lanes.pop((lane.leader, lane.log_dir), None)
            lane.close()

    def log_dir_condition_changed(self, log_dir: LogDir) -> None:
        """Stop the followers in a directory that is full, let them go on where there is room."""
        for lane in self._lanes.values():
            if lane.log_dir is log_dir:
                lane.condition_changed()

    async def close(self) -> None:
        """Stop all fetching."""
        self._is_closed = True
        tasks = [lane.close() for lane in self._lanes.values()]
        self._lanes.clear()
        self._lane_of.clear()
        await asyncio.gather(*tasks, return_exceptions=True)
