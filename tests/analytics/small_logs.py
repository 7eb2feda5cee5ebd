"""Base tables of a few batches of records, folded in this process by the product's own folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.derive.broker_failures import Session, broker_failures
from analytics.derive.bucket_rows import NEEDED, no_rows
from analytics.derive.bucket_tables import (
    CHANGES,
    GAUGE_STEPS,
    OF_PARTITIONS,
    SMALL_TABLES,
    BucketTables,
    derive,
)
from analytics.derive.directory_failures import (
    Failure,
    failure_columns,
    failure_row,
    in_order,
    with_begin,
)
from analytics.derive.failure_parts import TOUCHED_BY, touched_counts
from analytics.derive.failures import Failures
from analytics.derive.gauges import failure_steps
from analytics.derive.log_end import LogEnd
from analytics.fold.broker_facts import BrokerFacts, BrokerState
from analytics.fold.broker_registration import OFFLINE
from analytics.fold.bucket import BucketFold, TopicEvent
from analytics.fold.cluster_keys import EpochPart, controller_epochs, make_small_fold, small_key
from analytics.fold.key_history import Event, Sync, fold
from analytics.fold.table_rows import RowMaker
from analytics.job.derived import known, sum_up
from analytics.store.questions import GivenTables
from analytics.store.stored_tables import StoredTables
from analytics.tables import catalog as t
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
    found["logs"] = [
        {
            "source": "/logs/it's, /logs/b",
            "min_insync_replicas": 1,
            "min_insync_replicas_from": "Kafka's default",
        },
    ]
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


class Buckets(NamedTuple):
    """What is derived bucket by bucket; a bucket per partition."""

    rows: Rows
    """Of the base tables."""
    failures: list[Failure]
    known: Failures
    end: LogEnd
    made: list[BucketTables]

    def small(self, table: t.Table) -> pa.Table:
        """Return the rows of a table that is summed up over buckets."""
        return pa.concat_tables([one.small[table] for one in self.made])


def derived_buckets(batches: Sequence[Sequence[Record]], step_s: float = 1.0) -> Buckets:
    """Derive what each partition gives, in this process."""
    rows = base_rows(batches, step_s)
    failures = in_order(map(_failure, (row for row in rows["log_dirs"] if row["state"] == OFFLINE)))
    failures += broker_failures(map(session, rows["broker_sessions"]))
    numbers = sorted({row["partition"] for row in rows["partition_history"]}, key=str)
    buckets = [_bucket(rows, number) for number in numbers] or [RowsInMemory({})]
    columns = failure_columns(failures)
    touched = [
        touched_counts(one.rows(t.REPLICA_PLACEMENT, TOUCHED_BY), columns) for one in buckets
    ]
    known = with_begin(columns, sum(touched))  # type: ignore[arg-type] # arrays of one length
    last_us = events_of(batches, step_s=step_s)[-1].time if any(batches) else None
    end = LogEnd(time_us=last_us, bucket_ms=1)
    return Buckets(rows, failures, known, end, [derive(bucket, known, end) for bucket in buckets])


def derived_rows(batches: Sequence[Sequence[Record]], step_s: float = 1.0) -> Rows:
    """Return the rows of the tables that are derived bucket by bucket."""
    buckets = derived_buckets(batches, step_s)
    made, failures = buckets.made, buckets.failures
    found: Rows = {
        table.name: [row for one in made for row in one.rows[table].to_pylist()]
        for table in OF_PARTITIONS
    }
    steps = buckets.small(GAUGE_STEPS).to_pylist()
    found["gauges"] = summed_up([*steps, *failure_steps(buckets.known, buckets.end).to_pylist()])
    found["change_counts"] = buckets.small(CHANGES).to_pylist()
    parts = [part for one in made for part in one.failures]
    for table in (t.DIRECTORY_FAILURES, t.BROKER_FAILURES):
        found[table.name] = [
            failure_row(failure, [part for part in parts if part["failure"] == number])
            for number, failure in enumerate(failures)
            if (failure.directory is None) == (table is t.BROKER_FAILURES)
        ]
    for table in (*OF_PARTITIONS, t.CHANGE_COUNTS):
        found[table.name].sort(key=lambda row: tuple(str(row[name]) for name in table.order))
    return found


def summed_up(steps: Sequence[Row]) -> list[Row]:
    """Return the rows of the table of gauges, added up one by one."""
    found: list[Row] = []
    sums: dict[tuple[object, ...], list[int]] = {}
    for step in sorted(steps, key=lambda row: str(row["from_time"])):
        key = step["what"], step["broker"], step["directory"]
        so_far = sums.setdefault(key, [0, 0])
        for at, name in enumerate(("at_end", "ever")):
            so_far[at] += int(str(step[name]))
        found = [row for row in found if (*key, step["from_time"]) != tuple(row.values())[:4]]
        found.append({**step, "at_end": so_far[0], "ever": so_far[1]})
    return found


class RowsInMemory(NamedTuple):
    """The rows of a bucket, as the derived tables ask for them."""

    tables: Mapping[str, pa.Table]

    def rows(self, table: t.Table, columns: Sequence[str]) -> pa.Table:
        found = self.tables.get(table.name)
        return no_rows(table, columns) if found is None else found.select(list(columns))


def derived_tables(
    folder: Path,
    batches: Sequence[Sequence[Record]],
    step_s: float = 1.0,
    more: Mapping[str, list[Row]] = MappingProxyType({}),
) -> StoredTables:
    """Return all tables, the derived ones made from files as a replay makes them."""
    rows = base_rows(batches, step_s) | dict(more)
    folders = {}

    def write(table: t.Table, found: pa.Table) -> None:
        folders[table.name] = str(folder / table.name)
        Path(folders[table.name]).mkdir(exist_ok=True)
        pq.write_table(found, f"{folders[table.name]}/part.parquet")

    base = {}
    for table in t.TABLES:
        own = [{name: row.get(name) for name in table.schema.names} for row in rows[table.name]]
        base[table.name] = pa.Table.from_pylist(own, table.schema)
        write(table, base[table.name])
    tables = StoredTables((*t.TABLES, *SMALL_TABLES), lambda table: folders[table.name])
    facts = known(tables)
    made = derive(RowsInMemory(base), facts.columns, facts.end)
    steps = {GAUGE_STEPS: failure_steps(facts.columns, facts.end)}
    for table, found in (made.rows | made.small).items():
        write(table, pa.concat_tables([found, *([steps[table]] if table in steps else [])]))
    for table, found in sum_up(facts, made.failures, tables):
        write(table, found)
    return tables


def _bucket(rows: Rows, number: object) -> RowsInMemory:
    tables = {}
    for table, names in NEEDED.items():
        schema = table.schema
        own = [
            {name: row.get(name) for name in names}
            for row in rows[table.name]
            if row["partition"] == number
        ]
        needed = pa.schema([schema.field(name) for name in names])
        tables[table.name] = pa.Table.from_pylist(own, needed)
    return RowsInMemory(tables)


def _failure(row: Row) -> Failure:
    return Failure(
        broker=row["broker"],  # type: ignore[arg-type]
        directory=row["directory"],  # type: ignore[arg-type]
        detected_offset=row["valid_from_offset"],  # type: ignore[arg-type]
        detected_time=_microseconds(row["valid_from_time"]),
        batch=row["batch_base_offset"],  # type: ignore[arg-type]
        back_offset=row["valid_to_offset"],  # type: ignore[arg-type]
        back_time=_microseconds(row["valid_to_time"]),
        back_by=row["ended_by"],  # type: ignore[arg-type]
    )


def session(row: Row) -> Session:
    """Return a row of the table of sessions as what failures of brokers are found in."""
    return Session(
        broker=row["broker"],  # type: ignore[arg-type]
        state=str(row["state"]),
        record_type=row["record_type"],  # type: ignore[arg-type]
        from_offset=row["valid_from_offset"],  # type: ignore[arg-type]
        from_time=_microseconds(row["valid_from_time"]),
        batch=row["batch_base_offset"],  # type: ignore[arg-type]
        to_offset=row["valid_to_offset"],  # type: ignore[arg-type]
        to_time=_microseconds(row["valid_to_time"]),
        ended_by=row["ended_by"],  # type: ignore[arg-type]
    )


def _microseconds(time: object) -> int | None:
    if time is None:
        return None
    assert isinstance(time, datetime)
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def given(rows: Mapping[t.Table, list[Row] | pa.Table]) -> GivenTables:
    """Return tables of which the test has the rows, for questions."""
    return GivenTables(
        {
            table.name: own if isinstance(own, pa.Table) else table_of(table, own)
            for table, own in rows.items()
        }
    )


def table_of(table: t.Table, rows: list[Row]) -> pa.Table:
    given = [{name: row.get(name) for name in table.schema.names} for row in rows]
    return pa.Table.from_pylist(given, table.schema)


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
        from_time=columns["valid_from_time"],  # type: ignore[arg-type]
        to_time=columns["valid_to_time"],  # type: ignore[arg-type]
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
