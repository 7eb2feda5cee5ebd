"""Output of `jbodlab dirs describe`: JSON in Kafka's form, or the replicas as a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from jbodlab.cli.output import table
from jbodlab.kafka_admin.errors import name_of
from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.vocabulary.sizes import size_text

if TYPE_CHECKING:
    from jbodlab.cli.results import KafkaBroker, KafkaLogDir, KafkaLogDirs

VERSION = 1
_EXCEPTIONS = "org.apache.kafka.common.errors."
_ODD_NAMES = {
    "UNKNOWN_SERVER_ERROR": "UnknownServerException",
    "KAFKA_STORAGE_ERROR": "KafkaStorageException",
    "REQUEST_TIMED_OUT": "TimeoutException",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationException",
}
"""Error codes whose class in Java is not called after them."""


def as_value(
    log_dirs: Mapping[int, Sequence[DescribedLogDir]], topics: Collection[str] = ()
) -> KafkaLogDirs:
    """Return the directories of brokers in the form of Kafka's JSON; pure.

    Args:
        log_dirs: By broker, in the order to print.
        topics: Topics whose replicas are shown; empty means all.
    """
    brokers: list[KafkaBroker] = [
        {"broker": broker, "logDirs": [_log_dir(one, topics) for one in dirs]}
        for broker, dirs in log_dirs.items()
    ]
    return {"brokers": brokers, "version": VERSION}


def as_text(log_dirs: Mapping[int, Sequence[DescribedLogDir]], topics: Collection[str] = ()) -> str:
    """Return the replicas in the directories of brokers as a table; pure."""
    rows = [
        (
            f"broker-{broker}/{number}",
            log_dir.path,
            f"{one.topic}-{one.partition}",
            size_text(one.size_bytes),
            one.offset_lag,
            "future" if one.is_future else "current",
        )
        for broker, dirs in log_dirs.items()
        for number, log_dir in enumerate(dirs, 1)
        for one in log_dir.replicas
        if not topics or one.topic in topics
    ]
    return table(("DIR", "PATH", "PARTITION", "SIZE", "OFFSET LAG", "REPLICA"), rows)


def exception_name(error_code: int) -> str | None:
    """Return the Java class of an error code; None for no error."""
    if error_code == 0:
        return None
    name = name_of(error_code)
    words = "".join(word.capitalize() for word in name.split("_"))
    return _EXCEPTIONS + _ODD_NAMES.get(name, words.removesuffix("Exception") + "Exception")


def _log_dir(log_dir: DescribedLogDir, topics: Collection[str]) -> KafkaLogDir:
    return {
        "partitions": [
            {
                "partition": f"{one.topic}-{one.partition}",
                "size": one.size_bytes,
                "offsetLag": one.offset_lag,
                "isFuture": one.is_future,
            }
            for one in log_dir.replicas
            if not topics or one.topic in topics
        ],
        "error": exception_name(log_dir.error_code),
        "logDir": log_dir.path,
    }
