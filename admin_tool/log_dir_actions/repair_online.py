"""How `jbodlab storage repair` repairs replicas of a running broker, and when it refuses.

Only the broker may touch these files. So each such replica is taken from the broker by a
reassignment and given back by another one: the broker removes its log and creates it again, in the
same directory, from the leader. Another replica must lead meanwhile, and the partition has one
replica less until all is copied; so a repair is refused where `min.insync.replicas` would not be
reached without this one.

Replicas that were taken are given back after every failure.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from admin_tool.arguments import listed
from admin_tool.log_dir_actions.planning import broker_dirs, takes_replicas
from admin_tool.log_dir_actions.repair_offline import (
    DamagedReplica,
    Repaired,
    connected_to_cluster_of,
    meta_of,
    not_repaired,
    other_topic_refusal,
    repair_refusal,
    topic_id_of,
)
from admin_tool.log_dir_actions.table import BrokerDirs
from admin_tool.waiting import wait_until_empty
from jbodlab.kafka_admin.configs import min_insync_replicas
from jbodlab.kafka_admin.errors import AdminError, name_of
from jbodlab.kafka_admin.log_dirs import (
    DescribedLogDir,
    Replica,
    alter_replica_log_dirs,
    replica_dirs,
)
from jbodlab.kafka_admin.reassignments import alter_reassignments, list_reassignments
from jbodlab.kafka_admin.topics import PartitionDescription, TopicDescription, describe_topics
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient

COPY_PATIENCE_S = 4 * 3600.0
"""How long the copies may take; they go on when the tool has given up."""

REMOVAL_PATIENCE_S = 120.0
"""How long a broker may take to remove the log of a replica that was taken from it."""

GIVE_BACK_PATIENCE_S = 30.0
"""How long to try to give replicas back where the cluster refuses."""

LOOK_PAUSE_S = 0.5

_WISHED = (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE)
"""How a broker answers that it has noted the directory of a replica that it does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts of the cluster and the disk about a damaged replica of a running broker.

    Attributes:
        broker: The broker that the directory belongs to; None where it does not say.
        topic_id: As the folder has it; None where that cannot be read.
        topic: The cluster's topic of that name; None if there is none.
        min_isr: `min.insync.replicas` of that topic.
        is_reassigned: Whether the partition is being reassigned already.
        dirs: The broker's directories, as it tells them.
        log_dir: The one among them that the folder is in; None if it is not.
    """

    broker: int | None
    topic_partition: TopicPartition
    topic_id: UUID | None
    topic: TopicDescription | None
    min_isr: int
    is_reassigned: bool
    dirs: BrokerDirs
    log_dir: DescribedLogDir | None

    @property
    def partition(self) -> PartitionDescription | None:
        """The cluster's partition; None if it has none."""
        return None if self.topic is None else self.topic.partition(self.topic_partition.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A replica to recreate.

    Attributes:
        path: Its directory, as the broker has it.
        replicas: All of its partition.
    """

    path: str
    folder: Path
    broker: int
    replicas: tuple[int, ...]
    leader: int


async def repair_online(
    fs: FileSystem, options: Namespace, damaged: Sequence[tuple[Path, Sequence[DamagedReplica]]]
) -> list[Repaired]:
    """Have replicas copied again from their leaders.

    Args:
        fs: The disk.
        options: With the address of the cluster.
        damaged: Directories of running brokers, and the replicas with damage in each.

    Raises:
        AdminError: the cluster cannot be asked, or is another one, or replicas that were taken from
            a broker could not be given back; the text says which.
    """
    results: list[Repaired] = []
    wanted: dict[TopicPartition, Damaged] = {}
    async with connected_to_cluster_of(fs, options, (path for path, _ in damaged)) as client:
        named = {each.topic_partition for _, replicas in damaged for each in replicas}
        topics = await describe_topics(client, {each.topic for each in named})
        min_isrs = await min_insync_replicas(client, topics)
        known = [each for each in named if each.topic in topics]
        ongoing = await list_reassignments(client, known) if known else {}
        for path, replicas in damaged:
            meta = meta_of(fs, path)
            (dirs,) = await broker_dirs(client, -1 if meta.node_id is None else meta.node_id)
            log_dir = log_dir_of(dirs, meta, path)
            for replica in replicas:
                topic_partition = replica.topic_partition
                facts = Facts(
                    broker=meta.node_id,
                    topic_partition=topic_partition,
                    topic_id=topic_id_of(fs, replica.folder),
                    topic=topics.get(topic_partition.topic),
                    min_isr=min_isrs.get(topic_partition.topic, 1),
                    is_reassigned=topic_partition in (*ongoing, *wanted),
                    dirs=dirs,
                    log_dir=log_dir,
                )
                refusal = online_repair_refusal(facts)
                if refusal is not None:
                    results.append(not_repaired(replica.folder, refusal))
                    continue
                assert facts.log_dir is not None
                assert facts.partition is not None
                assert facts.partition.leader is not None
                wanted[topic_partition] = Damaged(
                    path=facts.log_dir.path,
                    folder=replica.folder,
                    broker=dirs.broker,
                    replicas=facts.partition.replicas,
                    leader=facts.partition.leader,
                )
        refused = await recreate(client, wanted) if wanted else {}
    for topic_partition, one in wanted.items():
        if topic_partition in refused:
            results.append(not_repaired(one.folder, refused[topic_partition]))
            continue
        text = (
            f"{one.folder} was repaired: broker {one.broker} has copied it from broker {one.leader}"
        )
        results.append(Repaired(folder=one.folder, refusal=None, text=text))
    return results


def log_dir_of(dirs: BrokerDirs, meta: MetaProperties, path: Path) -> DescribedLogDir | None:
    """Return the broker's directory that is the one at a path of this machine.

    By its id, where the broker tells ids; a broker in a container has it at another path.
    """
    tells_ids = any(each.directory_id for each in dirs.log_dirs)
    if tells_ids and meta.directory_id is not None:
        wanted = kafka_uuid.to_text(meta.directory_id)
        return next((each for each in dirs.log_dirs if each.directory_id == wanted), None)
    return next((each for each in dirs.log_dirs if each.path == str(path.absolute())), None)


def online_repair_refusal(facts: Facts) -> str | None:
    """Return why a replica must not be taken from its running broker, None if it may; pure."""
    return (
        other_topic_refusal(facts.topic_id, facts.topic)
        or repair_refusal(facts.broker, facts.partition)
        or _placement_refusal(facts)
        or _isr_refusal(facts)
        or (
            "the partition is being reassigned: try again when that is over"
            if facts.is_reassigned
            else None
        )
    )


def _placement_refusal(facts: Facts) -> str | None:
    """Return why the broker would not remove this folder, or not create it again."""
    log_dir, tp = facts.log_dir, facts.topic_partition
    if log_dir is None or tp not in log_dir.current:
        return f"broker {facts.broker} of the cluster does not have {tp} in this directory"
    if not takes_replicas(log_dir):
        return (
            f"{log_dir.path} takes no replicas, so that it would not come back into it: uncordon "
            "it, or make room"
        )
    return None


def _isr_refusal(facts: Facts) -> str | None:
    """Return why the partition cannot do without this replica."""
    isr = () if facts.partition is None else facts.partition.isr
    others = len([each for each in isr if each != facts.broker])
    if facts.broker not in isr or others >= facts.min_isr:
        return None
    return (
        f"without it {others} would be in sync, and min.insync.replicas is {facts.min_isr}, so "
        "that acks=all would be refused until it is copied: add a replica on another broker first, "
        "by `jbodlab reassign`"
    )


async def recreate(
    client: AdminClient, wanted: Mapping[TopicPartition, Damaged]
) -> dict[TopicPartition, str]:
    """Take replicas from their brokers, and give them back.

    Returns:
        Why replicas are not as they should be; those that are left out are in sync again.

    Raises:
        AdminError: the cluster cannot be asked. Replicas that were taken have been given back, or
            the text says which were not.
    """
    for topic_partition, one in wanted.items():
        # A user who kills this tool in between has to give the replica back.
        _say(f"{topic_partition} is copied again; its replicas are {listed(one.replicas)}")
    without = {
        topic_partition: tuple(each for each in one.replicas if each != one.broker)
        for topic_partition, one in wanted.items()
    }
    try:
        refused = dict(await alter_reassignments(client, without))
        taken = {tp: one for tp, one in wanted.items() if tp not in refused}
        refused |= await _removed(client, taken)
        elsewhere = await _wish(client, {tp: taken[tp] for tp in taken if tp not in refused})
    except BaseException as error:
        # Without an answer nobody knows what was taken; to give back the others changes nothing.
        await _give_back(client, wanted)
        _say("the replicas were given back")
        if isinstance(error, OSError):
            raise AdminError(f"{error.filename} cannot be looked at: {error.strerror}") from error
        raise
    await _give_back(client, taken)
    copied = {tp: one for tp, one in taken.items() if tp not in refused}
    refused |= await _in_sync(client, copied)
    for topic_partition, reason in elsewhere.items():
        if topic_partition not in refused:
            one = copied[topic_partition]
            replica = Replica(one.broker, *topic_partition)
            where = (await replica_dirs(client, [replica]))[replica].current
            if where != one.path:
                refused[topic_partition] = (
                    f"broker {one.broker} refused to create it in {one.path} ({reason}), and has "
                    f"copied it from broker {one.leader} to {where}"
                )
    return refused


async def _removed(
    client: AdminClient, taken: Mapping[TopicPartition, Damaged]
) -> dict[TopicPartition, str]:
    """Wait until brokers have removed the logs of replicas; returns which they have not."""
    folders = ", ".join(str(one.folder) for one in taken.values())

    async def rest() -> set[TopicPartition]:
        ongoing = await list_reassignments(client, taken) if taken else {}
        return {tp for tp, one in taken.items() if tp in ongoing or one.folder.exists()}

    return {
        tp: f"broker {taken[tp].broker} has not removed it within {REMOVAL_PATIENCE_S:g} s; it was "
        "given back as it is"
        for tp in await _wait(f"the brokers have removed {folders}", rest, REMOVAL_PATIENCE_S)
    }


async def _wish(
    client: AdminClient, taken: Mapping[TopicPartition, Damaged]
) -> dict[TopicPartition, str]:
    """Tell brokers in which directories to make replicas; returns why they refuse to."""
    refused = {}
    for broker in sorted({one.broker for one in taken.values()}):
        places = {tp: one.path for tp, one in taken.items() if one.broker == broker}
        codes = await alter_replica_log_dirs(client, broker, places)
        for topic_partition in places:
            code = codes.get(topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code not in _WISHED:
                refused[topic_partition] = name_of(code)
    return refused


async def _give_back(client: AdminClient, taken: Mapping[TopicPartition, Damaged]) -> None:
    """Make the replicas of partitions what they were.

    Raises:
        AdminError: that failed for some; the text says which, and what to do.
    """
    refused = dict.fromkeys(taken, "")

    async def give_back() -> Mapping[TopicPartition, str]:
        targets = {tp: taken[tp].replicas for tp in refused}
        try:
            found = await alter_reassignments(client, targets) if targets else {}
        except AdminError as error:
            found = dict.fromkeys(targets, str(error))
        refused.clear()
        refused.update(found)
        return refused

    if await wait_until_empty(give_back, GIVE_BACK_PATIENCE_S, LOOK_PAUSE_S):
        lost = "; ".join(
            f"{tp} to {listed(taken[tp].replicas)} ({reason})" for tp, reason in refused.items()
        )
        raise AdminError(
            f"replicas could not be given back; set them by `jbodlab reassign`: {lost}"
        )


async def _in_sync(
    client: AdminClient, copied: Mapping[TopicPartition, Damaged]
) -> dict[TopicPartition, str]:
    """Wait until replicas are in sync again; returns which are not."""
    gone: dict[TopicPartition, str] = {}

    async def rest() -> set[TopicPartition]:
        ongoing = await list_reassignments(client, copied) if copied else {}
        topics = await describe_topics(client, {tp.topic for tp in copied})
        left = set()
        for tp, one in copied.items():
            topic = topics.get(tp.topic)
            partition = None if topic is None else topic.partition(tp.partition)
            if partition is None:
                gone[tp] = "the topic was deleted meanwhile"
            elif tp in ongoing or one.broker not in partition.isr:
                left.add(tp)
        return left

    late = {
        tp: f"broker {copied[tp].broker} copies it again, and is not in sync after "
        f"{COPY_PATIENCE_S:g} s; the copy goes on"
        for tp in await _wait(
            f"the new copies of {listed(copied)} are in sync", rest, COPY_PATIENCE_S
        )
    }
    return late | gone


async def _wait(
    what: str, rest: Callable[[], Awaitable[Collection[TopicPartition]]], patience_s: float
) -> Collection[TopicPartition]:
    """Print what is waited for, and wait until it is done; returns the rest at the deadline."""
    if left := await rest():
        _say(f"waiting until {what}, for {patience_s:g} s at most")
        return await wait_until_empty(rest, patience_s, LOOK_PAUSE_S)
    return left


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
