"""States that the metadata makes of replicas, beyond leading and following."""

from __future__ import annotations

from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.pair import Pair
from tests.broker.replicas import TOPIC, batch, change, partition_record, until
from tests.waiting import quiet

OTHER = TopicPartition(TOPIC, 1)


async def test_a_broker_that_shuts_down_follows_only_where_it_is_in_sync(pair: Pair) -> None:
    directories = (pair.one.host.directory(0), pair.two.host.directory(0))
    pair.metadata.apply(partition_record((1, 2), directories, index=1))
    await pair.two.host.online(OTHER)
    await pair.produced(pair.one, batch())
    await until(lambda: pair.two.end_offset == 1)

    pair.two.host.manager.roles.begin_shutdown()
    # As the controller does with one partition after the other.
    pair.metadata.apply(change(isr=(1,)))

    assert (await pair.produced(pair.one, batch(2))).error_code is ErrorCode.NONE
    result = await pair.one.host.produced(batch(3), topic_partition=OTHER)
    assert result.error_code is ErrorCode.NONE
    await quiet(pair.two.host.dirs)
    assert pair.two.end_offset == 1
    other = pair.two.host.registry.partition(OTHER)
    assert other is not None
    assert other.log is not None
    assert other.log.end_offset == 3, "it is in sync there, so it goes on"


async def test_a_broker_that_shuts_down_does_not_turn_to_a_leader_it_is_not_in_sync_with(
    pair: Pair,
) -> None:
    pair.metadata.apply(change(isr=(1,)))
    await pair.produced(pair.one, batch())

    pair.two.host.manager.roles.begin_shutdown()
    ended = pair.two.end_offset
    pair.metadata.apply(change(isr=(1,), leader=1))
    assert (await pair.produced(pair.one, batch(2))).error_code is ErrorCode.NONE
    await quiet(pair.two.host.dirs)

    assert pair.two.end_offset == ended
