"""Starting moves between log directories, with patience for replicas that are not there yet."""

from __future__ import annotations

import time
from collections.abc import Mapping

from admin_tool.errors import AdminError, PlainError, name_of
from admin_tool.options import Parsed
from admin_tool.requests.connection import Connection
from admin_tool.requests.log_dirs import Replica, alter_replica_log_dirs
from jbodlab.error_code import ErrorCode

DEFAULT_TIMEOUT_MS = 10_000
RETRY_PAUSE_S = 0.1


def timeout_s(options: Parsed) -> float:
    """Return how long to try, as the command line says."""
    timeout_ms = options.number("timeout")
    return (DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000


def start_moves(connection: Connection, targets: Mapping[Replica, str], patience_s: float) -> None:
    """Ask brokers to move replicas to directories, and say which have begun.

    A broker that a reassignment has only just given a replica may not have it yet; it is asked
    again until `patience_s` is over.

    Raises:
        AdminError: a broker refuses a move, or time is over; moves that have begun go on.
    """
    deadline = time.monotonic() + patience_s
    pending = dict(sorted(targets.items()))
    while True:
        codes = _ask(connection, pending)
        for replica in [one for one in pending if codes.get(one) == ErrorCode.NONE]:
            # The blank at the end is Kafka's.
            print(
                f"Successfully started moving log directory to {pending.pop(replica)} for replica "
                f"{replica.topic_partition} with broker {replica.broker} "
            )
        if not pending:
            return
        for replica in pending:
            code = codes.get(replica, ErrorCode.REPLICA_NOT_AVAILABLE)
            if code != ErrorCode.REPLICA_NOT_AVAILABLE:
                raise AdminError(
                    f"Failed to alter dir for {replica} to {pending[replica]}: {name_of(code)}"
                )
        if time.monotonic() > deadline:
            listed = ",".join(map(str, pending))
            plural = "" if len(pending) == 1 else "s"
            raise PlainError(
                f"Timed out before log directory move{plural} could be started for: {listed}"
            )
        time.sleep(RETRY_PAUSE_S)


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
