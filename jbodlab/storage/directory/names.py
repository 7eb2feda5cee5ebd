"""Names of files and directories below a log directory: render and parse.

    <topic>-<partition>                     current replica
    <topic>-<partition>.<32 hex>-future     copy being built by a move between directories
    <topic>-<partition>.<32 hex>-delete     waits for its removal
    <topic>-<partition>.<32 hex>-stray      found on disk, not placed here by the metadata
    <topic>-<partition>.moved<32 hex>-stray moved to another directory, where it is not safe yet

    00000000000000000042.log                files of a segment; the number is its base offset
                        .index .timeindex .txnindex
    00000000000000000042.snapshot           producer state as of offset 42, exclusive

A name that would be longer than 255 characters gets a shorter topic; such a name of a current or
future replica is refused instead. So the topic id in a directory's `partition.metadata` and the
partition in the directory's name identify the replica that it holds.

Source: `kafka.log.LocalLog`, `org.apache.kafka.storage.internals.log.LogFileUtils`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

import msgspec

from jbodlab.vocabulary.ids import METADATA_TOPIC, TopicPartition

METADATA_DIR_NAME = f"{METADATA_TOPIC}-0"
"""Directory of the metadata log; skipped when the logs of a log directory are loaded."""

REMOTE_INDEX_CACHE_DIR_NAME = "remote-log-index-cache"
"""Cache of tiered storage; skipped as well."""

PARTITION_METADATA_FILE = "partition.metadata"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
META_PROPERTIES_FILE = "meta.properties"
BOOTSTRAP_CHECKPOINT_FILE = "bootstrap.checkpoint"
LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DAMAGED_SUFFIX = ".damaged"
"""Suffix of files behind damage, kept for people to look at."""
TMP_SUFFIX = ".tmp"
"""A small file that is being replaced."""

MOVED_PREFIX = "moved"
DIR_NAME_CHARS_MAX = 255
TOPIC_CHARS_MAX = 249

_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
_SUFFIXED = re.compile(r"(\S+-\S+)\.([^\s.]+)-(delete|future|stray)")
_OFFSET = re.compile(r"[0-9]{20}(?=\.)")


class DirKind(Enum):
    """Purpose of a partition directory; the value is the end of its name."""

    CURRENT = ""
    FUTURE = "future"
    DELETE = "delete"
    STRAY = "stray"


class ParsedDir(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a partition directory's name.

    Attributes:
        topic_partition: The partition; a cut name has a cut topic, and all of the partition.
        kind: Kind of the directory, from the suffix of its name.
        unique_id: Distinguishes it from other directories of its partition and kind.
    """

    topic_partition: TopicPartition
    kind: DirKind
    unique_id: str | None = None

    def may_be_of(self, topic_partition: TopicPartition) -> bool:
        """Return whether a partition's directory may have this name, in which the topic may be cut.

        The name does not distinguish two topics with the same beginning: only the topic id does.
        """
        if self.kind in (DirKind.CURRENT, DirKind.FUTURE):
            return self.topic_partition == topic_partition
        topic, partition = self.topic_partition
        return partition == topic_partition.partition and topic_partition.topic.startswith(topic)

    @property
    def is_moved(self) -> bool:
        """Whether it is the old copy that a move has left in its source; see `moved_dir`."""
        return self.kind is DirKind.STRAY and (self.unique_id or "").startswith(MOVED_PREFIX)


def partition_dir(topic_partition: TopicPartition) -> str:
    """Return the directory name of a current replica."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def future_dir(topic_partition: TopicPartition, unique_id: str) -> str:
    """Return the directory name of a future replica.

    Args:
        topic_partition: The partition.
        unique_id: 32 hexadecimal digits.

    Raises:
        ValueError: the name would be longer than 255 characters. It is not cut, so that no move
            begins for a replica that gets no name at its end.
    """
    name = f"{partition_dir(topic_partition)}.{unique_id}-future"
    if len(name) > DIR_NAME_CHARS_MAX:
        raise ValueError(f"directory name {name} is longer than {DIR_NAME_CHARS_MAX} characters")
    return name


def delete_dir(topic_partition: TopicPartition, unique_id: str) -> str:
    """Return the name of a directory that waits for removal; a long topic is cut."""
    return _cut_name(topic_partition, f".{unique_id}-delete")


def stray_dir(topic_partition: TopicPartition, unique_id: str) -> str:
    """Return the name of a stray directory; a long topic is cut."""
    return _cut_name(topic_partition, f".{unique_id}-stray")


def moved_dir(topic_partition: TopicPartition, unique_id: str) -> str:
    """Return the name of the old copy, kept in a move's source until the new copy is fsynced.

    Other programs treat it as a stray directory, which they neither use nor remove.
    """
    return _cut_name(topic_partition, f".{MOVED_PREFIX}{unique_id}-stray")


def parse_partition_dir(name: str) -> ParsedDir:
    """Parse a partition directory's name.

    The topic is the part before the last `-`: topics may contain dashes and dots themselves.

    Raises:
        ValueError: the name is not that of a partition directory (`lost+found`, `.cache`, ...).
    """
    kind = DirKind.CURRENT
    unique_id: str | None = None
    stem = name
    if name.endswith(("-delete", "-future", "-stray")):
        if (match := _SUFFIXED.fullmatch(name)) is None:
            raise _not_a_partition_dir(name)
        stem, unique_id, kind = match[1], match[2], DirKind(match[3])
    topic, dash, partition = stem.rpartition("-")
    if not dash or not _PARTITION.fullmatch(partition) or int(partition) > 0x7FFF_FFFF:
        raise _not_a_partition_dir(name)
    if not _TOPIC.fullmatch(topic) or len(topic) > TOPIC_CHARS_MAX or topic in (".", ".."):
        raise _not_a_partition_dir(name)
    return ParsedDir(
        topic_partition=TopicPartition(topic, int(partition)), kind=kind, unique_id=unique_id
    )


def offset_text(offset: int) -> str:
    """Return an offset as file names have it: 20 digits."""
    return f"{offset:020d}"


def log_file(base_offset: int) -> str:
    """Return the name of a segment's log file."""
    return offset_text(base_offset) + LOG_SUFFIX


def index_file(base_offset: int) -> str:
    """Return the name of a segment's offset index."""
    return offset_text(base_offset) + INDEX_SUFFIX


def time_index_file(base_offset: int) -> str:
    """Return the name of a segment's time index."""
    return offset_text(base_offset) + TIME_INDEX_SUFFIX


def txn_index_file(base_offset: int) -> str:
    """Return the name of a segment's index of aborted transactions."""
    return offset_text(base_offset) + TXN_INDEX_SUFFIX


def snapshot_file(offset: int) -> str:
    """Return the name of the producer state as of an offset."""
    return offset_text(offset) + SNAPSHOT_SUFFIX


def parse_offset(name: str) -> int:
    """Return the offset that a segment or snapshot file is named after.

    Raises:
        ValueError: the name does not begin with 20 digits and a dot.
    """
    if (match := _OFFSET.match(name)) is None:
        raise ValueError(f"file name {name!r} does not begin with an offset")
    return int(match[0])


def with_suffix(listed: Iterable[str], suffix: str | tuple[str, ...]) -> list[str]:
    """Return the names that begin with an offset and end with a suffix; only these are ours."""
    return [name for name in listed if name.endswith(suffix) and _OFFSET.match(name)]


def _cut_name(topic_partition: TopicPartition, suffix: str) -> str:
    tail = f"-{topic_partition.partition}{suffix}"
    return topic_partition.topic[: DIR_NAME_CHARS_MAX - len(tail)] + tail


def _not_a_partition_dir(name: str) -> ValueError:
    return ValueError(
        f"directory name {name!r} is not in the form of topic-partition or "
        "topic-partition.uniqueId-delete (if marked for deletion)"
    )
