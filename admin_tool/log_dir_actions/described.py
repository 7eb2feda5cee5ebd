"""The one line of JSON that `--describe` prints, in Kafka's form."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from admin_tool.errors import name_of
from admin_tool.requests.log_dirs import LogDir

VERSION = 1
_EXCEPTIONS = "org.apache.kafka.common.errors."
_ODD_NAMES = {
    "UNKNOWN_SERVER_ERROR": "UnknownServerException",
    "KAFKA_STORAGE_ERROR": "KafkaStorageException",
    "REQUEST_TIMED_OUT": "TimeoutException",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationException",
}
"""Error codes whose class in Java is not called after them."""


def described(log_dirs: Mapping[int, Iterable[LogDir]], topics: Collection[str] = ()) -> str:
    """Return the directories of brokers as JSON.

    Args:
        log_dirs: By broker, in the order to print.
        topics: Whose replicas are shown; empty means all.
    """
    brokers = [
        {"broker": broker, "logDirs": [_log_dir(one, topics) for one in dirs]}
        for broker, dirs in log_dirs.items()
    ]
    return json.dumps({"brokers": brokers, "version": VERSION}, separators=(",", ":"))


def exception_name(error_code: int) -> str | None:
    """Return the Java class that stands for an error code; None for no error."""
    if error_code == 0:
        return None
    name = name_of(error_code)
    words = "".join(word.capitalize() for word in name.split("_"))
    return _EXCEPTIONS + _ODD_NAMES.get(name, words.removesuffix("Exception") + "Exception")


def _log_dir(log_dir: LogDir, topics: Collection[str]) -> dict[str, object]:
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
