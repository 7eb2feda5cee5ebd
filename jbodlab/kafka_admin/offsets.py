"""Where partitions begin and end, and where a time is in them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from jbodlab.kafka_admin.errors import PASSING, AdminError, RequestError
from jbodlab.kafka_admin.topics import by_topic, describe_topics
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Instead of a time: behind the last record, the first record, the record with the highest time."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LEADER_DEADLINE_S, PAUSE_S = 3.0, 0.1
"""How long a partition may be without a leader, and how often somebody looks."""


class Offset(NamedTuple):
    """A place in a partition; both -1 where no record is there, the time also where none is told.

    Attributes:
        timestamp: Of the record, in ms since 1970.
    """

    offset: int
    timestamp: int


async def list_offsets(
    client: AdminClient,
    wanted: Iterable[TopicPartition],
    when: int,
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, Offset | AdminError]:
    """Ask the leaders of partitions for an offset.

    Args:
        client: The cluster.
        wanted: The partitions.
        when: Milliseconds since 1970, or one of the constants.
        isolation: READ_COMMITTED ends the partition at the last stable offset.

    Returns:
        The offset of each partition, or why it is not known.
    """
    import asyncio

    left = list(wanted)
    found: dict[TopicPartition, Offset | AdminError] = dict.fromkeys(left, Offset(-1, -1))
    now_s = asyncio.get_running_loop().time
    end_s = now_s() + LEADER_DEADLINE_S
    while left:
        found |= await _asked_once(client, left, when, isolation)
        left = [one for one in left if _passes(found[one])]
        if now_s() > end_s:
            break
        if left:
            await asyncio.sleep(PAUSE_S)
    return found


def _passes(answer: Offset | AdminError) -> bool:
    return isinstance(answer, RequestError) and answer.code in PASSING


async def _asked_once(
    client: AdminClient, wanted: list[TopicPartition], when: int, isolation: int
) -> dict[TopicPartition, Offset | AdminError]:
    topics = await describe_topics(client, {one.topic for one in wanted})
    leaders: dict[TopicPartition, int] = {}
    found: dict[TopicPartition, Offset | AdminError] = {}
    for place in wanted:
        topic = topics.get(place.topic)
        partition = None if topic is None else topic.partition(place.partition)
        if partition is None:
            found[place] = RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif partition.leader is None:
            found[place] = RequestError(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            leaders[place] = partition.leader
    in_order = sorted(leaders, key=lambda one: (leaders[one], one))
    for broker, some in groupby(in_order, leaders.__getitem__):
        places = list(some)
        try:
            found |= await offsets_at(client, broker, places, when, isolation)
        except AdminError as error:
            found |= dict.fromkeys(places, error)
    return found


async def offsets_at(
    client: AdminClient,
    broker: int | None,
    places: Iterable[TopicPartition],
    when: int,
    isolation: int = READ_UNCOMMITTED,
    timeout_s: float | None = None,
) -> dict[TopicPartition, Offset | AdminError]:
    """Ask one broker for offsets, as `list_offsets`; it answers those that it leads."""
    topics = [
        {
            "name": name,
            "partitions": [{"partition_index": one, "timestamp": when} for one in indexes],
        }
        for name, indexes in by_topic(places).items()
    ]
    values = {"replica_id": -1, "isolation_level": isolation, "topics": topics}
    answer = await client.call(ApiKey.LIST_OFFSETS, values, broker, timeout_s=timeout_s)
    return {
        TopicPartition(topic.name, one.partition_index): (
            RequestError(one.error_code)
            if int(one.error_code)
            else Offset(int(one.offset), int(one.timestamp))
        )
        for topic in answer.topics
        for one in topic.partitions
    }
