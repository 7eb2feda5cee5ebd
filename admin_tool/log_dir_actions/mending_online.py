"""What `verify --mend` does to damaged replicas of a broker that runs, and where it refuses.

Nobody but the broker may touch these files. So each such replica is taken from the broker by a
reassignment and given back by another one: the broker removes its log and makes it anew, in the
same directory, from the leader. Another replica must lead meanwhile, and the partition has one
replica less until all is copied.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from admin_tool.errors import AdminError, PlainError
from admin_tool.log_dir_actions.mending import Mended, why_not_anew
from admin_tool.options import Parsed
from admin_tool.requests.connection import Connection, connected
from admin_tool.requests.log_dirs import alter_replica_log_dirs
from admin_tool.requests.reassignments import alter_reassignments, list_reassignments
from admin_tool.requests.topics import PartitionDescription, describe_topics
from jbodlab.ids import TopicPartition
from jbodlab.log.verification import VerifiedReplica

PATIENCE_S = 4 * 3600.0
"""How long the copies may take; they go on when the tool has given up."""

LOOK_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Damaged:
    """A replica to be made anew; `replicas` are all of its partition."""

    log_dir: Path
    folder: Path
    broker: int
    replicas: tuple[int, ...]
    leader: int


def mend_online(
    options: Parsed, damaged: Sequence[tuple[Path, int | None, Sequence[VerifiedReplica]]]
) -> list[Mended]:
    """Have replicas made anew from their leaders.

    Args:
        options: With the address of the cluster.
        damaged: Directories of running brokers, the ids of these, and the replicas with damage.

    Raises:
        AdminError: the cluster cannot be asked, or refuses, or time is over.
    """
    results: list[Mended] = []
    wanted: dict[TopicPartition, _Damaged] = {}
    with connected(options) as connection:
        named = {each.topic_partition for _, _, replicas in damaged for each in replicas}
        found = _described(connection, named)
        ongoing = list_reassignments(connection, found) if found else {}
        for path, broker, replicas in damaged:
            for replica in replicas:
                topic_partition = replica.topic_partition
                partition = found.get(topic_partition)
                refusal = why_not_anew(broker, partition)
                if refusal is None and topic_partition in (*ongoing, *wanted):
                    refusal = "the partition is being reassigned: try again when that is over"
                if refusal is not None:
                    text = f"{replica.folder} was not mended: {refusal}"
                    results.append(
                        Mended(topic_partition=topic_partition, refusal=refusal, text=text)
                    )
                    continue
                assert broker is not None
                assert partition is not None
                assert partition.leader is not None
                wanted[topic_partition] = _Damaged(
                    log_dir=path,
                    folder=replica.folder,
                    broker=broker,
                    replicas=tuple(partition.replicas),
                    leader=partition.leader,
                )
        if wanted:
            _make_anew(connection, wanted)
    for topic_partition, one in wanted.items():
        text = (
            f"{one.folder} was mended: broker {one.broker} has copied it from broker {one.leader}"
        )
        results.append(Mended(topic_partition=topic_partition, refusal=None, text=text))
    return results


def _make_anew(connection: Connection, wanted: Mapping[TopicPartition, _Damaged]) -> None:
    """Take the replicas from their brokers, and give them back."""
    for topic_partition, one in wanted.items():
        listed = ",".join(map(str, one.replicas))
        # Whoever ends this tool in between has to give the replica back.
        print(f"{topic_partition} is copied anew; its replicas are {listed}", file=sys.stderr)
    without = {
        topic_partition: tuple(each for each in one.replicas if each != one.broker)
        for topic_partition, one in wanted.items()
    }
    _reassign(connection, without)
    _until(
        "the brokers have removed the damaged replicas",
        lambda: not any(one.folder.exists() for one in wanted.values()),
    )
    # Each comes back where it was, unless the broker finds that directory full by then.
    for broker in {one.broker for one in wanted.values()}:
        places = {
            tp: str(one.log_dir.absolute()) for tp, one in wanted.items() if one.broker == broker
        }
        alter_replica_log_dirs(connection, broker, places)
    _reassign(connection, {tp: one.replicas for tp, one in wanted.items()})

    def is_in_sync() -> bool:
        found = _described(connection, wanted)
        return all(
            (partition := found.get(tp)) is not None and one.broker in partition.isr
            for tp, one in wanted.items()
        )

    _until("the replicas are in sync again", is_in_sync)


def _reassign(connection: Connection, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    refused = alter_reassignments(connection, targets)
    if refused:
        listed = "; ".join(f"{tp}: {why}" for tp, why in refused.items())
        raise PlainError(f"replicas cannot be made anew: {listed}")
    _until("the reassignments are complete", lambda: not list_reassignments(connection, targets))


def _described(
    connection: Connection, topic_partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionDescription]:
    topics = describe_topics(connection, {each.topic for each in topic_partitions})
    found = {}
    for each in topic_partitions:
        topic = topics.get(each.topic)
        partition = topic.partition(each.partition) if topic is not None else None
        if partition is not None:
            found[each] = partition
    return found


def _until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AdminError(f"gave up waiting until {what}")
        time.sleep(LOOK_PAUSE_S)
