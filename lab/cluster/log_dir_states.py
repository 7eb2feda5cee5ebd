"""What brokers say of their directories, and how one is brought back online."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from jbodlab.cli.lab_state import NodeState
from jbodlab.kafka_admin.errors import text_of
from jbodlab.kafka_admin.log_dirs import revive_log_dir
from jbodlab.kafka_wire.describe_log_dir_states import LogDirStateEntry
from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirResponse
from lab.cluster.node import Broker
from lab.cluster.questions import NO_ANSWER, LogDirView, ask_log_dirs, connect, log_dir_states

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
    with contextlib.suppress(*NO_ANSWER):
        return tuple(asyncio.run(log_dir_states(broker.state, TIMEOUT_S)))
    return None


def offline(broker: Broker, *, are_ours: bool = True) -> list[LogDirStateEntry]:
    """Return the directories of a broker that are not online."""
    return [entry for entry in states(broker, are_ours=are_ours) or () if entry.state != ONLINE]


def revive(broker: Broker, path: str) -> str:
    """Bring a directory back online; returns why that failed, empty if it did not."""
    try:
        answer = asyncio.run(ask_to_revive(broker.state, path))
    except NO_ANSWER as error:
        return str(error)
    return text_of(answer.error_code, answer.error_message) if int(answer.error_code) else ""


async def ask_to_revive(node: NodeState, path: str) -> ReviveLogDirResponse:
    """Ask a broker to bring a directory back online; raises AdminError where it does not answer."""
    asked = await connect(node, TIMEOUT_S)
    try:
        return await revive_log_dir(asked, None, path, REVIVAL_TIMEOUT_S)
    finally:
        asked.close()
