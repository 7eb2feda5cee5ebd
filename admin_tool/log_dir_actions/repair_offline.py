"""How `jbodlab storage repair` repairs a replica of a stopped broker, and when it refuses.

The first damaged segment and all behind it are renamed to `.damaged`, and the broker copies them
from the leader when it starts; a damaged index is removed, and rebuilt from the batches. So another
broker must lead: a leader is in sync, and has every acknowledged record. A broker that was stopped
has left the ISR where others were in it, and does not rejoin it before it has copied everything.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from admin_tool.connecting import connected
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.topics import PartitionDescription, TopicDescription, describe_topics
from jbodlab.storage.directory import meta_properties, names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.partition_metadata import read_topic_id
from jbodlab.storage.log import damage
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import CorruptRecordError, FormatError
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """One damaged part of a replica, as `jbodlab storage verify` found it.

    Attributes:
        base_offset: Of the segment.
        file: Its file that is damaged.
        in_index: Whether the records are well, and only the way to them is not.
    """

    base_offset: int
    file: str
    in_index: bool


class DamagedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica in a directory of this machine."""

    topic_partition: TopicPartition
    folder: Path
    damage: tuple[Damage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """The outcome for one damaged replica.

    Attributes:
        folder: Its folder; the same partition may be damaged in another folder too.
        refusal: Why it was not repaired; None if it was.
        text: One line for the operator.
    """

    folder: Path
    refusal: str | None
    text: str


def not_repaired(folder: Path, refusal: str) -> Repaired:
    """Return that a replica was left as it was."""
    return Repaired(folder=folder, refusal=refusal, text=f"{folder} was not repaired: {refusal}")


@asynccontextmanager
async def connected_to_cluster_of(
    fs: FileSystem, options: Namespace, paths: Iterable[Path]
) -> AsyncIterator[AdminClient]:
    """Connect to the cluster that log directories belong to.

    Partitions of two clusters have the same names: what one says of a partition is nothing to the
    records of another.

    Args:
        fs: The disk.
        options: With the address.
        paths: The directories.

    Raises:
        AdminError: there is another cluster at the address, or a directory cannot be read.
    """
    async with connected(options) as client:
        found = await client.cluster_id()
        for path in paths:
            wanted = meta_of(fs, path).cluster_id
            if wanted is None or wanted != found:
                raise AdminError(
                    f"{path} belongs to cluster {wanted}, and at "
                    f"{options.bootstrap_server} is cluster {found}: nothing was "
                    f"changed; give the address of cluster {wanted} by --bootstrap-server"
                )
        yield client


def meta_of(fs: FileSystem, path: Path) -> MetaProperties:
    """Return what a log directory says of itself.

    Raises:
        AdminError: it is not a log directory, or cannot be read.
    """
    try:
        return meta_properties.read(fs, path)
    except FormatError as error:
        raise AdminError(f"{path} is not a log directory: {error}") from error
    except OSError as error:
        raise AdminError(f"{error.filename or path} cannot be read: {error.strerror}") from error


async def repair_offline(
    fs: FileSystem, options: Namespace, damaged: Sequence[tuple[Path, Sequence[DamagedReplica]]]
) -> list[Repaired]:
    """Repair replicas where that loses no record.

    Args:
        fs: The disk.
        options: With the address of the cluster.
        damaged: Directories, whose locks are held, and the replicas with damage in each.

    Raises:
        AdminError: the cluster cannot be asked, or is another one, or a file cannot be renamed.
    """
    topics = {replica.topic_partition.topic for _, found in damaged for replica in found}
    async with connected_to_cluster_of(fs, options, (path for path, _ in damaged)) as client:
        described = await describe_topics(client, topics)
    results = []
    for path, replicas in damaged:
        broker = meta_of(fs, path).node_id
        for replica in replicas:
            try:
                results.append(_repair(fs, replica, broker, described))
            except OSError as error:
                raise AdminError(f"{error.filename}: {error.strerror}") from error
    return results


def _repair(
    fs: FileSystem,
    replica: DamagedReplica,
    broker: int | None,
    described: dict[str, TopicDescription],
) -> Repaired:
    topic_partition, folder = replica.topic_partition, replica.folder
    lost = [each for each in replica.damage if not each.in_index]
    if lost:
        topic = described.get(topic_partition.topic)
        partition = None if topic is None else topic.partition(topic_partition.partition)
        refusal = other_topic_refusal(topic_id_of(fs, folder), topic) or offline_refusal(
            broker, partition
        )
        if refusal is not None:
            return not_repaired(folder, refusal)
        first = min(each.base_offset for each in lost)
        logs = names.with_suffix(fs.listdir(folder), names.LOG_SUFFIX)
        # The last one first: a log that ends early is whole, one with a hole is not.
        for base_offset in reversed([names.parse_offset(name) for name in logs]):
            if base_offset >= first:
                damage.rename_segment(fs, folder, base_offset)
        assert partition is not None
        text = (
            f"{folder} was repaired: from offset {first} on it is kept as .damaged, and broker "
            f"{broker} copies it from broker {partition.leader} when it is started"
        )
    else:
        text = f"{folder} was repaired: broker {broker} rebuilds the indexes when it is started"
    for each in replica.damage:
        if each.in_index:
            fs.unlink(folder / each.file, missing_ok=True)
    fs.fsync_dir(folder)
    return Repaired(folder=folder, refusal=None, text=text)


def offline_refusal(broker: int | None, partition: PartitionDescription | None) -> str | None:
    """Return why a stopped broker's replica must keep its records, None if it need not.

    Args:
        broker: Id of the broker that has the replica.
        partition: The cluster's description of it; None if it does not know the topic.
    """
    reason = repair_refusal(broker, partition)
    if reason is None and partition is not None and broker in partition.isr:
        return f"broker {broker} is still in the ISR: try again when its session has run out"
    return reason


def repair_refusal(broker: int | None, partition: PartitionDescription | None) -> str | None:
    """Return why a replica must not be copied again from its leader, None if it may."""
    if partition is None or broker not in partition.replicas:
        return f"the cluster knows no such replica of broker {broker}: there is no other to copy"
    if partition.leader is None:
        return "no replica leads, so this may be the only one that has its records"
    if partition.leader == broker:
        return f"broker {broker} leads: let another replica lead first"
    return None


def other_topic_refusal(topic_id: UUID | None, topic: TopicDescription | None) -> str | None:
    """Return why a replica cannot belong to the cluster's topic of its name, None if it may.

    Args:
        topic_id: As its `partition.metadata` has it; None where that cannot be read.
        topic: The cluster's topic of that name; None if there is none.
    """
    if topic is None or topic_id == topic.topic_id:
        return None
    ours = "no topic id" if topic_id is None else f"topic id {kafka_uuid.to_text(topic_id)}"
    theirs = kafka_uuid.to_text(topic.topic_id)
    return (
        f"its {names.PARTITION_METADATA_FILE} has {ours}, and the cluster's topic {topic.name} has "
        f"{theirs}: it is a replica of another topic of this name"
    )


def topic_id_of(fs: FileSystem, folder: Path) -> UUID | None:
    """Return the topic id that a replica's folder has; None where it cannot be read."""
    try:
        return read_topic_id(fs, folder / names.PARTITION_METADATA_FILE)
    except CorruptRecordError:
        return None
