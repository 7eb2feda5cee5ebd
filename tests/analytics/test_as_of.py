from __future__ import annotations

import pyarrow as pa

from analytics.ask.as_of import AS_OF_TABLES, difference
from analytics.tables.table import Table
from tests.analytics.page_tables import rows_of_text
from tests.analytics.stories import told

BEFORE = """
given partitions: topic topic_id partition leader replicas isr
orders A 0 1 [1,2] [1,2]
orders A 1 1 [1,2] -

given configs: resource_type resource_name name value
topic orders retention.ms 1

given brokers: broker fenced
3 false
"""
AFTER = """
given partitions: topic topic_id partition leader replicas isr
orders A 0 2 [1,2] [2]
orders A 1 1 [1,2] -

given configs: resource_type resource_name name value
topic orders retention.ms 2

given features: feature level
elr 1
"""
DIFFERENCE = """\
broker - 3 - exists yes -
config - - topic/orders/retention.ms value 1 2
feature - - elr exists - yes
partition 0 - - isr 1,2 2
partition 0 - - leader 1 2
"""


def tables(text: str) -> dict[Table, pa.Table]:
    rows = rows_of_text(text)
    return {
        table: pa.Table.from_pylist(rows.get(table.name, []), table.schema)
        for table in AS_OF_TABLES
    }


def test_what_changed_is_a_row_per_field_and_what_came_or_went_is_one_row() -> None:
    found = difference(tables(BEFORE), tables(AFTER)).to_pylist()

    columns = ("kind", "partition", "broker", "name", "field", "before", "after")
    assert told(found, columns) == DIFFERENCE.splitlines()


def test_topics_that_had_one_name_stand_in_the_order_of_their_ids() -> None:
    ids = [f"{number:02}" for number in range(50)]
    lines = "\n".join(f"orders {one}" for one in reversed(ids))

    found = difference(
        tables("given brokers: broker"), tables(f"given topics: topic topic_id\n{lines}")
    )

    assert found.column("topic_id").to_pylist() == ids
