"""The metadata as this broker knows it: stream -> image -> listener, and a copy of the log on disk.

The controller sends only committed batches, so each batch is applied when it arrives. Then it is
appended to the copy on disk, in order, on the metadata directory's thread. The copy spares the next
start the whole history. It need not be synced, because the controller sends lost batches again. So
the listener never waits for a disk. The copy does not grow for ever: this broker writes its own
snapshots and removes older batches. While its disk has no space the copy falls behind, and the
missing part is retried.

There are two phases. Until `begin_publishing` batches change only the image; then the listener gets
the whole image at once, and from then on every change. The controller decides when that begins: it
knows whether this broker has seen its own registration.

A copy that cannot be read is discarded and fetched again. A metadata directory that fails ends the
process, by `LogDirs`. So does a controller whose log differs from the copy: the records of this
broker were committed and on the controller's disk, so that disk was lost. If the broker followed
the new log, it would delete the replicas of all topics that this log does not have.

Source: `org.apache.kafka.image.loader.MetadataLoader`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from broker.bounds.limits import (
    REPLAYED_AT_ONCE_BYTES,
    SILENCE_S_MAX,
    SNAPSHOT_BYTES_MAX,
    UNWRITTEN_BYTES_MAX,
)
from broker.controller_link.channel import ControllerChannel
from broker.controller_link.metadata_copy import MetadataCopy
from jbodlab.controller_api.requests import (
    MetadataStreamRequest,
    MetadataStreamResponse,
    SnapshotPiece,
)
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.log.batches import MetadataBatch, read_batches
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.metadata.log.snapshotter import Snapshotter
from jbodlab.runtime.supervised import end_tasks
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.errors import (
    ControllerUnavailableError,
    CorruptRecordError,
    DecodeError,
    JbodlabError,
    KafkaError,
    LogDirError,
    ReplayError,
)
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset, TopicIdPartition

logger = logging.getLogger(__name__)

RECONNECT_DELAY_S = 0.05
RECONNECT_DELAY_S_MAX = 0.5

DEFAULT_SETTINGS = MetadataLogSettings()

NO_ROOM_S = 1.0
"""How long a copy whose disk has no room is left alone."""

T = TypeVar("T")


class MetadataLostError(JbodlabError):
    """The controller's log is not the one that this broker's metadata came from."""


class MetadataDir(Protocol):
    """The metadata directory and its thread; `broker.disk.directory.log_dir.LogDir` is one."""

    path: Path
    fs: FileSystem

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run `function` on the thread; `LogDirError` when the directory fails."""


class MetadataListener(Protocol):
    """A listener that acts on metadata."""

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change; `image` is the state after it. On the loop, without waiting."""


class MetadataFeed:
    """Follows the controller's metadata log.

    Args:
        channel: To the controller.
        metadata_dir: The directory with this broker's copy of the log.
        broker_id: Ours.
        cluster_id: Ours; a controller of another cluster sends nothing.
        listener: Gets every change after `begin_publishing`.
        settings: Of the copy on disk.
        monotonic_s: A clock that never goes back.
        wall_ms: Milliseconds since 1970.
        on_fatal: Called with one line when metadata cannot be followed any more.
        is_forgotten: Whether the controllers have lost the log that had this epoch.
    """

    def __init__(
        self,
        *,
        channel: ControllerChannel,
        metadata_dir: MetadataDir,
        broker_id: BrokerId,
        cluster_id: str,
        listener: MetadataListener,
        on_fatal: Callable[[str], None],
        monotonic_s: Callable[[], float],
        wall_ms: Callable[[], int],
        settings: MetadataLogSettings = DEFAULT_SETTINGS,
        is_forgotten: Callable[[int], Awaitable[bool]],
    ) -> None:
        self._channel = channel
        self._log_dir = metadata_dir
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._listener = listener
        self._on_fatal = on_fatal
        self._is_forgotten = is_forgotten
        self._settings = settings
        self._monotonic_s = monotonic_s
        self._wall_ms = wall_ms
        self._loader = MetadataLoader()
        self._former_image = EMPTY
        """The image that this broker had when it last ran; kept until the image is published."""
        self._copy: MetadataCopy | None = None
        self._snapshots: Snapshotter | None = None
        self.kraft_version = 0
        """The finalized level, as the active controller has said last."""
        self._leader_epoch = LeaderEpoch(-1)
        """The highest of a controller that has sent something."""
        self._last_epoch = LeaderEpoch(-1)
        self._last_crc: int | None = None
        self._unwritten: list[bytes] = []
        self._writing = 0
        """How many of these are on their way."""
        self._unwritten_bytes = 0
        self._retry: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._is_publishing = False
        self._replayed_bytes = 0
        self._snapshot: list[bytes] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def image(self) -> MetadataImage:
        """The metadata up to `applied_offset`."""
        return self._loader.image

    @property
    def applied_offset(self) -> int:
        """Last offset that the image contains; -1 before the first."""
        return self._loader.image.offset

    async def start(self) -> None:
        """Replay the copy on disk, then follow the controller.

        Raises:
            LogDirError: the metadata directory failed; `LogDirs` has reported it.
        """
        self._copy = await self._log_dir.run(
            partial(MetadataCopy, self._log_dir.path, self._log_dir.fs, self._settings),
        )
        await self._replay_copy()
        self._former_image = self.image
        self._snapshots = Snapshotter(
            settings=self._settings,
            fs=self._log_dir.fs,
            directory=self._copy.directory,
            image=self._whole_image,
            run=self._log_dir.run,
            clean=self._clean,
            monotonic_s=self._monotonic_s,
            wall_ms=self._wall_ms,
            appended_bytes=self._replayed_bytes,
        )
        self._tasks = [
            asyncio.create_task(self._follow(), name="metadata feed"),
            asyncio.create_task(self._snapshots.run(), name="metadata snapshots"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    def begin_publishing(self) -> None:
        """Give the listener the whole image as one change, and each later change as it comes."""
        assert not self._is_publishing
        self._is_publishing = True
        self._listener.metadata_changed(MetadataDelta.between(EMPTY, self.image), self.image)
        self._former_image = EMPTY
        self._write_on()

    def is_new(self, partition: TopicIdPartition) -> bool:
        """Return whether a partition came after this broker had last run.

        Known while the first image is published, and where the copy was there; else False.
        """
        former = self._former_image
        if former.offset < 0:
            return False
        return former.topics.partition(partition.topic_id, partition.partition) is None

    async def stop(self) -> None:
        """Stop following, and close the copy."""
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)
        if self._retry is not None:
            self._retry.cancel()
        if self._copy is not None:
            with contextlib.suppress(LogDirError, KafkaError):
                if self._unwritten and self._is_publishing:
                    await self._log_dir.run(partial(self._copy.append, b"".join(self._unwritten)))
                await self._log_dir.run(self._copy.close)

    async def _replay_copy(self) -> None:
        """Bring a fresh loader to the end of the copy; an unusable copy is dropped."""
        assert self._copy is not None
        copy = self._copy
        self._replayed_bytes = 0
        self._loader = MetadataLoader()
        self._last_epoch, self._last_crc = LeaderEpoch(-1), None
        try:
            snapshot = await self._log_dir.run(copy.latest_snapshot)
            if snapshot is not None:
                self._loader.load_snapshot(
                    snapshot.records, snapshot.end_offset, snapshot.epoch, snapshot.timestamp_ms
                )
                self._last_epoch = LeaderEpoch(snapshot.epoch)
                crc_before = partial(copy.crc_before, snapshot.end_offset)
                self._last_crc = await self._log_dir.run(crc_before)
            while batches := await self._log_dir.run(partial(copy.read, self._loader.next_offset)):
                self._replayed_bytes += sum(batch.size for batch in batches)
                await self._load(batches)
        except (DecodeError, CorruptRecordError, ReplayError, KafkaError) as error:
            logger.warning("discarding the copy of the metadata log: %s", error)
            self._loader = MetadataLoader()
            self._last_epoch, self._last_crc = LeaderEpoch(-1), None
            await self._log_dir.run(copy.drop)
        logger.info(
            "replayed metadata up to offset %d",
            self._loader.next_offset,
            extra={"replayed_bytes": self._replayed_bytes},
        )

    async def _follow(self) -> None:
        delay_s = RECONNECT_DELAY_S
        while True:
            before = self._loader.next_offset
            try:
                await self._read_stream()
            except (ControllerUnavailableError, DecodeError, TimeoutError) as error:
                level = logging.INFO if delay_s == RECONNECT_DELAY_S else logging.DEBUG
                logger.log(level, "metadata stream ended; reconnecting: %s", error)
            if self._loader.next_offset != before:
                delay_s = RECONNECT_DELAY_S
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, RECONNECT_DELAY_S_MAX)

    async def _read_stream(self) -> None:
        request = MetadataStreamRequest(
            broker_id=self._broker_id,
            cluster_id=self._cluster_id,
            fetch_offset=Offset(self._loader.next_offset),
            last_fetched_epoch=self._last_epoch,
            last_fetched_crc=self._last_crc,
        )
        self._snapshot.clear()
        async with contextlib.aclosing(self._channel.metadata_stream(request)) as stream:
            while True:
                async with asyncio.timeout(SILENCE_S_MAX):
                    response = await anext(stream, None)
                if response is None:
                    return
                await self._check_epoch(response)
                self.kraft_version = response.kraft_version
                if response.diverging_end_offset is not None:
                    raise self._lost(response.diverging_end_offset)
                if response.snapshot is not None and not await self._receive_snapshot(
                    response.snapshot
                ):
                    return
                if response.records:
                    await self._receive_records(response.records)

    async def _check_epoch(self, response: MetadataStreamResponse) -> None:
        """Take nothing from a controller that was replaced and does not know yet.

        Raises:
            ControllerUnavailableError: its epoch is lower than one that this broker knows.
        """
        epoch = response.leader_epoch
        if epoch is None:
            return
        newest = max(self._leader_epoch, self._last_epoch)
        # Where most do not know that epoch, what this one says shows that its log is another one.
        if epoch < newest and not await self._is_forgotten(newest):
            raise ControllerUnavailableError(
                f"controller {response.leader_id} leads in epoch {epoch}, another one in {newest}"
            )
        self._leader_epoch = epoch

    async def _receive_records(self, records: bytes) -> None:
        batches = list(read_batches(records))
        position = sum(
            batch.size for batch in batches if batch.last_offset < self._loader.next_offset
        )
        new = [batch for batch in batches if batch.last_offset >= self._loader.next_offset]
        if not new:
            return
        if new[0].base_offset != self._loader.next_offset:
            raise DecodeError(
                f"metadata stream: expected offset {self._loader.next_offset}, got "
                f"{new[0].base_offset}"
            )
        if new[0].epoch < self._last_epoch:
            raise self._lost(new[0].base_offset)
        await self._load(new)
        await self._store(records[position:], self._loader.next_offset)

    async def _load(self, batches: Iterable[MetadataBatch]) -> None:
        size = 0
        for batch in batches:
            delta = self._loader.load(batch)
            self._last_epoch, self._last_crc = LeaderEpoch(batch.epoch), batch.crc
            if delta is not None:
                self._publish(delta)
            size += batch.size
            if size >= REPLAYED_AT_ONCE_BYTES:
                size = 0
                await asyncio.sleep(0)

    def _publish(self, delta: MetadataDelta) -> None:
        if self._is_publishing:
            self._listener.metadata_changed(delta, self.image)

    async def _store(self, data: bytes, end_offset: int) -> None:
        """Queue an append; waits only while too much is queued already."""
        assert self._copy is not None
        assert self._snapshots is not None
        self._snapshots.appended(len(data))
        self._unwritten_bytes += len(data)
        self._unwritten.append(data)
        self._write_on()
        while self._unwritten_bytes > UNWRITTEN_BYTES_MAX:
            self._room.clear()
            await self._room.wait()

    def _write_on(self) -> None:
        """Write what waits, unless that goes on already.

        Before the first image is published nothing is, as long as there is room: what the copy has
        is what this broker has acted on, see `is_new`.
        """
        may_write = self._is_publishing or self._unwritten_bytes > UNWRITTEN_BYTES_MAX
        if self._unwritten and may_write and not self._writing and self._retry is None:
            self._write()

    def _write(self) -> None:
        """Send all that waits to the disk, behind what is there."""
        assert self._copy is not None
        self._retry = None
        self._writing = len(self._unwritten)
        data = b"".join(self._unwritten)
        future = self._log_dir.run(partial(self._copy.append, data))
        future.add_done_callback(self._written)

    def _written(self, future: asyncio.Future[bool]) -> None:
        count, self._writing = self._writing, 0
        error = None if future.cancelled() else future.exception()
        if error is None and not future.cancelled() and not future.result():
            logger.warning("no space left on the disk for the copy of the metadata log")
            self._retry = asyncio.get_running_loop().call_later(NO_ROOM_S, self._write)
            return
        self._unwritten_bytes -= sum(map(len, self._unwritten[:count]))
        del self._unwritten[:count]
        self._room.set()
        # `LogDirs` itself ends the process when the metadata directory fails.
        if error is not None and not isinstance(error, LogDirError):
            self._on_fatal(f"cannot write the copy of the metadata log: {error}")
        elif error is None:
            self._write_on()

    async def _receive_snapshot(self, piece: SnapshotPiece) -> bool:
        """Take a piece of a snapshot; returns False where the disk had no room for the whole."""
        assert self._copy is not None
        self._snapshot.append(piece.content)
        if sum(map(len, self._snapshot)) > SNAPSHOT_BYTES_MAX:
            raise DecodeError(f"metadata snapshot is larger than {SNAPSHOT_BYTES_MAX} bytes")
        if not piece.last:
            return True
        if piece.epoch < self._last_epoch:
            raise self._lost(piece.end_offset)
        data = b"".join(self._snapshot)
        self._snapshot.clear()
        self._give_up_snapshot()
        snapshot = await self._log_dir.run(
            partial(self._copy.replace_by_snapshot, data, piece.end_offset, piece.epoch),
        )
        if snapshot is None:
            logger.warning("no space left on the disk for a metadata snapshot")
            await asyncio.sleep(NO_ROOM_S)
            return False
        if not self._writing and self._retry is None:
            # All that waits is in the snapshot.
            self._unwritten.clear()
            self._unwritten_bytes = 0
        delta = self._loader.load_snapshot(
            snapshot.records, snapshot.end_offset, snapshot.epoch, snapshot.timestamp_ms
        )
        self._last_epoch, self._last_crc = piece.epoch, None
        logger.info("received a metadata snapshot up to offset %d", piece.end_offset)
        self._publish(delta)
        return True

    def _lost(self, offset: int) -> MetadataLostError:
        """Return the error for a controller whose log is not the one that was followed so far."""
        assert self._copy is not None
        return MetadataLostError(
            f"the controller has lost its metadata log: its log differs at offset {offset} from "
            "the "
            f"one that this broker applied up to offset {self.applied_offset}, whose last epoch is "
            f"{self._last_epoch}; the controller leads in epoch {self._leader_epoch}. Restore the "
            "controller's metadata directory. Or, to give up all topics that the controller no "
            "longer has, remove "
            f"{self._copy.directory} here"
        )

    def _whole_image(self) -> MetadataImage | None:
        """Return the image if a snapshot may be made of it: published, outside transactions."""
        is_whole = not self._loader.transaction_is_open and self.image.offset >= 0
        return self.image if is_whole and self._is_publishing else None

    def _give_up_snapshot(self) -> None:
        assert self._snapshots is not None
        self._snapshots.discard()

    async def _clean(self) -> None:
        assert self._copy is not None
        await self._log_dir.run(partial(self._copy.clean, self._wall_ms()))

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, MetadataLostError):
            self._on_fatal(str(error))
        elif error is not None and not isinstance(error, LogDirError):
            logger.error("cannot follow the metadata", exc_info=error)
            self._on_fatal(f"cannot follow the metadata: {error}")
