"""Starting moves between log directories; replicas that are not there yet are asked for again.

A move that a broker refuses holds nothing else up: all other moves begin.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from admin_tool.waiting import note_wait, wait_until_empty
from jbodlab.cli.output import counted
from jbodlab.kafka_admin.errors import AdminError, name_of
from jbodlab.kafka_admin.log_dirs import Replica, alter_replica_log_dirs, by_broker
from jbodlab.storage.directory import names
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient

DEFAULT_TIMEOUT_S = 10.0
RETRY_PAUSE_S = 0.1


async def start_moves(
    client: AdminClient, targets: Mapping[Replica, str], timeout_s: float
) -> dict[Replica, int]:
    """Ask brokers to move replicas to directories.

    A broker that a reassignment has only just given a replica may not have it yet; it is asked
    again until `timeout_s` seconds are over.

    Returns:
        The error codes of those that were refused; REPLICA_NOT_AVAILABLE where time was over.

    Raises:
        AdminError: a broker does not answer; moves that have begun go on.
    """
    pending = dict(sorted(targets.items()))
    refused: dict[Replica, int] = {}

    async def begin() -> Mapping[Replica, str]:
        for replica, code in (await _ask(client, pending)).items():
            if code != ErrorCode.REPLICA_NOT_AVAILABLE:
                pending.pop(replica, None)
            if code not in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE):
                refused[replica] = code
        return pending

    with note_wait(f"waiting until {counted(len(targets), 'move')} between directories begin"):
        await wait_until_empty(begin, timeout_s, RETRY_PAUSE_S)
    return refused | dict.fromkeys(pending, int(ErrorCode.REPLICA_NOT_AVAILABLE))


def check_started(targets: Mapping[Replica, str], refused: Mapping[Replica, int]) -> None:
    """Insist on moves that have all begun.

    Raises:
        AdminError: some have not.
    """
    if refused:
        reasons = "; ".join(
            f"{replica} to {targets[replica]}: {why_refused(replica, targets[replica], code)}"
            for replica, code in refused.items()
        )
        raise AdminError(f"cannot move {reasons}")


def why_immovable(topic_partition: TopicPartition) -> str | None:
    """Return why no broker moves a partition between its directories, None if it may; pure."""
    try:
        names.future_dir(topic_partition, uuid.UUID(int=0).hex)
    except ValueError:
        return (
            f"the topic's name is too long for the folder of a copy, whose name may have "
            f"{names.DIR_NAME_CHARS_MAX} characters: cordon the directory, move the replica to "
            "another broker with `jbodlab reassign execute`, and back"
        )
    return None


def why_refused(replica: Replica, path: str, code: int) -> str:
    """Return what a broker's refusal of a move means, and what to do; pure."""
    immovable = why_immovable(replica.topic_partition)
    match code:
        case ErrorCode.INVALID_TOPIC_EXCEPTION if immovable is not None:
            reason = immovable
        case ErrorCode.KAFKA_STORAGE_ERROR:
            reason = (
                f"the replica or a log directory of broker {replica.broker} is offline, or {path} "
                "is full: see `jbodlab dirs list`, repair or make room, and try again"
            )
        case ErrorCode.INVALID_REPLICA_ASSIGNMENT:
            reason = f"{path} is cordoned: uncordon it, or name another directory"
        case ErrorCode.LOG_DIR_NOT_FOUND:
            reason = f"{path} is not a log directory of broker {replica.broker}"
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            reason = "the partition does not exist any more"
        case ErrorCode.REPLICA_NOT_AVAILABLE:
            reason = (
                f"broker {replica.broker} does not have it, see `jbodlab topics describe "
                f"{replica.topic}`"
            )
        case _:
            reason = f"broker {replica.broker} refuses it: see its log"
    return f"{reason} ({name_of(code)})"


async def _ask(client: AdminClient, pending: Mapping[Replica, str]) -> dict[Replica, int]:
    """Return the brokers' error codes."""
    codes: dict[Replica, int] = {}
    for broker, here in by_broker(pending).items():
        moves = {replica.topic_partition: path for replica, path in here.items()}
        answer = await alter_replica_log_dirs(client, broker, moves)
        codes |= {Replica(broker, *one): code for one, code in answer.items()}
    return codes
