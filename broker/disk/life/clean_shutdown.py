"""`.kafka_cleanshutdown`: says that a directory was closed in order, and in which broker epoch.

    {"version":0,"brokerEpoch":17}

An empty or unreadable file, as older versions wrote it, still says that the directory is clean.

Source: `org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler`.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.names import CLEAN_SHUTDOWN_FILE
from jbodlab.vocabulary.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch

logger = logging.getLogger(__name__)

VERSION = 0


def read_broker_epoch(fs: FileSystem, log_dir: Path) -> BrokerEpoch:
    """Return the epoch of the last clean shutdown, -1 if there was none or it is unknown."""
    try:
        content = json.loads(fs.read_bytes(log_dir / CLEAN_SHUTDOWN_FILE))
        epoch = content["brokerEpoch"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.debug("no broker epoch in %s: %s", log_dir, error)
        return UNKNOWN_BROKER_EPOCH
    is_number = isinstance(epoch, int) and not isinstance(epoch, bool)
    return BrokerEpoch(epoch) if is_number else UNKNOWN_BROKER_EPOCH


def write(fs: FileSystem, log_dir: Path, broker_epoch: BrokerEpoch) -> None:
    """Write the file, durably; the last thing that is done to a directory."""
    content = json.dumps({"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    fs.write_bytes(log_dir / CLEAN_SHUTDOWN_FILE, content.encode(), sync=True)
    fs.fsync_dir(log_dir)


def take(fs: FileSystem, log_dir: Path) -> bool:
    """Remove the file, durably, and return whether it was there: whether the shutdown was clean.

    Without power, it must not come back beside logs that were written since.
    """
    path = log_dir / CLEAN_SHUTDOWN_FILE
    if not fs.exists(path):
        return False
    fs.unlink(path)
    fs.fsync_dir(log_dir)
    return True
