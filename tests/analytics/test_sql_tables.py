"""The files of tables: heads, order, translation."""

from __future__ import annotations

import re

import pytest
import sqlglot

from analytics.engines import duck
from analytics.engines.duck import DuckEngine
from analytics.engines.functions import FUNCTIONS
from analytics.engines.sql import translate
from analytics.read.layout import read_layout
from analytics.tables.catalog import TABLES
from analytics.tables.sql_files import needed, parse, sql_files
from tests.analytics.shared import FIXTURES
from tests.analytics.small_logs import base_views, tables_of, tables_of_logs

NAMES = [table.name for table in TABLES]
LOG = FIXTURES / "4.3.1-disks" / "controller" / "__cluster_metadata-0"


def test_a_file_stands_behind_those_that_it_reads() -> None:
    seen: set[str] = set()
    for file in sql_files().values():
        assert set(file.needs) <= seen | base_views().keys() | FUNCTIONS.keys(), file.name
        seen.add(file.name)


def test_what_a_table_needs_is_all_that_is_made_for_it() -> None:
    names = [file.name for file in needed(["configs"])]

    assert names[-2:] == ["config_steps", "configs"]
    assert "partition_states" not in names


@pytest.mark.parametrize("name", sql_files())
def test_each_text_has_a_translation_that_leaves_nothing_out(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    translate(sql_files()[name].sql)

    assert caplog.records == []


def test_a_quote_within_quotes_is_escaped_as_both_engines_read_it() -> None:
    # Two of them are one for Spark 4, and none for SQLGlot.
    assert not [
        file.name for file in sql_files().values() if re.search(r"\w''|''\w|'{3}", file.sql)
    ]


def test_a_step_is_no_table_of_users() -> None:
    file = parse("x", "-- Step (kept): one thing,\n-- kept.\nSELECT 1")

    assert (file.table, file.is_kept) == (None, True)
    assert (file.head, file.sql) == ("one thing, kept.", "SELECT 1")


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT 7 DIV 2", 3),
        ("SELECT unix_micros(TIMESTAMP '1970-01-01 00:00:01')", 1_000_000),
        ("SELECT pmod(-3, 5)", 2),
        (
            "SELECT max(named_struct('n', n, 'v', v)).v FROM VALUES (1, 5), (2, NULL) AS t(n, v)",
            None,
        ),
        ("SELECT size(filter(array(1, 2, 3), each -> each > 1))", 2),
        ("SELECT element_at(array(4, 5), 1)", 4),
    ],
)
def test_what_the_texts_rely_on_means_the_same_in_duckdb(sql: str, wanted: object) -> None:
    with DuckEngine({}) as engine:
        (row,) = engine.ask(translate(sql)).fetchall()

    assert row[0] == wanted


def test_a_construction_without_translation_is_an_error() -> None:
    with pytest.raises(sqlglot.errors.UnsupportedError):
        translate("SELECT last(x, true) OVER (ORDER BY y) FROM t")


def test_tables_of_an_empty_log_are_empty() -> None:
    found = tables_of(NAMES, [])

    assert [name for name, rows in found.items() if rows] == ["logs"]


def test_tables_that_are_made_side_by_side_have_the_rows_that_each_has_alone() -> None:
    layouts = {"one": read_layout(LOG)}
    names = ["partition_history", "outages", "gauges", "problems", "what_if"]

    found = tables_of_logs(names, layouts)["one"]

    assert found == {name: tables_of_logs([name], layouts)["one"][name] for name in names}
    assert found["partition_history"]


@pytest.mark.parametrize(("few", "kind"), [(-1, "VIEW"), (duck.FEW_ROWS, "BASE TABLE")])
def test_of_few_rows_a_step_that_several_texts_read_is_asked_once(
    few: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duck, "FEW_ROWS", few)
    with DuckEngine(base_views()) as engine:
        engine.make("leadership")
        (found,) = engine.ask(
            "SELECT table_type FROM information_schema.tables WHERE table_name = 'partition_states'"
        ).fetchall()

    assert found == (kind,)


def test_rows_are_the_same_however_often_a_step_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = {"one": read_layout(LOG)}
    asked_once = tables_of_logs(NAMES, layouts)
    monkeypatch.setattr(duck, "FEW_ROWS", 0)

    assert tables_of_logs(NAMES, layouts) == asked_once


def test_each_table_is_given_once() -> None:
    given: list[str] = []
    with DuckEngine(base_views()) as engine:
        engine.make_all(NAMES, lambda name, _: given.append(name))

    assert sorted(given) == sorted(NAMES)


def test_an_error_of_who_takes_a_table_is_that_of_all() -> None:
    def take(name: str, _: object) -> None:
        if name == "leadership":
            raise OSError(28, "No space left on device")

    with DuckEngine(base_views()) as engine, pytest.raises(OSError, match="No space left"):
        engine.make_all(NAMES, take)
