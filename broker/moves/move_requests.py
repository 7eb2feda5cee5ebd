"""AlterReplicaLogDirs: requested places of replicas on this broker.

A request with the current directory of the replica cancels its move; one with a third directory
redirects the move. For a replica that does not exist yet, the directory is remembered until the
replica is created or this process ends.

Source: KIP-113; `kafka.server.ReplicaManager.alterReplicaLogDirs`. Apache Kafka moves into any
directory; here full and cordoned directories are refused.
"""

from __future__ import annotations

import logging
import uuid

from broker.disk.directory import LogDir, LogDirs
from broker.moves.moves import RunningMoves
from broker.placement.replica_placement import ReplicaPlacement
from broker.replica.registry import ReplicaRegistry
from broker.replica.replica_state import Offline
from jbodlab.storage.directory import names
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

logger = logging.getLogger(__name__)


class RequestedMoves:
    """Carries out what AlterReplicaLogDirs asks for."""

    def __init__(
        self,
        replicas: ReplicaRegistry,
        log_dirs: LogDirs,
        placement: ReplicaPlacement,
        moves: RunningMoves,
    ) -> None:
        self._replicas = replicas
        self._log_dirs = log_dirs
        self._placement = placement
        self._moves = moves

    def alter(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        """Begin, redirect or cancel a move to the directory of this path, as in `log.dirs`.

        Returns:
            NONE where the move has begun or there is nothing to do, else why not.
        """
        try:
            self._alter_one(topic_partition, path)
        except KafkaError as error:
            # A request may name thousands: those that cannot be moved are no line of the log each.
            logger.debug("cannot move %s to %s: %s", topic_partition, path, error)
            return error.code
        except Exception:
            logger.exception("move of %s to %s failed", topic_partition, path)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE

    def _alter_one(self, topic_partition: TopicPartition, path: str) -> None:
        """Do what one partition's entry asks for.

        Raises:
            KafkaError: it cannot be done.
        """
        try:
            names.future_dir(topic_partition, uuid.UUID(int=0).hex)
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from error
        target = self._target(path)
        partition = self._replicas.partition(topic_partition)
        if partition is not None and isinstance(partition.state, Offline):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the replica is offline")
        log = None if partition is None else partition.log
        if partition is None or log is None:
            self._check_open(target)
            self._wish(topic_partition, target)
            return
        if log.log_dir is target:
            self._moves.cancel(topic_partition)
            return
        move = self._moves.move_of(topic_partition)
        if move is not None and move.target is target:
            return
        # Before anything is given up: what is refused changes nothing.
        self._check_takes_replicas(target)
        self._moves.cancel(topic_partition)
        self._moves.start(partition, target)

    def _target(self, path: str) -> LogDir:
        found = [each for each in self._log_dirs.all if str(each.path.absolute()) == path]
        if not found:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, "not a log directory of this broker")
        if not found[0].is_online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory is offline")
        return found[0]

    def _wish(self, topic_partition: TopicPartition, target: LogDir) -> None:
        """Remember what is wanted of a replica that is not there yet.

        Raises:
            KafkaError: always; the caller may try again.
        """
        self._placement.wish(topic_partition, target.path)
        topic = self._replicas.image.topics.by_name.get(topic_partition.topic)
        if topic is None or topic_partition.partition not in topic.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "the replica does not exist yet; it will be created in that directory",
            )
        raise KafkaError(
            ErrorCode.REPLICA_NOT_AVAILABLE,
            "the replica does not exist yet; it will be created in that directory",
        )

    def _check_takes_replicas(self, target: LogDir) -> None:
        if self._log_dirs.any_offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, "another log directory of this broker is offline"
            )
        if target.condition.is_full:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory is full")
        self._check_open(target)

    def _check_open(self, target: LogDir) -> None:
        if target.is_cordoned:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {target.path} is cordoned"
            )
