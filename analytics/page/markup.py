"""Figures as HTML.

An element with ``data-query`` holds figures: the attribute is the SQL, ``data-table`` names the
tables that it asks. Inside it every element with ``data-row`` is one row of the answer, in its
order, and every element with ``data-column`` one value. The value is the element's text, or
``data-value`` where the text is made for readers, or null where there is ``data-null``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analytics.page.figure import Answer, Figure, FigureColumn, Unit, Value
from analytics.page.plots import Intervals, Plot, spec_text
from analytics.page.sections import Block
from analytics.page.values import escape, exact, readable, with_path
from analytics.tables.table import CLUSTER

_DAY_MS = 86_400_000
_RIGHT = {Unit.NUMBER, Unit.DURATION, Unit.SHARE, Unit.DEVIATION}


def block_html(
    block: Block,
    answer: Answer,
    bucket_ms: int,
    log_end: str,
    paths: Mapping[str, str],
    links: Mapping[str, str] | None = None,
) -> str:
    """Return one figure: plots, and its table below, with the paths of directories.

    Args:
        block: What is drawn, and of which figure.
        answer: To that figure, with rows.
        bucket_ms: Width of the stretches of figures over time.
        log_end: In ISO 8601.
        paths: Where log directories lie, by their ids.
        links: Where the pages of clusters are, by their names.
    """
    title = escape(answer.figure.title)
    parts = [f'<figure class="figure" id="figure-{escape(answer.figure.name)}">']
    if not block.plots:
        parts.append(f"<figcaption><h3>{title}</h3></figcaption>")
    if block.note:
        parts.append(f'<p class="note">{escape(block.note)}</p>')
    parts += [
        _plot_html(plot, bucket_ms, log_end)
        for plot in block.plots
        if not _is_one_bar(plot, answer)
    ]
    table = _table_html(
        answer, paths, links or {}, _span_attributes(block, answer.figure, bucket_ms)
    )
    parts.append(_details_html(answer, table, unfolded=block.open))
    parts.append("</figure>")
    return "\n".join(parts)


def tiles_html(answers: Sequence[Answer]) -> str:
    """Return figures of one row each as names and values, and the queries of all of them."""
    facts = "\n".join(_facts_html(answer) for answer in answers)
    queries = "\n\n".join(answer.figure.query for answer in answers)
    return f'<div class="tiles">\n{facts}\n</div>\n{_query_html(queries)}'


def _facts_html(answer: Answer) -> str:
    (row,) = answer.rows
    items = "".join(
        f"<div><dt>{escape(column.title)}</dt>"
        f"<dd{_cell_attributes(column, value, text)}>{escape(text)}</dd></div>"
        for column, value in zip(answer.figure.columns, row, strict=True)
        for text in (readable(value, column.unit),)
    )
    attributes = _figure_attributes(answer.figure)
    return f'<div class="facts" {attributes}><dl data-row>{items}</dl></div>'


def _is_one_bar(plot: Plot, answer: Answer) -> bool:
    """Return whether a plot by day has one day only: it would say no more than its table."""
    if not isinstance(plot, Intervals) or not plot.days:
        return False
    return len(set(answer.values(plot.start))) < 2


def _plot_html(plot: Plot, bucket_ms: int, log_end: str) -> str:
    title = f"<h3>{escape(plot.title)}</h3>"
    spec = escape(spec_text(plot, bucket_ms, log_end))
    return f'{title}\n<div class="plot" data-plot="{spec}"></div>'


def _details_html(answer: Answer, table: str, *, unfolded: bool) -> str:
    figure = answer.figure
    shown = len(answer.rows)
    count = f"{shown:,} {'row' if shown == 1 else 'rows'}"
    parts = [
        f"<details{' open' if unfolded else ''}>",
        f"<summary>{escape(figure.title)}: table, {count}</summary>",
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(figure.title)}">',
        table,
        "</div>",
    ]
    if answer.more:
        parts.append(_more_html(answer))
    if figure.sql:
        parts.append(_query_html(figure.query))
    parts.append("</details>")
    return "\n".join(parts)


def _query_html(query: str) -> str:
    return (
        f'<details class="query"><summary>Query</summary><pre>{escape_lines(query)}</pre></details>'
    )


def _span_attributes(block: Block, figure: Figure, bucket_ms: int) -> str:
    """Return when a row begins and ends, by which a reader filters: two columns, one, or none.

    What is drawn from one time to another has these; else it is the first time of a row, which may
    be that of a day or a stretch.
    """
    for plot in block.plots:
        if isinstance(plot, Intervals) and not plot.days:
            return f' data-span="{plot.start} {plot.end}"'
    for column in figure.columns:
        if column.unit is Unit.DAY:
            return f' data-span="{column.name}" data-lasts="{_DAY_MS}"'
        if column.unit is Unit.TIME:
            lasts = bucket_ms if column.name == "bucket" else 0
            return f' data-span="{column.name}" data-lasts="{lasts}"'
    return ""


def _table_html(
    answer: Answer, paths: Mapping[str, str], links: Mapping[str, str], span: str
) -> str:
    figure = answer.figure
    heads = "".join(
        f'<th scope="col" data-unit="{column.unit.value}"{_align(column)}>{escape(column.title)}'
        "</th>"
        for column in figure.columns
    )
    rows = "\n".join(_row_html(figure, row, paths, links) for row in answer.rows)
    return (
        f"<table {_figure_attributes(figure)}{span}>\n"
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
    )


def _row_html(
    figure: Figure, row: tuple[Value, ...], paths: Mapping[str, str], links: Mapping[str, str]
) -> str:
    cells = "".join(
        _cell_html(
            column, value, str(with_path(readable(value, column.unit), column.name, paths)), links
        )
        for column, value in zip(figure.columns, row, strict=True)
    )
    return f"<tr data-row>{cells}</tr>"


def _cell_html(column: FigureColumn, value: Value, text: str, links: Mapping[str, str]) -> str:
    shown = escape(text)
    if column.name == CLUSTER and text in links:
        shown = f'<a href="{escape(links[text])}">{shown}</a>'
    return f"<td{_cell_attributes(column, value, text)}{_align(column)}>{shown}</td>"


def _more_html(answer: Answer) -> str:
    figure = answer.figure
    return (
        f'<p class="more" data-query="{escape_lines(figure.count_query)}" '
        f'data-table="{" ".join(figure.tables)}">and {answer.more:,} more of <span data-row>'
        f'<span data-column="all_rows" data-value="{answer.total}">{answer.total:,}</span></span>'
        ", in the tables</p>"
    )


def _figure_attributes(figure: Figure) -> str:
    name = f'data-figure="{escape(figure.name)}"'
    if not figure.sql:
        return name
    return (
        f'{name} data-table="{" ".join(figure.tables)}" data-query="{escape_lines(figure.query)}"'
    )


def _cell_attributes(column: FigureColumn, value: Value, shown: str) -> str:
    found = exact(value, column.unit)
    text = f' data-column="{escape(column.name)}"'
    if found is None:
        return f"{text} data-null"
    if found != shown:
        text += f' data-value="{escape(found)}"'
        if column.unit is Unit.TIME:
            text += " data-time"
    return text


def _align(column: FigureColumn) -> str:
    if column.unit in _RIGHT:
        return ' class="right"'
    return ' class="id"' if column.unit is Unit.ID else ""


def escape_lines(text: str) -> str:
    """Return text of our own for HTML, with its line breaks."""
    return "\n".join(escape(line) for line in text.split("\n"))
