"""A broker that moves a replica while a producer writes to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.moves.move import Move
from broker.moves.move_states import MoveState
from broker.moves.moves import RunningMoves
from broker.replica.partition.partition import Partition
from jbodlab.config.topic_keys import SEGMENT_BYTES
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.names import parse_partition_dir
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.logs import read_direct
from tests.broker.replicas import TP, batch, until
from tests.broker.stage import Stage

PRODUCER, OTHER_PRODUCER = 7, 8
PER_BATCH = 3


class Moving(Stage):
    """A broker whose replica of one partition leads, and a producer that counts."""

    def __init__(self, root: Path, fs: FileSystem | None = None, **properties: str) -> None:
        super().__init__(root, dir_count=3, fs=fs, **properties)
        self.sent = 0
        self.beside = 0
        """Batches of another producer."""
        self._producing: asyncio.Task[None] | None = None
        self._is_over = False

    @property
    def mover(self) -> RunningMoves:
        return self.host.manager.moves

    @property
    def asked(self) -> list[int]:
        """Numbers of the directories that were asked for since the last look."""
        numbers = [
            self.host.directories.index(directory)
            for _, _, directory in self.host.assignments.assigned
        ]
        self.host.assignments.assigned.clear()
        return numbers

    async def lead(self, *, batches: int = 60, accepts: bool = False) -> Partition:
        """Make the replica and fill it; `accepts`: the controller then answers at once."""
        partition = await self.begin(**{SEGMENT_BYTES: "4000"})
        for _ in range(batches):
            await self.produce()
        self.host.assignments.accepts |= accepts
        return partition

    async def produce(self) -> None:
        records = batch(
            PER_BATCH, producer_id=PRODUCER, sequence=PER_BATCH * self.sent, value=b"x" * 100
        )
        result = await self.host.produced(records)
        assert result.error_code is ErrorCode.NONE, result
        self.sent += 1

    def produce_beside(self) -> None:
        """Have another producer append a batch, and do not wait for its answer."""
        sequence = PER_BATCH * self.beside
        self.host.produce(batch(PER_BATCH, producer_id=OTHER_PRODUCER, sequence=sequence))
        self.beside += 1

    def produce_all_the_while(self) -> None:
        async def body() -> None:
            while not self._is_over:
                await self.produce()
                await asyncio.sleep(0.001)

        self._producing = asyncio.create_task(body())

    async def finish_producing(self) -> None:
        self._is_over = True
        assert self._producing is not None
        await self._producing

    async def produce_until_refused(self) -> None:
        """Raise the error of an append that fails."""
        assert self._producing is not None
        await self._producing

    def alter(self, number: int) -> ErrorCode:
        path = str(self.host.dirs[number].path)
        return self.host.manager.move_requests.alter(TP, path)

    def move(self) -> Move:
        found = self.mover.move_of(TP)
        assert found is not None
        return found

    async def in_state(self, state: MoveState) -> Move:
        """Wait for a state in which the move stays until something is done."""
        move = self.move()
        self.host.assignments.accepts = False
        await until(lambda: move.state is state and move.future is not None)
        return move

    def accept(self) -> None:
        """Let the controller answer all that wanted to know."""
        for callback in self.host.assignments.callbacks:
            callback()

    async def stays(self, state: MoveState) -> Move:
        """Move to directory 1 as far as this state."""
        if state is MoveState.COPYING:
            self.mover.set_rate(1_000)
        self.alter(1)
        return await self.in_state(state)

    async def queued(self, number: int) -> Move:
        """Ask for a move, and wait until the controller is to hear of it."""
        assert self.alter(number) is ErrorCode.NONE
        return await self.in_state(MoveState.ASSIGNMENT_QUEUED)

    async def moved(self, number: int) -> None:
        """Move the replica."""
        assert self.alter(number) is ErrorCode.NONE
        await self.over()

    async def accepted(self) -> None:
        """Let the controller accept the target, and the move end."""
        self.accept()
        await self.over()

    async def over(self) -> None:
        await until(lambda: self.mover.move_of(TP) is None)

    def names(self, number: int) -> list[str]:
        """Kinds of the folders of a directory: `current`, `future`, `delete`, and so on."""
        found = []
        for path in filter(Path.is_dir, self.host.dirs[number].path.iterdir()):
            assert parse_partition_dir(path.name).may_be_of(TP)
            found.append(path.name.rpartition("-")[2] if "." in path.name else "current")
        return sorted(found)

    def check(self) -> None:
        """Everything that was acknowledged is there once, and the producer is known."""
        log = self.log
        count = PER_BATCH * (self.sent + self.beside)
        assert log.end_offset == log.written_end == count
        offset = log.start_offset
        while offset < log.end_offset:
            for _, header in iterate_headers(read_direct(log, offset)):
                assert header.base_offset == offset
                offset = header.next_offset
        entry = log.producers.entry(PRODUCER)
        assert entry is not None
        assert entry.last_sequence == PER_BATCH * self.sent - 1


@pytest.fixture
def disk() -> FileSystem | None:
    """The disk of all directories; a module may have another."""
    return None


@pytest.fixture
async def moving(
    tmp_path: Path, disk: FileSystem | None, request: pytest.FixtureRequest
) -> AsyncIterator[Moving]:
    """A broker with three directories; a parameter is its properties."""
    async with Moving(tmp_path, disk, **getattr(request, "param", {})) as made:
        yield made
