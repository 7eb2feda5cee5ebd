"""The page in a headless browser: no errors, nothing asked of a network, readable, to be zoomed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics.page.report_page import report_page
from analytics.page.sections import FIGURES
from analytics.page.start_page import start_page, summary_of
from tests.analytics.page_tables import HOSTILE
from tests.analytics.shared import Made
from tests.headless_browser import Browser, find_browser

BROWSER = find_browser()
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the path"),
]

on_any_screen = pytest.mark.parametrize("width", [1280, 400])
CHART = "#timeline .chart"
CLOCK = "nav button"
CLEAR = ".filters button"


class Shown:
    """A page in the browser."""

    def __init__(self, browser: Browser, page: Path, width: int, *, dark: bool = False) -> None:
        self.browser = browser
        browser.open(page, width, dark=dark)

    def value(self, expression: str) -> Any:
        return self.browser.value(expression)

    def all(self, selector: str, get: str = "e.textContent", where: str = "true") -> list[Any]:
        """Return something of each element `e` for which a condition holds."""
        found = f"[...document.querySelectorAll({selector!r})].filter((e) => {where})"
        return list(self.value(f"{found}.map((e) => {get})"))

    def first(self, selector: str, get: str = "e.textContent") -> Any:
        return self.value(f"((e) => {get})(document.querySelector({selector!r}))")

    def count(self, selector: str, where: str = "true") -> int:
        return len(self.all(selector, "1", where))

    def click(self, selector: str) -> None:
        self.first(selector, "e.click()")
        self.browser.settle()

    def place(self, selector: str, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
        """Scroll to an element; returns a place at shares of its width and height."""
        self.first(selector, "e.scrollIntoView({block: 'center'})")
        box = self.first(selector, "e.getBoundingClientRect().toJSON()")
        return box["x"] + across * box["width"], box["y"] + down * box["height"]

    def ranges(self) -> list[str]:
        """Return what each plot over time says that it shows."""
        return list(filter(None, self.all(".range")))

    def type_into(self, title: str, text: str) -> None:
        """Write into a field of the filters as a user does, and leave it."""
        self.value(
            "(() => { const input = [...document.querySelectorAll('.filters label')]"
            f".find((label) => label.textContent.trim() === {title!r}).querySelector('input');"
            f" input.value = {text!r};"
            " input.dispatchEvent(new Event('input', {bubbles: true}));"
            " input.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        self.browser.settle()

    def rows_of(self, figure: str, column: str) -> list[str]:
        """Return what the rows of a table that are shown have in a column."""
        rows = f"table[data-figure={figure}] tbody tr:not([hidden])"
        return self.all(f"{rows} td[data-column={column}]")

    def summary_of(self, figure: str) -> str:
        table = f"table[data-figure={figure}]"
        return str(self.first(table, "e.closest('details').querySelector('summary').textContent"))


def write_page(made: Made) -> Path:
    path = made.folder / "report.html"
    path.write_text(report_page(made.figures, HOSTILE), "utf-8")
    return path


@pytest.fixture(scope="module")
def page(everything: Made) -> Path:
    return write_page(everything)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert BROWSER is not None
    with Browser(BROWSER, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def width() -> int:
    return 1280


@pytest.fixture
def shown(browser: Browser, page: Path, width: int) -> Iterator[Shown]:
    """The page with one of everything, which has no error whatever is done with it."""
    yield Shown(browser, page, width)
    assert browser.errors == []
    assert browser.value("document.documentElement.scrollWidth") <= width


@pytest.fixture
def in_kolkata(browser: Browser) -> Iterator[None]:
    browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    yield
    browser.call("Emulation.setTimezoneOverride", timezoneId="")


@on_any_screen
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_has_no_errors_and_fits(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    shown = Shown(browser, page, width, dark=dark)

    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert shown.value("document.documentElement.scrollWidth") <= width
    # Nothing that is drawn lies outside of its plot, and no text is too small to be read.
    for left, right, marks in shown.all(
        "svg",
        "((box) => [box.left, box.right, [...e.querySelectorAll('rect.mark, text')]"
        ".map((mark) => mark.getBoundingClientRect()).map((b) => [b.left, b.right])])"
        "(e.getBoundingClientRect())",
    ):
        assert right - left > 200
        assert all(left - 2 <= begin and end <= right + 2 for begin, end in marks)
    sizes = shown.all(
        "body *:not(script):not(style)",
        "parseFloat(getComputedStyle(e).fontSize)",
        "[...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())",
    )
    assert min(sizes) >= 11


@on_any_screen
def test_names_and_times_do_not_cover_each_other(shown: Shown) -> None:
    assert covered(shown) == []
    # Of milliseconds the texts of times are longer.
    shown.first(CHART, "e.focus()")
    for _ in range(24):
        shown.browser.press("+")
    assert " to 12:" in shown.ranges()[0]
    assert covered(shown) == []


def covered(shown: Shown) -> list[list[str]]:
    """Return the texts of plots that another one covers."""
    found = shown.all(
        "svg",
        "((texts) => texts.flatMap(([name, a], at) => texts.slice(at + 1)"
        ".filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1"
        " && a.top < b.bottom - 4 && b.top < a.bottom - 4).map(([other]) => [name, other])))"
        "([...e.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()]))",
    )
    return [pair for pairs in found for pair in pairs]


@on_any_screen
def test_the_page_of_an_empty_log_has_no_errors(
    browser: Browser, nothing: Made, width: int
) -> None:
    shown = Shown(browser, write_page(nothing), width)

    assert browser.errors == []
    assert shown.value("document.documentElement.scrollWidth") <= width
    assert shown.count("svg") == 0


def test_every_plot_is_drawn_and_has_a_table(shown: Shown) -> None:
    table = "e.closest('figure').querySelector('details table[data-query] td')"

    assert shown.count(".plot") == sum(len(figure.plots) for figure in FIGURES)
    assert shown.all(".plot", where=f"!e.querySelector('.mark') || !{table}") == []
    assert shown.count("script, b") == 1


def test_bars_show_what_the_table_says(shown: Shown) -> None:
    # Two leaderless outages in one bucket: one bar over the whole height of its axis of 2.
    heights = shown.first(
        "#outages .plot",
        "[...e.querySelectorAll('.mark')].map((mark) => Number(mark.getAttribute('height')))",
    )
    assert heights == [140]


def test_the_wheel_zooms_and_all_plots_over_time_follow(shown: Shown) -> None:
    before = shown.ranges()

    shown.browser.mouse("mouseWheel", *shown.place(CHART), deltaX=0, deltaY=-300)

    after = shown.ranges()
    assert len(set(before)) == len(set(after)) == 1
    assert before[0] == "2026-01-01 12:00:00 to 12:10:00 UTC"
    assert before[0] != after[0]
    shown.click("#timeline .bar button:last-of-type")
    assert shown.ranges() == before


def test_a_box_drawn_with_the_mouse_is_zoomed_to(shown: Shown) -> None:
    mouse, (start, y), (end, _) = shown.browser.mouse, shown.place(CHART), shown.place(CHART, 0.7)

    mouse("mousePressed", start, y, button="left", buttons=1, clickCount=1)
    mouse("mouseMoved", (start + end) / 2, y, button="left", buttons=1)
    mouse("mouseMoved", end, y, button="left", buttons=1)
    mouse("mouseReleased", end, y, button="left", clickCount=1)

    assert shown.ranges()[0].startswith(("2026-01-01 12:04", "2026-01-01 12:05"))
    assert shown.count(".brush") == 0


def test_keys_zoom_move_and_show_all_again(shown: Shown) -> None:
    before = shown.ranges()[0]
    shown.first(CHART, "e.focus()")

    seen = []
    for key in ("+", "ArrowLeft", "ArrowRight", "-", "0"):
        shown.browser.press(key)
        seen.append(shown.ranges()[0])

    assert seen[0] == seen[2] != before
    assert seen[1] not in (seen[0], before)
    assert seen[4] == before


@pytest.mark.parametrize("width", [400])
def test_two_fingers_zoom_and_one_moves(shown: Shown) -> None:
    before = shown.ranges()
    x, y = shown.place(CHART)

    shown.browser.touch("touchStart", (x - 20, y), (x + 20, y))
    shown.browser.touch("touchMove", (x - 60, y), (x + 60, y))
    shown.browser.touch("touchMove", (x - 100, y), (x + 100, y))
    shown.browser.touch("touchEnd")

    assert shown.ranges()[0] != before[0]


def test_a_mark_tells_its_row_under_the_pointer(shown: Shown) -> None:
    shown.browser.mouse("mouseMoved", *shown.place(f"{CHART} .mark"))

    assert shown.first("#tip", "e.hidden") is False
    text = shown.first("#tip")
    assert "Broker: 1" in text
    assert "State: unfenced" in text
    shown.browser.mouse("mouseMoved", 5, 5)
    assert shown.first("#tip", "e.hidden") is True


def test_all_tables_are_printed(shown: Shown) -> None:
    closed = "details:not([open]):not(.query)"

    shown.value("dispatchEvent(new Event('beforeprint'))")
    assert shown.count(closed) == 0
    shown.value("dispatchEvent(new Event('afterprint'))")
    assert shown.count(closed) > 0


@pytest.mark.usefixtures("in_kolkata")
def test_times_are_shown_in_local_time_where_that_is_asked_for(shown: Shown) -> None:
    time = "#incidents td[data-time]"
    utc, ranges = "2026-01-01 12:06:40.000", shown.ranges()
    assert (shown.first(time), ranges[0]) == (utc, "2026-01-01 12:00:00 to 12:10:00 UTC")

    shown.click(CLOCK)

    assert shown.first(time) == "2026-01-01 17:36:40.000"
    assert set(shown.ranges()) == {"2026-01-01 17:30:00 to 17:40:00 local time"}
    assert shown.first(CLOCK, "e.getAttribute('aria-pressed')") == "true"
    shown.click(CLOCK)
    assert (shown.first(time), shown.ranges()) == (utc, ranges)


def test_what_was_changed_is_marked_on_every_axis_of_time(shown: Shown) -> None:
    without = shown.all(".chart", "e.getAttribute('aria-label')", "!e.querySelector('.changed')")

    # Rankings have an axis of numbers, availability by day one of its own days.
    assert [label for label in without if "over time" in label] == []
    x, bottom = shown.place("#gauges .changed", down=1)
    shown.browser.mouse("mouseMoved", x, bottom - 2)
    text = shown.first("#tip")
    assert "topic created: " in text
    assert "and 2 more" in text


def test_a_number_over_time_holds_until_the_next(shown: Shown) -> None:
    path = shown.first("#figure-gauges .line", "e.getAttribute('d')")

    # None before 100 s, then two, two at some time after 130 s, then one; upwards is less.
    ends = [float(point.split()[1]) for point in path[1:].split("L")]
    none, two, two_still, one = ends[::2]
    assert ends[1::2] == ends[::2]
    assert two == two_still < one < none


@on_any_screen
def test_everything_that_can_be_used_can_be_reached_by_key_and_has_a_name(shown: Shown) -> None:
    used = "button, input, summary, .chart, .scroll, nav a"

    assert shown.all(used, where="e.tabIndex < 0") == []
    # Charts and tables have names for those who do not see them.
    assert shown.count(".chart:not([aria-label])") == 0


@on_any_screen
def test_filters_choose_rows_by_topic_and_broker(shown: Shown) -> None:
    lanes = "#figure-broker_timeline svg rect.mark"
    columns = (("flapping_replicas", "topic"), ("broker_timeline", "broker"))
    topics, brokers = before = [shown.rows_of(*column) for column in columns]
    marks, said = shown.count(lanes), shown.summary_of("features_now")
    assert len(set(brokers)) > 1

    shown.type_into("Topic", topics[0][:-1].upper())
    shown.type_into("Broker", "1")

    assert set(shown.rows_of("broker_timeline", "broker")) == {"1"}
    rows = shown.rows_of("flapping_replicas", "topic")
    assert all(topics[0][:-1] in name for name in rows)
    assert set(shown.rows_of("flapping_replicas", "broker")) <= {"1"}
    assert 0 < shown.count(lanes) < marks
    assert shown.summary_of("flapping_replicas").endswith(f", {len(rows)} of them shown")
    assert shown.summary_of("features_now") in (said, f"{said}, not filtered")
    shown.type_into("Broker", "no such broker")
    assert shown.rows_of("broker_timeline", "broker") == []
    assert "Nothing matches the filters." in shown.first("#figure-broker_timeline .plot")
    shown.click(CLEAR)
    assert [shown.rows_of(*column) for column in columns] == before
    assert shown.count(lanes) == marks
    assert shown.summary_of("features_now") == said


@pytest.mark.usefixtures("in_kolkata")
def test_filters_choose_rows_by_time_in_the_clock_that_is_shown(shown: Shown) -> None:
    whole = shown.ranges()
    starts = shown.rows_of("incidents", "from_time")
    assert starts[0] == "2026-01-01 12:06:40.000"

    shown.type_into("From", "2026-01-01T12:06:00")
    shown.type_into("To", "2026-01-01T12:08:00")

    assert set(shown.ranges()) == {"2026-01-01 12:06:00.000 to 12:08:00.000 UTC"}
    rows = shown.rows_of("incidents", "from_time")
    assert starts[0] in rows
    # A failure that began before and has not ended is of this time, too; what began behind it is
    # not.
    assert all(time < "2026-01-01 12:08:00.001" for time in rows)
    ended = shown.rows_of("incidents", "to_time")
    assert all(time == "–" or time >= "2026-01-01 12:06:00" for time in ended)  # noqa: RUF001
    shown.click(CLOCK)
    # Seconds that are none may be left out.
    from_field = shown.first(".filters input[type=datetime-local]", "e.value")
    assert from_field.removesuffix(":00") == "2026-01-01T17:36"
    assert len(shown.rows_of("incidents", "from_time")) == len(rows)
    shown.click(CLOCK)
    shown.click(CLEAR)
    assert shown.rows_of("incidents", "from_time") == starts
    assert shown.ranges() == whole


@on_any_screen
def test_the_start_page_has_no_errors_and_its_filters_choose_clusters(
    browser: Browser, everything: Made, nothing: Made, tmp_path: Path, width: int
) -> None:
    summaries = {"quiet": summary_of(nothing.figures), "broken": summary_of(everything.figures)}
    path = tmp_path / "report.html"
    path.write_text(start_page(summaries, {name: f"reports/{name}.html" for name in summaries}))
    shown = Shown(browser, path, width)

    assert shown.value("document.documentElement.scrollWidth") <= width
    assert shown.rows_of("clusters", "cluster") == ["broken", "quiet"]
    assert set(shown.rows_of("incidents", "cluster")) == {"broken"}
    assert shown.count(".plot svg .mark") > 0
    assert shown.first("td a", "e.getAttribute('href')") == "reports/broken.html"
    shown.type_into("Cluster", "qui")
    assert shown.rows_of("clusters", "cluster") == ["quiet"]
    assert shown.rows_of("incidents", "cluster") == []
    assert browser.errors == []
