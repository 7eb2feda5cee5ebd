"""The report of a cluster as one HTML page."""

from __future__ import annotations

from functools import cache

from analytics.page.figure import Answer
from analytics.page.report_figures import Figures
from analytics.page.sections import SECTIONS, FigureSection
from analytics.page.ten_questions import QUESTIONS, opening
from analytics.tables.lineage import ORIGINS, made_of
from analytics.tables.sql_files import SqlFile, sql_files
from jbodlab.pages.page import Block, Section, html_page
from jbodlab.pages.values import Unit, exact

FILE_NAME = "report.html"

GENERATOR = "jbodlab replay"
MARK = f'<meta name="generator" content="{GENERATOR}">'
"""Stands near the begin of every page, by which a later run knows that it may replace it."""
MARK_WITHIN_BYTES = 256


def report_page(
    figures: Figures, source: str, cluster: str | None = None, start: str | None = None
) -> str:
    """Return the report as HTML."""
    return html_page(
        [*(_section(section, figures) for section in SECTIONS), _questions(), _derived_tables()],
        title="Metadata log" if cluster is None else f"Metadata log of {cluster}",
        source=source,
        first=moment(figures.span.first_ms),
        last=moment(figures.span.last_ms),
        links=[] if start is None else [(start, "All clusters")],
        generator=GENERATOR,
    )


def moment(time_ms: int | None) -> str:
    """Return a time in ISO 8601, empty text for none."""
    return exact(time_ms, Unit.TIME) or ""


def answer_block(answer: Answer, figures: Figures) -> Block:
    """Return a figure as a page shows it."""
    figure, span = answer.figure, figures.span
    return Block(
        name=figure.name,
        title=figure.title,
        columns=figure.columns,
        rows=answer.rows,
        plots=figure.plots,
        note=figure.note,
        is_open=figure.is_open,
        paths=figures.paths,
        query=answer.query,
        tables=figure.tables,
        origin="; ".join(map(_origin, figure.tables)),
        total=answer.total,
        count_query=answer.count_query,
        bucket_ms=span.bucket_ms,
        end=moment(span.end_ms if span.end_ms is not None else span.last_ms),
    )


@cache
def _questions() -> Section:
    return Section(
        name="questions",
        title="Ten questions in SQL",
        note="The tables of the replay answer more than this report shows. Open them in DuckDB or "
        "in Spark, and begin with these questions.",
        texts=[
            ("Open the tables", opening()),
            *((one.text, f"-- {one.note}\n\n{one.listing}") for one in QUESTIONS),
        ],
    )


def _origin(table: str) -> str:
    return f"{table} is made of {', '.join(made_of(table))}"


@cache
def _derived_tables() -> Section:
    return Section(
        name="derived",
        title="Derived tables",
        note="Each of these tables is one query in Spark SQL on other tables, some by steps that "
        "have files of their own.",
        texts=[
            (file.name, f"-- {file.head}\n-- {_origin(file.name)}\n\n{file.sql}")
            for file in derived_files()
        ],
    )


def derived_files() -> list[SqlFile]:
    """Return the files of tables that are made of other tables."""
    files = [file for file in sql_files().values() if file.table is not None]
    return [file for file in files if not set(made_of(file.name)) <= set(ORIGINS)]


def _section(section: FigureSection, figures: Figures) -> Section:
    answers = figures.answers
    return Section(
        name=section.name,
        title=section.title,
        facts=[answer_block(answers[figure.name], figures) for figure in section.facts],
        blocks=[answer_block(answers[figure.name], figures) for figure in section.figures],
    )
