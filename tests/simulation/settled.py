"""Checkers of a cluster to which nothing happens any more.

Metadata, disks and the answers of brokers must come to agree within a bound, all replicas must be
the same, and a restart must change nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from broker.replica.replica_state import DataLoss
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.metadata_version import JBOD_LEVEL
from jbodlab.storage.directory import names
from jbodlab.storage.directory.names import DirKind
from jbodlab.storage.log.transactions import AbortedTransaction, decode_aborted
from jbodlab.vocabulary.ids import TopicPartition
from tests.simulation.clients import BROKER, Stored, stored_in
from tests.simulation.disk import File, Folder
from tests.simulation.faults import CORDONED
from tests.simulation.taps import (
    is_reassigned,
    manager_on,
    replica_of,
    replica_states,
    sender_of,
)
from tests.simulation.transactions import (
    Transactions,
    check_aborted,
    check_markers,
    is_damaged,
    is_data,
)
from tests.simulation.world import Node, World, directory_id, partitions_of

Wrong = tuple[str, object, str]
"""Checker, subject and sentence of what is not as it must be."""
COMPACTED = "logged: compacted "


class Copy(NamedTuple):
    """A replica on a disk; or what waits to be one, or to be removed."""

    node: int
    directory: Path
    name: str
    parsed: names.ParsedDir
    folder: Folder

    @property
    def partition(self) -> TopicPartition:
        return self.parsed.topic_partition

    @property
    def is_current(self) -> bool:
        """Others may have folders of such names: only one with a log is a replica's."""
        return bool(self.segments) and self.parsed.kind is DirKind.CURRENT

    @property
    def segments(self) -> list[bytes]:
        found = sorted(self.folder.names.items())
        files = (file for name, file in found if name.endswith(names.LOG_SUFFIX))
        return [bytes(file.data) for file in files if isinstance(file, File)]

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """Transactions that its indexes of aborted transactions have."""
        files = ((n, f) for n, f in sorted(self.folder.names.items()) if isinstance(f, File))
        found = (
            decode_aborted(Path(name), bytes(file.data))
            for name, file in files
            if name.endswith(names.TXN_INDEX_SUFFIX)
        )
        return [entry for entries in found for entry in entries]

    @property
    def batches(self) -> list[Stored]:
        return [batch for segment in self.segments for batch in stored_in(segment)]


def copies(world: World) -> Iterator[Copy]:
    """Yield every partition folder on the brokers' disks."""
    for node in world.brokers:
        for path in node.log_dirs:
            for name, folder in sorted(world.disks[path].medium.root.names.items()):
                try:
                    parsed = names.parse_partition_dir(name)
                except ValueError:
                    continue
                if isinstance(folder, Folder) and name != names.METADATA_DIR_NAME:
                    yield Copy(node.id, path, name, parsed, folder)


def check_led(world: World) -> None:
    """RL1: controllers that can talk have one that is active."""
    # A disk that hung may end its process, which is started again.
    is_late = any(disk.is_late for disk in world.disks.values())
    if not is_late and not any(map(world.quorum.is_active, world.controllers)):
        world.report("RL1", "controllers", "nobody is active")


def _of_controllers(world: World) -> Iterable[Wrong]:
    """RL2, RL5: one controller is active, all vote again, and all have what is committed."""
    active = [node.id for node in world.controllers if world.quorum.is_active(node)]
    if len(active) != 1:
        yield "RL2", "controllers", f"{active} are active"
    for node in world.controllers:
        voters = world.quorum.core(node).log.voters.last.ids if node.id in active else ()
        if voters and len(voters) < len(world.controllers):
            yield "RL5", node.name, f"its voters are {voters}"
        if not world.quorum.has_all(node):
            yield "RL2", node.name, f"it lacks what is committed: {world.quorum.core(node)}"


def unsettled(world: World) -> list[Wrong]:
    """Return what is not yet as it must be."""
    nodes = world.nodes.values()
    return (
        [("L1", node.name, f"it does not run: {node.ended}") for node in nodes if not node.is_up]
        or [("L1", each.path, "a call is late") for each in world.disks.values() if each.is_late]
        or [("L1", node.name, "it is still stopping") for node in nodes if node.stop_was_asked]
        or [
            ("L1", node.name, "it is fenced")
            for node in world.brokers
            if not world.is_serving(node)
        ]
        or (world.has_quorum and [*_of_controllers(world)])
        or [wrong for found in partitions_of(world.image) for wrong in _of_partition(world, *found)]
        or [*_of_disks(world), *_of_brokers(world), *_of_segments(world)]
    )


def cordoned(world: World) -> list[Node]:
    """Return the brokers of which directories take no new replicas."""
    resources = world.image.configs.resources
    return [n for n in world.brokers if CORDONED in resources.get((BROKER, str(n.id)), ())]


def _of_partition(
    world: World, partition: TopicPartition, state: PartitionRegistration
) -> Iterable[Wrong]:
    if partition in world.tainted:
        return
    if state.leader < 0:
        yield "L2", partition, f"it has no leader, its ISR is {state.isr}"
    elif set(state.isr) != set(state.replicas):
        yield "L2", partition, f"its ISR is {state.isr}, its replicas {state.replicas}"
    if is_reassigned(state):
        yield "L3", partition, "it is still being reassigned"


def _of_disks(world: World) -> Iterable[Wrong]:
    """L3, L4 and S9: copies are where the metadata says, once, and nothing else is left."""
    image = world.image
    current: dict[tuple[int, TopicPartition], list[Copy]] = defaultdict(list)
    for copy in copies(world):
        if copy.is_current:
            current[copy.node, copy.partition].append(copy)
        elif copy.parsed.kind in (DirKind.FUTURE, DirKind.DELETE):
            yield "L4", copy.directory, f"{copy.name} is left"
    has_directories = image.features.metadata_version >= JBOD_LEVEL
    ids = {path: directory_id(world, path) for node in world.brokers for path in node.log_dirs}
    for partition, state in partitions_of(image):
        for broker, directory in zip(state.replicas, state.directories, strict=True):
            found = current.pop((broker, partition), [])
            here = [ids[copy.directory] for copy in found]
            name = f"{partition} on {broker}"
            if len(found) > 1:
                yield "S9", name, f"it is there {len(found)} times"
            elif has_directories and here != [directory] and partition not in world.tainted:
                yield "L3", name, f"it is in {here}, the metadata say {directory}"
    for broker, partition in current:
        yield "L3", f"{partition} on {broker}", "it belongs to nobody"


def _of_brokers(world: World) -> Iterable[Wrong]:
    for node in cordoned(world):
        yield "L4", node.name, "its directories are still cordoned"
    for node in world.brokers:
        moves = None if (manager := manager_on(node)) is None else manager.moves
        for move in () if moves is None else moves.moves():
            yield "L4", node.name, f"{move.topic_partition} moves"
        if moves is not None and (count := sender_of(moves).pending_count):
            yield "L3", node.name, f"it still tells where {count} replicas are"
    for broker, replica in replica_states(world):
        name = f"{replica.topic_partition} on {broker}"
        if replica.topic_partition in world.tainted:
            continue
        if replica.log is None or replica.log.failed:
            yield "L3", name, "it is not online"
        elif replica.log.end_offset != replica.log.written_end:
            yield "L3", name, "it is still writing"
        elif replica.log.start_offset > world.trimmed[replica.topic_partition]:
            yield "S0", name, f"it begins at {replica.log.start_offset} only"


def _of_segments(world: World) -> Iterable[Wrong]:
    """L3: the files of a replica are those of the segments that its log has."""
    logs = {
        (broker, each.topic_partition): each.log
        for broker, each in replica_states(world)
        if each.log is not None and each.topic_partition not in world.tainted
    }
    for copy in copies(world):
        log = logs.get((copy.node, copy.partition))
        if log is None or not copy.is_current:
            continue
        files = [n for n in sorted(copy.folder.names) if n.endswith(names.LOG_SUFFIX)]
        segments = [names.log_file(base) for base in log.state.segments.base_offsets]
        if files != segments:
            name = f"{copy.partition} on {copy.node}"
            yield "L3", name, f"it has {files}, its log has {segments}"


def lagging(world: World) -> list[TopicPartition]:
    """Return the partitions whose replicas do not end at the same offset."""
    ends: dict[TopicPartition, set[int]] = defaultdict(set)
    for _, partition in replica_states(world):
        if partition.log is not None and partition.topic_partition not in world.tainted:
            ends[partition.topic_partition].add(partition.log.written_end)
    return sorted(partition for partition, found in ends.items() if len(found) > 1)


def check_logs(world: World, ledger: Transactions) -> None:
    """S0, S3, S5, S6, D1: replicas are the same, and what was acknowledged is in them, once.

    And I12, I13 of transactions.
    """
    found: dict[TopicPartition, list[Copy]] = defaultdict(list)
    for copy in copies(world):
        if copy.is_current:
            found[copy.partition].append(copy)
    for _, logs in sorted(found.items()):
        for log in logs:
            _check_one(world, log)
            if is_data(log.partition) and not world.is_void(log.partition):
                name = f"{log.partition} on {log.node}"
                check_markers(world, ledger, name, log.batches)
                check_aborted(world, name, log.batches, log.aborted)
        for log in logs[1:]:
            _check_same(world, logs[0], log)
    _check_accounts(world, {p: logs[0].batches for p, logs in found.items()})


def _check_one(world: World, copy: Copy) -> None:
    name = f"{copy.partition} on {copy.node}"
    end, epoch = 0, -1
    sequences: dict[tuple[int, int, int], int] = {}
    following: dict[tuple[int, int], int] = {}
    known: dict[int, tuple[int, int | None]] = {}
    for batch in copy.batches:
        header = batch.header
        if header.base_offset < end:
            world.report("S3", name, f"offset {header.base_offset} follows {end}")
        if header.partition_leader_epoch < epoch:
            world.report("S3", name, f"epoch {header.partition_leader_epoch} follows {epoch}")
        end, epoch = header.next_offset, header.partition_leader_epoch
        if batch.marker is not None:
            # A producer keeps the sequence of its own epoch, if it has one.
            former, last = known.get(header.producer_id, (-1, -1))
            if former != header.producer_epoch:
                # Records before the log's start may have had one.
                last = None if copy.batches[0].header.base_offset else -1
            known[header.producer_id] = (header.producer_epoch, last)
        elif header.producer_id >= 0 and header.base_sequence >= 0:
            # Coordinators of groups, which write for producers, do not number what they write.
            key = (header.producer_id, header.producer_epoch, header.base_sequence)
            if key in sequences and copy.partition not in world.tainted:
                world.report("S6", name, f"{key} is at {sequences[key]} and {header.base_offset}")
            sequences[key] = header.base_offset
            expected = following.get(key[:2], header.base_sequence)
            if header.base_sequence != expected and copy.partition not in world.tainted:
                world.report("S6", name, f"{key} follows, {expected} should")
            following[key[:2]] = header.last_sequence + 1
            known[header.producer_id] = (header.producer_epoch, header.last_sequence)
        if is_data(copy.partition) and is_damaged(batch):
            world.report("S3", name, f"the record at {header.base_offset} is damaged")
    replica = replica_of(world, copy.node, copy.partition)
    if replica is None or replica.log is None or copy.partition in world.tainted:
        return
    log, begin = replica.log, max(world.trimmed[copy.partition], replica.log.start_offset)
    is_compacted = "compact" in log.config.cleanup_policy
    for header in () if is_compacted else (batch.header for batch in copy.batches):
        its, known_as = header.partition_leader_epoch, log.epochs.epoch_for(header.base_offset)
        if header.base_offset >= begin and its != known_as:
            world.report("S3", name, f"{header.base_offset} of {its} counts for {known_as}")
    # Of what was compacted only the log's own state knows all.
    for producer, written in () if is_compacted else known.items():
        entry = replica.log.producers.entry(producer)
        newest = None if entry is None else (entry.epoch, entry.last_sequence)
        is_known = newest == written or (written[1] is None and newest and newest[0] == written[0])
        if not is_known:
            world.report("S6", name, f"{producer} is known by {newest}, not {written}")


def _check_same(world: World, first: Copy, copy: Copy) -> None:
    partition = copy.partition
    # Also where nothing is set for it: segments of an internal topic may have been made short.
    was_compacted = world.options.is_compacted or any(
        each.startswith(COMPACTED) for each in world.seen
    )
    if partition in world.tainted or (was_compacted and not is_data(partition)):
        return
    known = {batch.header.base_offset: batch for batch in first.batches}
    starts = {batch.header.base_offset for batch in copy.batches}
    for batch in copy.batches:
        offset = batch.header.base_offset
        if offset not in known and offset < world.trimmed[partition]:
            continue  # deleted, and gone with its segment; here that has not ended yet
        if offset not in known or known[offset].header != batch.header:
            world.report("S3", partition, f"{copy.node} and {first.node} differ at {offset}")
            return
    missing = sorted(each for each in set(known) - starts if each >= world.trimmed[partition])
    if missing and missing[-1] > min(starts, default=0):
        world.report("S3", partition, f"{copy.node} lacks {missing[-1]} of {first.node}")


def _check_accounts(world: World, logs: dict[TopicPartition, list[Stored]]) -> None:
    places: dict[bytes, list[tuple[TopicPartition, int]]] = defaultdict(list)
    for partition, batches in logs.items():
        for batch in batches:
            for index, value in enumerate(batch.values):
                places[value].append((partition, batch.header.base_offset + index))
    for value, offset in world.acknowledged.items():
        partition, acks = world.sent[value]
        if acks != -1 or world.is_void(partition):
            continue
        there = [where for where in places.get(value, ()) if where[0] == partition]
        if not there and (offset is None or offset < world.trimmed[partition]):
            continue
        label = value[:24].decode()
        if not there:
            _, state = world.find(partition)
            checker = "D1" if state is not None and len(state.replicas) == 1 else "S0"
            world.report(checker, partition, f"{label} was acknowledged at {offset}, is lost")
        elif offset is not None and (partition, offset) not in there:
            world.report("S5", partition, f"{label} is at {there}, it was told {offset}")
    for value in world.once:
        partition, _ = world.sent[value]
        if not world.is_void(partition) and len(places.get(value, ())) > 1:
            world.report("S6", partition, f"{value[:24]!r} is there {places[value]}")
    for partition, seen in world.read.items():
        for offset, value in () if world.is_void(partition) else seen.items():
            is_kept = offset >= world.trimmed[partition]
            if is_kept and (partition, offset) not in places.get(value, ()):
                world.report("S15", partition, f"{offset} was read, and is another now")


def snapshot_of(world: World) -> dict[str, Any]:
    """Return what a restart must not change."""
    return {
        "logs": {
            (copy.node, str(copy.directory), copy.partition): [
                (batch.header.base_offset, batch.header.crc, batch.marker is not None)
                for batch in copy.batches
                if batch.header.base_offset >= world.trimmed[copy.partition]
            ]
            for copy in copies(world)
            # A coordinator may write at any time: that a member is gone.
            if copy.is_current and is_data(copy.partition)
            if copy.partition not in world.tainted
        },
        "topics": {
            partition: (state.replicas, state.directories)
            for partition, state in partitions_of(world.image)
            if partition not in world.tainted
        },
        "configs": world.image.configs,
        "features": world.image.features,
        "ids": {
            path: directory_id(world, path) for node in world.brokers for path in node.log_dirs
        },
    }


def _without_new_markers(
    before: list[tuple[int, int, bool]], after: list[tuple[int, int, bool]]
) -> list[tuple[int, int, bool]]:
    end = len(after)
    while end > len(before) and after[end - 1][2]:
        end -= 1
    return after[:end]


def check_same(world: World, before: dict[str, Any], after: dict[str, Any]) -> None:
    """L6: a restart changes nothing."""
    for key, value in before.items():
        one, other = value, after[key]
        if key == "logs":
            # Where records of a coordinator were deleted, a transaction may end meanwhile.
            other = {part: _without_new_markers(one.get(part, []), other[part]) for part in other}
        if one == other:
            continue
        if isinstance(one, dict):
            part = min(each for each in one.keys() | other if one.get(each) != other.get(each))
            one, other = one.get(part), f"{str(other.get(part))[:200]} of {part}"
        world.report("L6", key, f"a restart changed {str(one)[:200]} to {str(other)[:200]}")


def lost_before_written(world: World) -> Iterator[TopicPartition]:
    """Yield partitions without a leader that nothing was acknowledged for, to elect by hand.

    The last in sync has lost its log, for all it knows: so it does not lead by itself. It may have
    been down, and not fenced yet, since the partition was made.
    """
    written = {world.sent[value][0] for value in world.acknowledged}
    # One that was made again under its name was written before.
    written &= {each.partition for each in copies(world) if each.is_current and any(each.segments)}
    for partition, state in partitions_of(world.image):
        # With eligible leader replicas no ISR is left: the last leader is known.
        last = state.isr or state.last_known_elr
        replicas = [replica_of(world, node, partition) for node in last]
        is_lost = any(each and each.data_loss is DataLoss.REPORTED for each in replicas)
        if state.leader < 0 and partition not in written and is_lost:
            yield partition


def badly_formatted(world: World) -> Iterator[tuple[Node, Path]]:
    """Yield the directories that have no id, or that of another one of their broker."""
    for node in world.brokers:
        ids = [directory_id(world, path) for path in node.log_dirs]
        for number, path in enumerate(node.log_dirs):
            if ids[number] is None or ids[number] in ids[:number]:
                yield node, path
