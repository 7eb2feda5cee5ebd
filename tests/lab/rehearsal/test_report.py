"""Files that are kept of a run, and what is drawn of it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from lab.rehearsal.facts import Counted, Facts, StreamsFacts, Verdict
from lab.report import junit, page
from tests.lab.rehearsal.runs import (
    COUNTING,
    GOOD,
    HIT,
    P0,
    TRANSACTIONAL,
    event,
    facts,
    fault,
    isr,
    kept,
    leader,
    steady,
    transaction,
    writer,
)


def test_a_result_says_what_was_measured() -> None:
    found = kept(GOOD)

    assert found["verdict"] == "PASS"
    assert found["metrics"]["first.detected"] == {"value": 0.2, "unit": "duration"}
    assert found["metrics"]["first.isr_back"]["value"] == 0.5
    assert found["metrics"]["first.reported"]["value"] == -1
    assert found["directories"] == {"broker-1/dir-1": [[1.2, "offline"], [3.1, "online"]]}
    assert found["partitions"]["orders-0"] == [
        [1.3, 2, 2, 3, [], []],
        [3.5, 2, 3, 3, [], []],
    ]
    assert sum(found["clients"][0]["good"]) == 100


def test_eligible_leader_replicas_are_shown_with_the_partition_that_has_no_leader() -> None:
    elr = {"elr": [1], "last_known_elr": [2]}
    lost = [
        leader(1.3, -1),
        isr(1.3, 0),
        event(1.3, "metadata", "elr", partition=P0, data=elr),
    ]

    run = kept(facts(steady(0, 10), *lost, faults=[fault()]))

    assert run["partitions"]["orders-0"][-1] == [1.3, -1, 0, 3, [1], [2]]
    assert "no leader, 0 of 3 in sync, eligible [1], last known eligible [2]" in page.page([run])


class Markup(HTMLParser):
    """Collects what a page would load, and whether every element is closed."""

    VOID = ("meta", "link")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        links = [value or "" for name, value in attributes if name in ("src", "href")]
        self.loaded += [link for link in links if not link.startswith(("#", "data:,"))]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def pages() -> dict[str, str]:
    run = kept(GOOD)
    return {
        "one run": page.page([run]),
        "three runs": page.page([run, run, run]),
        "two compared": page.comparison({"ours": [run], "Kafka": [run]}),
        "three compared": page.comparison({"a": [run, run], "b": [run], "c": [run, run, run]}),
        "a run without anything": page.page([kept(facts())]),
    }


@pytest.mark.parametrize("text", pages().values(), ids=pages())
def test_a_page_is_whole_and_loads_nothing(text: str) -> None:
    found = Markup()
    found.feed(text)

    assert found.open == []
    assert found.loaded == []
    assert "url(" not in text
    assert len(text) < 1_000_000


def test_texts_of_servers_are_no_markup() -> None:
    assert "<b>broker" not in page.page([kept(GOOD)])


def test_a_page_has_a_lane_for_each_thing_and_a_word_for_each_verdict() -> None:
    text = page.page([kept(GOOD)])

    for lane in ("first", "broker-1/dir-1", "orders-0"):
        assert f'<td data-column="what">{lane}</td>' in text
    assert '<td data-column="source">metadata</td>' in text
    assert "<h3>writers: messages in every 100 ms</h3>" in text
    assert "✓ met" in text


def test_a_page_shows_open_transactions_and_last_stable_offsets_that_stand_still() -> None:
    mine = writer(steady(0, 10), transactions=[transaction(1, 1.4)], torn=0)
    data = {"last_stable": 5, "behind": 7}
    events = [
        event(1, "metric", "transaction", data={"transactional_id": "pay", "state": "Ongoing"}),
        event(2, "metric", "transaction", data={"transactional_id": "pay", "state": "ended"}),
        event(3, "metric", "last-stable", partition=P0, data={**data, "stands": True}),
        event(4, "metric", "last-stable", partition=P0, data={**data, "stands": False}),
    ]
    found = facts(writers={"writers": mine}, faults=[fault()], events=events, stuck=())

    kept_run = kept(found, text=TRANSACTIONAL)

    assert kept_run["metrics"]["transactions.committed"]["value"] == 1
    assert kept_run["transactions"] == {"pay": [[1.0, "Ongoing"], [2.0, "ended"]]}
    assert kept_run["last_stable_offsets"] == {"orders-0": [[3.0, True, 5, 7], [4.0, False, 5, 7]]}
    text = page.page([kept_run])
    rows = re.findall('<tr data-row>(.*what">(?:pay|orders-0)<.*)</tr>', text)
    shown = [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in rows]
    assert "pay Ongoing 1.000 s 2.000 s" in shown
    assert (
        "orders-0 last stable offset stands 3.000 s 4.000 s at 5, 7 before the high watermark"
        in shown
    )
    assert "Transactions of all producers" not in page.page([kept(GOOD)])


def test_a_page_shows_what_applications_have_counted() -> None:
    found = facts(
        steady(0, 10),
        faults=[fault()],
        streams={"words": StreamsFacts(counted=Counted(41, 2, 0), exit_code=0)},
    )

    kept_run = kept(found, text=COUNTING)

    assert kept_run["metrics"]["words.missing"] == {"value": 2.0, "unit": "count"}
    # Of transactions of applications nobody knows more than where they stand.
    assert kept_run["metrics"]["transactions.committed"]["value"] is None
    text = page.page([kept_run])
    assert "Words that applications counted" in text
    assert "Words that applications counted" not in page.page([kept(GOOD)])


def test_states_follow_each_other_until_the_end_of_the_run() -> None:
    text = page.page([kept(GOOD)])

    rows = re.findall('<tr data-row>(.*what">broker-1/dir-1<.*)</tr>', text)
    found = [re.sub(r"<[^>]*>", " ", row).split()[1:3] for row in rows]
    assert found == [["online", "0.000"], ["offline", "1.200"], ["online", "3.100"]]
    assert ["data-null" in row for row in rows] == [False, False, True]


def test_heads_of_numbers_stand_above_them() -> None:
    drawn = page.page([kept(GOOD)])

    assert '<th scope="col" data-unit="number" class="right">Measured</th>' in drawn
    assert '<th scope="col" data-unit="text">Expected</th>' in drawn


def test_a_page_has_no_empty_sections() -> None:
    drawn = page.page([kept(facts())])

    assert "<h2>What happened</h2>" in page.page([kept(GOOD)])
    for title in ("What happened", "Each fault", "Messages", "Events"):
        assert f"<h2>{title}</h2>" not in drawn
    assert "0 rows" not in drawn


def test_a_gap_that_did_not_end_says_so() -> None:
    silent = writer(steady(0, 1), last_due={0: 9 * 10**9})
    found = kept(facts(writers={"writers": silent}, faults=[fault(1, None)]))

    assert found["gaps"]["first"] == {"partition": "orders-0", "seconds": 9.099, "ended": False}
    assert found["objectives"][1]["measured"] == "9.1 s in orders-0, not ended"
    assert "9.1 s in orders-0, not ended" in page.page([found])


def test_many_events_are_thinned() -> None:
    many = [isr(1 + number / 10_000, number % 3) for number in range(20_000)]
    found = kept(facts(steady(0, 10), *many, faults=[fault()]))

    assert len(found["events"]) <= 3000
    assert len(page.page([found])) < 3_000_000


def test_a_spread_has_least_middle_and_greatest() -> None:
    runs = [
        kept(
            facts(steady(0, 10), event(1 + late, "broker", "offline", place=HIT), faults=[fault()])
        )
        for late in (0.3, 0.1, 0.2)
    ]
    runs.append(kept(facts(steady(0, 10), faults=[fault()])))

    found = page.distribution(runs)["first.detected"]

    assert found == {
        "unit": "duration",
        "min": 0.1,
        "median": 0.2,
        "max": -1,
        "never": 1,
        "unknown": 0,
    }


def test_two_runs_are_compared_line_by_line() -> None:
    lines = page.compared_lines({"ours": [kept(GOOD)], "theirs": [kept(facts(steady(0, 10)))]})

    assert [line.split() for line in lines[:2]] == [
        ["ours", "theirs"],
        ["verdict", "PASS", "INCONCLUSIVE"],
    ]
    assert ["first.detected", "200", "ms", "-"] in [line.split() for line in lines]


LOST = Verdict(acknowledged=1, read=0, lost=2, duplicated=0, out_of_order=0)


@pytest.mark.parametrize(
    ("found", "objectives", "counts"),
    [
        (GOOD, ("writers.lost == 0",), (2, 0, 0)),
        (GOOD, ("first.gap < 50ms",), (2, 1, 0)),
        (facts(steady(0, 10)), ("writers.errors == 0",), (2, 0, 1)),
        (
            replace(GOOD, writers={"writers": writer(steady(0, 10), verdict=LOST)}),
            ("first.gap < 2s",),
            (2, 1, 0),
        ),
    ],
)
def test_junit_counts_objectives_failures_and_doubts(
    found: Facts, objectives: tuple[str, ...], counts: tuple[int, int, int]
) -> None:
    suite = ElementTree.fromstring(junit.xml({"jbodlab": [kept(found, *objectives)]}))[0]

    assert tuple(int(suite.attrib[name]) for name in ("tests", "failures", "errors")) == counts
    assert len(suite) == counts[0]
