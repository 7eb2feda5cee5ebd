"""Fetch from the closest replica: whom the leader names, and what followers serve."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.fetch.closest_replica import ReplicaView, in_rack
from broker.fetch.fetch_requests import FetchResult, OffsetQuery
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId
from tests.broker.fetch.requests import fetch_entry, fetch_params
from tests.broker.replicas import DEADLINE_S, TP, batch, broker, change
from tests.broker.stage import D2, ONE, THREE, TWO, Stage

CONSUMER, TOOL = BrokerId(-1), BrokerId(-2)


@pytest.mark.parametrize(
    ("racks", "chosen"),
    [
        (("east", "west", "west"), THREE),
        (("west", "west", "west"), None),
        (("east", "east", "east"), None),
        (("east", "west", None), TWO),
    ],
)
def test_in_the_rack_the_replica_that_goes_furthest_is_chosen_unless_the_leader_is_there(
    racks: tuple[str | None, ...], chosen: BrokerId | None
) -> None:
    leader = ReplicaView(ONE, racks[0], 20)
    followers = [ReplicaView(TWO, racks[1], 10), ReplicaView(THREE, racks[2], 15)]
    assert in_rack("west", leader, followers) == chosen


class Replica(Stage):
    """Broker 1 in the east, and broker 2 in the west; one of them leads."""

    def __init__(self, root: Path, leader: BrokerId, *, sends_away: bool = True) -> None:
        super().__init__(root, sends_consumers_away=sends_away)
        self.leader = leader

    async def start(self) -> None:
        east = broker(1, *self.host.directories, rack="east")
        self.describe((1, 2), east, broker(2, D2, rack="west"), leader=self.leader)
        await self.host.online()

    async def follow(self, count: int) -> None:
        """Take records over from the leader."""
        data = batch(count)
        self.log.append_as_follower(data, [header for _, header in iterate_headers(data)])
        await self.written()

    def fetch(self, offset: int = 0, **how: Any) -> asyncio.Future[list[FetchResult]]:
        params = fetch_params(**{"any_replica": True} | how)
        return self.host.manager.fetches.fetch(params, [fetch_entry(offset)])

    async def fetched(self, offset: int = 0, **how: Any) -> FetchResult:
        (result,) = await asyncio.wait_for(self.fetch(offset, **how), DEADLINE_S)
        return result


@pytest.fixture
async def replica(tmp_path: Path, options: dict[str, Any]) -> AsyncIterator[Replica]:
    async with Replica(tmp_path, **options) as replica:
        await replica.start()
        yield replica


@pytest.mark.stage(leader=ONE)
async def test_leader_names_the_in_sync_replica_in_the_rack_that_has_the_offset(
    replica: Replica,
) -> None:
    await replica.host.produced(batch(3), acks=1)
    assert (await replica.fetched(2, rack="west")).preferred_read_replica == -1
    replica.partition.in_sync.follower_fetched(TWO, 3, 7)

    told = await replica.fetched(2, rack="west", max_wait_ms=60_000)

    assert (told.preferred_read_replica, told.records_size) == (2, 0)
    assert told.high_watermark == 3
    for rack in ("east", "north", None):
        here = await replica.fetched(2, rack=rack)
        assert here.preferred_read_replica == -1
        assert here.records_size > 0


@pytest.mark.stage(leader=ONE, sends_away=False)
async def test_without_a_selector_the_leader_serves_everybody(replica: Replica) -> None:
    await replica.host.produced(batch(3), acks=1)
    replica.partition.in_sync.follower_fetched(TWO, 3, 7)
    here = await replica.fetched(2, rack="west")
    assert here.preferred_read_replica == -1
    assert here.records_size > 0


@pytest.mark.stage(leader=TWO)
async def test_follower_serves_consumers_up_to_the_high_watermark_it_knows(
    replica: Replica,
) -> None:
    await replica.follow(3)
    waiting = replica.fetch(0, max_wait_ms=60_000)
    await asyncio.sleep(0)
    assert not waiting.done()

    replica.partition.leader_says(3)

    (result,) = await asyncio.wait_for(waiting, DEADLINE_S)
    assert (result.error_code, result.high_watermark) == (ErrorCode.NONE, 3)
    assert result.records_size == len(batch(3))
    refused = await replica.fetched(0, any_replica=False)
    assert refused.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.stage(leader=TWO, sends_away=False)
async def test_follower_sends_consumers_to_the_leader_where_nobody_sends_them_here(
    replica: Replica,
) -> None:
    await replica.follow(3)
    refused = await replica.fetched(0)
    assert refused.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused.leader_hint is not None


@pytest.mark.stage(leader=TWO)
async def test_follower_that_left_the_isr_sends_consumers_back(replica: Replica) -> None:
    await replica.follow(3)
    assert (await replica.fetched(0)).error_code is ErrorCode.NONE
    replica.apply(change(isr=(2,)))
    assert (await replica.fetched(0)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.stage(leader=TWO)
async def test_a_tool_sees_all_that_a_follower_has_and_no_lag_where_there_is_none(
    replica: Replica,
) -> None:
    await replica.follow(3)

    result = await replica.fetched(0, replica_id=TOOL)

    assert result.records_size == len(batch(3))
    query = OffsetQuery(topic_partition=TP, timestamp=-1)
    manager = replica.host.manager
    (latest,) = await manager.offsets.list_offsets([query], TOOL, 0)
    assert (latest.error_code, latest.offset) == (ErrorCode.NONE, 3)
    (refused,) = await manager.offsets.list_offsets([query], CONSUMER, 0)
    assert refused.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
