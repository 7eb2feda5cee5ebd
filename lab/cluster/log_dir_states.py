"""Answers of brokers about their directories, and how one is brought back online."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from jbodlab.cli.lab_state import NodeState
from jbodlab.kafka_admin.errors import text_of
from jbodlab.kafka_admin.log_dirs import DescribedLogDir, revive_log_dir
from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirResponse
from lab.cluster.node import Broker
from lab.cluster.questions import NO_ANSWER, ask_log_dirs, once

TIMEOUT_S = 3.0
REVIVAL_TIMEOUT_S = 60.0


def states(broker: Broker, *, are_ours: bool = True) -> Sequence[DescribedLogDir] | None:
    """Return what a broker says of its directories; None if it does not answer."""
    return asyncio.run(ask_log_dirs(broker.state, TIMEOUT_S, are_ours=are_ours))


def offline(broker: Broker, *, are_ours: bool = True) -> list[DescribedLogDir]:
    """Return the directories of a broker that are not online."""
    return [view for view in states(broker, are_ours=are_ours) or () if view.word != "ONLINE"]


def revive(broker: Broker, path: str) -> str:
    """Bring a directory back online; returns why that failed, empty if it did not."""
    try:
        answer = asyncio.run(ask_to_revive(broker.state, path))
    except NO_ANSWER as error:
        return str(error)
    return text_of(answer.error_code, answer.error_message) if int(answer.error_code) else ""


async def ask_to_revive(node: NodeState, path: str) -> ReviveLogDirResponse:
    """Ask a broker to bring a directory back online; raises AdminError where it does not answer."""
    return await once(
        node, TIMEOUT_S, lambda asked: revive_log_dir(asked, None, path, REVIVAL_TIMEOUT_S)
    )
