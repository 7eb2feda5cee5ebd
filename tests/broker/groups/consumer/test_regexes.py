from __future__ import annotations

import pytest

from broker.groups.consumer import regexes
from tests.broker.groups.bench import FakeTopics
from tests.broker.groups.consumer.rig import Rig


def join(rig: Rig, member_id: str, regex: str) -> None:
    rig.join(member_id, subscribed_topic_regex=regex)


def topics_of(rig: Rig, regex: str) -> tuple[str, ...]:
    return rig.group().regexes[regex].topics


@pytest.fixture
def rig() -> Rig:
    """A group whose member `a` has the expression `a.*`, which is not resolved yet."""
    rig = Rig(FakeTopics(aa=1))
    join(rig, "a", "a.*")
    return rig


def test_expressions_are_resolved_again_after_the_refresh_interval(rig: Rig) -> None:
    rig.advance(0)
    first = rig.group().regexes["a.*"].timestamp
    for _ in range(15):
        rig.advance(40_000)
        rig.beat("a")
    rig.advance(0)

    assert rig.group().regexes["a.*"].timestamp == first + 600_000


def test_same_topics_change_no_epoch(rig: Rig) -> None:
    rig.advance(0)
    epoch = rig.group().epoch
    rig.topics.create("other", 1)
    rig.advance(10_000)
    rig.beat("a")
    rig.advance(0)

    assert rig.group().regexes["a.*"].version == rig.topics.version
    assert rig.group().epoch == epoch


def test_older_metadata_do_not_take_a_newer_result_back(rig: Rig) -> None:
    rig.advance(0)
    rig.topics.delete("aa")
    rig.topics.version = rig.topics.names_version = 0

    rig.carry_out(rig.shard.timer(("consumer", "regex", "g", ""), rig.now_ms + 600_000))

    assert topics_of(rig, "a.*") == ("aa",)


def test_many_expressions_are_resolved_in_turns(monkeypatch) -> None:
    monkeypatch.setattr(regexes, "CHECKS_AT_ONCE", 2)
    rig = Rig(FakeTopics(a0=1, a1=1))
    for number in range(3):
        join(rig, f"m{number}", f"a{number}")

    timer = ("consumer", "regex", "g", "")
    rig.carry_out(rig.shard.timer(timer, rig.now_ms))
    assert rig.group().regexes.keys() == {"a0"}
    rig.advance(0)

    assert rig.group().regexes.keys() == {"a0", "a1", "a2"}


def test_pattern_that_python_could_match_for_ever_takes_no_time() -> None:
    rig = Rig(FakeTopics(**{"a" * 200: 1}))
    join(rig, "a", "(a*)*b")

    rig.advance(0)

    assert topics_of(rig, "(a*)*b") == ()
