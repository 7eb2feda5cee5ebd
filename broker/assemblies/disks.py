"""The log directories with everything that looks after them."""

from __future__ import annotations

from collections.abc import Callable

from broker.bounds.limits import CLOSE_HANG_DEADLINE_S
from broker.compaction.log_cleaner import LogCleaner
from broker.compaction.settings import CleanerSettings
from broker.config import BrokerConfig
from broker.disk.condition import DegradedLogDirs
from broker.disk.directory import LogDir, LogsInUse
from broker.disk.life import (
    LoadingRules,
    LogDirRevival,
    OpenedLogDirs,
    RevivedReplicas,
    close_log_dirs,
)
from broker.disk.slowness import SlowSettings
from broker.disk.upkeep import (
    CheckpointWriter,
    ConditionMonitor,
    ConditionSettings,
    Cordon,
    DirectoryRemover,
    LogDirProbe,
    RetentionTask,
)
from jbodlab.config.key_table import Values
from jbodlab.runtime.environment import Environment
from jbodlab.vocabulary.ids import BrokerEpoch, DirectoryId


class Disks:
    """The directories of one broker; what of their upkeep concerns replicas comes with `watch`.

    Args:
        config: The broker's.
        opened: The directories, locked.
        environment: The clocks.
        on_degraded: Called when directories are full or slow, or no longer.
        on_cordoned: Called when other directories are cordoned.
    """

    def __init__(
        self,
        config: BrokerConfig,
        opened: OpenedLogDirs,
        *,
        environment: Environment,
        on_degraded: Callable[[DegradedLogDirs], None],
        on_cordoned: Callable[[tuple[DirectoryId, ...]], None],
    ) -> None:
        self._config = config
        self._environment = environment
        self._opened = opened
        self.log_dirs = opened.log_dirs
        self.cordon = Cordon(lambda: self.log_dirs.all, on_cordoned)
        self.remover = DirectoryRemover(self.log_dirs)
        self.conditions = ConditionMonitor(
            self.log_dirs,
            ConditionSettings(
                reserved_bytes=config.log_dir_reserved_bytes,
                slow=config.values.settings(SlowSettings, "log.dir.slow."),
            ),
            on_degraded=on_degraded,
            monotonic_s=environment.monotonic_s,
        )
        self.probe = LogDirProbe(
            self.log_dirs,
            interval_ms=config.jbodlab_log_dir_probe_interval_ms,
            deadline_ms=config.jbodlab_log_dir_probe_deadline_ms,
            looked=self.conditions.looked,
        )
        self.revival: LogDirRevival
        self.cleaner: LogCleaner

    def watch(
        self, logs: LogsInUse, replicas: RevivedReplicas, rules: Callable[[], LoadingRules]
    ) -> None:
        """Name what lies in the directories; the replicas are made with these, so they come later.

        Args:
            logs: The logs in use.
            replicas: Say which logs may come back with a directory.
            rules: Rules of the present metadata for logs that may be found.
        """
        config = self._config
        self.checkpoints = CheckpointWriter(
            self.log_dirs,
            logs,
            high_watermark_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
            recovery_point_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
            log_start_interval_ms=config.log_flush_start_offset_checkpoint_interval_ms,
            initial_delay_ms=config.log_initial_task_delay_ms,
        )
        self._retention = RetentionTask(
            self.log_dirs,
            logs,
            self.checkpoints.write_log_starts,
            check_interval_ms=config.log_retention_check_interval_ms,
            initial_delay_ms=config.log_initial_task_delay_ms,
            wall_ms=self._environment.wall_ms,
        )
        self.cleaner = LogCleaner(
            self.log_dirs,
            logs,
            self.checkpoints.write_cleaner_offsets,
            environment=self._environment,
            settings=CleanerSettings.of(config.values),
        )
        self.revival = LogDirRevival(
            self._opened,
            replicas,
            rules=rules,
            schedule_leftovers=lambda log_dir: self.remover.schedule_leftovers_in(
                log_dir, config.log_segment_delete_delay_ms
            ),
        )
        self._logs = logs

    async def look(self) -> None:
        """Learn how full the directories are, before anything is placed or appended there."""
        await self.conditions.first_look(self._config.jbodlab_log_dir_probe_deadline_ms)
        self.conditions.start()

    async def start(self) -> None:
        """Begin with the upkeep; the logs are loaded."""
        self.checkpoints.start()
        self._retention.start()
        self.cleaner.start()
        self.probe.start()
        await self.remover.schedule_leftovers(self._config.log_segment_delete_delay_ms)
        self.revival.start()

    async def stop_upkeep(self) -> None:
        """End the upkeep, before the logs are closed: none of it may meet a closed file."""
        # A directory that is not back by now comes back with the next start.
        await self.revival.stop()
        await self.cleaner.stop()
        await self.probe.stop()
        await self.conditions.stop()
        await self._retention.stop()
        await self.checkpoints.stop()
        self.remover.stop()

    async def stop(self, broker_epoch: BrokerEpoch) -> None:
        """Flush the logs, mark the directories as clean, and unlock them."""
        await close_log_dirs(self.log_dirs, self._logs, broker_epoch)
        await self._opened.release_locks(CLOSE_HANG_DEADLINE_S)
        self.log_dirs.stop()

    def use_settings(self, values: Values) -> None:
        """Put changed settings into force."""
        self.cleaner.use(CleanerSettings.of(values))

    def replica_moved(self, source: LogDir, target: LogDir) -> None:
        """Let the checkpoints follow a replica, where it is now first."""
        self.checkpoints.write_all(target)
        self.checkpoints.write_all(source)
