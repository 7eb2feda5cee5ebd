"""The whole page: style, script and figures in one file."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from string import Template

from analytics.page.figure import Unit
from analytics.page.markup import block_html, tiles_html
from analytics.page.report_figures import Figures
from analytics.page.sections import SECTIONS, Block, Section
from analytics.page.values import escape, exact

FILE_NAME = "report.html"

MARK = '<meta name="generator" content="jbodlab replay">'
"""Stands near the begin of every page, by which a later run knows that it may replace it."""
MARK_WITHIN_BYTES = 256

_SCRIPTS = ("figures.js", "view.js", "marks.js", "gestures.js", "filters.js", "plots.js")


def report_page(
    figures: Figures, source: str, cluster: str | None = None, start: str | None = None
) -> str:
    """Return the report as HTML.

    Args:
        figures: Answers to all figures.
        source: Where the log was read from, as the user named it.
        cluster: Its name.
        start: Link to the start page, where there are several clusters.
    """
    sections = [section for section in SECTIONS if section.facts or _shown(section, figures)]
    links = [f'<a href="#{section.name}">{section.title}</a>\n' for section in sections]
    if start is not None:
        links.insert(0, f'<a href="{escape(start)}">All clusters</a>\n')
    return html_page(
        title="Metadata log" if cluster is None else f"Metadata log of {cluster}",
        source=source,
        first=moment(figures.span.first_ms),
        last=moment(figures.span.last_ms),
        links="".join(links),
        sections="\n".join(_section_html(section, figures) for section in sections),
    )


def html_page(*, title: str, source: str, first: str, last: str, links: str, sections: str) -> str:
    """Return a page with the style and the script that all have.

    Args:
        title: As text.
        source: What it is made of, as text.
        first: Time of the first record in ISO 8601, empty without any.
        last: Of the last.
        links: To its sections, as HTML.
        sections: As HTML.
    """
    style, script = _read("page.css"), "\n".join(_read(f"js/{name}") for name in _SCRIPTS)
    return Template(_read("template.html")).substitute(
        mark=MARK,
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        title=escape(title),
        source=escape(source),
        first=first,
        last=last,
        links=links,
        sections=sections,
    )


def moment(time_ms: int | None) -> str:
    """Return a time in ISO 8601, empty text for none."""
    return exact(time_ms, Unit.TIME) or ""


def _shown(section: Section, figures: Figures) -> list[Block]:
    """Return the figures of a section that have rows; an empty one would say nothing."""
    return [block for block in section.blocks if figures.answers[block.figure].rows]


def _section_html(section: Section, figures: Figures) -> str:
    span = figures.span
    end = moment(span.end_ms if span.end_ms is not None else span.last_ms)
    blocks = "\n".join(
        block_html(block, figures.answers[block.figure], span.bucket_ms, end, figures.paths)
        for block in _shown(section, figures)
    )
    title = f"<h2>{escape(section.title)}</h2>"
    if section.facts:
        title += "\n" + tiles_html([figures.answers[name] for name in section.facts])
    return f'<section id="{section.name}">\n{title}\n{blocks}\n</section>'


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    # The page allows itself this script and this style and nothing else, whatever names of
    # topics, racks and files may hold. The browser hashes the text between the tags.
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
