"""The whole page: style, script and figures in one file."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from string import Template

from analytics.page.figure import Unit
from analytics.page.markup import block_html, tiles_html
from analytics.page.report_figures import Figures
from analytics.page.sections import SECTIONS, Section
from analytics.page.values import escape, exact

FILE_NAME = "report.html"

MARK = '<meta name="generator" content="jbod-replay">'
"""Stands near the begin of every page, by which a later run knows that it may replace it."""
MARK_WITHIN_BYTES = 256

_SCRIPTS = ("figures.js", "view.js", "marks.js", "gestures.js", "filters.js", "plots.js")


def report_page(figures: Figures, source: str) -> str:
    """Return the report as HTML.

    Args:
        figures: Answers to all figures.
        source: Where the log was read from, as the user named it.
    """
    style, script = _read("page.css"), "\n".join(_read(f"js/{name}") for name in _SCRIPTS)
    return Template(_read("template.html")).substitute(
        mark=MARK,
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        source=escape(source),
        first=_moment(figures.span.first_ms),
        last=_moment(figures.span.last_ms),
        links="".join(f'<a href="#{section.name}">{section.title}</a>\n' for section in SECTIONS),
        sections="\n".join(_section_html(section, figures) for section in SECTIONS),
    )


def _section_html(section: Section, figures: Figures) -> str:
    span = figures.span
    end = _moment(span.end_ms if span.end_ms is not None else span.last_ms)
    blocks = "\n".join(
        block_html(block, figures.answers[block.figure], span.bucket_ms, end, figures.paths)
        for block in section.blocks
    )
    title = f"<h2>{escape(section.title)}</h2>"
    if section.facts:
        title += "\n" + tiles_html([figures.answers[name] for name in section.facts])
    return f'<section id="{section.name}">\n{title}\n{blocks}\n</section>'


def _moment(time_ms: int | None) -> str:
    return exact(time_ms, Unit.TIME) or ""


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    # The page allows itself this script and this style and nothing else, whatever names of
    # topics, racks and files may hold. The browser hashes the text between the tags.
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
