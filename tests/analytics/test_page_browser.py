"""The page in a headless browser: no errors, nothing asked of a network, readable, to be zoomed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.page.report_page import report_page
from analytics.page.sections import NO_TIME, figures_of
from analytics.page.start_page import start_page, summary_of
from tests.analytics.page_tables import HOSTILE
from tests.analytics.shared import Made
from tests.headless_browser import Browser, find_browser

BROWSER = find_browser()
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the path"),
]

WIDTHS = (1280, 400)
FIRST_PLOT = "document.querySelector('#timeline .chart')"


@pytest.fixture(scope="module")
def page(everything: Made) -> Path:
    return write_page(everything)


@pytest.fixture(scope="module")
def empty_page(nothing: Made) -> Path:
    return write_page(nothing)


def write_page(made: Made) -> Path:
    path = made.folder / "report.html"
    path.write_text(report_page(made.figures, HOSTILE), "utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert BROWSER is not None
    with Browser(BROWSER, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def ranges(browser: Browser) -> list[str]:
    """Return what each plot over time says that it shows."""
    texts = browser.value("[...document.querySelectorAll('.range')].map((e) => e.textContent)")
    return [text for text in texts if text]


def middle_of_plot(browser: Browser, share: float = 0.5) -> tuple[float, float]:
    browser.value(f"{FIRST_PLOT}.scrollIntoView({{block: 'center'}})")
    box = browser.value(f"{FIRST_PLOT}.getBoundingClientRect().toJSON()")
    return box["x"] + share * box["width"], box["y"] + box["height"] / 2


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_has_no_errors_and_fits(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    browser.open(page, width, dark=dark)

    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    # Nothing that is drawn lies outside of its plot, and no text is too small to be read.
    assert browser.value(
        "[...document.querySelectorAll('svg')].every((svg) => {"
        "  const box = svg.getBoundingClientRect();"
        "  return box.width > 200 && [...svg.querySelectorAll('rect.mark, text')].every((mark) => {"
        "    const b = mark.getBoundingClientRect();"
        "    return b.left >= box.left - 2 && b.right <= box.right + 2;"
        "  });"
        "})"
    )
    sizes = browser.value(
        "[...document.querySelectorAll('body *')].filter((e) => e.childNodes.length"
        " && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))"
        ".filter((e) => !['SCRIPT', 'STYLE'].includes(e.tagName))"
        ".map((e) => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 11


@pytest.mark.parametrize("width", WIDTHS)
def test_names_and_times_do_not_cover_each_other(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)

    assert covered(browser) == []
    # Of milliseconds the texts of times are longer.
    browser.value(f"{FIRST_PLOT}.focus()")
    for _ in range(24):
        browser.press("+")
    assert " to 12:" in ranges(browser)[0]
    assert covered(browser) == []


def covered(browser: Browser) -> list[list[str]]:
    """Return the texts of plots that another one covers."""
    found = browser.value(
        "[...document.querySelectorAll('svg')].flatMap((svg) => {"
        "  const texts = [...svg.querySelectorAll('text')].map((t) => [t.textContent,"
        "    t.getBoundingClientRect()]);"
        "  return texts.flatMap(([name, a], at) => texts.slice(at + 1)"
        "    .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1"
        "      && a.top < b.bottom - 4 && b.top < a.bottom - 4).map(([other]) => [name, other]));"
        "})"
    )
    return list(found)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_of_an_empty_log_has_no_errors(
    browser: Browser, empty_page: Path, width: int
) -> None:
    browser.open(empty_page, width)

    assert browser.errors == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("document.querySelectorAll('svg').length") == 0


def test_every_plot_is_drawn_and_has_a_table(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)

    without = browser.value(
        "[...document.querySelectorAll('.plot')].filter((plot) => !plot.querySelector('.mark')"
        " || !plot.closest('figure').querySelector('details table[data-query] td')).length"
    )

    expected = sum(len(figure.plots) for figure in figures_of(NO_TIME))
    assert browser.value("document.querySelectorAll('.plot').length") == expected
    assert without == 0
    assert browser.value("document.querySelectorAll('script, b').length") == 1


def test_bars_show_what_the_table_says(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)

    # Two leaderless outages in one bucket: one bar over the whole height of its axis of 2.
    heights = browser.value(
        "[...document.querySelector('#outages .plot').querySelectorAll('.mark')]"
        ".map((mark) => Number(mark.getAttribute('height')))"
    )
    assert heights == [140]


def test_the_wheel_zooms_and_all_plots_over_time_follow(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)
    before = ranges(browser)
    x, y = middle_of_plot(browser)

    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300)

    after = ranges(browser)
    assert len(set(before)) == len(set(after)) == 1
    assert before[0] == "2026-01-01 12:00:00 to 12:10:00 UTC"
    assert before[0] != after[0]
    browser.value("document.querySelector('#timeline .bar button:last-of-type').click()")
    browser.settle()
    assert ranges(browser) == before
    assert browser.errors == []


def test_a_box_drawn_with_the_mouse_is_zoomed_to(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)
    before = ranges(browser)
    (start, y), (end, _) = middle_of_plot(browser, 0.5), middle_of_plot(browser, 0.7)

    browser.mouse("mousePressed", start, y, button="left", buttons=1, clickCount=1)
    browser.mouse("mouseMoved", (start + end) / 2, y, button="left", buttons=1)
    browser.mouse("mouseMoved", end, y, button="left", buttons=1)
    browser.mouse("mouseReleased", end, y, button="left", clickCount=1)

    first = ranges(browser)[0]
    assert first != before[0]
    assert first.startswith("2026-01-01 12:04") or first.startswith("2026-01-01 12:05")
    assert browser.value("document.querySelector('.brush')") is None
    assert browser.errors == []


def test_keys_zoom_move_and_show_all_again(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)
    before = ranges(browser)
    browser.value(f"{FIRST_PLOT}.focus()")

    seen = []
    for key in ("+", "ArrowLeft", "ArrowRight", "-", "0"):
        browser.press(key)
        seen.append(ranges(browser)[0])

    assert seen[0] == seen[2] != before[0]
    assert seen[1] not in (seen[0], before[0])
    assert seen[4] == before[0]


def test_two_fingers_zoom_and_one_moves(browser: Browser, page: Path) -> None:
    browser.open(page, 400)
    before = ranges(browser)
    x, y = middle_of_plot(browser)

    browser.touch("touchStart", (x - 20, y), (x + 20, y))
    browser.touch("touchMove", (x - 60, y), (x + 60, y))
    browser.touch("touchMove", (x - 100, y), (x + 100, y))
    browser.touch("touchEnd")

    assert ranges(browser)[0] != before[0]
    assert browser.errors == []


def test_a_mark_tells_its_row_under_the_pointer(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)
    middle_of_plot(browser)
    box = browser.value(f"{FIRST_PLOT}.querySelector('.mark').getBoundingClientRect().toJSON()")

    browser.mouse("mouseMoved", box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    assert browser.value("document.getElementById('tip').hidden") is False
    text = browser.value("document.getElementById('tip').textContent")
    assert "Broker: 1" in text
    assert "State: unfenced" in text
    browser.mouse("mouseMoved", 5, 5)
    assert browser.value("document.getElementById('tip').hidden") is True


def test_all_tables_are_printed(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)

    browser.value("dispatchEvent(new Event('beforeprint'))")
    closed = browser.value("document.querySelectorAll('details:not([open]):not(.query)').length")
    browser.value("dispatchEvent(new Event('afterprint'))")
    again = browser.value("document.querySelectorAll('details:not([open]):not(.query)').length")

    assert closed == 0
    assert again > 0


def test_times_are_shown_in_local_time_where_that_is_asked_for(
    browser: Browser, page: Path
) -> None:
    browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    browser.open(page, 1280)
    first = "document.querySelector('#incidents td[data-time]').textContent"
    before, shown = browser.value(first), ranges(browser)

    browser.value("document.querySelector('nav button').click()")
    browser.settle()

    assert (before, browser.value(first)) == ("2026-01-01 12:06:40.000", "2026-01-01 17:36:40.000")
    assert shown[0] == "2026-01-01 12:00:00 to 12:10:00 UTC"
    assert set(ranges(browser)) == {"2026-01-01 17:30:00 to 17:40:00 local time"}
    assert (
        browser.value("document.querySelector('nav button').getAttribute('aria-pressed')") == "true"
    )
    browser.value("document.querySelector('nav button').click()")
    browser.settle()
    assert browser.value(first) == before
    assert ranges(browser) == shown
    browser.call("Emulation.setTimezoneOverride", timezoneId="")
    assert browser.errors == []


def test_what_was_changed_is_marked_on_every_axis_of_time(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)

    without = browser.value(
        "[...document.querySelectorAll('.chart')]"
        ".filter((chart) => !chart.querySelector('.changed'))"
        ".map((chart) => chart.getAttribute('aria-label'))"
    )
    # Rankings have an axis of numbers, availability by day one of its own days.
    assert [label for label in without if "over time" in label] == []
    assert browser.value("document.querySelectorAll('#gauges .changed').length") > 0
    box = browser.value(
        "(() => { const mark = document.querySelector('#gauges .changed');"
        " mark.scrollIntoView({block: 'center'});"
        " return mark.getBoundingClientRect().toJSON(); })()"
    )
    browser.mouse("mouseMoved", box["x"] + box["width"] / 2, box["y"] + box["height"] - 2)
    text = browser.value("document.getElementById('tip').textContent")
    assert "topic created: " in text
    assert "and 2 more" in text


def test_a_number_over_time_holds_until_the_next(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)

    path = browser.value("document.querySelector('#figure-gauges .line').getAttribute('d')")

    # None before 100 s, then two, two at some time after 130 s, then one; upwards is less.
    ends = [float(point.split()[1]) for point in path[1:].split("L")]
    none, two, two_still, one = ends[::2]
    assert ends[1::2] == ends[::2]
    assert two == two_still < one < none


@pytest.mark.parametrize("width", WIDTHS)
def test_everything_that_can_be_used_can_be_reached_by_key(
    browser: Browser, page: Path, width: int
) -> None:
    browser.open(page, width)

    unreachable = browser.value(
        "[...document.querySelectorAll('button, input, summary, .chart, .scroll, nav a')]"
        ".filter((e) => e.tabIndex < 0).length"
    )
    assert unreachable == 0
    # Charts and tables have names for those who do not see them.
    assert browser.value("document.querySelectorAll('.chart:not([aria-label])').length") == 0


def type_into(browser: Browser, title: str, text: str) -> None:
    """Write into a field of the filters as a user does, and leave it."""
    browser.value(
        "(() => { const input = [...document.querySelectorAll('.filters label')]"
        f".find((label) => label.textContent.trim() === {title!r}).querySelector('input');"
        f" input.value = {text!r};"
        " input.dispatchEvent(new Event('input', {bubbles: true}));"
        " input.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    browser.settle()


def rows_of(browser: Browser, figure: str, column: str) -> list[str]:
    """Return what the rows of a table that are shown have in a column."""
    return list(
        browser.value(
            f"[...document.querySelectorAll('table[data-figure={figure}] tbody tr:not([hidden])"
            f" td[data-column={column}]')].map((cell) => cell.textContent)"
        )
    )


def summary_text(browser: Browser, figure: str) -> str:
    return str(
        browser.value(
            f"document.querySelector('table[data-figure={figure}]').closest('details')"
            ".querySelector('summary').textContent"
        )
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_filters_choose_rows_by_topic_and_broker(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)
    lanes = "document.querySelectorAll('#figure-broker_timeline svg rect.mark').length"
    before = {
        (figure, column): rows_of(browser, figure, column)
        for figure, column in (("flapping_replicas", "topic"), ("broker_timeline", "broker"))
    }
    marks, said = browser.value(lanes), summary_text(browser, "features_now")
    topic = before["flapping_replicas", "topic"][0]
    assert len(set(before["broker_timeline", "broker"])) > 1

    type_into(browser, "Topic", topic[:-1].upper())
    type_into(browser, "Broker", "1")

    assert set(rows_of(browser, "broker_timeline", "broker")) == {"1"}
    shown = rows_of(browser, "flapping_replicas", "topic")
    assert all(topic[:-1] in name for name in shown)
    assert set(rows_of(browser, "flapping_replicas", "broker")) <= {"1"}
    assert 0 < browser.value(lanes) < marks
    assert summary_text(browser, "flapping_replicas").endswith(f", {len(shown)} of them shown")
    assert summary_text(browser, "features_now") in (said, f"{said}, not filtered")
    type_into(browser, "Broker", "no such broker")
    assert rows_of(browser, "broker_timeline", "broker") == []
    assert "Nothing matches the filters." in browser.value(
        "document.querySelector('#figure-broker_timeline .plot').textContent"
    )
    browser.value("document.querySelector('.filters button').click()")
    browser.settle()
    for (figure, column), rows in before.items():
        assert rows_of(browser, figure, column) == rows
    assert browser.value(lanes) == marks
    assert summary_text(browser, "features_now") == said
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.errors == []


def test_filters_choose_rows_by_time_in_the_clock_that_is_shown(
    browser: Browser, page: Path
) -> None:
    browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    browser.open(page, 1280)
    whole = ranges(browser)
    starts = rows_of(browser, "incidents", "from_time")
    assert starts[0] == "2026-01-01 12:06:40.000"

    type_into(browser, "From", "2026-01-01T12:06:00")
    type_into(browser, "To", "2026-01-01T12:08:00")

    assert set(ranges(browser)) == {"2026-01-01 12:06:00.000 to 12:08:00.000 UTC"}
    shown = rows_of(browser, "incidents", "from_time")
    assert starts[0] in shown
    # A failure that began before and has not ended is of this time, too; what began behind it is
    # not.
    assert all(time < "2026-01-01 12:08:00.001" for time in shown)
    ended = browser.value(
        "[...document.querySelectorAll('table[data-figure=incidents] tbody tr:not([hidden])"
        " td[data-column=to_time]')].map((cell) => cell.textContent)"
    )
    assert all(time == "–" or time >= "2026-01-01 12:06:00" for time in ended)  # noqa: RUF001
    browser.value("document.querySelector('nav button').click()")
    browser.settle()
    from_field = "document.querySelector('.filters input[type=datetime-local]').value"
    # Seconds that are none may be left out.
    assert browser.value(from_field).removesuffix(":00") == "2026-01-01T17:36"
    assert len(rows_of(browser, "incidents", "from_time")) == len(shown)
    browser.value("document.querySelector('nav button').click()")
    browser.value("document.querySelector('.filters button').click()")
    browser.settle()
    assert rows_of(browser, "incidents", "from_time") == starts
    assert ranges(browser) == whole
    browser.call("Emulation.setTimezoneOverride", timezoneId="")
    assert browser.errors == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_start_page_has_no_errors_and_its_filters_choose_clusters(
    browser: Browser, everything: Made, nothing: Made, tmp_path: Path, width: int
) -> None:
    summaries = {"quiet": summary_of(nothing.figures), "broken": summary_of(everything.figures)}
    path = tmp_path / "report.html"
    path.write_text(start_page(summaries, {name: f"reports/{name}.html" for name in summaries}))
    browser.open(path, width)

    assert browser.errors == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert rows_of(browser, "clusters", "cluster") == ["broken", "quiet"]
    assert set(rows_of(browser, "incidents", "cluster")) == {"broken"}
    assert browser.value("document.querySelectorAll('.plot svg .mark').length") > 0
    assert browser.value("document.querySelector('td a').getAttribute('href')") == (
        "reports/broken.html"
    )
    type_into(browser, "Cluster", "qui")
    assert rows_of(browser, "clusters", "cluster") == ["quiet"]
    assert rows_of(browser, "incidents", "cluster") == []
    assert browser.errors == []
