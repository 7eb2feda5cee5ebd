from __future__ import annotations

import pytest

from broker.groups.consumer import regexes
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.groups.bench import FakeTopics
from tests.broker.groups.consumer.rig import Rig


def join(rig: Rig, member_id: str, regex: str) -> None:
    rig.join(member_id, subscribed_topic_regex=regex)


def topics_of(rig: Rig, regex: str) -> tuple[str, ...]:
    return rig.group().regexes[regex].topics


def assigned(rig: Rig, member_id: str) -> set[str | None]:
    return {rig.topics.topic_name(each.topic_id) for each in rig.current(member_id).assigned}


@pytest.fixture
def rig() -> Rig:
    """A group whose member `a` has the expression `a.*`, which is not resolved yet."""
    rig = Rig(FakeTopics(aa=1))
    join(rig, "a", "a.*")
    return rig


def test_expression_matches_nothing_until_it_is_resolved() -> None:
    rig = Rig(FakeTopics(aa=1, b=1))
    join(rig, "a", "a.*")
    assert assigned(rig, "a") == set()

    rig.advance(0)

    assert topics_of(rig, "a.*") == ("aa",)
    rig.beat("a")
    assert assigned(rig, "a") == {"aa"}


def test_whole_name_must_match() -> None:
    rig = Rig(FakeTopics(a=1, ab=1, ba=1))
    join(rig, "a", "a")

    rig.advance(0)

    assert topics_of(rig, "a") == ("a",)


def test_new_topic_is_found_within_ten_seconds(rig: Rig) -> None:
    rig.advance(0)
    rig.topics.create("ab", 1)

    rig.advance(5_000)
    rig.beat("a")
    assert assigned(rig, "a") == {"aa"}
    rig.advance(5_000)
    rig.beat("a")

    assert assigned(rig, "a") == {"aa", "ab"}


def test_resolutions_of_a_group_are_ten_seconds_apart() -> None:
    rig = Rig(FakeTopics(aa=1, b=1))
    join(rig, "a", "a.*")
    rig.advance(0)
    join(rig, "b", "b.*")

    rig.advance(9_999)
    assert "b.*" not in rig.group().regexes
    rig.advance(1)
    assert topics_of(rig, "b.*") == ("b",)


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


def test_expression_that_is_known_is_used_at_once() -> None:
    rig = Rig(FakeTopics(aa=2))
    join(rig, "a", "a.*")
    rig.advance(0)
    epoch = rig.group().epoch

    join(rig, "b", "a.*")
    rig.settle()

    assert rig.group().epoch == epoch + 1
    assert assigned(rig, "b") == {"aa"}


def test_expression_that_nobody_has_any_longer_is_forgotten(rig: Rig) -> None:
    rig.advance(0)

    rig.beat("a", subscribed_topic_regex="")

    assert not rig.group().regexes
    assert rig.group().members["a"].subscribed_topic_regex is None


def test_expression_goes_with_the_last_member_that_has_it(rig: Rig) -> None:
    join(rig, "b", "a.*")
    rig.advance(0)
    rig.beat("a", -1)
    assert topics_of(rig, "a.*")

    rig.beat("b", -1)

    assert not rig.group().regexes


def test_names_and_expression_count_together() -> None:
    rig = Rig(FakeTopics(aa=1, t=1))
    rig.join("a", "t", subscribed_topic_regex="a.*")
    rig.advance(0)
    rig.beat("a")

    assert assigned(rig, "a") == {"aa", "t"}


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


def test_wrong_expression_of_a_member_changes_nothing(rig: Rig) -> None:
    before = len(rig.records)

    assert rig.beat("a", subscribed_topic_regex="[") == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(rig.records) == before


def test_resolution_outlives_a_failover(rig: Rig) -> None:
    rig.load()
    rig.beat("a")

    rig.advance(0)

    assert topics_of(rig, "a.*") == ("aa",)
