"""Base tables of a few batches of records, folded in this process by the product's own folds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from analytics import tables as t
from analytics.fold import Event, Sync, fold
from analytics.history.broker_facts import BrokerFacts, BrokerState
from analytics.history.bucket_fold import BucketFold, TopicEvent
from analytics.history.table_rows import RowMaker
from analytics.small_folds import EpochPart, controller_epochs, make_small_fold, small_key
from jbodlab import kafka_uuid
from jbodlab.ids import BrokerEpoch, BrokerId, TopicId
from jbodlab.records import frame
from jbodlab.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.records.config_records import ConfigRecord
from jbodlab.records.schema import Record
from jbodlab.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.analytics.builders import uid
from tests.analytics.history_logs import columns_of

Row = dict[str, object]
Rows = dict[str, list[Row]]

START = datetime(2026, 1, 1, 23, 0, tzinfo=UTC)
TOPIC = uid(1)

_KINDS = {
    "log_dir": "log_dirs",
    "broker_session": "broker_sessions",
    "config": "configs",
    "feature": "features",
}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def change(partition: int = 0, **fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=partition, topic_id=TopicId(TOPIC), **fields)  # type: ignore[arg-type]


def broker_change(broker: int, epoch: int = 0, **fields: object) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=BrokerId(broker),
        broker_epoch=BrokerEpoch(epoch),
        **fields,  # type: ignore[arg-type]
    )


def config(
    name: str, value: str | None, *, resource: str = "orders", kind: int = 2
) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def events_of(
    batches: Sequence[Sequence[Record]], first: int = 0, step_s: float = 1.0
) -> list[Event]:
    """Return batches as events, one batch after the other."""
    events: list[Event] = []
    offset = first
    for number, batch in enumerate(batches):
        time = round(at(number * step_s).timestamp() * 1_000_000)
        last = offset + len(batch) - 1
        for index, record in enumerate(batch):
            value = frame.encode(record, record.HIGHEST_VERSION)
            own = offset + index
            events.append(Event("", own, False, own, time, offset, last, "log", record.NAME, value))
        offset = last + 1
    return events


def small_rows(events: Sequence[Event], syncs: tuple[Sync, ...] = ()) -> list[Row]:
    """Fold what is about brokers and settings."""
    names: dict[object, str] = {}
    keyed = []
    for event in events:
        record = event.record
        if isinstance(record, TopicRecord):
            names[record.topic_id] = record.name
        key = small_key(record, 1)
        if isinstance(record, RemoveTopicRecord) and record.topic_id in names:
            key = f"c/topic/{names[record.topic_id]}"
        if key is not None:
            keyed.append(event._replace(key=key))
    keyed.sort(key=lambda event: (event.key, event.position, event.offset))
    return list(fold(keyed, syncs, make_small_fold))


def base_rows(batches: Sequence[Sequence[Record]], step_s: float = 1.0) -> Rows:
    """Return the rows of the base tables, by table."""
    events = events_of(batches, step_s=step_s)
    small = small_rows(events)
    found: Rows = {table.name: [] for table in t.TABLES}
    states = []
    for row in small:
        kind = str(row["kind"])
        columns = row[kind]
        assert isinstance(columns, dict)
        if kind == "broker":
            states.append(_broker_state(columns))
            if columns["valid_to_offset"] is None:
                found["brokers"].append(_with_times(columns))
        elif kind in _KINDS:
            found[_KINDS[kind]].append(_with_times(columns))
        else:
            found["problems"].append(columns)
    bucket = BucketFold(BrokerFacts(states))
    produced = bucket.step(columns_of(events), _topic_events(events), ())
    maker = RowMaker(bucket.topics)
    for part in (maker.ended(produced), maker.still(bucket.open)):
        for table, rows in part.items():
            found[table.name] += rows.to_pylist()
    found["records"] = [
        {"offset": event.offset, "timestamp": _moment(event.time), "epoch": 1, "type": event.type}
        for event in events
    ]
    found["record_counts"] = counted(found["records"])
    if events:
        found["controller_epochs"] = [
            _with_times(row)
            for row in controller_epochs([EpochPart(1, 0, events[0].time, len(events))], {1: 100})
        ]
    for table in t.TABLES:
        found[table.name].sort(key=lambda row: tuple(str(row.get(name)) for name in table.order))
    return found


def counted(records: Sequence[Row]) -> list[Row]:
    """Return the rows of the table of record counts, for records with all their times."""
    found: dict[tuple[object, object], list[Row]] = {}
    for row in sorted(records, key=lambda row: int(str(row["offset"]))):
        found.setdefault((row["epoch"], row["type"]), []).append(row)
    return [
        {
            "epoch": epoch,
            "type": kind,
            "records": len(rows),
            "first_offset": rows[0]["offset"],
            "first_time": rows[0]["timestamp"],
            "last_offset": rows[-1]["offset"],
            "last_time": rows[-1]["timestamp"],
            "earliest_time": min(row["timestamp"] for row in rows),  # type: ignore[type-var]
            "latest_time": max(row["timestamp"] for row in rows),  # type: ignore[type-var]
        }
        for (epoch, kind), rows in found.items()
    ]


def base_tables(
    spark: SparkSession, batches: Sequence[Sequence[Record]], step_s: float = 1.0
) -> dict[str, DataFrame]:
    rows = base_rows(batches, step_s)
    return {table.name: frame_of(spark, table, rows[table.name]) for table in t.TABLES}


def frame_of(spark: SparkSession, table: t.Table, rows: list[Row]) -> DataFrame:
    names = [column.name for column in table.columns]
    return spark.createDataFrame([tuple(row.get(n) for n in names) for row in rows], table.schema)


def _topic_events(events: Sequence[Event]) -> list[TopicEvent]:
    found = []
    ids: dict[str, list[TopicId]] = {}
    for event in events:
        match event.record:
            case TopicRecord(name=name, topic_id=topic_id):
                ids.setdefault(name, []).append(topic_id)
                found.append(_topic_event(event, topic_id))
            case RemoveTopicRecord(topic_id=topic_id):
                found.append(_topic_event(event, topic_id))
            case (
                ClearElrRecord(topic_name=name)
                | ConfigRecord(resource_name=name, name="min.insync.replicas")
            ):
                known = ids.get(name, [])
                found += [_topic_event(event, each) for each in known] or [
                    _topic_event(event, None)
                ]
            case _:
                pass
    return found


def _topic_event(event: Event, topic_id: TopicId | None) -> TopicEvent:
    raw = None if topic_id is None else topic_id.bytes
    return TopicEvent(topic_id=raw, is_first=True, event=event)


def _broker_state(columns: Row) -> BrokerState:
    texts = columns["log_dirs"]
    assert isinstance(texts, list)
    return BrokerState(
        broker=columns["broker"],  # type: ignore[arg-type]
        from_offset=columns["valid_from_offset"],  # type: ignore[arg-type]
        to_offset=columns["valid_to_offset"],  # type: ignore[arg-type]
        fenced=bool(columns["fenced"]),
        in_controlled_shutdown=bool(columns["in_controlled_shutdown"]),
        directories=frozenset(kafka_uuid.parse(text).bytes for text in texts),
    )


def _with_times(columns: Row) -> Row:
    return {
        name: _moment(value) if name.endswith("_time") else value for name, value in columns.items()
    }


def _moment(value: object) -> datetime | None:
    if value is None:
        return None
    assert isinstance(value, int)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
