"""Which events the page lists."""

from __future__ import annotations

from dataclasses import asdict, replace

from fault_injection.mechanism import Broken, Clients
from jbodlab.vocabulary.ids import TopicPartition
from lab.ui.news import News
from lab.watch.sightings import leader_event
from tests.lab.ui.faults import FAULT

S = 1_000_000_000


def told(news: News, source: str, leader: int) -> list[str]:
    event = replace(leader_event(source, TopicPartition("t", 0), leader), t_ns=5 * S)
    return [item.text for item in news.of_cluster([event], 6 * S, 100 * S)]


def test_times_are_those_of_the_wall_clock() -> None:
    event = replace(leader_event("metadata", TopicPartition("t", 0), 1), t_ns=5 * S)

    (item,) = News(has_log=True).of_cluster([event], 6 * S, 100 * S)

    assert item.at_ms == 99_000


def test_leaders_are_told_by_the_controllers_log_alone_where_it_is_read() -> None:
    news = News(has_log=True)

    assert told(news, "metric", 1) == told(news, "metric", 2) == []
    assert told(news, "metadata", 2) == ["t-0 is led by broker 2"]


def test_without_that_log_changes_are_told_and_what_was_so_from_the_first_is_not() -> None:
    news = News(has_log=False)

    assert told(news, "metric", 1) == []
    assert told(news, "metric", 2) == ["t-0 is led by broker 2"]


def test_each_step_of_a_fault_is_told_once_and_old_healed_ones_never() -> None:
    news = News(has_log=True)
    old = replace(FAULT, fault_id=1, state="healed")

    def steps(state: str) -> list[str]:
        faults = {1: (old, "broker-1/1"), 7: (replace(FAULT, state=state), "broker-1/2")}
        return [item.kind for item in news.of_faults(faults, S)]

    assert [steps(state) for state in ("proved", "proved", "healing", "healed", "healed")] == [
        ["proved"],
        [],
        ["healing"],
        ["healed"],
        [],
    ]


def test_a_healed_fault_tells_what_became_of_clients() -> None:
    news = News(has_log=True)
    clients = Clients(stayed=2, closed=1, logins_failed=4)
    healed = replace(
        FAULT, state="healed", broken=asdict(Broken(what="logins", count=5, clients=clients))
    )

    list(news.of_faults({7: (FAULT, "cluster")}, S))
    (item,) = news.of_faults({7: (healed, "cluster")}, S)

    assert item.text.endswith(
        "is healed; clients meanwhile: 2 connections stayed, 1 closed, 4 logins failed"
    )
