"""A page of sections: tables with their plots, in one file with the style and the script.

An element with ``data-query`` holds figures: the attribute is the SQL, ``data-table`` names the
tables that it asks. Inside it every element with ``data-row`` is one row of the answer, in its
order, and every element with ``data-column`` one value. The value is the element's text, or
``data-value`` where the text is made for readers, or null where there is ``data-null``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

from jbodlab.pages.plots import Intervals, Plot
from jbodlab.pages.values import Column, Unit, Value, exact, readable, visible, with_path

if TYPE_CHECKING:
    from jinja2 import Template

_SCRIPTS = ("figures.js", "view.js", "marks.js", "gestures.js", "filters.js", "plots.js")
_DAY_MS = 86_400_000


_TEXTS = 256
"""Longer texts of pages that are kept as HTML: those that are equal in each report, and some."""


class Cell(NamedTuple):
    """A value as HTML: the attributes of its element, and its text."""

    attributes: Markup
    text: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A table, and plots of its rows above it.

    Attributes:
        name: Of the figure.
        title: As text.
        columns: Of the table.
        rows: Values in the order of the columns; times and durations in milliseconds.
        plots: Plots of the rows.
        note: A sentence above the table.
        is_open: Whether the table is unfolded from the begin.
        paths: Where log directories lie, by their ids.
        links: Addresses by the values of the column `cluster`.
        query: SQL that gives the rows; empty where there is none.
        tables: Names of the tables that it asks.
        origin: The source of these, as text.
        total: Rows that there are, the hidden ones included; 0 where none are hidden.
        count_query: SQL that gives that number.
        rest: Where the hidden rows are.
        bucket_ms: Width of the stretches of time in a table over time.
        end: End of intervals without an end, as an exact value; empty for none.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    plots: Sequence[Plot] = ()
    note: str = ""
    is_open: bool = False
    paths: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    tables: Sequence[str] = ()
    origin: str = ""
    total: int = 0
    count_query: str = ""
    rest: str = "in the tables"
    bucket_ms: int = 0
    end: str = ""

    @property
    def more(self) -> int:
        """Rows that are hidden."""
        return max(0, self.total - len(self.rows))

    @property
    def drawn(self) -> list[Plot]:
        """Plots that say more than the table; one day alone is drawn by no plot over days."""
        return [plot for plot in self.plots if not self._is_one_day(plot)]

    @property
    def has_heading(self) -> bool:
        """Whether the title is above the table: alone, or as that of a plot."""
        return not self.plots or any(not plot.title for plot in self.drawn)

    @property
    def span(self) -> str:
        """Columns of the begin and the end of a row, by which a reader filters.

        There are two columns, one, or none. A table drawn as intervals has the columns of these;
        any other has the first column of times, of which a row may be a day or a stretch.
        """
        for plot in self.plots:
            if isinstance(plot, Intervals) and not plot.days:
                return f"{plot.start} {plot.end}"
        return next((column.name for column in self.columns if column.unit in _TIMES), "")

    @property
    def lasts_ms(self) -> int:
        """Time that a row with one time covers."""
        is_day = any(column.unit is Unit.DAY for column in self.columns)
        return _DAY_MS if is_day else self.bucket_ms if self.span == "bucket" else 0

    @property
    def pairs(self) -> list[tuple[Column, Cell]]:
        """The columns, and the values of the first row."""
        pairs = zip(self.columns, self.rows[0], strict=True)
        return [(column, self._cell(column, value)) for column, value in pairs]

    @property
    def body(self) -> Markup:
        """The rows as HTML: a report has thousands of values, and few different ones."""
        made = [self._td_of(at, each) for at, each in enumerate(self.columns)]
        rows = (
            "".join([td(value) for td, value in zip(made, row, strict=True)]) for row in self.rows
        )
        return Markup("".join([f"<tr data-row>{row}</tr>\n" for row in rows]))

    def _td_of(self, at: int, column: Column) -> Callable[[Value], str]:
        td = partial(self._td, column)
        # 0.0 is equal to -0.0, and to 0, which are other texts.
        return td if any(type(row[at]) is float for row in self.rows) else lru_cache(None)(td)

    def _td(self, column: Column, value: Value) -> str:
        attributes, text = self._cell(column, value)
        if column.name == "cluster" and value in self.links:
            text = Markup('<a href="{}">{}</a>').format(visible(self.links[str(value)]), text)
        style = f' class="{style_of(column)}"' if style_of(column) else ""
        return f"<td {attributes}{style}>{text}</td>"

    def _cell(self, column: Column, value: Value) -> Cell:
        unit, own = column.unit, exact(value, column.unit)
        text = str(with_path(readable(value, unit), unit, self.paths))
        attributes = f'data-column="{escape(column.name)}"'
        if own is None:
            attributes += " data-null"
        elif own != text:
            attributes += f' data-value="{escape(visible(own))}"'
            attributes += " data-time" * (unit is Unit.TIME)
        return Cell(Markup(attributes), escape(visible(text)))

    def plot_json(self, plot: Plot) -> str:
        """Return a plot for the script."""
        spec = {"kind": type(plot).__name__.lower(), **asdict(plot)}
        spec |= {"title": plot.title or self.title, "bucketMs": self.bucket_ms, "logEnd": self.end}
        return json.dumps(spec, separators=(",", ":"))

    def _is_one_day(self, plot: Plot) -> bool:
        if not isinstance(plot, Intervals) or not plot.days:
            return False
        at = [column.name for column in self.columns].index(plot.start)
        return len({row[at] for row in self.rows}) < 2


_TIMES = {Unit.TIME, Unit.ELAPSED, Unit.DAY}
_NUMBERS = (Unit.NUMBER, Unit.DURATION, Unit.SHARE, Unit.DEVIATION, Unit.ELAPSED)
_CLASSES = {**dict.fromkeys(_NUMBERS, "right"), Unit.ID: "id"}


def style_of(column: Column) -> str:
    """Return the class of a column in the style sheet; empty for none."""
    return _CLASSES.get(column.unit, "")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an experiment ended; `outcome` is PASS, FAIL or INCONCLUSIVE."""

    outcome: str
    sentence: str
    reasons: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, and blocks below it.

    Attributes:
        name: Of the element, unique in its page.
        title: As text; without one the section has no heading and no link to it.
        blocks: Tables; those without rows are left out, and so is a section of nothing else.
        facts: Tables of one row each, shown as names and values above the others.
        verdict: Shown above all.
        note: A sentence below the heading.
        texts: Titles and preformatted texts, below the blocks.
    """

    name: str
    title: str = ""
    blocks: Sequence[Block] = ()
    facts: Sequence[Block] = ()
    verdict: Verdict | None = None
    note: str = ""
    texts: Sequence[tuple[str, str]] = ()

    @property
    def filled(self) -> list[Block]:
        """The blocks that have rows."""
        return [block for block in self.blocks if block.rows]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.filled or self.facts or self.verdict or self.texts)


def html_page(
    sections: Sequence[Section],
    *,
    title: str,
    source: str = "",
    lead: str = "",
    first: str = "",
    last: str = "",
    links: Sequence[tuple[str, str]] = (),
    generator: str = "",
    is_elapsed: bool = False,
) -> str:
    """Return a page.

    Args:
        sections: Those without anything to show are left out.
        title: As text.
        source: The source of the page.
        lead: A sentence below the title.
        first: The first moment that plots over time show, as an exact value; empty for none.
        last: The last one.
        links: Addresses and texts before the links to the sections.
        generator: Name of the program, by which it knows its own pages again.
        is_elapsed: Whether times are those since the start of a run, not those of a calendar.
    """
    shown = [section for section in sections if not section.is_empty]
    return _template().render(
        sections=shown,
        title=title,
        source=source,
        lead=lead,
        first=first,
        last=last,
        links=[*links, *((f"#{each.name}", each.title) for each in shown if each.title)],
        generator=generator,
        is_elapsed=is_elapsed,
    )


@cache
def _template() -> Template:
    # Imported here: most commands of the program make no page.
    from jinja2 import Environment, StrictUndefined

    def finalize(value: object) -> object:
        return visible(value) if type(value) is str else value

    environment = Environment(
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _read("page.css"), "\n".join(_read(f"js/{name}") for name in _SCRIPTS)
    environment.globals.update(
        style_of=style_of,
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
    )
    environment.filters["lines"] = _lines
    return environment.from_string(_read("page.html"))


@lru_cache(_TEXTS)
def _lines(text: str) -> Markup:
    return Markup("\n").join(escape(visible(line)) for line in text.split("\n"))


def _read(name: str) -> str:
    data = pkgutil.get_data(__package__, name)
    assert data is not None
    return data.decode()


def _hash(text: str) -> str:
    # The page allows itself this script and this style and nothing else, whatever names of
    # topics, racks and files may hold. The browser hashes the text between the tags.
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
