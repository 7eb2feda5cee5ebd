"""A log that a majority commits: what is told, when, and what a node keeps."""

from __future__ import annotations

import asyncio
import errno
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from controller.quorum.raft_files import RESERVE_FILE, LogDirFullError, RaftFiles
from controller.quorum.replicated_log import NotLeaderError
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import control_batch
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.quorum_state import read_quorum_state
from jbodlab.metadata.log.snapshot_writer import SnapshotWriter
from jbodlab.metadata.log.snapshots import snapshot_bytes, snapshot_name
from jbodlab.metadata.records.control_records import (
    KRaftVersionRecord,
    KRaftVotersRecord,
    LeaderChangeMessage,
)
from jbodlab.raft.batches import fetched_batches, quorum_records
from jbodlab.raft.instructions import ElectionState, WriteQuorumState
from jbodlab.raft.states import Follower, Leader
from jbodlab.raft.voters import ReplicaKey, VoterSet
from jbodlab.record_batch.record_batch import read_header
from jbodlab.storage.directory.disk_errors import OutOfRoomError
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.instructions import WriteAt
from jbodlab.vocabulary.errors import LogDirError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch
from tests.controller.quorum.nodes import (
    DEADLINE_S,
    TIMING,
    Network,
    Node,
    directory_of,
    quorum,
    voters,
)

VOTED = LeaderChangeMessage(leader_id=1, voters=(), granting_voters=())


async def told_alike(network: Network) -> None:
    """Wait until all nodes that run have told their listeners the same."""
    nodes = [each for each in network.nodes.values() if each.is_reached]
    longest = max((each.told for each in nodes), key=len)
    await network.until(lambda: all(each.told == longest for each in nodes))


async def test_an_append_is_committed_when_a_majority_has_it(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        one, other = [each for each in network.nodes.values() if each is not leader]
        other.is_cut = True

        committed = await leader.append()

        assert committed.end_offset == leader.log.high_watermark
        await network.until(lambda: one.log.high_watermark == committed.end_offset)
        other.is_cut = False
        await told_alike(network)


async def test_appends_that_wait_for_the_thread_are_one_write(tmp_path: Path) -> None:
    # A loss of power may leave the second of two writes without the first: no start takes that.
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        gate, writes = threading.Event(), []
        append = leader.files.append

        def counted(data: bytes) -> None:
            writes.append(data)
            append(data)

        leader.files.append = counted  # type: ignore[method-assign]
        leader.thread.call(gate.wait, lambda *_: None)
        appends = [leader.append() for _ in range(4)]
        gate.set()
        for each in appends:
            await each

        assert len(writes) == 2


async def test_an_append_that_no_majority_has_is_not_committed(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        for each in network.nodes.values():
            each.is_cut = True

        append = leader.append()

        # It resigns, as no majority hears it; its record may be committed later or not.
        with pytest.raises(NotLeaderError):
            await append
        assert not leader.is_leader
        assert leader.roles[-1][0] == "follower"


async def test_a_term_begins_when_listeners_know_everything_before_it(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        first = await network.leader()
        for _ in range(5):
            await first.append(3)
        told = list(first.told)
        await first.kill()

        second = await network.leader()

        assert second.told[: len(told)] == told
        assert second.log.core.state.epoch > read_header(told[-1][1]).partition_leader_epoch


async def test_a_node_that_starts_again_tells_from_its_disk_what_is_committed(
    tmp_path: Path,
) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        follower = next(each for each in network.nodes.values() if each is not leader)
        await leader.append(2)
        await told_alike(network)
        await follower.kill()
        await leader.append(2)

        follower.start()

        await told_alike(network)
        assert len(follower.told) >= 3


async def test_a_former_leader_cuts_what_was_not_committed(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        former = await network.leader()
        await former.append()
        former.is_cut = True
        lost = former.append(7)
        leader = await network.leader(but=former)
        with pytest.raises(NotLeaderError):
            await lost
        await leader.append()

        former.is_cut = False

        await told_alike(network)
        end = leader.log.core.end_offset
        await network.until(lambda: former.log.core.end_offset == end)
        assert former.files.end_offset == leader.files.end_offset


async def test_a_vote_outlives_the_process(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        epoch = leader.log.core.state.epoch
        for each in network.nodes.values():
            await each.kill()

        stored = [read_quorum_state(each.files.directory) for each in network.nodes.values()]

        assert [each.leader_epoch for each in stored if each] == [epoch] * 3
        assert {each.leader_id for each in stored if each} <= {leader.id, -1}
        for each in network.nodes.values():
            each.start()
        again = await network.leader()
        assert again.log.core.state.epoch > epoch


async def test_a_leader_that_leaves_hands_over_before_its_time_is_over(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        former = await network.leader()

        await former.log.leave()

        assert not former.is_leader
        await network.leader(but=former)


async def test_a_leader_that_leaves_answers_with_its_vote_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with quorum(tmp_path) as network:
        former = await network.leader()
        heir, other = [each for each in network.nodes.values() if each is not former]
        await told_alike(network)
        other.is_cut = True
        write = RaftFiles.write_state

        def slowly(files: RaftFiles, instruction: WriteQuorumState) -> None:
            if files._log is former.files:
                time.sleep(0.02)
            write(files, instruction)

        monkeypatch.setattr(RaftFiles, "write_state", slowly)

        await former.log.leave()
        await former.kill()

        # No other node could have given the vote that it needs.
        await network.until(lambda: isinstance(heir.log.core.state, Leader))


async def test_a_leader_whose_disk_fails_resigns_before_it_ends_and_waits_for_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.quorum.raft_log.HAND_OVER_S", 3_600.0)
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        epoch = leader.log.core.state.epoch
        others = [each for each in network.nodes.values() if each is not leader]
        await leader.append()
        await told_alike(network)

        def fail(data: bytes) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(leader.files, "append", fail)
        append = leader.append()
        append.add_done_callback(lambda _: append.exception())
        assert leader.running is not None
        with pytest.raises(LogDirError):
            await leader.running

        # They stand for election, or one was elected, without the end of a timer.
        states = [each.log.core.state for each in others]
        assert all(
            state.epoch > epoch or not isinstance(state, Follower) or state.is_resigned
            for state in states
        )
        async with asyncio.timeout(10):
            await leader.log.leave()
        await leader.kill()
        await network.leader(but=leader)


async def test_an_append_outside_of_the_epoch_is_refused(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        follower = next(each for each in network.nodes.values() if each is not leader)
        epoch = leader.log.core.state.epoch

        with pytest.raises(NotLeaderError):
            follower.append()
        with pytest.raises(NotLeaderError):
            leader.append(epoch=epoch - 1)


async def test_an_append_that_does_not_continue_the_log_ends_the_term(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        base = leader.log.core.end_offset
        await leader.append()

        with pytest.raises(NotLeaderError):
            await leader.append(base=base)

        await network.until(lambda: leader.roles[-1][0] == "follower")


async def test_a_follower_far_behind_gets_a_snapshot_and_then_the_log(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        behind = next(each for each in network.nodes.values() if each is not leader)
        await behind.kill()
        for _ in range(3):
            await leader.append()
        end = leader.log.high_watermark
        epoch = leader.log.core.state.epoch

        def snapshot() -> None:
            image = MetadataImage(offset=end - 1, epoch=epoch)
            writer = SnapshotWriter(leader.files.fs, leader.files.directory, image, created_ms=1)
            while writer.write_piece():
                pass
            writer.finish()
            leader.files.reset_to(end, epoch)

        # The log of the leader begins at the snapshot.
        await leader.thread.run(snapshot)
        leader.log.snapshots_changed()
        behind.start()

        await network.until(lambda: behind.snapshots)
        assert behind.snapshots[0].end_offset == end
        await leader.append()
        await network.until(lambda: behind.told and behind.told[-1] == leader.told[-1])
        assert behind.files.start_offset == end


async def test_a_leader_that_is_heard_is_confirmed(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        epoch = leader.log.core.state.epoch

        await asyncio.gather(*(leader.log.confirm(epoch) for _ in range(3)))

        assert leader.is_leader


async def test_a_leader_that_was_cut_off_is_not_confirmed(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        former = await network.leader()
        epoch = former.log.core.state.epoch
        former.is_cut = True

        confirmation = former.log.confirm(epoch)

        await network.leader(but=former)
        with pytest.raises(NotLeaderError):
            await confirmation
        with pytest.raises(NotLeaderError):
            former.log.confirm(epoch)


async def test_an_emptied_node_elects_nobody_and_counts_when_it_has_caught_up(
    tmp_path: Path,
) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        emptied, other = [each for each in network.nodes.values() if each is not leader]
        await other.kill()
        committed = await leader.append(3)
        await emptied.kill()
        await leader.kill()
        shutil.rmtree(emptied.directory)

        emptied.start()
        other.start()
        await asyncio.sleep(10 * TIMING.election_timeout_ms / 1000)

        assert not emptied.is_leader
        assert not other.is_leader
        assert read_quorum_state(emptied.files.directory) is None
        leader.start()
        again = await network.leader()
        assert again is leader
        await again.append()
        await told_alike(network)
        # A record behind the end of the log that it has seen makes it count.
        while not emptied.log.core.is_whole:
            await again.append()
            await asyncio.sleep(0.01)
        await network.until(lambda: emptied.log.high_watermark > committed.end_offset)
        await other.kill()
        await again.append()


def has_seen_the_end(node: Node) -> bool:
    state = node.log.core.state
    return isinstance(state, Follower) and (state.leader_end_offset >= 0 or node.log.core.is_whole)


def format_with_voters(directory: Path, first: VoterSet) -> None:
    """Write `0-0.checkpoint`, as formatting with the first voters does."""
    folder = directory / METADATA_DIR_NAME
    folder.mkdir(parents=True)
    data = snapshot_bytes(
        [], epoch=0, timestamp_ms=0, created_ms=1, quorum=quorum_records(first, 1)
    )
    (folder / snapshot_name(0, 0)).write_bytes(data)


async def test_the_first_voters_come_from_their_checkpoint_into_the_log(tmp_path: Path) -> None:
    first = voters(1, 2, 3, are_known=True)
    network = Network(tmp_path, 1, 2, 3, 4)
    # The property files name nobody, and the fourth has no checkpoint.
    network.voters = VoterSet()
    for number in (1, 2, 3):
        format_with_voters(tmp_path / str(number), first)
    network.start()
    try:
        leader = await network.leader()
        await leader.append()
        await told_alike(network)

        _, data = leader.told[0]
        (batch,), _ = fetched_batches(data)
        assert [type(record) for _, record in batch.controls] == [
            LeaderChangeMessage,
            KRaftVersionRecord,
            KRaftVotersRecord,
        ]
        observer = network.nodes[4]
        assert observer.told == leader.told
        assert all(each.log.core.voters == first for each in network.nodes.values())
        assert not observer.is_leader
        stored = read_quorum_state(leader.files.directory)
        assert stored is not None
        assert stored.data_version == 1
        # It had no log, as a voter that has lost its disk: it fetches by its name when a record is
        # committed behind an end of the log that it has seen.
        await network.until(lambda: has_seen_the_end(observer))
        await leader.append()
        await network.until(lambda: 4 in {each.node_id for each in leader.log.followers()})
        # A snapshot of the log has the voters.
        assert leader.log.records_at(leader.log.high_watermark)[1] == KRaftVotersRecord(
            voters=first.voters
        )
    finally:
        for node in network.nodes.values():
            await node.kill()


async def test_a_leader_commits_and_hands_over_while_its_disk_hangs(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        begun, hold = threading.Event(), threading.Event()
        sync = leader.files.flush

        def hang() -> None:
            begun.set()
            hold.wait(DEADLINE_S)
            sync()

        leader.files.flush = hang  # type: ignore[method-assign]
        try:
            committed = await leader.append()
            assert begun.is_set()
            assert committed.end_offset == leader.log.high_watermark
            # A later append does not even reach its file.
            await leader.append()
            successor = await network.leader(but=leader)
            assert not leader.is_leader
            await successor.append()
        finally:
            hold.set()
        await told_alike(network)


class FullDisk:
    """Refuses writes of a node's log as long as it is full."""

    def __init__(self, node: Node) -> None:
        self.is_full = True
        self.refused = 0
        self._files = node.files._files
        self._carry_out = self._files.carry_out
        self._files.carry_out = self.carry_out  # type: ignore[method-assign]

    def carry_out(self, instructions: Any) -> None:
        if self.is_full and any(isinstance(each, WriteAt) for each in instructions):
            self.refused += 1
            raise OutOfRoomError(OSError(errno.ENOSPC, "No space left on device"), 0)
        self._carry_out(instructions)


async def test_a_follower_whose_disk_is_full_pauses_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.quorum.driver.NO_ROOM_S", 0.01)
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        await leader.append()
        await told_alike(network)
        follower = next(each for each in network.nodes.values() if each is not leader)
        disk, before = FullDisk(follower), follower.log.high_watermark
        kept: list[None] = []
        monkeypatch.setattr(follower.log._files, "keep_reserve", lambda: kept.append(None))
        for _ in range(5):
            # Another one leads where this machine is slow.
            with suppress(NotLeaderError):
                await leader.append()
        await network.until(lambda: disk.refused > 3)

        assert follower.log.high_watermark == before
        known = follower.log.core.log
        assert known.synced_offset < known.end_offset
        disk.is_full = False
        await network.until(lambda: follower.log.high_watermark > before)
        await told_alike(network)
        await network.until(lambda: kept)


class FullFileSystem(PosixFileSystem):
    """A disk that has room for small files only where the room that was kept is gone."""

    def __init__(self, directory: Path) -> None:
        self.is_full = self.is_hopeless = False
        self.reserve = directory / RESERVE_FILE

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        if self.is_full and path == self.reserve:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write_bytes(path, data, sync=sync)

    def write_atomically(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        if self.is_hopeless or (self.is_full and self.reserve.exists()):
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write_atomically(path, data, sync=sync)


VOTE = WriteQuorumState(
    ElectionState(
        epoch=LeaderEpoch(5), leader_id=None, voted=ReplicaKey(BrokerId(2), directory_of(2))
    ),
    0,
    (BrokerId(1),),
)


def test_a_full_disk_has_room_for_a_vote(tmp_path: Path) -> None:
    disk = FullFileSystem(tmp_path)
    log = MetadataLog.open(tmp_path, fs=disk)
    files = RaftFiles(log, 4_096)
    files.keep_reserve()
    assert disk.reserve.stat().st_size == 4_096
    disk.is_full = True

    files.write_state(VOTE)

    stored = read_quorum_state(log.directory)
    assert stored is not None
    assert (stored.leader_epoch, stored.voted_id) == (5, 2)
    assert not disk.reserve.exists()
    # Nothing is left behind of a file that there was no room for.
    files.keep_reserve()
    assert not disk.reserve.exists()
    files.begin_epoch(LeaderEpoch(6))
    log.close()


def test_a_disk_without_any_room_for_a_vote_fails(tmp_path: Path) -> None:
    disk = FullFileSystem(tmp_path)
    log = MetadataLog.open(tmp_path, fs=disk)
    disk.is_full = disk.is_hopeless = True
    for reserve_bytes in (0, 4_096):
        files = RaftFiles(log, reserve_bytes)
        files.keep_reserve()
        with pytest.raises(LogDirError, match="No space left"):
            files.write_state(VOTE)
    log.close()


def test_an_append_never_gets_the_room_for_votes(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    files = RaftFiles(log, 4_096)
    files.keep_reserve()

    def no_room(_: object) -> None:
        raise OutOfRoomError(OSError(errno.ENOSPC, "No space left on device"), 0)

    log._files.carry_out = no_room  # type: ignore[method-assign]
    with pytest.raises(LogDirFullError):
        files.append(control_batch(VOTED, base_offset=0, epoch=1, timestamp_ms=1))
    assert (tmp_path / RESERVE_FILE).exists()


async def test_a_leader_whose_disk_is_full_ends(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        FullDisk(leader)
        # The two others have it, or the leader has ended before they asked.
        appending = asyncio.ensure_future(leader.append())
        assert leader.running is not None
        with pytest.raises(LogDirError, match="No space left"):
            await leader.running
        leader.running = None
        appending.cancel()
        await (await network.leader()).append()


async def test_a_candidate_whose_vote_takes_long_to_write_is_elected(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        former = await network.leader()
        others = [each for each in network.nodes.values() if each is not former]
        for node in others:
            write_a_candidate_slowly(node)

        await former.kill()

        await network.leader(but=former)


def write_a_candidate_slowly(node: Node) -> None:
    """Let the disk of a node take longer for its vote for itself than an election timer."""
    files = node.log._files
    write = files.write_state

    def slow(instruction: WriteQuorumState) -> None:
        voted = instruction.state.voted
        if voted is not None and voted.node_id == node.id and instruction.state.leader_id is None:
            time.sleep(3 * TIMING.election_timeout_ms / 1000)
        write(instruction)

    files.write_state = slow  # type: ignore[method-assign]
