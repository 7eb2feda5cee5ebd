"""Tables as a replay writes them, made by hand: a small cluster with one of everything."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.tables.catalog import TABLES
from analytics.tables.table import Table
from tests.analytics.small_logs import answered

Row = dict[str, object]

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOSTILE = "</script><script>alert(1)</script>\"'&<b>\x00\u202e"
ALL_TABLES: Mapping[str, Table] = {table.name: table for table in TABLES}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def write_tables(folder: Path, **rows: list[Row]) -> None:
    """Write every table below a folder; those not given are empty, records are counted."""
    if "records" in rows:
        of_log = [{**row, "snapshot": False} for row in rows["records"]]
        rows.setdefault("record_counts", answered("record_counts", log_rows=of_log))
    names = {"leadership", "isr_changes"} & rows.keys()
    if names:
        given = {name: rows[name] for name in (*names, "record_counts") if name in rows}
        rows.setdefault("change_counts", answered("change_counts", log_layouts=[{}], **given))
    for name, table in ALL_TABLES.items():
        schema = table.schema
        given = [{key: row.get(key) for key in schema.names} for row in rows.get(name, [])]
        assert all(set(row) <= set(schema.names) for row in rows.get(name, [])), name
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(given, schema), folder / name / "part.parquet")


def interval(start: float, end: float | None) -> Row:
    ended = end is not None
    return {
        "valid_from_offset": int(start),
        "valid_from_time": at(start),
        "valid_to_offset": int(end) if ended else None,  # type: ignore[arg-type]
        "valid_to_time": at(end) if ended else None,  # type: ignore[arg-type]
        "duration_ms": int((end - start) * 1000) if ended else None,  # type: ignore[operator]
    }


def without_duration(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != "duration_ms"}


def replica(topic: str, partition: int) -> Row:
    return {"topic": topic, "topic_id": f"id-{topic}", "partition": partition}


def outage(
    partition: int, start: float, end: float | None, kind: str = "leaderless", **more: object
) -> Row:
    return {
        **replica("orders", partition),
        "kind": kind,
        "from_offset": int(start),
        "from_time": at(start),
        "to_offset": None if end is None else int(end),
        "to_time": None if end is None else at(end),
        "duration_ms": None if end is None else int((end - start) * 1000),
        "cause": "unknown",
        **more,
    }


def some_of_everything() -> dict[str, list[Row]]:
    """Rows for a log of 600 seconds, some with texts that want to be code."""
    lost: Row = {"cause": "directory", "broker": 1, "directory": "D1"}
    return {
        "records": [
            {
                "offset": n,
                "timestamp": at(n),
                "epoch": 1 + n // 400,
                "type": "NO_OP_RECORD" if n % 3 else "PARTITION_CHANGE_RECORD",
            }
            for n in range(601)
        ],
        "problems": [
            {"file": None, "position": None, "offset": 7, "kind": "replay", "message": HOSTILE},
            {"file": "0.log", "position": 9, "offset": 8, "kind": "crc", "message": "a\nb"},
        ],
        "logs": [
            {
                "source": HOSTILE,
                "replay_from": 0,
                "end_offset": 601,
                "min_insync_replicas": 1,
                "min_insync_replicas_from": HOSTILE,
            }
        ],
        "acls": [
            {
                "id": "a",
                "principal": HOSTILE,
                "permission": "allow",
                "operation": "read",
                "resource_type": "topic",
                "resource_name": "orders",
                "pattern": "literal",
                "host": "*",
                "valid_from_offset": 80,
                "valid_from_time": at(80),
                "record_type": "ACCESS_CONTROL_ENTRY_RECORD",
            }
        ],
        "scram_users": [
            {
                "user": HOSTILE,
                "mechanism": "SCRAM-SHA-256",
                "iterations": 4096,
                "keys": "(redacted)",
                "valid_from_offset": since,
                "valid_from_time": at(since),
                "valid_to_offset": until,
                "valid_to_time": None if until is None else at(until),
                "record_type": "USER_SCRAM_CREDENTIAL_RECORD",
            }
            for since, until in ((85, 90), (90, 95), (99, None))
        ],
        "brokers": [
            {"broker": 1, "broker_epoch": 5, "rack": HOSTILE, "fenced": False},
            {"broker": 2, "broker_epoch": 9, "rack": None, "fenced": True},
        ],
        "broker_sessions": [
            {"broker": 1, "broker_epoch": 5, "state": "unfenced", **interval(1, None)},
            {"broker": 2, "state": "fenced", "ended_by": "unfenced", **interval(2, 30.5)},
            {"broker": 2, "state": "unfenced", "ended_by": "fenced", **interval(30.5, 400)},
            {"broker": 2, "state": "fenced", **interval(400, None)},
        ],
        "log_dirs": [
            without_duration({"broker": 1, "directory": "D1", "state": state, **when})
            for state, when in (("online", interval(1, 100)), ("offline", interval(100, None)))
        ],
        "topics": [
            {"topic": "orders", "topic_id": "id-orders", "min_insync_replicas_from": "assumed"}
        ],
        "partitions": [
            {**replica("orders", n), "leader": n - 1, "replicas": [1, 2], "isr": [1]}
            for n in range(3)
        ],
        "outages": [
            outage(0, 100, 130.25, **lost),
            outage(1, 100, None, **lost),
            outage(2, 220, 221, kind="under_min_isr", cause=HOSTILE),
        ],
        "directory_failures": [
            {
                "broker": 1,
                "directory": "D1",
                "detected_offset": 100,
                "detected_time": at(100),
                "partitions_touched": 3,
                "leaders_moved": 1,
                "leaders_lost": 2,
                "leaders_still_lost": 1,
                "last_leader_in_same_batch": False,
                "leaderless": 2,
                "leaderless_ms": 530_250,
                "longest_leaderless_ms": 500_000,
                "under_min_isr": 0,
                "still_short": 1,
                "last_leader_time": at(130.25),
                "time_to_last_leader_ms": 30250,
                "state": "open",
            }
        ],
        "broker_failures": [
            {
                "broker": 2,
                "began_by": "fenced",
                "detected_offset": 400,
                "detected_time": at(400),
                "partitions_touched": 2,
                "leaders_moved": 0,
                "leaderless": 0,
                "under_min_isr": 1,
                "under_min_isr_ms": 200_000,
                "longest_under_min_isr_ms": 200_000,
                "still_short": 0,
                "state": "open",
            }
        ],
        "controller_changes": [
            {
                "epoch": 2,
                "previous_controller": 100,
                "last_offset": 399,
                "last_time": at(399),
                "from_offset": 400,
                "from_time": at(400),
                "gap_ms": 1000,
            }
        ],
        "broker_log_lines": [
            {
                "broker": 1,
                "directory": "D1",
                "detected_offset": offset,
                "time": at(98),
                "level": "ERROR",
                "log_dir": "/d1",
                "message": HOSTILE,
                "file": "server.log",
                "line": 7,
            }
            for offset in (100, None)
        ],
        "leadership": [
            {**replica("orders", 0), "leader": 1, "cause": "created", **interval(3, 100)},
            {**replica("orders", 0), "leader": -1, "cause": "directory", **interval(100, 130.25)},
            {**replica("orders", 0), "leader": 2, "cause": "recovered", **interval(130.25, None)},
            {**replica("orders", 1), "leader": 2, "cause": "broker", **interval(101, None)},
        ],
        "leadership_churn": [
            {**replica("orders", n), "changes": changes, "to_none": to_none, "last_time": at(last)}
            for n, changes, to_none, last in ((0, 2, 1, 130.25), (1, 1, 0, 101))
        ],
        "isr_changes": [
            {**replica("orders", n), "time": at(n * 150), "change": change, "cause": "broker"}
            for n, change in enumerate(("shrink", "expand", "shrink", "replace"))
        ],
        "isr_flaps": [
            {
                **replica("orders", n),
                "broker": 1,
                "shrinks": n + 1,
                "expands": n,
                "first_time": at(1),
                "last_time": at(n),
                "out_ms_total": 86_400_000 * n,
                "out_ms_max": 61_000 * n,
            }
            for n in range(25)
        ],
        "skew": [
            {
                "scope": scope,
                "broker": broker,
                "directory": "D1" if scope == "directory" else None,
                "replicas": replicas,
                "leaders": broker,
                "preferred_leaders": 1,
                "share_of_replicas": replicas / 7,
                "mean_replicas": 3.5,
                "deviation": replicas / 3.5 - 1,
                "mean_leaders": 1.5,
                "leader_deviation": broker / 1.5 - 1,
            }
            for scope in ("broker", "directory")
            for broker, replicas in ((1, 5), (2, 2))
        ],
        "gauges": [
            {
                "what": what,
                "broker": broker,
                "directory": directory,
                "from_time": at(time),
                "at_end": at_end,
                "ever": ever,
            }
            for what, broker, directory, time, at_end, ever in (
                *(("partitions", None, None, 0, 3, 3), ("leaderless", None, None, 100, 2, 2)),
                *(("leaderless", None, None, 130, 1, 2), ("leaderless", None, None, 135, 1, 1)),
                *(("offline_directories", None, None, 100, 1, 1), ("replicas", 1, None, 0, 5, 5)),
                *(("leaders", 1, None, 0, 2, 2), ("leaders", 1, None, 100, 0, 2)),
                *(("replicas", 1, "D1", 0, 5, 5), ("leaders", 1, "D1", 0, 2, 2)),
            )
        ],
        "record_rates": [
            {"from_time": at(second), "type": kind, "records": records, "stretch_ms": 5000}
            for second in (0, 5, 400)
            for kind, records in (("NO_OP_RECORD", 4), ("PARTITION_CHANGE_RECORD", 1))
        ],
        "topic_history": [
            {**change, "record_type": "TOPIC_RECORD", **without_duration(interval(3, end))}
            for change, end in (
                ({"topic": "orders"}, None),
                ({"topic": HOSTILE}, 500),
                ({"topic": "other"}, None),
            )
        ],
        "configs": [
            {
                "resource_type": "topic",
                "resource_name": "orders",
                "name": "retention.ms",
                "value": value,
                "record_type": "CONFIG_RECORD",
                **without_duration(interval(start, end)),
            }
            for value, start, end in (("1", 50, 60), ("2", 60, 70))
        ],
        "what_if": [
            {
                "scope": scope,
                "broker": broker,
                "directory": "D1" if scope == "directory" else None,
                "replicas": replicas,
                "only_copies": 0,
                "leaderless": leaderless,
                "under_min_isr": int(replicas > 0),
                "leaders_moved": min(replicas, 2),
                "unclean": 0,
            }
            for scope in ("broker", "directory")
            for broker, replicas, leaderless in ((1, 5, 0), (2, 2, 2), (3, 0, 0))
        ],
        "moves": [
            {
                **replica("orders", 0),
                "kind": kind,
                "from_broker": 1,
                "to_broker": 2,
                "queued_offset": 200,
                "queued_time": at(200),
                "ended_offset": end and int(end),
                "ended_time": end and at(end),
                "outcome": outcome,
                "duration_ms": end and int(end - 200) * 1000,
            }
            for kind, outcome, end in (
                ("reassignment", "completed", 260.0),
                ("reassignment", "running", None),
                ("directory", "swapped", 210.0),
            )
        ],
        "assignment_lag": [
            {**replica("orders", 0), "broker": 1, "lag_ms": 12},
            {**replica("orders", 1), "broker": 1, "lag_ms": None},
        ],
        "availability": [
            {
                "topic": "orders",
                "topic_id": "id-orders",
                "day": date(2026, 1, 1),
                "partitions": 3,
                "partition_ms": 1_800_000,
                "leaderless_ms": 530_250,
                "under_min_isr_ms": 1000,
                "unwritable_ms": 531_250,
                "availability": 1 - 530_250 / 1_800_000,
                "write_availability": 1 - 531_250 / 1_800_000,
            },
            {
                "topic": "orders",
                "topic_id": "id-orders",
                "day": date(2026, 1, 2),
                "partitions": 3,
                "partition_ms": 0,
                "leaderless_ms": 0,
                "under_min_isr_ms": 0,
                "unwritable_ms": 0,
            },
            *(
                {
                    "topic": name,
                    "topic_id": f"id-{name}",
                    "day": date(2026, 1, 1),
                    "partition_ms": 1,
                    "leaderless_ms": leaderless_ms,
                    "under_min_isr_ms": 0,
                    "unwritable_ms": leaderless_ms,
                }
                for name, leaderless_ms in (("deleted", 1), ("always", 0))
            ),
        ],
        "controller_epochs": [
            {
                "epoch": 1,
                "controller": 100,
                "from_offset": 0,
                "from_time": at(0),
                "to_offset": 400,
                "to_time": at(400),
                "records": 400,
            },
            {"epoch": 2, "from_offset": 400, "from_time": at(400), "records": 201},
        ],
        "features": [
            {
                "feature": "metadata.version",
                "level": 29,
                "record_type": "FEATURE_LEVEL_RECORD",
                **without_duration(interval(0, None)),
            }
        ],
    }
