"""One round of compaction of one log: the event loop's part of it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from broker.compaction.choice import Candidate, damage_is_there
from broker.compaction.stats import RoundStats
from broker.disk.calls import fsync_or_fail, run_aside
from broker.disk.directory import LogDir, LogsInUse
from jbodlab.storage.compaction.compaction_plan import (
    CleanedGroup,
    CleanerDiedError,
    CleaningStoppedError,
    Compactor,
    Mapped,
    Rate,
    RateThrottle,
    RoundPlan,
)
from jbodlab.storage.compaction.compaction_round import remove_cleaned
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.log.segment_swap import prepare_swap
from jbodlab.vocabulary.errors import CorruptRecordError, JbodlabError, KafkaError

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Round:
    """See the module's text.

    Args:
        log_dir: Where the log lies.
        candidate: The log, and what of it is dirty.
        compactor: Does the work.
        in_use: The logs that are in use.
        write_checkpoint: Writes `cleaner-offset-checkpoint` of a directory.
        map_bytes: Memory for its keys.
        map_load_factor: Which part of it may be filled.
        rate: Of reading and writing; may change while the round is made.
    """

    def __init__(
        self,
        log_dir: LogDir,
        candidate: Candidate,
        compactor: Compactor,
        *,
        in_use: LogsInUse,
        write_checkpoint: Callable[[LogDir], Awaitable[None]],
        map_bytes: int,
        map_load_factor: float,
        rate: Rate,
    ) -> None:
        self.log = candidate.log
        self._dirty = candidate.dirty
        self._log_dir = log_dir
        self._compactor = compactor
        self._in_use = in_use
        self._write_checkpoint = write_checkpoint
        self._map_bytes = map_bytes
        self._map_load_factor = map_load_factor
        self.rate = rate
        self._files = self.log.files
        self._wall_ms = log_dir.environment.wall_ms
        # Not the upkeep's: who is about to cut the log waits until a round is over.
        self._fs, self._leave = log_dir.side_door()

    async def run(self) -> RoundStats | None:
        """Make the round; returns None if it was called off.

        Raises:
            OSError: the disk failed, or took no more.
            JbodlabError: the directory is offline, the log was removed, or who does the work died.
        """
        environment, log = self._log_dir.environment, self.log
        stop = environment.threads.flag()
        log.cleaning.begin(stop)
        throttle = RateThrottle(stop, self.rate, environment.monotonic_s)
        begun_s = environment.monotonic_s()
        try:
            # Closed segments may be on their way to the disk.
            await log.barrier()
            plan = self._plan()
            mapped = await self._aside(
                partial(self._compactor.begin, self._fs, plan, throttle, self.rate)
            )
            before = after = 0
            for number in range(mapped.groups):
                group = await self._aside(partial(self._compactor.clean, number))
                if not await self._put_in_place(group):
                    raise CleaningStoppedError("the log changed")
                before += sum(each.size for each in group.former)
                after += sum(each.bounds.size for each in group.cleaned)
            await self._is_clean(mapped)
        except CleaningStoppedError as error:
            await self._called_off(str(error))
            return None
        except CleanerDiedError as error:
            is_wanted = log.cleaning.is_wanted
            with contextlib.suppress(OSError, JbodlabError):
                await self._called_off(str(error))
            if is_wanted:
                raise
            return None
        except (OSError, KafkaError):
            # The space that it has taken may be what is missing.
            with contextlib.suppress(OSError, JbodlabError):
                await self._called_off("a write failed")
            raise
        except CorruptRecordError as error:
            if log.cleaning.is_wanted:
                base_offset = names.parse_offset(error.path.name)
                log.cleaning.mark_damaged(damage_is_there(log, base_offset))
                logger.error(
                    "a damaged log is not compacted until it is repaired: %s",
                    error,
                    extra=self._fields(),
                )
            await self._called_off(str(error))
            return None
        finally:
            stop.set()
            self._leave()
            log.cleaning.end()
        return self._over(mapped, before, after, environment.monotonic_s() - begun_s)

    def _over(self, mapped: Mapped, before: int, after: int, seconds: float) -> RoundStats:
        logger.info(
            "compacted %s up to offset %d: kept %d of %d bytes and %d keys in %.3f s",
            self.log.topic_partition,
            mapped.end,
            after,
            before,
            mapped.keys,
            seconds,
            extra=self._fields(),
        )
        return RoundStats(
            seconds=seconds,
            bytes_before=before,
            bytes_after=after,
            utilization=mapped.utilization,
            ended_ms=self._wall_ms(),
        )

    def _plan(self) -> RoundPlan:
        return RoundPlan.of(
            self.log.state,
            self._files.directory,
            self._dirty,
            now_ms=self._wall_ms(),
            # A replica that is not in sync may not have seen them, and would bring back what they
            # deleted when it leads.
            keeps_deletes=not self._in_use.all_in_sync(self.log.topic_partition),
            map_bytes=self._map_bytes,
            map_load_factor=self._map_load_factor,
        )

    async def _aside(self, work: Callable[[], T]) -> T:
        """Do one of the long calls on a thread of its own, unless the round was called off."""
        self._check()
        return await self._on_disk(work)

    async def _on_disk(self, work: Callable[[], T]) -> T:
        name = f"compact {self.log.topic_partition}"
        return await run_aside(work, name, self._log_dir.environment.threads)

    def _check(self) -> None:
        if not self.log.cleaning.is_wanted or not self._is_here():
            raise CleaningStoppedError("cancelled")

    def _is_here(self) -> bool:
        """Return whether the log is still in use, and where it was."""
        return self.log.files is self._files and any(
            each.log is self.log for each in self._in_use.logs_in(self._log_dir)
        )

    async def _put_in_place(self, group: CleanedGroup) -> bool:
        """Let a cleaned group take its place; returns False if the log is not what it was."""
        log, log_dir = self.log, self._log_dir
        if log.state.cleaned_to is None:
            # Offsets are about to be missing: a start must not take that for damage.
            log.state.will_lack_offsets(self._dirty.first_dirty)
            await self._write_checkpoint(log_dir)
        self._check()
        if log.is_held or log.is_blocked:
            return False
        log.hold()
        try:
            if not log.state.has_closed(group.former):
                return False
            bases = [each.bounds.base_offset for each in group.cleaned]
            folder = self._files.directory
            await self._on_disk(partial(_prepare, self._fs, folder, bases))
            if not self._is_here():
                # The next opening of these files completes the swap.
                raise CleaningStoppedError("the log is no longer in use")
            replaced = log.replace(group.former, group.cleaned, self._wall_ms())
        finally:
            log.release()
        await replaced
        await self._on_disk(partial(self._fs.fsync_dir, self._files.directory))
        return True

    async def _is_clean(self, mapped: Mapped) -> None:
        """Note up to where the log is clean now."""
        self._check()
        self.log.state.compacted(mapped.end)
        await self._write_checkpoint(self._log_dir)

    async def _called_off(self, reason: str) -> None:
        logger.info("compaction stopped: %s", reason, extra=self._fields())
        if self._log_dir.is_online and self._is_here():
            folder = self._files.directory
            await self._on_disk(partial(remove_cleaned, self._fs, folder))

    def _fields(self) -> dict[str, object]:
        return {
            "topic": self.log.topic_partition.topic,
            "partition": self.log.topic_partition.partition,
            **self._log_dir.log_fields(),
        }


def _prepare(fs: FileSystem, folder: Path, cleaned: Sequence[int]) -> None:
    prepare_swap(fs, folder, cleaned)
    fsync_or_fail(partial(fs.fsync_dir, folder))
