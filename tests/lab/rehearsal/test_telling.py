"""Lines that a person is told while a run lasts, in the order of time."""

from __future__ import annotations

from jbodlab.vocabulary.ids import TopicPartition
from lab.rehearsal.telling import HOLD_BACK_NS, Telling
from lab.watch.events import Event
from tests.lab.rehearsal.runs import HIT, P0, P1, event, leader, ns


def told(*events: Event) -> list[str]:
    lines: list[str] = []
    telling = Telling(lambda event: lines.append(event.text))
    telling.add(events)
    telling.tell_all()
    return lines


def test_events_are_told_in_the_order_of_time_whoever_saw_them_first() -> None:
    late = event(1, "fault", "injected", text="fault injected")

    assert told(leader(2, 2), late) == [
        "fault injected",
        "new leader elected: broker 2 for orders-0",
    ]


def test_an_event_waits_for_those_that_may_still_come_before_it() -> None:
    lines: list[str] = []
    telling = Telling(lambda event: lines.append(event.text))
    telling.add([event(1, "action", "note", text="later")])

    telling.tell_until(ns(1) + HOLD_BACK_NS)
    assert lines == []

    telling.add([event(0.99, "action", "note", text="before")])
    telling.tell_until(ns(1) + HOLD_BACK_NS + 1)
    assert lines == ["before", "later"]


def test_leaders_of_one_moment_are_one_line() -> None:
    other = TopicPartition("orders", 2)
    events = [
        leader(1, 2, partition=P1),
        leader(1, 3, partition=other),
        leader(1, 2, partition=P0),
        leader(1.5, 2, partition=other),
    ]

    assert told(*events) == [
        "new leader elected: broker 2 for orders-0, orders-1",
        "new leader elected: broker 3 for orders-2",
        "new leader elected: broker 2 for orders-2",
    ]


def test_a_partition_without_a_leader_is_told_as_such() -> None:
    assert told(leader(1, -1)) == ["no leader for orders-0"]


def test_a_directory_is_told_with_its_cause_and_without_the_path_behind_it() -> None:
    cause = "[Errno 5] Input/output error: '/disks/1/orders-0/0.log'"
    offline = event(1, "broker", "offline", place=HIT, data={"cause": cause})

    assert told(offline) == [
        "directory offline at the broker: broker-1/dir-1 ([Errno 5] Input/output error)"
    ]


def test_an_offline_directory_is_one_line_however_many_threads_report_it() -> None:
    cause = {"cause": "[Errno 5] Input/output error"}
    first = event(1, "broker", "offline", place=HIT, data=cause)
    again = event(1, "broker", "offline", place=HIT, data={"cause": cause["cause"] + ": 'x'"})

    assert len(told(first, again, again)) == 1


def test_changes_of_isrs_are_not_told() -> None:
    assert told(event(1, "metadata", "isr", text="2 of 3 replicas")) == []
