"""What brokers say of their directories, and how one is brought back online."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from jbodlab.kafka_wire.describe_log_dir_states import LogDirStateEntry
from jbodlab.peers.admin_requests import describe_log_dir_states, revive_log_dir
from jbodlab.vocabulary.error_code import ErrorCode
from lab.cluster import security
from lab.cluster.node import Broker
from lab.cluster.questions import NO_ANSWER, LogDirView, ask_log_dirs

TIMEOUT_S = 3.0
REVIVAL_TIMEOUT_S = 60.0
ONLINE, OFFLINE = "ONLINE", "OFFLINE"


def of_kafka(views: Sequence[LogDirView]) -> tuple[LogDirStateEntry, ...]:
    """Return what DescribeLogDirs says of directories, in the words of our own brokers."""
    return tuple(
        LogDirStateEntry(
            path=view.path,
            directory_id=None,
            conditions=(),
            state=OFFLINE if view.error else ONLINE,
            cause=f"{view.error} (DescribeLogDirs)" if view.error else None,
        )
        for view in views
    )


def states(broker: Broker, *, are_ours: bool = True) -> tuple[LogDirStateEntry, ...] | None:
    """Return what a broker says of its directories; None if it does not answer."""
    if not are_ours:
        views = asyncio.run(ask_log_dirs(broker.state, TIMEOUT_S))
        return None if views is None else of_kafka(views)
    host, port, way = broker.state.host, broker.state.port, security.of_node(broker.state)
    with contextlib.suppress(*NO_ANSWER):
        return asyncio.run(describe_log_dir_states(host, port, TIMEOUT_S, way)).log_dirs
    return None


def offline(broker: Broker, *, are_ours: bool = True) -> list[LogDirStateEntry]:
    """Return the directories of a broker that are not online."""
    return [entry for entry in states(broker, are_ours=are_ours) or () if entry.state != ONLINE]


def revive(broker: Broker, path: str) -> str:
    """Bring a directory back online; returns why that failed, empty if it did not."""
    host, port, way = broker.state.host, broker.state.port, security.of_node(broker.state)
    try:
        answer = asyncio.run(revive_log_dir(host, port, path, REVIVAL_TIMEOUT_S, way))
    except NO_ANSWER as error:
        return str(error) or "no answer"
    if ErrorCode(answer.error_code.value) is ErrorCode.NONE:
        return ""
    return answer.error_message or answer.error_code.name
