"""The controllers of a cluster, as its active controller describes them (KIP-595, KIP-836)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

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
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    end_offsets: Mapping[int, int]

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
    )
