from __future__ import annotations

from pathlib import Path

from analytics.page.report_figures import ask_figures
from analytics.page.report_text import text_of
from analytics.tables.catalog import TABLES
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import DirectoryId, TopicId
from tests.analytics.builders import partition_record, register, uid
from tests.analytics.shared import Made, frames
from tests.analytics.small_logs import (
    TOPIC,
    broker_change,
    change,
    config,
    tables_of,
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
    written = [batch for batch in BATCHES if batch]
    made = tables_of([table.name for table in TABLES], written)
    made["logs"][0]["source"] = "/logs/it's, /logs/b"
    made["problems"] = [{"kind": "gap", "message": "offsets 4 to 5 are missing"}]
    tables = frames(tmp_path, **made)

    text = text_of(ask_figures(tables))

    here, there = (kafka_uuid.to_text(each) for each in (DIRECTORIES[1][1], DIRECTORIES[2][0]))
    assert text.splitlines() == [
        "Log          10 records, offsets 0 to 9, 0 no-ops, 1 epoch",
        "             2026-01-01 23:00:00.000 to 2026-01-01 23:00:03.000 UTC",
        "Incidents    2026-01-01 23:00:03.000 broker 2 fenced: still open; 1 replica affected, "
        "0 leaders moved, 1 leader lost, 1 of them until the end, not all in sync yet; "
        "jbodlab why broker 2 --input '/logs/it'\\''s' --input '/logs/b' --at 9",
        f"             2026-01-01 23:00:02.000 directory {LOST} of broker 1 went offline: "
        "still open; 1 replica affected, 1 leader moved, all new leaders in the same batch, "
        "not all in sync yet; "
        f"jbodlab why directory {LOST} --input '/logs/it'\\''s' --input '/logs/b' --at 7",
        f"Outages      2026-01-01 23:00:02.000 directory {LOST} of broker 1 failed: "
        "1 partition fell under min ISR for 1 s, still open",
        "             2026-01-01 23:00:03.000 broker 2 failed: "
        "1 partition had no leader for 0 ms, still open",
        "Risk         0 partitions with one replica, 0 at min ISR, 1 under min ISR, 0 in one rack, "
        "0 not led by the first replica, 2 empty log directories",
        "Topics       1 topic, 1 partition; now 1 without leader, 1 under-replicated",
        "Assumed      min.insync.replicas 1 (Kafka's default) for topics without a value in "
        "the log, at its end 0 topics",
        "Brokers      broker 1 active, log directories 1 online and 1 offline, 1 replica, "
        "0 leaders, epoch 0",
        "             broker 2 fenced, log directories 2 online and 0 offline, 1 replica, "
        "0 leaders, epoch 0",
        "Leaders      1 change, cause broker, 1 to no leader",
        "             1 change, cause directory",
        "Churn        orders-0 changed its leader 2 times",
        "ISR          replica 1 of orders-0 left the ISR 1 time, for 1 s in total, "
        "the longest for 1 s",
        "Load         broker 1: 1 replica (+0.0% from the mean), 0 leaders",
        "             broker 2: 1 replica (+0.0% from the mean), 0 leaders",
        f"             directory {there} of broker 2: 1 replica (+100.0% from the mean), 0 leaders",
        f"             directory {kafka_uuid.to_text(DIRECTORIES[2][1])} of broker 2: 0 replicas "
        "(-100.0% from the mean), 0 leaders",
        f"             directory {here} of broker 1: 0 replicas, 0 leaders",
        "Assignments  broker 2: 1 replica created without a directory, assigned after 1 s "
        "on average, 1 s at most",
        "Availability 1 topic: 100.0000% for reading, 66.6667% for writing, 0 ms without leader, "
        "1 s under min ISR",
        "             orders: 100.0000% for reading, 66.6667% for writing, 0 ms without leader, "
        "1 s under min ISR",
        "Recovery     broker failure until full ISR: 1 still open",
        "             broker failure until it serves again: 1 still open",
        "             broker failure until last new leader: 1 still open",
        "             directory failure until full ISR: 1 still open",
        "             partition under min ISR: 1 still open",
        "             partition without leader: 1 still open",
        "Problems     1 gap: offsets 4 to 5 are missing",
    ]


def test_an_empty_cluster_has_a_report(nothing: Made) -> None:
    assert text_of(nothing.figures).splitlines() == [
        "Log          no records",
        "Incidents    none",
        "Problems     none",
    ]
