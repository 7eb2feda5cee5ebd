"""Effects of heartbeats that the stories in `scenarios` do not show."""

from __future__ import annotations

from tests.broker.groups.consumer.rig import Rig


def test_names_are_kept_sorted_and_once(rig: Rig) -> None:
    rig.join("a", "t", "b", "t")

    assert rig.group().members["a"].subscribed_topic_names == ("b", "t")


def test_nothing_is_remembered_of_a_group_without_members(rig: Rig) -> None:
    """Tools make a group each time they are called: nobody would ever forget these."""
    rig.join("a", subscribed_topic_regex="t.*")
    rig.advance(1)
    rig.beat("a")

    rig.beat("a", -1)

    assert rig.shard._state.soft == {}
    assert rig.timers.keys() == {("offsets",)}
