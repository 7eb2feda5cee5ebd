"""Which directories of this broker are cordoned: `cordoned.log.dirs`, applied (KIP-1066).

A cordoned directory gets no new replicas, whoever chooses the directory. Its existing replicas stay
in use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from broker.disk.directory import LogDir
from jbodlab.config.dynamic_keys import ALL_LOG_DIRS, CORDONED_LOG_DIRS, words
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.ids import DirectoryId

logger = logging.getLogger(__name__)


def check_paths(named: Iterable[str], value: str, paths: Iterable[str]) -> None:
    """Check that directories to cordon are directories of this broker.

    Raises:
        ConfigError: one is not.
    """
    known = {*paths, ALL_LOG_DIRS}
    unknown = [word for word in named if word not in known]
    if unknown:
        raise ConfigError(
            CORDONED_LOG_DIRS,
            value,
            f"not in log.dirs or log.dir: {', '.join(unknown)}",
        )


class Cordon:
    """Marks directories as cordoned; also hears of directories that return.

    Args:
        log_dirs: The directories of `log.dirs`, offline ones included.
        on_change: Called with the ids of all that are cordoned, when these are other ones.
    """

    def __init__(
        self,
        log_dirs: Callable[[], Sequence[LogDir]],
        on_change: Callable[[tuple[DirectoryId, ...]], None],
    ) -> None:
        self.ids: tuple[DirectoryId, ...] | None = None
        """Those whose id is known; None before the setting was applied first."""
        self._log_dirs = log_dirs
        self._on_change = on_change
        self._value = ""

    def apply(self, value: str) -> bool:
        """Put a value of the setting into force.

        Returns:
            Whether a directory is open now that was cordoned.
        """
        self._value = value
        named = words(value)
        is_opened = False
        log_dirs = self._log_dirs()
        for log_dir in log_dirs:
            is_cordoned = ALL_LOG_DIRS in named or str(log_dir.path) in named
            if is_cordoned != log_dir.is_cordoned:
                log_dir.is_cordoned = is_cordoned
                is_opened = is_opened or not is_cordoned
                logger.info(
                    "log directory %s %s",
                    log_dir.path,
                    "was cordoned" if is_cordoned else "was uncordoned",
                    extra=log_dir.log_fields(),
                )
        unknown = set(named) - {ALL_LOG_DIRS, *(str(log_dir.path) for log_dir in log_dirs)}
        if unknown:
            logger.warning(
                "%s names directories that this broker does not have: %s",
                CORDONED_LOG_DIRS,
                ", ".join(sorted(unknown)),
            )
        ids = tuple(
            log_dir.directory_id
            for log_dir in log_dirs
            if log_dir.is_cordoned and log_dir.directory_id is not None
        )
        if ids != self.ids:
            self.ids = ids
            self._on_change(ids)
        return is_opened

    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[object]) -> None:
        """Cordon what was cordoned; the id may be another one."""
        del former, log_dir, logs
        if self.ids is not None:
            self.apply(self._value)
