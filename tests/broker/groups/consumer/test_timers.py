from __future__ import annotations

from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.consumer.rig import Rig


def test_timer_that_could_not_be_written_is_tried_again(rig: Rig) -> None:
    rig.join("a")
    key = ("consumer", "session", "g", "a")
    decision = rig.shard.timer(key, rig.now_ms)

    again = rig.shard.refused(
        decision.event, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), rig.now_ms
    )

    assert [(timer.key, timer.at_ms) for timer in again.timers] == [(key, rig.now_ms + 500)]


def test_timers_of_groups_that_are_gone_do_nothing(rig: Rig) -> None:
    for kind in ("session", "rebalance", "classic", "regex"):
        assert not rig.shard.timer(("consumer", kind, "g", "a"), 1).records
