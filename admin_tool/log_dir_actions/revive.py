"""jbodlab dirs revive: a repaired directory comes back online without a restart."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from admin_tool.log_dir_actions.dir_names import resolve
from admin_tool.waiting import note_wait
from jbodlab.cli.on_kafka import COMMANDS
from jbodlab.cli.output import Output, counted
from jbodlab.kafka_admin.errors import AdminError, NoAnswerError, UnsupportedRequestError, text_of
from jbodlab.kafka_admin.log_dirs import describe_log_dirs, revive_log_dir
from jbodlab.vocabulary import kafka_uuid

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient, Broker
    from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirResponse

REVIVE_TIMEOUT_S = 600.0
"""Recovering the logs of a large directory takes a while."""


async def run(options: Namespace, output: Output) -> int:
    """Bring a repaired directory of a running broker back online; returns the exit code."""
    async with connected(options) as client:
        broker = await client.broker(options.dir.broker)
        path = resolve(options.dir, await describe_log_dirs(client, broker.id)).path
        response = await _revive(client, broker, path)
    if response.error_code:
        reason = text_of(int(response.error_code), response.error_message)
        raise AdminError(f"cannot revive {path} of broker {broker.id}: {reason}")
    named = (
        "" if response.directory_id is None else f" ({kafka_uuid.to_text(response.directory_id)})"
    )
    output.line(
        f"revived {path}{named} of broker {broker.id}: online with "
        f"{counted(response.replicas, 'replica')}"
    )
    return 0


async def _revive(client: AdminClient, broker: Broker, path: str) -> ReviveLogDirResponse:
    try:
        with note_wait(f"waiting until broker {broker.id} has recovered the logs in {path}"):
            return await revive_log_dir(client, broker.id, path, REVIVE_TIMEOUT_S)
    except NoAnswerError as error:
        raise AdminError(f"{error}; it may still be recovering logs") from error
    except UnsupportedRequestError as error:
        raise UnsupportedRequestError(f"{error}: {COMMANDS['dirs revive'].text}") from error
