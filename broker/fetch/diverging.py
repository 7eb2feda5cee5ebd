"""Where a follower's log left its leader's (KIP-595)."""

from __future__ import annotations

from broker.replica.client_requests import DivergingEpoch, FetchEntry
from broker.replica.partition_log import PartitionLog
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError


def diverging_epoch(entry: FetchEntry, log: PartitionLog) -> DivergingEpoch | None:
    """Return where the reader's log left this one; None if it did not, or did not ask.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE, this log knows nothing of the reader's last epoch.
    """
    if entry.last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.epochs.end_offset_for(entry.last_fetched_epoch, log.end_offset)
    if end_offset < 0 or entry.fetch_offset < log.start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
        return DivergingEpoch(epoch=epoch, end_offset=end_offset)
    return None
