"""The metrics of moves between log directories.

Source: `ReplicaAlterLogDirsManager` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.moves.move_states import MoveState
from broker.moves.moves import RunningMoves
from jbodlab.runtime.metrics import Metric, rows, values

PREFIX = "kafka_server_ReplicaAlterLogDirsManager"


def move_metrics(running: RunningMoves) -> Iterator[Metric]:
    """Yield the metrics of the moves that run."""
    moves = list(running.moves())
    yield from values(
        {
            f"{PREFIX}_MaxLag": max((move.lag for move in moves), default=0),
            f"{PREFIX}_FailedPartitionsCount": running.failed_count,
            "kafka_server_AlterLogDirsReplication_bytes_total": running.throttle.copied_bytes,
        }
    )
    yield from rows(
        [
            (
                {
                    "topic": move.topic_partition.topic,
                    "partition": str(move.topic_partition.partition),
                    "is_future": "true",
                },
                move,
            )
            for move in moves
        ],
        {
            "kafka_log_Log_Size": lambda move: move.size_bytes,
            "jbodlab_move_lag": lambda move: move.lag,
        },
    )
    yield from rows(
        [({"state": state.name}, state) for state in MoveState if not state.is_over],
        {"jbodlab_moves": lambda state: sum(move.state is state for move in moves)},
    )
