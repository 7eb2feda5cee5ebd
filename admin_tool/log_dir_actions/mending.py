"""What `verify --mend` does to a damaged replica of a stopped broker, and where it refuses.

It takes away what the broker then copies from the leader, so there must be one that is not this
broker: a leader is in sync, and has every record that was acknowledged. A broker that was stopped
has left the ISR where others were in it, and does not come back before it has copied all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from admin_tool.errors import AdminError
from admin_tool.options import Parsed
from admin_tool.requests.connection import connected
from admin_tool.requests.topics import PartitionDescription, TopicDescription, describe_topics
from jbodlab.errors import CorruptRecordError
from jbodlab.ids import TopicPartition
from jbodlab.log import damage, meta_properties, names
from jbodlab.log.filesystem import FileSystem
from jbodlab.log.partition_metadata import read_topic_id
from jbodlab.log.verification import VerifiedReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """What became of one damaged replica.

    Attributes:
        refusal: Why it is left as it was; None if it was mended.
        text: One line for the operator.
    """

    topic_partition: TopicPartition
    refusal: str | None
    text: str


def mend(
    fs: FileSystem, options: Parsed, damaged: Sequence[tuple[Path, Sequence[VerifiedReplica]]]
) -> list[Mended]:
    """Mend replicas where that costs no record.

    Args:
        fs: The disk.
        options: With the address of the cluster.
        damaged: Directories, whose locks are held, and the replicas with damage in each.

    Raises:
        AdminError: the cluster cannot be asked, or a file cannot be renamed.
    """
    topics = {replica.topic_partition.topic for _, found in damaged for replica in found}
    with connected(options) as connection:
        described = describe_topics(connection, topics)
    results = []
    for path, replicas in damaged:
        broker = meta_properties.read(fs, path).node_id
        for replica in replicas:
            try:
                results.append(_mend(fs, replica, broker, described))
            except OSError as error:
                raise AdminError(f"{error.filename}: {error.strerror}") from error
    return results


def _mend(
    fs: FileSystem,
    replica: VerifiedReplica,
    broker: int | None,
    described: dict[str, TopicDescription],
) -> Mended:
    topic_partition, folder = replica.topic_partition, replica.folder
    lost = [each for each in replica.damage if not each.in_index]
    if lost:
        topic = described.get(topic_partition.topic)
        partition = topic.partition(topic_partition.partition) if topic is not None else None
        if topic is None or _topic_id(fs, folder) != topic.topic_id:
            partition = None
        refusal = why_not(broker, partition)
        if refusal is not None:
            text = f"{folder} was not mended: {refusal}"
            return Mended(topic_partition=topic_partition, refusal=refusal, text=text)
        first = min(each.base_offset for each in lost)
        logs = names.with_suffix(fs.listdir(folder), names.LOG_SUFFIX)
        # The last one first: a log that ends early is whole, one with a hole is not.
        for base_offset in reversed([names.parse_offset(name) for name in logs]):
            if base_offset >= first:
                damage.rename_segment(fs, folder, base_offset)
        assert partition is not None
        text = (
            f"{folder} was mended: from offset {first} on it is kept as .damaged, and broker "
            f"{broker} copies it from broker {partition.leader} when it is started"
        )
    else:
        text = f"{folder} was mended: indexes are made anew when broker {broker} is started"
    for each in replica.damage:
        if each.in_index:
            fs.unlink(folder / each.file, missing_ok=True)
    fs.fsync_dir(folder)
    return Mended(topic_partition=topic_partition, refusal=None, text=text)


def why_not(broker: int | None, partition: PartitionDescription | None) -> str | None:
    """Return why records of a stopped broker's replica must stay where they are, None if not.

    Args:
        broker: Id of the broker that has the replica.
        partition: What the cluster says of it; None if it does not know the topic.
    """
    reason = why_not_anew(broker, partition)
    if reason is None and partition is not None and broker in partition.isr:
        return f"broker {broker} is still in the ISR: try again when its session has run out"
    return reason


def why_not_anew(broker: int | None, partition: PartitionDescription | None) -> str | None:
    """Return why a replica must not be made anew from its leader, None if it may; as `why_not`."""
    if partition is None or broker not in partition.replicas:
        return f"the cluster knows no such replica of broker {broker}: there is no other to copy"
    if partition.leader is None:
        return "no replica leads, so this may be the only one that has its records"
    if partition.leader == broker:
        return f"broker {broker} leads: let another replica lead first"
    return None


def _topic_id(fs: FileSystem, folder: Path) -> UUID | None:
    try:
        return read_topic_id(fs, folder / names.PARTITION_METADATA_FILE)
    except CorruptRecordError:
        return None
