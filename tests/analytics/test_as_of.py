from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from analytics.ask.as_of import AS_OF_TABLES, difference
from analytics.tables import catalog as t
from analytics.tables.table import Table

Rows = list[dict[str, object]]

SETTING = {"resource_type": "topic", "resource_name": "orders", "name": "retention.ms"}
PARTITION = {"topic": "orders", "topic_id": "A", "partition": 0, "leader": 1, "replicas": [1, 2]}


def tables(rows: Mapping[Table, Rows]) -> dict[Table, pa.Table]:
    return {
        table: pa.Table.from_pylist(rows.get(table, []), table.schema) for table in AS_OF_TABLES
    }


def test_what_changed_is_a_row_per_field_and_what_came_or_went_is_one_row() -> None:
    before = tables(
        {
            t.PARTITIONS: [{**PARTITION, "isr": [1, 2]}, {**PARTITION, "partition": 1}],
            t.CONFIGS: [{**SETTING, "value": "1"}],
            t.BROKERS: [{"broker": 3, "fenced": False}],
        }
    )
    after = tables(
        {
            t.PARTITIONS: [{**PARTITION, "isr": [2], "leader": 2}, {**PARTITION, "partition": 1}],
            t.CONFIGS: [{**SETTING, "value": "2"}],
            t.FEATURES: [{"feature": "elr", "level": 1}],
        }
    )

    found = difference(before, after).to_pylist()

    assert [
        (row["kind"], row["partition"], row["broker"], row["name"], row["field"]) for row in found
    ] == [
        ("broker", None, 3, None, "exists"),
        ("config", None, None, "topic/orders/retention.ms", "value"),
        ("feature", None, None, "elr", "exists"),
        ("partition", 0, None, None, "isr"),
        ("partition", 0, None, None, "leader"),
    ]
    assert [(row["before"], row["after"]) for row in found] == [
        ("yes", None),
        ("1", "2"),
        (None, "yes"),
        ("1,2", "2"),
        ("1", "2"),
    ]


def test_topics_that_had_one_name_stand_in_the_order_of_their_ids() -> None:
    ids = [f"{number:02}" for number in range(50)]
    after = tables({t.TOPICS: [{"topic": "orders", "topic_id": one} for one in reversed(ids)]})

    assert difference(tables({}), after).column("topic_id").to_pylist() == ids
