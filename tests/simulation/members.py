"""Members of consumer groups, classic and of KIP-848, and what must hold of what they are told.

Each commit of a partition has a greater offset than all before it in its group, whoever makes it.
Where the answer to a commit does not come, the member goes and another one joins in its place:
what is still on its way then belongs to a generation that is over, and can never be taken.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any
from uuid import UUID

from broker.coordination.shard import Shard, ShardState
from broker.disk.directory.log_dir import LogDir
from broker.groups.offsets import GroupOffsets
from broker.groups.tables import Row
from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TopicPartition
from tests.simulation.clients import NONE, Client
from tests.simulation.loop import PROCESS, Process
from tests.simulation.plan import GroupPlan
from tests.simulation.taps import after, around, before, replica_of
from tests.simulation.world import World

LOADING, UNAVAILABLE, MOVED, REBALANCE = 14, 15, 16, 27
MEMBER_ID_REQUIRED = 79
GO_BACK = frozenset({22, 25, 82, 110, 113})
"""Errors after which a member is none any more."""
SESSION, PATIENCE_S = timedelta(seconds=6), 15.0
ANSWERED_S = 1.0
"""In which all who wait hear that a coordinator is none any more."""


class Groups:
    """Answers that members were told.

    Attributes:
        tried: The greatest offset of each partition that anybody tried to commit.
        floor: The greatest one that was acknowledged or seen.
        owners: Owners of partitions, by group and generation or member epoch.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.tried: Counter[tuple[str, TopicPartition]] = Counter()
        self.floor: Counter[tuple[str, TopicPartition]] = Counter()
        self.modern: list[ModernMember] = []
        self.owners: dict[tuple[str, int], dict[TopicPartition, str]] = defaultdict(dict)

    def coordinated_by(self, group: str) -> tuple[TopicPartition, int, int] | None:
        """Return partition, leader and leader epoch of a group's coordinator, as committed."""
        topic = self.world.image.topics.by_name.get(GROUP_METADATA_TOPIC)
        if topic is None:
            return None
        index = coordinator_partition(group, len(topic.partitions))
        state = topic.partitions[index]
        return TopicPartition(GROUP_METADATA_TOPIC, index), state.leader, state.leader_epoch

    def owns(self, group: str, epoch: int, member: str, partitions: list[TopicPartition]) -> None:
        """G2: in one generation, or member epoch, nothing has two owners."""
        for partition in partitions:
            owner = self.owners[group, epoch].setdefault(partition, member)
            if owner != member and not self._is_void(group, partition):
                self.world.report("G2", group, f"{owner}, {member} own {partition} in {epoch}")

    def holds(self, member: ModernMember) -> None:
        """G2: nobody gets what another still works on, whose session cannot be over."""
        for other in self.modern:
            both = sorted({*member.owned} & {*other.owned})
            is_held = other.group == member.group and other.held_until_s > self.world.now_s()
            if both and is_held and other is not member and not self._is_void(other.group, both[0]):
                self.world.report("G2", other.name, f"{member.name} gets {both[0]}, which it has")

    def is_whole(self, group: str) -> bool:
        """Return whether a coordinator knows all that was committed when it began to lead.

        It hears of that with the first fetches of its followers, and tells of the past until then.
        """
        partition, leader, epoch = self.coordinated_by(group) or (None, -1, -1)
        replica = None if leader < 0 else replica_of(self.world, leader, partition)
        role = None if replica is None else replica.leader
        is_its = role is not None and role.leader_epoch == epoch
        return is_its and replica.high_watermark >= role.leader_epoch_start

    def fetched(self, group: str, partition: TopicPartition, floor: int, offset: int) -> None:
        """G1: what was acknowledged, or seen, is there, or something newer that was tried."""
        if not self._is_void(group, partition):
            tried, subject = self.tried[group, partition], f"{group} {partition}"
            if not floor <= max(offset, 0) <= tried:
                self.world.report("G1", subject, f"{offset} is committed, of {floor} to {tried}")
            self.floor[group, partition] = max(offset, self.floor[group, partition])

    def took_old(self, group: str, response: Any) -> None:
        """G2: nobody commits what it owned in a generation, or member epoch, that is over."""
        if self.taken(response):
            self.world.report("G2", group, "a commit of an older generation was taken")

    def taken(self, response: Any) -> set[TopicPartition]:
        """Return the partitions of which an offset was committed."""
        return {
            TopicPartition(topic.name, each.partition_index)
            for topic in (() if response is None else response.topics)
            for each in topic.partitions
            if int(each.error_code) == NONE
        }

    def _is_void(self, group: str, partition: TopicPartition) -> bool:
        coordinated = self.coordinated_by(group)
        is_lost = coordinated is None or coordinated[0] in self.world.tainted
        return is_lost or partition.topic in self.world.gone_topics


class Member(Client):
    """A member of a classic group; it commits what it owns, on and on."""

    def __init__(self, groups: Groups, plan: GroupPlan, name: str) -> None:
        super().__init__(groups.world, name)
        self.groups = groups
        self.plan = plan
        self.group = plan.name
        self.epoch = -1
        self.owned: list[TopicPartition] = []
        self._coordinator: int | None = None
        self._id = ""
        self.come_again()

    @property
    def me(self) -> dict[str, Any]:
        return {"group_id": self.group, "member_id": self._id}

    def come_again(self) -> None:
        """Be somebody else from now on."""
        self._id, self.epoch, self.owned = "", -1, []

    async def run(self) -> None:
        while self.is_running:
            await asyncio.sleep(0.05 + self.random.random() * 0.3)
            if not self.leaders:
                await self.refresh()
            elif self.epoch < 0:
                await self.join()
            elif await self.stay():
                await self.fetch()
                await self.commit()
                await self.fetch()
        self.owned = []
        await self.leave()
        self.close()

    async def ask_coordinator(self, key: int, version: int, **fields: Any) -> Any:
        """Ask the coordinator; None where there is no answer."""
        if self._coordinator is None:
            found = await self.ask_any(10, 3, key=self.group, key_type=0)
            if found is None or int(found.error_code) != NONE:
                return None
            self._coordinator = found.node_id
        fields["timeout_s"] = PATIENCE_S
        response = await self.ask(self._coordinator, key, version, **fields)
        code = NONE if response is None else int(getattr(response, "error_code", NONE))
        if response is None or code in (UNAVAILABLE, MOVED):
            self._coordinator = None
        return response

    def took(self, response: Any) -> bool:
        """Return whether all is well; who is no member any more comes again."""
        code = LOADING if response is None else int(response.error_code)
        self.world.seen[f"group answer {code}"] += 1
        if code in GO_BACK:
            self.come_again()
        elif code == REBALANCE:
            self.epoch, self.owned = -1, []
        return code == NONE

    async def join(self) -> None:
        protocols = [{"name": "any", "metadata": b""}]
        wanted = {"protocol_type": "simulated", "protocols": protocols}
        times = {"session_timeout": SESSION, "rebalance_timeout": SESSION}
        joined = await self.ask_coordinator(11, 5, **self.me, **wanted, **times)
        if joined is not None and int(joined.error_code) == MEMBER_ID_REQUIRED:
            self._id = joined.member_id
        if not self.took(joined):
            return
        self._id = joined.member_id
        fields = {"generation_id": joined.generation_id, **self.me}
        given = self._assign([each.member_id for each in joined.members])
        synced = await self.ask_coordinator(14, 3, assignments=given, **fields)
        if self.took(synced):
            self.epoch = joined.generation_id
            partitions = json.loads(synced.assignment or b"[]")
            self.owned = [TopicPartition(self.plan.topic, each) for each in partitions]
            self.groups.owns(self.group, self.epoch, self._id, self.owned)

    def _assign(self, members: list[str]) -> list[dict[str, Any]]:
        indexes = sorted(each.partition for each in self.leaders if each.topic == self.plan.topic)
        return [
            {"member_id": member, "assignment": json.dumps(indexes[n :: len(members)]).encode()}
            for n, member in enumerate(members)
        ]

    async def stay(self) -> bool:
        return self.took(await self.ask_coordinator(12, 4, generation_id=self.epoch, **self.me))

    async def leave(self) -> None:
        await self.ask_coordinator(13, 4, group_id=self.group, members=[{"member_id": self._id}])

    async def commit(self) -> None:
        """Commit what is owned; where that may or may not have happened, come again."""
        if not self.owned:
            return
        self.groups.tried.update((self.group, each) for each in self.owned)
        offsets = {each: self.groups.tried[self.group, each] for each in self.owned}
        partitions = [
            {"partition_index": p.partition, "committed_offset": offset, "committed_metadata": ""}
            for p, offset in offsets.items()
        ]
        topics = [{"name": self.plan.topic, "partitions": partitions}]
        if self.epoch > 1 and not self.plan.is_modern and self.random.random() < 0.1:
            old = {"generation_id_or_member_epoch": self.epoch - 1, **self.me}
            response = await self.ask_coordinator(8, 9, topics=topics, **old)
            self.groups.took_old(self.group, response)
        fields = {"generation_id_or_member_epoch": self.epoch, **self.me}
        response = await self.ask_coordinator(8, 9, topics=topics, **fields)
        committed = self.groups.taken(response)
        for partition in committed:
            key = (self.group, partition)
            self.groups.floor[key] = max(offsets[partition], self.groups.floor[key])
            self.world.seen["committed an offset"] += 1
        if committed != {*offsets}:
            self._coordinator, self.owned = None, []
            await self.leave()
            self.come_again()

    async def fetch(self) -> bool:
        """Look what is committed, of all partitions; returns whether there was an answer.

        A leader that does not know yet that it is none may tell of the past: only the answer of
        one that led before and after counts.
        """
        known = [key for key in sorted(self.groups.tried) if key[0] == self.group]
        is_whole = self.groups.is_whole(self.group)
        floors = {key: self.groups.floor[key] if is_whole else 0 for key in known}
        led_by = self.groups.coordinated_by(self.group)
        wanted = {"name": self.plan.topic, "partition_indexes": [p.partition for _, p in known]}
        group = {"group_id": self.group, "topics": [wanted]}
        asked = self._coordinator
        response = await self.ask_coordinator(9, 8, groups=[group], require_stable=False)
        if response is None or int(response.groups[0].error_code) != NONE:
            self._coordinator = None
            return False
        if led_by == self.groups.coordinated_by(self.group) and led_by and led_by[1] == asked:
            for each in (each for topic in response.groups[0].topics for each in topic.partitions):
                partition = TopicPartition(self.plan.topic, each.partition_index)
                floor = floors[self.group, partition]
                self.groups.fetched(self.group, partition, floor, each.committed_offset)
            return True
        return False


class Watcher(Member):
    """No member at all: it looks what is committed, on and on."""

    async def run(self) -> None:
        while self.is_running:
            await asyncio.sleep(0.05 + self.random.random() * 0.2)
            await self.fetch()
        self.close()


class ModernMember(Member):
    """A member as of KIP-848."""

    def __init__(self, groups: Groups, plan: GroupPlan, name: str) -> None:
        super().__init__(groups, plan, name)
        self.held_until_s = 0.0
        self._says_all = True
        """Whether the last answer was lost, and with it what it may have told."""
        groups.modern.append(self)

    def come_again(self) -> None:
        super().come_again()
        self._id = kafka_uuid.to_text(UUID(bytes=self.random.randbytes(16)))

    async def join(self) -> None:
        self.epoch = 0
        if not await self._beat(0, []):
            self.epoch = -1

    async def stay(self) -> bool:
        topic = self.world.image.topics.by_name.get(self.plan.topic)
        if topic is None:
            return False
        indexes = [each.partition for each in self.owned]
        owned = [{"topic_id": topic.topic_id, "partitions": indexes}] if indexes else []
        return await self._beat(self.epoch, owned)

    async def leave(self) -> None:
        await self.ask_coordinator(68, 1, **self.me, member_epoch=-1, topic_partitions=None)

    async def _beat(self, epoch: int, owned: list[dict[str, Any]]) -> bool:
        fields: dict[str, Any] = {"topic_partitions": owned}
        if self._says_all or not epoch:
            fields |= {"subscribed_topic_names": [self.plan.topic], "rebalance_timeout": SESSION}
        self._says_all = True
        until_s = self.world.now_s() + SESSION.total_seconds()
        led_by = self.groups.coordinated_by(self.group)
        answer = await self.ask_coordinator(68, 1, **self.me, member_epoch=epoch, **fields)
        if not self.took(answer):
            return False
        is_right = led_by is not None and led_by == self.groups.coordinated_by(self.group)
        if is_right and led_by[1] == self._coordinator:
            self.held_until_s = until_s
        self._says_all = False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = self.world.image.topics.by_id
            self.owned = [
                TopicPartition(topics[each.topic_id].name, index)
                for each in answer.assignment.topic_partitions
                if each.topic_id in topics
                for index in each.partitions
            ]
        self.groups.owns(self.group, self.epoch, self._id, self.owned)
        if is_right:
            self.groups.holds(self)
        return True


def attach(world: World) -> None:
    """Look a while after a directory failed what has become of its coordinators."""
    shards: dict[Shard[Any, Any], Process] = {}

    def fails(_log_dir: Any, _cause: str) -> None:
        world.later(ANSWERED_S, look, PROCESS.get())

    def look(process: Process) -> None:
        if process.is_frozen:
            world.later(ANSWERED_S, look, process)
        elif process.is_alive:
            check_coordinators(world, process, [s for s, its in shards.items() if its is process])

    around(GroupOffsets, "_offset", functools.partial(check_committed, world))
    after(Shard, "__init__", lambda s, *_: shards.update({s: PROCESS.get()}))
    before(LogDir, "go_offline", fails)


def check_committed(world: World, inner: Any, offsets: Any, group: str, *key: Any) -> Any:
    """G1: an offset that members are told of is committed."""
    found = inner(offsets, group, *key)
    stored = offsets._state.committed.get(Row.OFFSET, group, *key)
    if found is not None and (stored is None or stored.value is not found):
        world.report("G1", group, f"it is told {found}, {stored} is committed")
    return found


def check_coordinators(world: World, process: Process, shards: list[Any]) -> None:
    """G3: none of a replica that is offline is at work, or has somebody wait."""
    for shard in shards:
        is_over = shard.state is ShardState.CLOSED and not shard.waiting_count
        if not shard.partition.is_online and not is_over:
            name = f"{process} {shard.partition.topic_partition}"
            world.report("G3", name, f"{shard.state.name}, {shard.waiting_count} wait, offline")
