"""Partitions with transactions that are open for too long."""

from __future__ import annotations

from broker.replica.registry.metrics import LATE_AFTER_MS, PREFIX, replica_metrics
from jbodlab.record_batch.record_batch import read_header
from jbodlab.storage.log.transactions import COMMIT
from tests.broker.stage import Stage
from tests.jbodlab.storage.log import transactional

LONGEST_MS = 900_000
WRITTEN_MS = 1_000_000


async def test_a_transaction_is_late_when_it_has_no_record_for_longer_than_any_may_last(
    stage: Stage,
) -> None:
    host = stage.host
    leader, log = (await stage.begin()).leader_log()

    def append(data: bytes) -> None:
        log.append_as_leader(data, read_header(data), leader.leader_epoch)

    def late(now_ms: int) -> float:
        name = f"{PREFIX}PartitionsWithLateTransactionsCount"
        found = replica_metrics(host.registry, host.manager.isr_changes, LONGEST_MS, now_ms)
        (metric,) = (each for each in found if each.name == name)
        return metric.samples[0][2]

    bound_ms = WRITTEN_MS + LONGEST_MS + LATE_AFTER_MS
    append(transactional.data(0, 7, 0, timestamp_ms=WRITTEN_MS))
    append(transactional.data(0, 8, 0, timestamp_ms=WRITTEN_MS - 1))
    assert [late(bound_ms), late(bound_ms + 1)] == [0, 1]

    append(transactional.data(0, 7, 1, timestamp_ms=WRITTEN_MS + 1))
    assert late(bound_ms + 1) == 0

    append(transactional.marker(0, 7, COMMIT))
    assert late(bound_ms) == 1
