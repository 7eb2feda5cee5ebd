"""Moves leaders and ISRs away from full or slow directories.

Which directories those are: `controller/decide/degraded.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from controller.decide.degraded import HEALTHY
from controller.decide.partitions.leader_and_isr import in_isr
from controller.decide.partitions.partition_change import KEEP, Wanted, partition_change
from controller.decide.state import ControllerState, RecordList, leader_test
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerId, DirectoryId

logger = logging.getLogger(__name__)


def add_relief(
    records: RecordList,
    before: ControllerState,
    after: ControllerState,
    broker_id: BrokerId,
    now_ms: int,
) -> None:
    """Append what relieves a broker's degraded directories, and say so when they change.

    Args:
        records: Those of the heartbeat so far.
        before: The state before the heartbeat.
        after: The same with the new contact.
        broker_id: The broker.
        now_ms: On the clock of the sessions.
    """
    known = before.degraded.by_broker.get(broker_id, HEALTHY)
    now = after.degraded.by_broker.get(broker_id, HEALTHY)
    count = len(records)
    if now.degraded and after.heartbeats.are_known(after.image.cluster, now_ms):
        for change in away_from_degraded(after.with_records_replayed(records), broker_id):
            records.add(change)
    if now != known:
        logger.info(
            "a broker's degraded directories changed",
            extra={
                "broker_id": broker_id,
                "degraded": _texts(now.degraded),
                "full": _texts(now.full),
                "tolerated": _texts(now.tolerated),
                "partitions_changed": len(records) - count,
            },
        )


def away_from_degraded(
    state: ControllerState, broker_id: BrokerId
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes that relieve the degraded directories of a broker.

    Leaders in them hand over to an ISR member whose directory is not degraded, where there is one
    and the broker does not tolerate the directory. Replicas in full directories leave the ISR where
    a member remains that may lead and takes data: followers in a full directory pause, so they
    acknowledge nothing any more. In the ISR they would hold up every write with acks=all until the
    leader finds them too slow; outside of it `min.insync.replicas` says at once whether what is
    left is enough. Where every member's directory is full nothing is written, so nobody falls
    behind and the ISR stays as it is.
    """
    degraded = state.degraded
    if broker_id not in degraded.by_broker:
        return
    may_lead = leader_test(state.image.cluster)
    for each in in_isr(state, broker_id):
        known = each.state
        directory = known.directory(broker_id)
        leaves = degraded.should_leave(broker_id, directory)
        wanted = KEEP
        if (
            degraded.is_full(broker_id, directory)
            and (leaves or known.leader != broker_id)
            and any(
                member != broker_id
                and may_lead(member, known.directory(member))
                and not degraded.is_full(member, known.directory(member))
                for member in known.isr
            )
        ):
            wanted = Wanted(isr=tuple(member for member in known.isr if member != broker_id))
        elif not leaves or known.leader != broker_id:
            continue
        record = partition_change(
            each,
            wanted,
            may_lead=may_lead,
            metadata_version=state.metadata_version,
            degraded=degraded,
            min_isr=state.min_isr(each.topic),
        )
        if record is not None:
            yield record


def _texts(directories: Iterable[DirectoryId]) -> str:
    named = [each for each in directories if not directory_ids.is_reserved(each)]
    return ",".join(sorted(map(kafka_uuid.to_text, named))) or "none"
