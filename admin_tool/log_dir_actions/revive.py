"""jbodlab dirs revive: a repaired directory comes back online without a restart."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from admin_tool.log_dir_actions.dir_names import add_dir, resolve
from admin_tool.waiting import note_wait
from jbodlab.cli.command import servers_command
from jbodlab.cli.on_kafka import COMMANDS
from jbodlab.cli.output import Output, counted
from jbodlab.kafka_admin.errors import AdminError, UnsupportedRequestError, text_of
from jbodlab.kafka_admin.log_dirs import describe_log_dirs
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import DecodeError

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import Broker
    from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirResponse
    from jbodlab.peers.client_security import ClientSecurity

REVIVE_TIMEOUT_S = 600.0
"""Recovering the logs of a large directory takes a while."""


async def _run(options: Namespace, output: Output) -> int:
    async with connected(options) as client:
        broker = await client.broker(options.dir.broker)
        path = resolve(options.dir, await describe_log_dirs(client, broker.id)).path
        security = client.properties.security
    response = await _revive(broker, path, security)
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


async def _revive(
    broker: Broker, path: str, security: ClientSecurity | None
) -> ReviveLogDirResponse:
    from jbodlab.peers.admin_requests import revive_log_dir

    where = f"broker {broker.id} ({broker.host}:{broker.port})"
    try:
        with note_wait(f"waiting until broker {broker.id} has recovered the logs in {path}"):
            return await revive_log_dir(broker.host, broker.port, path, REVIVE_TIMEOUT_S, security)
    except TimeoutError as error:
        raise AdminError(
            f"no answer from {where} within {REVIVE_TIMEOUT_S:g} s; it may still be recovering logs"
        ) from error
    except ConnectionResetError as error:
        raise UnsupportedRequestError(
            f"broker {broker.id} does not know the request ReviveLogDir, or went away: "
            f"{COMMANDS['dirs revive'].text}"
        ) from error
    except (ConnectionError, DecodeError) as error:
        raise AdminError(f"{where}: {error}") from error


REVIVE = servers_command(
    help="bring a repaired directory of a running broker back online",
    run=_run,
    arguments=add_dir,
    examples=("dirs revive broker-1/2", "dirs revive broker-1:/mnt/d2"),
)
