"""Consumer groups of unmodified clients: shared, committed, gone on with after what may happen."""

from __future__ import annotations

import pytest

from tests.cluster.group_members import CLIENTS, Members, seen_by
from tests.cluster.group_stage import GOES_ON_S, committed, coordinator, state_of
from tests.cluster.harness import Load, wait_for
from tests.cluster.scenes import Stage

pytestmark = pytest.mark.cluster

PARTITIONS = 4
NO_OFFSET = -1001
"""librdkafka's number."""


@pytest.mark.parametrize("client", CLIENTS)
def test_two_members_share_a_topic_and_one_takes_over_what_the_other_leaves(
    client: str, group_stage: Stage
) -> None:
    with group_stage.scene() as scene, Members() as clients:
        ledger = scene.topic(PARTITIONS, records=0)
        ledger.produce(80)
        group = f"of {client}"
        where = (client, scene.cluster.bootstrap, ledger.topic, group)
        first, second = clients.join(*where), clients.join(*where)
        members = [first, second]
        seen: set[tuple[int, int]] = set()

        def poll() -> list[int]:
            for member in members:
                seen.update(member.poll())
            return [len(member.assigned()) for member in members]

        wait_for("each has its half", lambda: poll() == [2, 2], GOES_ON_S, last_seen=poll)
        wait_for("all was consumed", lambda: poll() and len(seen) == 80, GOES_ON_S)
        assert first.assigned().isdisjoint(second.assigned())
        for member in members:
            member.commit()
        assert sum(committed(scene.cluster, group, ledger.topic).values()) == 80
        assert state_of(scene.cluster, group) == "STABLE"

        members.remove(second)
        clients.leave(second)
        wait_for("the other has all", lambda: poll() == [PARTITIONS], GOES_ON_S)
        ledger.produce(20)
        wait_for("it goes on", lambda: poll() and len(seen) == 100, GOES_ON_S)
        first.commit()
        clients.leave(first)

        wait_for("nobody is left", lambda: state_of(scene.cluster, group) == "EMPTY")
        assert sum(committed(scene.cluster, group, ledger.topic).values()) == 100
        scene.cluster.admin().delete_consumer_groups([group])[group].result(30)
        assert set(committed(scene.cluster, group, ledger.topic).values()) == {NO_OFFSET}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_goes_on_when_directories_of_its_coordinator_and_of_its_topic_die(
    protocol: str, group_stage: Stage
) -> None:
    with group_stage.scene() as scene, Members() as clients:
        cluster = scene.cluster
        ledger = scene.topic(PARTITIONS, records=0, min_insync_replicas="2")
        group = f"under load, {protocol}"
        members = [clients.work(cluster.bootstrap, ledger.topic, group, protocol) for _ in range(3)]

        def consumed() -> int:
            return sum(map(len, seen_by(members).values()))

        with Load(cluster.bootstrap, ledger.topic, rate=200) as load:
            wait_for("all members work", lambda: all(each.committed for each in members), GOES_ON_S)
            for find in (lambda: coordinator(scene, group), lambda: scene.leader(load, 0)):
                broker, path = find()
                scene.break_and_wait("chmod000", broker, path)
                before = {member: dict(member.committed) for member in members}
                reached = max(load.acknowledged)
                wait_for(
                    "commits of what came since are acknowledged",
                    lambda reached=reached, before=before: all(
                        member.committed != before[member] for member in members
                    ),
                    GOES_ON_S,
                )
                wait_for("it was consumed", lambda n=reached: consumed() > n, GOES_ON_S)
                # The next one might be the second of three that a partition loses.
                scene.make_whole()
        acknowledged = {(p, offset) for p, offset in load.acknowledged.values()}
        wait_for("everything is consumed", lambda: consumed() >= len(acknowledged), GOES_ON_S)
        for member in members:
            member.stop()

        seen = seen_by(members)
        assert acknowledged <= {(p, offset) for p, offsets in seen.items() for offset in offsets}
        told = committed(cluster, group, ledger.topic)
        for member in members:
            for partition, offset in member.committed.items():
                assert told[partition] >= offset, (partition, member.committed, told)
        scene.check(load)
