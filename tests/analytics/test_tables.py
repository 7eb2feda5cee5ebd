from __future__ import annotations

from pathlib import Path

from analytics.decode.plain_rows import SourceRow
from analytics.fold.broker_facts import LOSS_WINDOW_MS
from analytics.source.data_source import SCHEMA
from analytics.tables.catalog import TABLES
from analytics.tables.dictionary import dictionary

DICTIONARY = Path(__file__).parent.parent.parent / "docs" / "data-dictionary.md"


def test_the_data_dictionary_is_the_one_of_the_tables() -> None:
    assert DICTIONARY.read_text() == dictionary(), "write tables.dictionary.dictionary() there"


def test_the_data_dictionary_says_where_the_cause_of_an_effect_is_looked_for() -> None:
    text = " ".join(dictionary().split())

    assert "stands in the same batch as the failure" not in text
    assert f"in its own batch, and then in the next {LOSS_WINDOW_MS // 1000} seconds" in text


def test_every_table_is_ordered_by_columns_that_it_has() -> None:
    for table in TABLES:
        assert set(table.order) <= {column.name for column in table.columns}


def test_rows_of_the_data_source_have_the_columns_of_its_schema() -> None:
    assert SCHEMA.names == list(SourceRow._fields)
