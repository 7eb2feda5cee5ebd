"""Checkers of a cluster to which nothing happens any more.

Metadata, disks and the answers of brokers must come to agree within a bound, all replicas must be
the same, and a restart must change nothing.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from jbodlab import kafka_uuid
from jbodlab.errors import DecodeError
from jbodlab.ids import GROUP_METADATA_TOPIC, TopicPartition
from jbodlab.image.partition_registration import PartitionRegistration
from jbodlab.log import names
from jbodlab.log.names import DirKind
from jbodlab.protocol.record_batch import BatchHeader, iterate_headers, iterate_records
from tests.simulation.clients import JBOD_LEVEL, Accounts, is_whole
from tests.simulation.disk import File, Folder
from tests.simulation.taps import replica_states
from tests.simulation.world import Node, World, directory_id, partitions_of, text


class Copy(NamedTuple):
    """A current replica on a disk."""

    node: int
    directory: Path
    partition: TopicPartition
    folder: Folder


class Batch(NamedTuple):
    header: BatchHeader
    crc: int
    values: tuple[bytes, ...]


def current_copies(world: World) -> list[Copy]:
    found = []
    for node in world.brokers:
        for path, name, folder in world.copies(node):
            parsed = names.parse_partition_dir(name)
            # Others may have folders of such names: only one with a log is a replica's.
            has_a_log = any(each.endswith(names.LOG_SUFFIX) for each in folder.names)
            if parsed.kind is DirKind.CURRENT and has_a_log:
                found.append(Copy(node.id, path, parsed.topic_partition, folder))
    return found


def batches_of(folder: Folder) -> list[Batch]:
    """Return what is in the segments of a replica."""
    found = []
    for name in sorted(each for each in folder.names if each.endswith(names.LOG_SUFFIX)):
        file = folder.names[name]
        assert isinstance(file, File)
        found += _batches_in(bytes(file.data))
    return found


@functools.cache
def _batches_in(data: bytes) -> list[Batch]:
    found = []
    for position, header in iterate_headers(data):
        try:
            values = tuple(r.value or b"" for r in iterate_records(data, position, header))
        except DecodeError:
            values = (b"damaged",)
        found.append(Batch(header, header.crc, values))
    return found


def unsettled(world: World) -> list[tuple[str, str, str]]:
    """Return what is not yet as it must be: checker, subject, sentence."""
    image = world.image
    found = [
        ("L1", node.name, f"it does not run: {node.ended}")
        for node in world.nodes.values()
        if not node.is_up
    ]
    found += [
        ("L1", node.name, "it is not unfenced")
        for node in world.brokers
        if not world.is_serving(node)
    ]
    if found:
        return found
    for partition, state in partitions_of(image):
        if partition not in world.tainted:
            found += _of_partition(text(partition), state)
    return found or [*_of_disks(world), *_of_brokers(world)]


def _of_partition(name: str, state: PartitionRegistration) -> Iterable[tuple[str, str, str]]:
    if state.leader < 0:
        yield "L2", name, f"it has no leader, its ISR is {state.isr}"
    elif set(state.isr) != set(state.replicas):
        yield "L2", name, f"its ISR is {state.isr}, its replicas {state.replicas}"
    if state.adding_replicas or state.removing_replicas:
        yield "L3", name, "it is still being reassigned"


def _of_disks(world: World) -> Iterable[tuple[str, str, str]]:
    """L3, L4 and S9: copies are where the metadata says, once, and nothing else is left."""
    image = world.image
    copies: dict[tuple[int, TopicPartition], list[Copy]] = defaultdict(list)
    for copy in current_copies(world):
        copies[copy.node, copy.partition].append(copy)
    for node in world.brokers:
        for path, name, _ in world.copies(node):
            if names.parse_partition_dir(name).kind in (DirKind.FUTURE, DirKind.DELETE):
                yield "L4", f"{path}", f"{name} is left"
    has_directories = image.features.metadata_version >= JBOD_LEVEL
    ids = {path: directory_id(world, path) for node in world.brokers for path in node.log_dirs}
    for partition, state in partitions_of(image):
        for broker, directory in zip(state.replicas, state.directories, strict=True):
            found = copies.pop((broker, partition), [])
            here = [ids[copy.directory] for copy in found]
            name = f"{text(partition)} on {broker}"
            if len(found) > 1:
                yield "S9", name, f"it is there {len(found)} times"
            elif has_directories and here != [directory] and partition not in world.tainted:
                yield "L3", name, f"it is in {here}, the metadata say {directory}"
    for broker, partition in copies:
        yield "L3", f"{text(partition)} on {broker}", "it belongs to nobody"


def _of_brokers(world: World) -> Iterable[tuple[str, str, str]]:
    for broker, partition in replica_states(world):
        if partition.topic_partition in world.tainted:
            continue
        if partition.log is None or partition.log.failed:
            yield "L3", f"{text(partition.topic_partition)} on {broker}", "it is not online"
        elif partition.log.end_offset != partition.log.written_end:
            yield "L3", f"{text(partition.topic_partition)} on {broker}", "it is still writing"


def lagging(world: World) -> list[str]:
    """Return the partitions whose replicas do not end at the same offset."""
    ends: dict[TopicPartition, set[int]] = defaultdict(set)
    for _, partition in replica_states(world):
        if partition.log is not None and partition.topic_partition not in world.tainted:
            ends[partition.topic_partition].add(partition.log.written_end)
    return [text(partition) for partition, found in sorted(ends.items()) if len(found) > 1]


def check_logs(world: World, accounts: Accounts) -> None:
    """S0, S3, S5, S6, D1: replicas are the same, and what was acknowledged is in them, once."""
    found: dict[TopicPartition, list[tuple[Copy, list[Batch]]]] = defaultdict(list)
    for copy in current_copies(world):
        found[copy.partition].append((copy, batches_of(copy.folder)))
    for partition, logs in sorted(found.items()):
        for copy, batches in logs:
            _check_one(world, copy, batches)
        first = {batch.header.base_offset: batch for batch in logs[0][1]}
        for copy, batches in logs[1:]:
            _check_same(world, partition, logs[0][0], first, copy, batches)
    _check_accounts(world, accounts, {p: logs[0][1] for p, logs in found.items()})


def _check_one(world: World, copy: Copy, batches: list[Batch]) -> None:
    name = f"{text(copy.partition)} on {copy.node}"
    end, epoch = 0, -1
    sequences: dict[tuple[int, int, int], int] = {}
    for batch in batches:
        header = batch.header
        if header.base_offset < end:
            world.report("S3", name, f"offset {header.base_offset} follows {end}")
        if header.partition_leader_epoch < epoch:
            world.report("S3", name, f"epoch {header.partition_leader_epoch} follows {epoch}")
        end, epoch = header.next_offset, header.partition_leader_epoch
        if header.producer_id >= 0:
            key = (header.producer_id, header.producer_epoch, header.base_sequence)
            if key in sequences and copy.partition not in world.tainted:
                world.report("S6", name, f"{key} is at {sequences[key]} and {header.base_offset}")
            sequences[key] = header.base_offset
        for value in batch.values:
            if copy.partition.topic != GROUP_METADATA_TOPIC and not is_whole(value):
                world.report("S3", name, f"the record at {header.base_offset} is damaged")


def _check_same(
    world: World,
    partition: TopicPartition,
    first: Copy,
    known: dict[int, Batch],
    copy: Copy,
    batches: list[Batch],
) -> None:
    if partition in world.tainted:
        return
    starts = {batch.header.base_offset for batch in batches}
    for batch in batches:
        other = known.get(batch.header.base_offset)
        if other is None or other.crc != batch.crc or other.header != batch.header:
            world.report(
                "S3",
                text(partition),
                f"{copy.node} and {first.node} differ at {batch.header.base_offset}",
            )
            return
    missing = sorted(set(known) - starts)
    if missing and missing[-1] > min(starts, default=0):
        world.report("S3", text(partition), f"{copy.node} lacks {missing[-1]} of {first.node}")


def _check_accounts(
    world: World, accounts: Accounts, logs: dict[TopicPartition, list[Batch]]
) -> None:
    places: dict[bytes, list[tuple[TopicPartition, int]]] = defaultdict(list)
    for partition, batches in logs.items():
        for batch in batches:
            for index, value in enumerate(batch.values):
                places[value].append((partition, batch.header.base_offset + index))
    for value, offset in accounts.acknowledged.items():
        partition, acks = accounts.sent[value]
        if acks != -1 or accounts.is_void(world, partition):
            continue
        there = [where for where in places.get(value, ()) if where[0] == partition]
        label = value[:24].decode()
        if not there:
            checker = "D1" if _is_single(world, partition) else "S0"
            world.report(checker, text(partition), f"{label} was acknowledged at {offset}, is lost")
        elif offset is not None and (partition, offset) not in there:
            world.report("S5", text(partition), f"{label} is at {there}, it was told {offset}")
    for value in accounts.once:
        partition, _ = accounts.sent[value]
        if accounts.is_void(world, partition):
            continue
        if len(places.get(value, ())) > 1:
            world.report("S6", text(partition), f"{value[:24]!r} is there {places[value]}")
    for partition, seen in accounts.read.items():
        if accounts.is_void(world, partition):
            continue
        for offset, value in seen.items():
            if (partition, offset) not in places.get(value, ()):
                world.report("S15", text(partition), f"{offset} was read, and is another now")


def _is_single(world: World, partition: TopicPartition) -> bool:
    topic = world.image.topics.by_name.get(partition.topic)
    return topic is not None and len(topic.partitions[partition.partition].replicas) == 1


def snapshot_of(world: World) -> dict[str, Any]:
    """Return what a restart must not change."""
    return {
        "logs": {
            (copy.node, str(copy.directory), text(copy.partition)): [
                (batch.header.base_offset, batch.crc) for batch in batches_of(copy.folder)
            ]
            for copy in current_copies(world)
            # Who coordinates may write at any time: that a member is gone.
            if copy.partition.topic != GROUP_METADATA_TOPIC
        },
        "topics": {
            partition: (state.replicas, state.directories)
            for partition, state in partitions_of(world.image)
        },
        "configs": world.image.configs,
        "features": world.image.features,
        "ids": {
            str(path): kafka_uuid.to_text(found) if (found := directory_id(world, path)) else ""
            for node in world.brokers
            for path in node.log_dirs
        },
    }


def check_same(world: World, before: dict[str, Any], after: dict[str, Any]) -> None:
    """L6: a restart changes nothing."""
    for key, value in before.items():
        one, other = value, after[key]
        if one == other:
            continue
        if isinstance(one, dict):
            part = min(each for each in one.keys() | other if one.get(each) != other.get(each))
            one, other = one.get(part), f"{str(other.get(part))[:200]} of {part}"
        world.report("L6", key, f"a restart changed {str(one)[:200]} to {str(other)[:200]}")


def badly_formatted(world: World) -> list[tuple[Node, Path]]:
    """Return the directories that have no id, or that of another one of their broker."""
    found = []
    for node in world.brokers:
        ids = [directory_id(world, path) for path in node.log_dirs]
        for number, path in enumerate(node.log_dirs):
            if ids[number] is None or ids[number] in ids[:number]:
                found.append((node, path))
    return found
