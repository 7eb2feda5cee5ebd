from __future__ import annotations

from pathlib import Path

from analytics.page.report_figures import ask_figures
from analytics.page.report_text import text_of
from jbodlab import directory_id as directory_ids
from jbodlab import kafka_uuid
from jbodlab.ids import DirectoryId, TopicId
from jbodlab.records.schema import Record
from jbodlab.records.topic_records import TopicRecord
from tests.analytics.builders import partition_record, register, uid
from tests.analytics.shared import Made
from tests.analytics.small_logs import (
    TOPIC,
    Row,
    broker_change,
    change,
    config,
    derived_tables,
)

DIRECTORIES = {broker: (uid(broker * 10), uid(broker * 10 + 1)) for broker in (1, 2)}
LOST = kafka_uuid.to_text(DIRECTORIES[1][0])

BATCHES: list[list[Record]] = [
    [
        *(register(broker, DIRECTORIES[broker]) for broker in (1, 2)),
        TopicRecord(name="orders", topic_id=TopicId(TOPIC)),
        config("min.insync.replicas", "2"),
        partition_record(
            TOPIC, replicas=(1, 2), directories=(DIRECTORIES[1][0], directory_ids.UNASSIGNED)
        ),
    ],
    [change(directories=(DIRECTORIES[1][0], DIRECTORIES[2][0]))],
    [
        change(isr=(2,), leader=2),
        broker_change(1, log_dirs=(DirectoryId(DIRECTORIES[1][1]),)),
    ],
    [change(leader=-1), broker_change(2, fenced=1)],
    [],
]


def test_the_text_says_what_the_tables_say(tmp_path: Path) -> None:
    topic: Row = {
        "topic": "orders",
        "topic_id": kafka_uuid.to_text(TOPIC),
        "min_insync_replicas_from": "topic",
    }
    gap: Row = {"kind": "gap", "message": "offsets 4 to 5 are missing"}
    written = [batch for batch in BATCHES if batch]
    tables = derived_tables(tmp_path, written, more={"topics": [topic], "problems": [gap]})

    text = text_of(ask_figures(tables))

    here, there = (kafka_uuid.to_text(each) for each in (DIRECTORIES[1][1], DIRECTORIES[2][0]))
    assert text.splitlines() == [
        "Log          10 records, offsets 0 to 9, 0 no-ops, 1 epoch",
        "             2026-01-01 23:00:00.000 to 2026-01-01 23:00:03.000 UTC",
        "Incidents    2026-01-01 23:00:03.000 broker 2 fenced: still open; 1 replica, "
        "0 leaders moved, "
        "1 leader lost, 1 of these never had one again, not all in sync yet; "
        "jbodlab why broker 2 --input '/logs/it'\\''s' --input '/logs/b' --at 9",
        f"             2026-01-01 23:00:02.000 directory {LOST} of broker 1 went offline: "
        "still open; 1 replica, 1 leader moved, the last new leader in the same batch, "
        "not all in sync yet; "
        f"jbodlab why directory {LOST} --input '/logs/it'\\''s' --input '/logs/b' --at 7",
        f"Outages      2026-01-01 23:00:02.000 directory {LOST} of broker 1 failed: "
        "1 partition fell under min ISR for 1 s, still open",
        "             2026-01-01 23:00:03.000 broker 2 failed: "
        "1 partition had no leader for 0 ms, still open",
        "Risk         0 partitions with one replica, 0 at min ISR, 0 under it, 0 in one rack, "
        "0 not led by the first replica, 2 empty log directories",
        "Topics       1 with 1 partition; now 1 without leader, 1 under-replicated",
        "Assumed      min.insync.replicas 1 (Kafka's default) where the log sets none, "
        "0 topics at its end",
        "Brokers      1 active, log directories 1 online 1 offline, 1 replica, 0 leaders, epoch 0",
        "             2 fenced, log directories 2 online 0 offline, 1 replica, 0 leaders, epoch 0",
        "Leaders      1 change by broker, 1 to none",
        "             1 change by directory",
        "Churn        orders-0 changed its leader 2 times",
        "ISR          orders-0 replica 1 fell out 1 time, 1 s in all, at most 1 s",
        "Load         broker 1 1 replica, +0.0% off the mean, 0 leaders",
        "             broker 2 1 replica, +0.0% off the mean, 0 leaders",
        f"             broker 2 {there} 1 replica, +100.0% off the mean, 0 leaders",
        f"             broker 2 {kafka_uuid.to_text(DIRECTORIES[2][1])} 0 replicas, "
        "-100.0% off the mean, 0 leaders",
        f"             broker 1 {here} 0 replicas, 0 leaders",
        "Assignments  broker 2: 1 replica, mean 1 s, slowest 1 s",
        "Availability 1 topic 100.0000% for reading, 66.6667% for writing, 0 ms without leader, "
        "1 s under min ISR",
        "             orders 100.0000% for reading, 66.6667% for writing, 0 ms without leader, "
        "1 s under min ISR",
        "Recovery     broker failed: full ISR: 1 not so far",
        "             broker failed: last new leader: 1 not so far",
        "             broker failed: serves again: 1 not so far",
        "             directory failed: full ISR: 1 not so far",
        "             partition: a leader again: 1 not so far",
        "             partition: at min ISR again: 1 not so far",
        "Problems     1 gap: offsets 4 to 5 are missing",
    ]


def test_an_empty_cluster_has_a_report(nothing: Made) -> None:
    assert text_of(nothing.figures).splitlines() == [
        "Log          no records",
        "Incidents    none",
        "Risk         0 partitions with one replica, 0 at min ISR, 0 under it, 0 in one rack, "
        "0 not led by the first replica",
        "Topics       0 with 0 partitions; now 0 without leader, 0 under-replicated",
        "Availability no topics",
        "Problems     none",
    ]
