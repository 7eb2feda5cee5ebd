"""The controllers of a cluster, as its active controller describes them (KIP-595, KIP-836)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jbodlab.kafka_admin.errors import check
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.vocabulary.ids import METADATA_TOPIC

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


class Quorum(NamedTuple):
    """A quorum.

    Attributes:
        leader_id: The active controller.
        end_offsets: Where the log of each voter ends, by its id; -1 where nobody knows.
        directory_ids: Where each voter keeps its log; none where the voters are fixed.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    end_offsets: Mapping[int, int]
    directory_ids: Mapping[int, UUID] = {}

    def role(self, node_id: int) -> str:
        """Return `active` or `standby`, the part of a controller that runs."""
        return "active" if node_id == self.leader_id else "standby"


async def describe_quorum(client: AdminClient, timeout_s: float) -> Quorum:
    """Return the quorum of the metadata log.

    Raises:
        RequestError: no controller is active, or it refuses.
    """
    partition = {"partition_index": 0}
    values = {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}]}
    response = await client.call(ApiKey.DESCRIBE_QUORUM, values, timeout_s=timeout_s)
    check(response)
    ((told,),) = (topic.partitions for topic in response.topics)
    check(told)
    return Quorum(
        leader_id=int(told.leader_id),
        leader_epoch=told.leader_epoch,
        high_watermark=told.high_watermark,
        end_offsets={int(each.replica_id): each.log_end_offset for each in told.current_voters},
        directory_ids={
            int(each.replica_id): each.replica_directory_id
            for each in told.current_voters
            if each.replica_directory_id is not None
        },
    )


async def add_voter(
    client: AdminClient,
    node_id: int,
    directory_id: UUID,
    listeners: Sequence[tuple[str, str, int]],
    timeout_s: float,
) -> None:
    """Have a controller that follows the log become a voter (KIP-853).

    Args:
        client: Of any broker.
        node_id: Of the controller.
        directory_id: Of its metadata directory.
        listeners: Name, host and port of each of its listeners.
        timeout_s: Longest wait until the change is committed.

    Raises:
        RequestError: the change is refused, or not committed in time.
    """
    values = {
        "cluster_id": None,
        "timeout": timedelta(seconds=timeout_s),
        "voter_id": node_id,
        "voter_directory_id": directory_id,
        "listeners": [{"name": name, "host": host, "port": port} for name, host, port in listeners],
    }
    check(await client.call(ApiKey.ADD_RAFT_VOTER, values, timeout_s=timeout_s))


async def remove_voter(
    client: AdminClient, node_id: int, directory_id: UUID, timeout_s: float
) -> None:
    """Have a controller be no voter any more; otherwise as `add_voter`."""
    values = {"cluster_id": None, "voter_id": node_id, "voter_directory_id": directory_id}
    check(await client.call(ApiKey.REMOVE_RAFT_VOTER, values, timeout_s=timeout_s))
