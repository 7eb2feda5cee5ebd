"""Starting moves between log directories, with patience for replicas that are not there yet.

What a broker refuses holds nothing else up: all other moves begin, and the reason is told.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from admin_tool.errors import PlainError, name_of
from admin_tool.options import Parsed
from admin_tool.requests.connection import Connection
from admin_tool.requests.log_dirs import Replica, alter_replica_log_dirs
from jbodlab.error_code import ErrorCode
from jbodlab.ids import TopicPartition
from jbodlab.log import names

DEFAULT_TIMEOUT_MS = 10_000
RETRY_PAUSE_S = 0.1


def timeout_s(options: Parsed) -> float:
    """Return how long to try, as the command line says."""
    timeout_ms = options.number("timeout")
    return (DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000


def start_moves(
    connection: Connection, targets: Mapping[Replica, str], patience_s: float
) -> dict[Replica, int]:
    """Ask brokers to move replicas to directories, and say which have begun.

    A broker that a reassignment has only just given a replica may not have it yet; it is asked
    again until `patience_s` is over.

    Returns:
        The error codes of those that were refused; REPLICA_NOT_AVAILABLE where time was over.

    Raises:
        AdminError: a broker does not answer; moves that have begun go on.
    """
    deadline = time.monotonic() + patience_s
    pending = dict(sorted(targets.items()))
    refused: dict[Replica, int] = {}
    while True:
        codes = _ask(connection, pending)
        for replica in list(pending):
            code = codes.get(replica, ErrorCode.REPLICA_NOT_AVAILABLE)
            if code == ErrorCode.REPLICA_NOT_AVAILABLE:
                continue
            path = pending.pop(replica)
            if code != ErrorCode.NONE:
                refused[replica] = code
                continue
            # The blank at the end is Kafka's.
            print(
                f"Successfully started moving log directory to {path} for replica "
                f"{replica.topic_partition} with broker {replica.broker} "
            )
        if not pending or time.monotonic() > deadline:
            return refused | dict.fromkeys(pending, int(ErrorCode.REPLICA_NOT_AVAILABLE))
        time.sleep(RETRY_PAUSE_S)


def check_started(targets: Mapping[Replica, str], refused: Mapping[Replica, int]) -> None:
    """Insist on moves that have all begun.

    Raises:
        PlainError: some have not; a line for each.
    """
    late = [each for each, code in refused.items() if code == ErrorCode.REPLICA_NOT_AVAILABLE]
    lines = [
        f"Error: Failed to alter dir for {replica} to {targets[replica]}: "
        f"{why_refused(replica, targets[replica], code)}"
        for replica, code in refused.items()
        if code != ErrorCode.REPLICA_NOT_AVAILABLE
    ]
    if late:
        plural = "" if len(late) == 1 else "s"
        lines.append(
            f"Timed out before log directory move{plural} could be started for: "
            f"{','.join(map(str, late))}"
        )
    if lines:
        raise PlainError("\n".join(lines))


def why_immovable(topic_partition: TopicPartition) -> str | None:
    """Return why no broker moves a partition between its directories, None if it may; pure."""
    try:
        names.future_dir(topic_partition, uuid.UUID(int=0).hex)
    except ValueError:
        return (
            f"the topic's name is too long for the folder of a copy, whose name may have "
            f"{names.DIR_NAME_CHARS_MAX} characters: cordon the directory, move the replica to "
            "another broker by jbod-reassign-partitions, and back"
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
                "is full: see jbod-log-dirs --describe --table, repair or make room, and try again"
            )
        case ErrorCode.INVALID_REPLICA_ASSIGNMENT:
            reason = f"{path} is cordoned: uncordon it by jbod-log-dirs, or name another directory"
        case ErrorCode.LOG_DIR_NOT_FOUND:
            reason = f"{path} is no log directory of broker {replica.broker}: name one of its own"
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            reason = "there is no such partition any more: there is nothing to do"
        case ErrorCode.REPLICA_NOT_AVAILABLE:
            reason = f"broker {replica.broker} does not have it: see jbod-topics --describe"
        case _:
            reason = f"broker {replica.broker} refuses it: see its log, and try again"
    return f"{reason} ({name_of(code)})"


def _ask(connection: Connection, pending: Mapping[Replica, str]) -> dict[Replica, int]:
    """Return the brokers' error codes."""
    codes: dict[Replica, int] = {}
    for broker in sorted({replica.broker for replica in pending}):
        moves = {
            replica.topic_partition: path
            for replica, path in pending.items()
            if replica.broker == broker
        }
        answer = alter_replica_log_dirs(connection, broker, moves)
        for partition, code in answer.items():
            codes[Replica(broker, partition.topic, partition.partition)] = code
    return codes
