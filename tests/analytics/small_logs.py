"""Base tables of a few batches of records, folded in this process by the product's own folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.derive.bucket import BUCKET_TABLES, FACTS, derive_bucket
from analytics.derive.cluster import ClusterSql
from analytics.derive.log_end import LogEnd, log_end
from analytics.derive.sql_files import Scope, SqlFiles
from analytics.rare.broker_facts import BrokerFacts, BrokerState
from analytics.rare.bucket import BucketFold, TopicEvent
from analytics.rare.cluster_keys import (
    ALL_ACLS,
    TYPES,
    EpochPart,
    config_key,
    controller_epochs,
    make_small_fold,
)
from analytics.rare.key_history import Event, Sync, fold
from analytics.rare.table_rows import RowMaker
from analytics.read.plain_rows import keys_of
from analytics.store.questions import GivenTables
from analytics.store.stored_tables import StoredTables
from analytics.tables import catalog as t
from analytics.tables.derived import BUCKET_SUMS, FAILURES
from analytics.tables.table import Table
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.metadata.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, TopicId
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
        key = _small_key(record)
        if isinstance(record, RemoveTopicRecord) and record.topic_id in names:
            key = f"c/topic/{names[record.topic_id]}"
        if key is not None:
            keyed.append(event._replace(key=key))
    keyed.sort(key=lambda event: (event.key, event.position, event.offset))
    return list(fold(keyed, syncs, make_small_fold))


def _small_key(record: Record) -> str | None:
    match record:
        case ConfigRecord():
            return config_key(record.resource_type, record.resource_name)
        case FeatureLevelRecord():
            return f"f/{record.name}"
        case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
            return ALL_ACLS
        case UserScramCredentialRecord(name=name) | RemoveUserScramCredentialRecord(name=name):
            return f"s/{name}"
        case _:
            broker = keys_of(record).broker if record.NAME in TYPES else None
            return None if broker is None else f"b/{broker}"


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


class InMemory(GivenTables):
    """Tables of which a test has the rows; what it does not give is empty."""

    def __init__(self, rows: Mapping[str, Sequence[Row]]) -> None:
        every = (*t.TABLES, *BUCKET_SUMS, FAILURES)
        self.tables = {table.name: table_of(table, rows.get(table.name, ())) for table in every}
        super().__init__(self.tables)

    def rows(self, table: Table, columns: Sequence[str]) -> pa.Table:
        return self.tables[table.name].select(list(columns))

    def all_rows(self, table: Table) -> list[Row]:
        """Return the rows of a table in its order."""
        found: list[Row] = self.tables[table.name].to_pylist()
        return in_order(found, table)


def derived(
    batches: Sequence[Sequence[Record]], step_s: float = 1.0, **more: list[Row]
) -> InMemory:
    """Return all tables, the derived ones made with a bucket for each number of a partition."""
    found = InMemory(base_rows(batches, step_s) | more)
    end = log_end(found)
    sql = ClusterSql(found, end)
    failures = sql.known_failures()
    numbers = pc.unique(found.tables["partition_history"].column("partition"))
    parts = [
        dict(
            derive_bucket(
                {
                    table: found.tables[table.name].filter(pc.field("partition") == number)
                    for table in FACTS
                },
                failures,
                end,
            )
        )
        for number in numbers
    ]
    for table in BUCKET_TABLES:
        empty = table.schema.empty_table()
        found.tables[table.name] = pa.concat_tables([empty, *(part[table] for part in parts)])
    with sql:
        found.tables.update((table.name, rows) for table, rows in sql.derive())
    return found


def derived_rows(
    table: Table, batches: Sequence[Sequence[Record]], step_s: float = 1.0
) -> list[Row]:
    """Return the rows of a derived table."""
    return derived(batches, step_s).all_rows(table)


def answered(
    scope: Scope, table: Table, end_s: float | None = None, **rows: Sequence[Row]
) -> list[Row]:
    """Return what the SQL of a table gives, in its order, or in that of its columns.

    Args:
        scope: Where it is asked.
        table: The table.
        end_s: End of the log, in seconds since 1970; stretches of time have 10 milliseconds.
        rows: Of the tables that it reads.
    """
    end = LogEnd(time_us=None if end_s is None else round(end_s * 1_000_000), bucket_ms=10)
    with SqlFiles(scope, InMemory(rows), end) as sql:
        found: list[Row] = sql.answer(table).to_pylist()
    return in_order(found, table)


def in_order(rows: list[Row], table: Table) -> list[Row]:
    """Return rows in the order of their table, or in that of its columns; null is first."""
    names = table.order or table.schema.names
    return sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in names])


def derived_tables(
    folder: Path,
    batches: Sequence[Sequence[Record]],
    step_s: float = 1.0,
    more: Mapping[str, list[Row]] = MappingProxyType({}),
) -> StoredTables:
    """Return all tables, in files."""
    found = derived(batches, step_s, **more)
    for table in t.TABLES:
        (folder / table.name).mkdir()
        pq.write_table(found.tables[table.name], folder / table.name / "part.parquet")
    return StoredTables(t.TABLES, lambda table: str(folder / table.name))


def table_of(table: Table, rows: Sequence[Row]) -> pa.Table:
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
