from __future__ import annotations

import base64
import hashlib
import re

import pytest

from jbodlab.pages.page import Block, Section, html_page
from jbodlab.pages.values import NOTHING, Column, Unit, exact, readable, share_text, with_path


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100 %"),
        (0.99999999, "99.9999 %"),
        (0.5, "50 %"),
        (0.0, "0 %"),
        (1 / 3, "33.3333 %"),
        (2.5, "250 %"),
    ],
)
def test_only_what_is_whole_is_called_100_percent(share: float, text: str) -> None:
    assert share_text(share) == text


def test_the_exact_value_is_kept_beside_the_readable_one() -> None:
    assert exact(1_700_000_000_123, Unit.TIME) == "2023-11-14T22:13:20.123Z"
    assert readable(1_700_000_000_123, Unit.TIME) == "2023-11-14 22:13:20.123"
    assert (exact(1_234_567, Unit.NUMBER), readable(1_234_567, Unit.NUMBER)) == (
        "1234567",
        "1,234,567",
    )
    assert (exact(0.1 + 0.2, Unit.SHARE), readable(1 / 7 - 1, Unit.DEVIATION)) == (
        "0.30000000000000004",
        "-85.7 %",
    )
    assert (exact(None, Unit.TIME), readable(12_345, Unit.LABEL)) == (None, "12345")


def test_characters_that_control_anything_are_visible_and_markup_is_text() -> None:
    column = Column(name="x", title="<X>\x1b", unit=Unit.TEXT)
    block = Block(name="x", title="t", columns=[column], rows=[("<a id='y'>&\x00\r\n\u202e",)])

    page = html_page([Section(name="s", blocks=[block])], title="\u2066")

    assert '<td data-column="x" data-value=' not in page
    assert ">&lt;a id=&#39;y&#39;&gt;&amp;\\u0000\\u000d\\u000a\\u202e</td>" in page
    assert "&lt;X&gt;\\u001b" in page
    assert "<h1>\\u2066</h1>" in page


def test_equal_values_of_different_types_and_columns_are_shown_as_what_they_are() -> None:
    columns = [Column(name=unit.value, title="X", unit=unit) for unit in (Unit.NUMBER, Unit.LABEL)]
    rows = [(0, 1000), (0.0, 1000), (-0.0, None), (1000, 1000)]

    block = Block(name="x", title="t", columns=columns, rows=rows)
    page = html_page([Section(name="s", blocks=[block])], title="t")

    shown = re.findall("<td [^>]*>([^<]*)</td>", page)
    assert shown == ["0", "1000", "0.0", "1000", "-0.0", NOTHING, "1,000", "1000"]


def test_a_section_without_rows_is_left_out() -> None:
    column = Column(name="x", title="X", unit=Unit.NUMBER)
    empty = Block(name="none", title="None", columns=[column], rows=[])

    page = html_page([Section(name="s", title="A void", blocks=[empty])], title="t")

    assert "A void" not in page


def test_a_page_asks_for_nothing_from_elsewhere_and_allows_its_own_script_only() -> None:
    page = html_page([], title="t")

    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    (script,) = re.findall("<script>(.*)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy
    assert set(re.findall('(?:href|src)="([^"]*)"', page)) == {"data:,"}


def test_elapsed_times_are_seconds() -> None:
    assert (exact(1234, Unit.ELAPSED), readable(1234, Unit.ELAPSED)) == ("1234", "1.234 s")


def test_only_ids_of_directories_get_paths() -> None:
    paths = {"D1": "/data/d1"}

    assert with_path("D1", Unit.ID, paths) == "/data/d1 (D1)"
    assert with_path("D1", Unit.TEXT, paths) == "D1"
    assert [with_path(value, Unit.ID, paths) for value in ("D2", None)] == ["D2", None]
