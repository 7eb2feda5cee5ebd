from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from controller.decide.brokers.brokers import fence_stale_broker, heartbeat, late_heartbeat
from controller.decide.heartbeats import Heartbeats
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
)
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, Offset
from tests.builders import SESSION_TIMEOUT_MS, PureController, brokers, directories, named_uuid

ONE, TWO = BrokerId(1), BrokerId(2)


def fence(controller: PureController, broker: int, code: int = 1) -> Record:
    return BrokerRegistrationChangeRecord(
        broker_id=BrokerId(broker), broker_epoch=controller.epoch(broker), fenced=code
    )


def change(topic: str, **fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=named_uuid(topic), **fields)  # type: ignore[arg-type]


def two_brokers(level: int = 30) -> PureController:
    controller = PureController(level=level)
    controller.add_broker(1, "A1,A2")
    controller.add_broker(2, "B1,B2")
    return controller


def test_a_heartbeat_before_registration_is_stale() -> None:
    answer = PureController().heartbeat(1)

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert (answer.is_caught_up, answer.is_fenced, answer.should_shut_down) == (False, True, False)


@pytest.mark.parametrize("epoch", [-1, 0, 77, 1 << 60])
def test_a_heartbeat_of_another_epoch_is_stale_and_no_sign_of_life(epoch: int) -> None:
    controller = two_brokers()
    before = controller.state.heartbeats
    controller.advance(1)

    answer = controller.heartbeat(1, broker_epoch=BrokerEpoch(epoch))

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert answer.error_message == (
        f"Expected broker epoch {controller.epoch(1)}, but got broker epoch {epoch}"
    )
    assert controller.state.heartbeats == before


def test_a_broker_is_unfenced_when_it_has_read_its_registration() -> None:
    controller = PureController()
    epoch = controller.register(1, "A1").broker_epoch

    behind = controller.heartbeat(1, current_metadata_offset=Offset(epoch - 1))
    nothing = controller.records
    answer = controller.heartbeat(1, current_metadata_offset=Offset(epoch))

    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    assert nothing == ()
    assert (answer.is_caught_up, answer.is_fenced) == (True, False)
    assert controller.written() == [fence(controller, 1, -1)]


def test_a_broker_that_wants_to_be_fenced_is_not_unfenced() -> None:
    controller = PureController()
    controller.register(1, "A1")

    answer = controller.heartbeat(1, want_fence=True)

    assert (answer.is_caught_up, answer.is_fenced) == (True, True)
    assert controller.records == ()


def test_fencing_comes_after_the_partitions_unfencing_before_them() -> None:
    controller = two_brokers()
    controller.create("foo", (1,))

    controller.heartbeat(1, want_fence=True)
    fencing = controller.written()
    controller.heartbeat(1)
    unfencing = controller.written()

    assert fencing == [change("foo", leader=BrokerId(-1)), fence(controller, 1)]
    assert unfencing == [fence(controller, 1, -1), change("foo", leader=ONE)]


def test_below_the_level_of_registration_changes_older_records_are_written() -> None:
    controller = PureController(level=5)
    controller.register(1, "")
    epoch = controller.epoch(1)

    controller.heartbeat(1)
    unfencing = controller.written()
    controller.heartbeat(1, want_fence=True)

    assert unfencing == [UnfenceBrokerRecord(id=ONE, epoch=epoch)]
    assert controller.written() == [FenceBrokerRecord(id=ONE, epoch=epoch)]


def test_unfencing_elects_leaders_only_where_the_directory_is_online() -> None:
    controller = PureController()
    controller.add_broker(1, "A1,A2")
    controller.create("good", (1,))
    controller.create("bad", (1,))
    controller.assign(1, good="A1")
    controller.assign(1, bad="A2")
    controller.heartbeat(1, want_fence=True)

    controller.heartbeat(1, offline_log_dirs="A2")

    assert controller.written() == [
        fence(controller, 1, -1),
        change("good", leader=ONE),
        BrokerRegistrationChangeRecord(
            broker_id=ONE, broker_epoch=controller.epoch(1), log_dirs=directories("A1")
        ),
    ]


def test_the_silent_broker_is_fenced_strictly_after_the_session_timeout() -> None:
    controller = two_brokers()
    controller.create("foo", (1, 2))
    controller.advance(SESSION_TIMEOUT_MS)
    controller.heartbeat(2)

    at_timeout = controller.run(fence_stale_broker)
    controller.advance(1)
    after = controller.run(fence_stale_broker)

    assert (at_timeout, after) == (None, 1)
    assert controller.written() == [
        change("foo", isr=brokers(2), leader=TWO),
        fence(controller, 1),
    ]
    assert controller.run(fence_stale_broker) is None
    # It has its epoch still, and may come back with it.
    assert not controller.heartbeat(1).is_fenced


def test_silent_brokers_are_fenced_one_by_one_oldest_first() -> None:
    controller = two_brokers()
    controller.create("foo", (1, 2))
    controller.advance(10)
    controller.heartbeat(1)
    controller.advance(SESSION_TIMEOUT_MS + 1)

    order = [controller.run(fence_stale_broker) for _ in range(3)]

    assert order == [2, 1, None]
    # The last one keeps its place: nobody else has its records.
    assert controller.partition("foo").isr == brokers(1)
    assert controller.partition("foo").leader == -1


def test_a_heartbeat_that_waited_too_long_counts_as_contact_and_does_nothing_else() -> None:
    controller = two_brokers()
    controller.advance(5_000)

    answer = controller.ask(late_heartbeat, controller.sign_of_life(1, want_fence=True))

    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert controller.records == ()
    assert controller.state.heartbeats.contacts[ONE].last_contact_ms == controller.now_ms
    stranger = controller.ask(late_heartbeat, controller.sign_of_life(3))
    assert stranger.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert BrokerId(3) not in controller.state.heartbeats.contacts


def test_controlled_shutdown_of_a_leader_waits_for_the_others() -> None:
    controller = two_brokers()
    controller.create("foo", (1, 2))

    first = controller.heartbeat(1, want_shut_down=True)
    begun = controller.written()
    offset = controller.state.next_offset - 1
    # The flags of the request do not matter any more.
    waiting = controller.heartbeat(1)
    controller.heartbeat(2, current_metadata_offset=offset - 1)
    still_waiting = controller.heartbeat(1)
    controller.heartbeat(2, current_metadata_offset=offset)
    last = controller.heartbeat(1)

    assert begun == [
        BrokerRegistrationChangeRecord(
            broker_id=ONE, broker_epoch=controller.epoch(1), in_controlled_shutdown=1
        ),
        change("foo", isr=brokers(2), leader=TWO),
    ]
    assert [each.should_shut_down for each in (first, waiting, still_waiting)] == [False] * 3
    assert (last.should_shut_down, last.is_fenced) == (True, True)
    assert controller.written() == [fence(controller, 1)]


def test_a_broker_that_leads_nothing_may_shut_down_at_once() -> None:
    controller = two_brokers()
    controller.create("foo", (2, 1))

    answer = controller.heartbeat(1, want_shut_down=True)

    assert answer.should_shut_down
    assert controller.written() == [change("foo", isr=brokers(2)), fence(controller, 1)]


def test_the_last_active_broker_waits_for_nobody() -> None:
    controller = PureController()
    controller.add_broker(1, "A1")
    controller.create("foo", (1,))

    begun = controller.heartbeat(1, want_shut_down=True)
    ended = controller.heartbeat(1, want_shut_down=True)

    assert (begun.should_shut_down, ended.should_shut_down) == (False, True)


def test_a_fenced_broker_that_shuts_down_gets_no_second_fence_record() -> None:
    controller = PureController()
    controller.register(1, "A1")

    for _ in range(2):
        answer = controller.heartbeat(1, want_shut_down=True)

        assert (answer.is_fenced, answer.should_shut_down) == (True, True)
        assert controller.records == ()


def test_nothing_is_placed_on_a_broker_in_controlled_shutdown() -> None:
    controller = two_brokers()
    controller.create("foo", (1, 2))
    controller.heartbeat(1, want_shut_down=True)

    controller.create("new", (1, 2))

    assert controller.partition("new").isr == brokers(2)


def test_fencing_and_a_failed_directory_change_each_partition_once() -> None:
    controller = two_brokers()
    controller.create("foo", (1, 2))
    controller.assign(1, foo="A1")

    controller.heartbeat(1, want_fence=True, offline_log_dirs="A1")

    # Kafka changes the partition twice here, the second time from a state that is outdated.
    assert controller.written() == [
        change("foo", isr=brokers(2), leader=TWO),
        fence(controller, 1),
        BrokerRegistrationChangeRecord(
            broker_id=ONE, broker_epoch=controller.epoch(1), log_dirs=directories("A2")
        ),
    ]


def test_all_directories_offline_fences_once_and_never_writes_an_empty_list() -> None:
    controller = two_brokers()
    controller.create("foo", (1, 2))

    answer = controller.heartbeat(1, offline_log_dirs="A1,A2")
    written = controller.written()
    again = controller.heartbeat(1, offline_log_dirs="A1,A2")

    assert answer.is_fenced
    assert written == [change("foo", isr=brokers(2), leader=TWO), fence(controller, 1)]
    assert again.is_fenced
    assert controller.records == ()
    assert controller.state.image.cluster.brokers[ONE].directories == directories("A1,A2")


def test_failed_directories_are_ignored_below_their_level() -> None:
    controller = PureController(level=16)
    controller.register(1, "A1")
    controller.heartbeat(1)

    controller.heartbeat(1, offline_log_dirs="A1")

    assert controller.records == ()


def test_an_unknown_offline_directory_is_logged_once_and_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller = two_brokers()

    with caplog.at_level(logging.WARNING):
        controller.heartbeat(1, offline_log_dirs="A1,X9")
        controller.heartbeat(1, offline_log_dirs="A1,X9")

    assert [record.message for record in caplog.records] == [
        "a broker reports a directory offline that it has not registered"
    ]


def test_a_heartbeat_decides_without_changing_anything() -> None:
    controller = two_brokers()
    state = controller.state

    result = heartbeat(controller.sign_of_life(1, want_fence=True), state, controller.now_ms + 5)

    assert len(result.records) == 1
    assert state.heartbeats.contacts[ONE].last_contact_ms == controller.now_ms
    assert not state.image.cluster.brokers[ONE].fenced


def test_unfencing_and_a_failed_directory_change_each_partition_once() -> None:
    controller = PureController()
    controller.add_broker(1, "A1,A2")
    controller.add_broker(2, "B1,B2")
    controller.create("foo", (2, 1))
    controller.assign(1, foo="A1")
    controller.assign(2, foo="B1")
    controller.alter_isr(2, "foo", (2,))
    controller.heartbeat(1, want_fence=True)
    # Nobody leads although one could: Kafka leaves it so when a directory comes back.
    controller.replay(
        PartitionChangeRecord(
            partition_id=0,
            topic_id=named_uuid("foo"),  # type: ignore[arg-type]
            leader=BrokerId(-1),
        )
    )

    controller.heartbeat(1, offline_log_dirs="A1")

    assert controller.written() == [
        fence(controller, 1, -1),
        change("foo", leader=TWO),
        BrokerRegistrationChangeRecord(
            broker_id=ONE, broker_epoch=controller.epoch(1), log_dirs=directories("A2")
        ),
    ]


def test_a_broker_that_was_leaving_is_not_unfenced_before_its_next_process() -> None:
    # Kafka unfences it, and lets it lead although it is on its way out.
    controller = two_brokers()
    controller.create("foo", (1, 2))
    controller.heartbeat(1, want_shut_down=True)
    controller.advance(SESSION_TIMEOUT_MS + 1)
    controller.heartbeat(2)
    controller.run(fence_stale_broker)

    answer = controller.heartbeat(1)

    assert answer.is_fenced
    assert controller.records == ()
    controller.register(1, "A1,A2")
    assert not controller.heartbeat(1).is_fenced


def test_a_directory_that_failed_before_this_controller_began_is_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller = PureController()
    controller.add_broker(1, "A1,A2")
    controller.heartbeat(1, offline_log_dirs="A1")
    known = controller.state.image.cluster.brokers
    controller.state = replace(
        controller.state,
        heartbeats=Heartbeats.at_activation(known, SESSION_TIMEOUT_MS, controller.now_ms),
    )

    with caplog.at_level(logging.INFO, "controller.decide.brokers.brokers"):
        for _ in range(2):
            controller.heartbeat(1, offline_log_dirs="A1")

    assert [(record.levelname, record.message) for record in caplog.records] == [
        (
            "INFO",
            "a broker reports a directory that was already offline when this controller started",
        )
    ]
    with caplog.at_level(logging.INFO, "controller.decide.brokers.brokers"):
        controller.heartbeat(1, offline_log_dirs="A1,X1")
    assert caplog.records[-1].levelname == "WARNING"


def test_a_new_process_is_told_of_directories_that_it_has_not_registered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller = PureController()
    controller.register(1, "A2")

    controller.heartbeat(1, offline_log_dirs="A1")

    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_controlled_shutdown_waits_for_the_slowest_of_the_others() -> None:
    controller = two_brokers()
    controller.add_broker(3, "C1")
    controller.create("foo", (1, 2, 3))
    controller.create("bar", (1,))
    controller.heartbeat(1, want_shut_down=True)
    begun = controller.written()[1:]
    offset = controller.state.next_offset - 1

    controller.heartbeat(2, current_metadata_offset=offset)
    controller.heartbeat(3, current_metadata_offset=offset - 1)
    waiting = controller.heartbeat(1, want_shut_down=True)
    controller.heartbeat(3, current_metadata_offset=offset)
    done = controller.heartbeat(1, want_shut_down=True)

    assert begun == [
        change("foo", isr=brokers(2, 3), leader=TWO),
        # Nobody else has it.
        change("bar", leader=BrokerId(-1)),
    ]
    assert (waiting.should_shut_down, done.should_shut_down) == (False, True)
