"""Copies that a move between directories left behind when the process ended.

A move ends with the controller's word that the copy's directory is the replica's. If the process
died between that word and the renaming, the metadata name a directory that has only the copy:

    the complete log is in another online directory    it stays the replica, its directory is
                                                       reported; the copy is left alone
    there is no other log of the replica               the copy becomes the replica

Apache Kafka promotes the copy in the first case too, although the log may have grown since.

Source: KIP-858, "Replica management"; `kafka.log.LogManager.recoverAbandonedFutureLogs`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from broker.logdirs.loading import LoadedReplica
from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError, LogDirError
from jbodlab.ids import BrokerId, TopicId, TopicPartition
from jbodlab.image.metadata_image import MetadataImage
from jbodlab.log import names

logger = logging.getLogger(__name__)


def to_promote(
    loaded: Sequence[LoadedReplica], image: MetadataImage, broker_id: BrokerId
) -> list[LoadedReplica]:
    """Return the copies that are all there is of a replica in the directory it is assigned to.

    Args:
        loaded: All logs found, copies included.
        image: The metadata.
        broker_id: Ours.
    """
    complete = {each.log.topic_partition for each in loaded if not each.is_future}
    return [
        each
        for each in loaded
        if each.is_future
        and each.log.topic_partition not in complete
        and _is_assigned(each, image, broker_id)
    ]


async def promote(copies: Sequence[LoadedReplica]) -> list[LoadedReplica]:
    """Make copies the replicas; one whose directory fails at that is left out."""
    promoted = []
    for copy in copies:
        try:
            await copy.log_dir.run(partial(_rename, copy))
        except (LogDirError, KafkaError) as error:
            logger.warning("%s is not promoted: %s", copy.log.directory, error)
        else:
            logger.warning("%s was a copy, it is the replica now", copy.log.directory)
            promoted.append(copy)
    return promoted


def leave_alone(copies: Sequence[LoadedReplica]) -> None:
    """Close copies that nobody goes on building; their files stay."""
    for copy in copies:
        logger.warning("%s is a copy of an unfinished move, it is kept", copy.log.directory)
        copy.log_dir.replica_count -= 1
        copy.log_dir.clean_up(copy.log.abandon)


def _rename(copy: LoadedReplica) -> None:
    """Rename on the directory's thread."""
    target = copy.log.directory.with_name(names.partition_dir(copy.log.topic_partition))
    # Whatever is there is not the disk's fault, and must not take the directory offline.
    if copy.log_dir.fs.exists(target):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{target} exists already")
    copy.log.rename_to_current()


def _is_assigned(copy: LoadedReplica, image: MetadataImage, broker_id: BrokerId) -> bool:
    key: TopicPartition = copy.log.topic_partition
    topic_id = copy.log.topic_id
    state = None if topic_id is None else image.topics.partition(TopicId(topic_id), key.partition)
    return (
        state is not None
        and broker_id in state.replicas
        and state.directory(broker_id) == copy.log_dir.directory_id
    )
