"""Every figure on the page is what its query gives on the tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from markupsafe import escape

from analytics.page.conditions import known_figures
from analytics.page.report_figures import ask_figures
from analytics.page.report_json import as_json
from analytics.page.report_page import derived_files, report_page
from analytics.store.questions import connection
from analytics.store.store import Store
from analytics.store.stored_tables import StoredTables
from jbodlab.pages.values import Unit, visible
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from tests.analytics.page_reader import ReadFigure, read_page, values
from tests.analytics.page_tables import (
    ALL_TABLES,
    HOSTILE,
    ONE,
    Row,
    at,
    outage,
    rows_of_text,
    some_of_everything,
    write_tables,
)
from tests.analytics.shared import Made, asked, frames, made

# A figure with its columns, and its rows below. Open incidents come first, then the latest; an open
# one lasts until the last record. Changes in one batch share a mark. A bucket is 5 seconds: the
# smallest usual width of which 200 cover 600 seconds. Neither a topic that was always available is
# among the worst, nor one that is deleted.
WORST = "topic_availability"
COUNTED = Path(__file__).with_name("figures_of_everything.txt").read_text("utf-8").split("\n\n")


@contextmanager
def tables_of(folder: Path, cluster: str = ONE) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a session that knows the Parquet files of a cluster and nothing else."""
    with connection() as fresh:
        for table in ALL_TABLES.values():
            files = str(folder / table.folder(cluster) / "*.parquet")
            fresh.execute(f"CREATE VIEW {table.name} AS FROM read_parquet('{files}')")
        yield fresh


def assert_equal_to_their_queries(
    folder: Path, figures: list[ReadFigure], cluster: str = ONE
) -> None:
    """Run the queries on the files of a cluster."""
    with tables_of(folder, cluster) as fresh:
        for figure in figures:
            found = fresh.sql(figure.query)
            names, rows = found.columns, found.fetchall()
            shown = [[plain(value) for value in row] for row in rows]
            assert values(figure.rows) == shown, figure.query
            assert all([cell.column for cell in row] == names for row in figure.rows), figure.query


def plain(value: object) -> str | None:
    if isinstance(value, datetime):
        return f"{value.replace(tzinfo=None).isoformat('T', 'milliseconds')}Z"
    if isinstance(value, date):
        return value.isoformat()
    # Control characters cannot be carried by HTML and are shown as what they are.
    shown = {0: "\\u0000", 0x202E: "\\u202e", 0x0A: "\\u000a"}
    return None if value is None else str(value).translate(shown)


@pytest.fixture(scope="module")
def page(everything: Made) -> str:
    """The page with one of everything."""
    return report_page(everything.figures, HOSTILE)


def test_every_figure_equals_its_query_on_the_tables(everything: Made, page: str) -> None:
    read = read_page(page)

    assert not read.faults
    assert len(read.figures) > sum(bool(one.rows) for one in everything.figures.answers.values())
    assert_equal_to_their_queries(everything.folder, read.figures)


def test_of_many_clusters_each_has_its_own_figures_limits_and_totals(
    everything: Made, tmp_path: Path
) -> None:
    rows = some_of_everything()
    many = rows | {
        "outages": [
            outage(n, n % 600, None if n % 7 else n % 600 + 1, cause=f"cause {n // 60}")
            for n in range(3000)
        ],
        "isr_flaps": rows["isr_flaps"][:3],
        "broker_sessions": [
            {**session, "broker": n} for n in range(50) for session in rows["broker_sessions"]
        ],
    }
    # Without records a log ends with its brokers; without both no time is known.
    clusters: dict[str, dict[str, list[Row]]] = {
        "2026-01-02": rows,
        "empty": {},
        "many": many,
        "of-brokers": {
            "brokers": [{**broker, "valid_from_time": at(9)} for broker in rows["brokers"]],
            "outages": rows["outages"],
        },
        "shorter": rows | {"records": rows["records"][:90], "controller_changes": []},
    }
    for cluster, given in clusters.items():
        write_tables(tmp_path, cluster, **dict(given))

    tables = StoredTables(Store(str(tmp_path)), clusters)
    found = ask_figures(tables, clusters, 0.9)

    ends = {name: one.span.end_ms for name, one in found.items()}
    lasts = {"2026-01-02": at(600), "many": at(600), "of-brokers": at(9), "shorter": at(89)}
    assert ends == {name: last.timestamp() * 1000 for name, last in lasts.items()} | {"empty": None}
    assert found["2026-01-02"].answers["marks"].rows == everything.figures.answers["marks"].rows
    for cluster, figures in found.items():
        read = read_page(report_page(figures, "somewhere"))
        assert_equal_to_their_queries(tmp_path, read.figures, cluster)
        with tables_of(tmp_path, cluster) as fresh:
            for name, answer in figures.answers.items():  # also those that no page shows
                ((total,),) = fresh.sql(answer.count_query).fetchall()
                rows_shown = min(total, answer.figure.limit or total)
                assert (len(answer.rows), answer.total) == (rows_shown, total), (cluster, name)
    longest = {name: one.answers["longest_outages"] for name, one in found.items()}
    assert {name: (len(one.rows), one.total) for name, one in longest.items()} == {
        **dict.fromkeys(clusters, (3, 3)),
        **{"empty": (0, 0), "many": (20, 3000)},
    }


def test_a_page_has_no_figure_and_no_section_without_rows(nothing: Made) -> None:
    page = report_page(nothing.figures, "somewhere")

    read = read_page(page)
    assert not read.faults
    assert read.figures
    assert all(figure.rows for figure in read.figures)
    assert not [text for text in ("data-plot", 'id="moves"', 'href="#moves"') if text in page]
    assert_equal_to_their_queries(nothing.folder, read.figures)


def counted(everything: Made, name: str, columns: list[str]) -> list[str]:
    """Return columns of a figure as text, times in seconds since the begin of the log."""
    answer = everything.figures.answers[name]
    times = {one.name for one in answer.figure.columns if one.unit is Unit.TIME}
    start_ms = at(0).timestamp() * 1000

    def told(column: str, value: Any) -> str:
        if value is None:
            return "-"
        if column in times:
            return f"{(value - start_ms) / 1000:g}"
        return (
            f"{value:.4g}" if isinstance(value, float) else str(value).replace(HOSTILE, "HOSTILE")
        )

    cells = ([told(column, value) for value in answer.values(column)] for column in columns)
    return [" | ".join(row) for row in zip(*cells, strict=True)]


@pytest.mark.parametrize("block", COUNTED, ids=[one.partition(":")[0] for one in COUNTED])
def test_figures_are_counted_by_hand(everything: Made, block: str) -> None:
    head, *rows = block.splitlines()
    name, _, columns = head.partition(":")

    assert counted(everything, name, columns.split()) == rows


def test_what_overlaps_in_one_partition_is_one_outage(everything: Made, tmp_path: Path) -> None:
    rows = some_of_everything()
    rows["outages"] = [
        outage(0, 100, 130, kind="under_min_isr", cause="unknown"),
        outage(0, 110, 120, cause="broker", broker=2),
        outage(0, 130, 140, cause="directory"),
        outage(0, 150, 160),
        outage(1, 100, None, kind="under_min_isr"),
        outage(1, 100, None),
    ]

    names, span = ("longest_outages", "outages_by_cause"), everything.figures.span
    longest, by_cause = asked(frames(tmp_path, **rows), *names, span=span).values()

    assert [row[:4] for row in longest.rows] == [
        ("orders", 1, "leaderless", "unknown"),
        ("orders", 0, "leaderless", "broker"),
        ("orders", 0, "leaderless", "unknown"),
    ]
    assert longest.values("lasted_ms") == [500_000, 40_000, 10_000]
    assert longest.values("leaderless_ms") == [500_000, 20_000, 10_000]
    assert longest.values("under_min_isr_ms") == [500_000, 30_000, None]
    assert longest.values("to_offset") == [None, 140, 160]
    # By kind it is one in each.
    of_both = [row[:6] for row in by_cause.rows if row[1] == "unknown"]
    assert of_both == [
        ("under_min_isr", "unknown", None, None, 2, 2),
        ("leaderless", "unknown", None, None, 2, 2),
    ]


RISK = """\
given brokers: broker rack
1 a
2 a
3 b
4 -

given topics: topic topic_id min_insync_replicas
orders id-orders 2

given partitions: topic topic_id partition replicas isr leader directories
orders id-orders 0 [1] [1] 1 [D]
orders id-orders 1 [1,2,3] [1,2,3] 1 [D,UNASSIGNED,UNASSIGNED]
orders id-orders 2 [1,2,3] [1,2] 2 [D,UNASSIGNED,UNASSIGNED]
orders id-orders 3 [1,2,3] [1] 1 [D,UNASSIGNED,UNASSIGNED]
orders id-orders 4 [1,2] [1,2] -1 [D,UNASSIGNED]
orders id-orders 5 [1,4] [1,4] 1 [D,UNASSIGNED]

given skew: scope broker directory replicas
directory 1 D 0
directory 1 D 7
""".replace("UNASSIGNED", kafka_uuid.to_text(directory_ids.UNASSIGNED))


def test_risk_is_counted_by_partition(tmp_path: Path) -> None:
    names = ("risk_now", "topics_at_risk", "empty_directories")
    answers = asked(frames(tmp_path, **rows_of_text(RISK)), *names)

    # RF 1 is never under a minimum of 2, nor at it; what has no leader is not at its minimum;
    # two of two in sync are, as one more failure stops whoever waits for both.
    assert answers["risk_now"].rows == ((1, 2, 1, 1, 1, 8, 1, None, None, 0, 0),)
    assert answers["topics_at_risk"].rows == (("orders", "id-orders", 6, 1, 1, 2, 1, 1),)
    assert answers["empty_directories"].rows == ((1, "D", None),)


def test_availability_is_held_against_an_objective(everything: Made) -> None:
    # Of 1,800,000 ms of the topic, and 2 ms of others, 90 % leave a tenth to be lost.
    (all_topics,) = asked(everything.tables, "availability", objective=0.9).values()
    (each,) = asked(everything.tables, WORST, objective=0.7048).values()

    names = ("objective", "read_budget_used", "write_budget_used", "topics_below_objective")
    found = [all_topics.values(name)[0] for name in names]
    assert found == [0.9, pytest.approx(530_251 / 180_000.2), pytest.approx(531_251 / 180_000.2), 2]
    # 70.54 % for reading is enough, 70.49 % for writing is.
    assert each.values("misses_objective") == [None]
    (other,) = asked(everything.tables, WORST, objective=0.7051).values()
    assert other.values("misses_objective") == ["writing"]
    (other,) = asked(everything.tables, WORST, objective=0.99).values()
    assert other.values("misses_objective") == ["reading and writing"]


def test_a_plot_by_day_is_drawn_from_two_days_on(everything: Made, page: str) -> None:
    availability = everything.figures.answers["daily_availability"]
    one_day = replace(availability, rows=availability.rows[:1], total=1)
    answers = dict(everything.figures.answers) | {"daily_availability": one_day}
    title = "Availability of the worst topics by day"

    assert title in page
    assert title not in report_page(replace(everything.figures, answers=answers), "somewhere")


def test_what_is_left_out_is_counted(everything: Made, page: str) -> None:
    flapping = everything.figures.answers["flapping_replicas"]

    assert (len(flapping.rows), flapping.total) == (20, 25)
    assert flapping.values("shrinks")[0] == 25
    assert "and 5 more of <span" in page


def test_text_from_the_log_stays_text(page: str) -> None:
    tags = read_page(page).tags

    assert [tag for tag, _ in tags].count("script") == 1
    assert "alert(1)</script>" not in page
    assert str(escape(visible(HOSTILE))) in page
    assert not any(name.startswith("on") for _, attributes in tags for name in attributes)


def test_the_page_asks_for_nothing_from_elsewhere(page: str) -> None:
    names = ("src", "href", "action", "srcset", "data")
    links = [given[name] for _, given in read_page(page).tags for name in names if name in given]

    assert all(link and link.startswith(("#", "data:")) for link in links)


def test_no_figure_reads_the_records(everything: Made) -> None:
    figures = [answer.figure for answer in everything.figures.answers.values()]

    assert [figure.name for figure in figures if "records" in figure.tables] == []


def test_the_page_shows_the_query_of_every_derived_table(page: str) -> None:
    queries = {file.name: file.sql for file in derived_files()}
    assert queries.keys() >= {"isr_flaps", "directory_failures", "availability"}
    assert [name for name, sql in queries.items() if str(escape(sql.strip())) not in page] == []


def test_the_page_says_what_the_tables_of_a_figure_are_made_of(page: str) -> None:
    assert "<p>isr_flaps is made of brokers, isr_changes, log, record_counts" in page


def test_a_big_log_gives_a_page_of_bounded_size(tmp_path: Path) -> None:
    rows = some_of_everything()
    rows["outages"] = [
        outage(n, n % 600, None if n % 7 else n % 600 + 1, cause=f"cause {n // 600}")
        for n in range(20_000)
    ]
    rows["broker_sessions"] = [
        {**session, "broker": n} for n in range(1500) for session in rows["broker_sessions"]
    ]

    figures = made(tmp_path, **rows).figures

    assert len(report_page(figures, "somewhere")) < 2_000_000
    over_time = figures.answers["outages_over_time"]
    assert over_time.total > len(over_time.rows)
    assert len({row[0] for row in figures.answers["broker_timeline"].rows}) <= 40


def test_times_outside_of_any_calendar_break_nothing(tmp_path: Path) -> None:
    rows = some_of_everything()
    for n, year in ((0, 1), (1, 9999)):
        rows["records"][n]["timestamp"] = datetime(year, 1, 1, tzinfo=UTC)
    rows["outages"] = [
        {**outage(n, 1, None), "from_time": datetime(1, 1, 1, tzinfo=UTC)} for n in range(3)
    ]
    rows["leadership"][1]["valid_from_time"] = None

    page = report_page(made(tmp_path, **rows).figures, "somewhere")

    assert not read_page(page).faults
    assert "0001-01-01T00:00:00.000Z" in page


def test_the_report_as_json_has_every_figure_of_the_page(everything: Made) -> None:
    figures = everything.figures

    found = json.loads(json.dumps(as_json(figures, None), allow_nan=False))

    assert found["last"] == "2026-01-01T12:10:00.000Z"
    assert list(found["figures"]) == list(figures.answers)
    flapping = found["figures"]["flapping_replicas"]
    assert (len(flapping["rows"]), flapping["all_rows"]) == (20, 25)
    assert found["figures"]["controller_epochs"]["rows"][0] == {
        "controller": None,
        "epoch": 2,
        "from_offset": 400,
        "to_offset": None,
        "from_time": "2026-01-01T12:06:40.000Z",
        "to_time": None,
        "records": 201,
    }


def test_named_figures_are_those_of_one_row(everything: Made, nothing: Made) -> None:
    assert everything.figures.named.keys() == known_figures().keys()
    assert (everything.figures.named["outages"], nothing.figures.named["outages"]) == (3, 0)
    assert nothing.figures.named["longest_leaderless_ms"] is None
