from __future__ import annotations

from pathlib import Path

from analytics.ask.partition import SOON
from analytics.read.plain_rows import SourceRow
from analytics.read.typed_columns import STRUCTS
from analytics.source.data_source import SCHEMA
from analytics.tables.catalog import TABLES
from analytics.tables.dictionary import dictionary
from analytics.tables.lineage import LOG, made_of, nearest, picture
from analytics.tables.table import TYPES, Table, TableColumn, declare

DOCS = Path(__file__).parent.parent.parent / "docs"
DICTIONARY = DOCS / "data-dictionary.md"
PICTURE = DOCS / "images" / "lineage.svg"


def test_the_data_dictionary_is_the_one_of_the_tables() -> None:
    assert DICTIONARY.read_text() == dictionary(), "python -m analytics.tables"


def test_the_picture_is_the_one_of_the_texts_of_tables() -> None:
    assert PICTURE.read_text() == picture(), "python -m analytics.tables"


def test_a_table_is_made_of_the_tables_behind_its_steps() -> None:
    assert made_of("leadership_churn") == ("leadership",)
    assert made_of("partition_history") == (LOG,)
    assert {"outages", "replica_placement"} < set(made_of("directory_failures"))


def test_the_picture_leaves_out_what_another_table_was_made_of() -> None:
    assert nearest()["topics"] == ("partitions", "topic_history")


def test_the_data_dictionary_says_where_the_cause_of_an_effect_is_looked_for() -> None:
    text = " ".join(dictionary().split())

    assert "stands in the same batch as the failure" not in text
    assert f"in its own batch, and then in the next {SOON.seconds} seconds" in text


def test_a_text_declares_a_table() -> None:
    found = declare("""
        lost_parts: one part of one
            thing
        order by of_thing, number

        of_thing (string): the thing
        number (int[]): its numbers (in pairs): a
            long list
    """)

    columns = (
        TableColumn(name="of_thing", type=TYPES["string"], meaning="the thing"),
        TableColumn(
            name="number", type=TYPES["int[]"], meaning="its numbers (in pairs): a long list"
        ),
    )
    order = ("of_thing", "number")
    assert found == Table(
        name="lost_parts", row="one part of one thing", columns=columns, order=order
    )


def test_every_table_is_ordered_by_columns_that_it_has() -> None:
    for one in TABLES:
        assert set(one.order) <= {column.name for column in one.columns}


def test_rows_of_the_data_source_have_the_columns_of_its_schema() -> None:
    made = {*SourceRow._fields, *STRUCTS, "replay_position"}

    assert set(SCHEMA.names) == made
