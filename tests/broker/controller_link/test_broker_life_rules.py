from __future__ import annotations

import pytest

from broker.controller_link.broker_life_events import (
    ControllerFound,
    ControllerUnreachable,
    DirectoryFailed,
    DirectoryRevived,
    Event,
    HeartbeatAnswered,
    HeartbeatRefused,
    Instruction,
    LifeMilestone,
    ReadyToUnfence,
    Registered,
    RegistrationOutdated,
    RegistrationRefused,
    RequireShutdown,
    SendHeartbeat,
    SendRegistration,
    ShutdownBegun,
    Started,
    Tick,
)
from broker.controller_link.broker_life_rules import (
    BrokerLifeRules,
    BrokerLifeSettings,
    BrokerState,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, DirectoryId
from tests.broker.disks import directory_id

D1, D2 = directory_id(1), directory_id(2)
EPOCH = BrokerEpoch(17)


class Life:
    """A lifecycle with a clock that a test sets."""

    def __init__(self, settings: BrokerLifeSettings | None = None) -> None:
        self.now_ms = 1_000
        self.led: set[DirectoryId] = set()
        self.core = BrokerLifeRules(
            settings or BrokerLifeSettings(),
            leads_in=lambda directory: directory in self.led,
            random=lambda: 0.5,
        )

    def handle(self, event: Event) -> list[Instruction]:
        return self.core.handle(event, self.now_ms)

    def after(self, delay_ms: int, event: Event | None = None) -> list[Instruction]:
        self.now_ms += delay_ms
        return self.handle(event or Tick())

    @property
    def delay_ms(self) -> int | None:
        wakeup_ms = self.core.next_wakeup_ms
        return None if wakeup_ms is None else wakeup_ms - self.now_ms

    def register(self) -> list[Instruction]:
        assert self.handle(Started()) == [SendRegistration()]
        return self.handle(Registered(EPOCH))

    def serve(self) -> None:
        """Go on until RUNNING with the next heartbeat an interval away."""
        self.register()
        self.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=True))
        self.handle(ReadyToUnfence())
        self.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=False))
        assert self.core.state is BrokerState.RUNNING


def heartbeat(
    *offline: DirectoryId, want_fence: bool = False, want_shut_down: bool = False
) -> SendHeartbeat:
    return SendHeartbeat(want_fence, want_shut_down, offline)


@pytest.fixture
def new_life() -> Life:
    return Life(BrokerLifeSettings(log_dir_failure_timeout_ms=5_000))


@pytest.fixture
def life(new_life: Life) -> Life:
    """A life that is served, with its next heartbeat an interval away."""
    new_life.serve()
    return new_life


def test_a_broker_registers_then_heartbeats_at_once(new_life: Life) -> None:
    told = new_life.register()

    assert told == [LifeMilestone.REGISTERED, heartbeat(want_fence=True)]
    assert new_life.core.broker_epoch == EPOCH
    assert new_life.core.state is BrokerState.STARTING


def test_a_starting_broker_heartbeats_every_10_ms_until_it_has_caught_up(new_life: Life) -> None:
    new_life.register()

    new_life.handle(HeartbeatAnswered(is_caught_up=False, is_fenced=True))
    assert new_life.delay_ms == 10
    assert new_life.after(10) == [heartbeat(want_fence=True)]

    told = new_life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=True))
    assert told == [LifeMilestone.CAUGHT_UP]
    assert new_life.core.state is BrokerState.RECOVERY
    assert new_life.delay_ms == 2_000


def test_ready_to_unfence_is_said_at_once(new_life: Life) -> None:
    new_life.register()
    new_life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=True))

    assert new_life.handle(ReadyToUnfence()) == [heartbeat()]

    told = new_life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=False))
    assert told == [LifeMilestone.UNFENCED]
    assert new_life.core.state is BrokerState.RUNNING
    assert not new_life.core.is_fenced
    assert new_life.delay_ms == 2_000


def test_a_failed_directory_is_told_at_once_and_in_every_later_heartbeat(life: Life) -> None:
    assert life.handle(DirectoryFailed(D1)) == [heartbeat(D1)]
    life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=False))
    assert life.after(2_000) == [heartbeat(D1)]
    life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=False))
    assert life.handle(DirectoryFailed(D2)) == [heartbeat(D1, D2)]


def test_what_happens_during_a_communication_is_sent_right_after_it(life: Life) -> None:
    assert life.after(2_000) == [heartbeat()]

    assert life.handle(DirectoryFailed(D1)) == []

    assert life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=False)) == [heartbeat(D1)]


def test_a_directory_that_failed_before_the_registration_comes_with_the_first_heartbeat() -> None:
    life = Life()
    assert life.handle(Started()) == [SendRegistration()]
    assert life.handle(DirectoryFailed(D1)) == []
    told = life.handle(Registered(EPOCH))
    assert told == [LifeMilestone.REGISTERED, heartbeat(D1, want_fence=True)]


def test_after_a_failure_the_pause_is_kept_whatever_happens(life: Life) -> None:
    life.after(2_000)

    life.handle(ControllerUnreachable())
    assert life.delay_ms == 100
    assert life.after(50, DirectoryFailed(D1)) == []
    assert life.after(50) == [heartbeat(D1)]
    life.handle(ControllerUnreachable())
    assert life.delay_ms == 200
    for _ in range(5):
        life.after(1_000)
        life.handle(ControllerUnreachable())
    assert life.delay_ms == 1_000


def test_a_starting_broker_looks_for_its_controller_often(new_life: Life) -> None:
    new_life.handle(Started())
    pauses = []
    for _ in range(5):
        new_life.handle(ControllerUnreachable())
        assert new_life.delay_ms is not None
        pauses.append(new_life.delay_ms)
        assert new_life.after(new_life.delay_ms) == [SendRegistration()]
    assert pauses == [100, 200, 250, 250, 250]


def test_a_refused_registration_is_repeated_soon_each_time(new_life: Life) -> None:
    new_life.handle(Started())
    for _ in range(4):
        new_life.handle(RegistrationRefused(ErrorCode.DUPLICATE_BROKER_REGISTRATION))
        assert new_life.delay_ms == 500
        assert new_life.after(500) == [SendRegistration()]

    quick = Life(BrokerLifeSettings(heartbeat_interval_ms=200))
    quick.handle(Started())
    quick.handle(RegistrationRefused(ErrorCode.DUPLICATE_BROKER_REGISTRATION))
    assert quick.delay_ms == 200


def test_a_broker_that_cannot_register_in_time_stops() -> None:
    life = Life(BrokerLifeSettings(initial_broker_registration_timeout_ms=3_000))
    life.handle(Started())
    reasons: list[Instruction] = []
    for _ in range(10):
        reasons += life.handle(ControllerUnreachable())
        told = life.after(500)
        reasons += [each for each in told if isinstance(each, RequireShutdown)]

    assert reasons == [RequireShutdown("unable to register with the controller quorum")]


def test_a_broker_that_the_controller_forgot_registers_again(life: Life) -> None:
    life.after(2_000)

    life.handle(HeartbeatRefused(ErrorCode.STALE_BROKER_EPOCH))
    assert life.delay_ms == 100
    assert life.after(100) == [SendRegistration()]

    assert life.handle(Registered(BrokerEpoch(99))) == [heartbeat()]
    assert life.core.broker_epoch == 99
    # Fenced by the new registration; unfenced as soon as the metadata contains it.
    life.handle(HeartbeatAnswered(is_caught_up=False, is_fenced=True))
    assert life.core.is_fenced
    assert life.delay_ms == 50


def test_an_outdated_registration_is_amended_in_the_same_epoch(life: Life) -> None:
    assert life.handle(RegistrationOutdated()) == [SendRegistration()]
    life.handle(DirectoryFailed(D1))
    assert life.handle(Registered(EPOCH)) == [heartbeat(D1)]
    assert life.core.state is BrokerState.RUNNING

    # While a heartbeat is on its way the registration waits for the answer.
    assert life.handle(RegistrationOutdated()) == []
    told = life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=False))
    assert told == [SendRegistration()]


def test_other_errors_of_a_heartbeat_only_cause_another_try(life: Life) -> None:
    life.after(2_000)
    life.handle(HeartbeatRefused(ErrorCode.NOT_CONTROLLER))
    assert life.after(100) == [heartbeat()]


def test_only_directories_that_the_answered_heartbeat_contained_count_as_told(life: Life) -> None:
    life.led = {D1, D2}
    life.after(2_000)  # A heartbeat without the directory is under way.
    life.handle(DirectoryFailed(D1))

    life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=False))

    # The heartbeat with it is never answered.
    life.handle(ControllerUnreachable())
    told = life.after(5_000)
    assert any(isinstance(each, RequireShutdown) for each in told)


@pytest.mark.parametrize("second_delay_ms", [0, 1_000])
def test_each_failed_directory_has_a_timer_of_its_own(life: Life, second_delay_ms: int) -> None:
    life.led = {D1}
    life.handle(DirectoryFailed(D1))
    life.after(second_delay_ms, DirectoryFailed(D2))
    life.handle(ControllerUnreachable())

    seen: list[int] = []
    for _ in range(100):
        told = life.after(100)
        seen += [life.now_ms for each in told if isinstance(each, RequireShutdown)]
        if any(isinstance(each, SendHeartbeat) for each in told):
            life.handle(ControllerUnreachable())

    assert seen == [6_000]


def test_a_broker_that_leads_nothing_in_the_directory_goes_on_until_it_does(life: Life) -> None:
    life.handle(DirectoryFailed(D1))
    life.handle(ControllerUnreachable())
    for _ in range(80):
        told = life.after(100)
        assert not any(isinstance(each, RequireShutdown) for each in told)
        if told:
            life.handle(ControllerUnreachable())

    life.led = {D1}

    told = life.after(1_100)
    text = "couldn't communicate offline log dir AAAAAAAAAAEAAAAAAAAABw with controllers"
    assert RequireShutdown(text) in told


def test_a_directory_told_in_time_stops_its_timer(life: Life) -> None:
    life.led = {D1}
    life.handle(DirectoryFailed(D1))
    life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=False))
    for _ in range(10):
        told = life.after(2_000)
        assert told == [heartbeat(D1)]
        life.handle(ControllerUnreachable())


def test_a_controlled_shutdown_waits_until_the_controller_lets_go(life: Life) -> None:
    assert life.handle(ShutdownBegun(controlled=True)) == [heartbeat(want_shut_down=True)]
    assert life.core.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    for delay_ms in (50, 100, 200):
        life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=False))
        assert life.delay_ms == delay_ms
        assert life.after(delay_ms) == [heartbeat(want_shut_down=True)]

    told = life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=True, should_shut_down=True))
    assert told == [LifeMilestone.SHUTDOWN_ALLOWED]
    assert life.core.state is BrokerState.SHUTTING_DOWN
    assert life.core.next_wakeup_ms is None
    assert life.after(10_000) == []


def test_a_forgotten_broker_has_nothing_to_hand_over(life: Life) -> None:
    life.handle(ShutdownBegun(controlled=True))
    told = life.handle(HeartbeatRefused(ErrorCode.STALE_BROKER_EPOCH))
    assert told == [LifeMilestone.SHUTDOWN_ALLOWED]


def test_a_broker_that_does_not_serve_shuts_down_at_once(new_life: Life) -> None:
    new_life.register()
    assert new_life.handle(ShutdownBegun(controlled=True)) == [LifeMilestone.SHUTDOWN_ALLOWED]
    assert new_life.handle(ShutdownBegun(controlled=False)) == []


def test_only_one_communication_is_in_flight(new_life: Life) -> None:
    new_life.register()
    for event in (ReadyToUnfence(), DirectoryFailed(D1), Tick(), Tick()):
        assert new_life.after(5_000, event) == []


AGREED = HeartbeatAnswered(is_caught_up=True, is_fenced=False)


def told_of(life: Life, *directories: DirectoryId) -> None:
    """Let directories fail and the controller hear of it."""
    for directory in directories:
        life.handle(DirectoryFailed(directory))
        life.handle(AGREED)
    life.handle(AGREED)


def test_a_revived_directory_is_registered_before_the_heartbeats_drop_it(life: Life) -> None:
    told_of(life, D1, D2)

    assert life.handle(DirectoryRevived(D1)) == [SendRegistration()]
    assert life.handle(Registered(EPOCH)) == [heartbeat(D2)]
    life.handle(AGREED)
    assert life.after(2_000) == [heartbeat(D2)]
    assert life.core.state is BrokerState.RUNNING


def test_a_heartbeat_on_its_way_is_answered_before_a_revived_directory_is_registered(
    life: Life,
) -> None:
    told_of(life, D1)
    assert life.after(2_000) == [heartbeat(D1)]

    assert life.handle(DirectoryRevived(D1)) == []

    assert life.handle(AGREED) == [SendRegistration()]
    assert life.handle(Registered(EPOCH)) == [heartbeat()]


def test_a_registration_is_due_until_the_controller_knows_that_a_directory_is_back(
    life: Life,
) -> None:
    told_of(life, D1)
    assert not life.core.is_registration_due
    life.after(2_000)

    life.handle(DirectoryRevived(D1))
    assert life.core.is_registration_due
    life.handle(AGREED)
    assert life.core.is_registration_due
    life.handle(ControllerUnreachable())
    assert life.core.is_registration_due
    life.after(100)
    life.handle(Registered(EPOCH))
    assert not life.core.is_registration_due


def test_a_revived_directory_that_fails_again_is_told_again(life: Life) -> None:
    life.led = {D1}
    told_of(life, D1)
    life.handle(DirectoryRevived(D1))
    life.handle(Registered(EPOCH))
    life.handle(AGREED)

    assert life.handle(DirectoryFailed(D1)) == [heartbeat(D1)]
    life.handle(AGREED)

    # And before the registration was even accepted.
    assert life.handle(DirectoryRevived(D1)) == [SendRegistration()]
    assert life.handle(DirectoryFailed(D1)) == []
    assert life.handle(Registered(EPOCH)) == [heartbeat(D1)]
    told = life.after(5_000, ControllerUnreachable())
    assert [each for each in told if isinstance(each, RequireShutdown)]


def test_a_directory_that_is_back_needs_not_be_told_in_time_any_more(life: Life) -> None:
    life.led = {D1}
    life.handle(DirectoryFailed(D1))
    life.handle(ControllerUnreachable())
    life.handle(DirectoryRevived(D1))
    for _ in range(10):
        told = life.after(1_000)
        assert told in ([], [SendRegistration()])
        life.handle(ControllerUnreachable())


def test_a_registration_that_is_lost_is_repeated_and_heartbeats_go_on_meanwhile(life: Life) -> None:
    told_of(life, D1)

    assert life.handle(DirectoryRevived(D1)) == [SendRegistration()]
    assert life.handle(ControllerUnreachable()) == []
    assert life.after(100) == [SendRegistration()]

    # One that is refused must not cost the session.
    assert life.handle(RegistrationRefused(ErrorCode.INVALID_REGISTRATION)) == []
    assert life.after(500) == [heartbeat(D1)]
    assert life.handle(AGREED) == []
    assert life.after(2_000) == [SendRegistration()]
    assert life.handle(Registered(EPOCH)) == [heartbeat()]


def test_a_directory_that_comes_back_during_a_registration_is_part_of_another_one(
    life: Life,
) -> None:
    told_of(life, D1, D2)
    assert life.handle(DirectoryRevived(D1)) == [SendRegistration()]

    assert life.handle(DirectoryRevived(D2)) == []

    assert life.handle(Registered(EPOCH)) == [SendRegistration()]
    assert life.handle(Registered(EPOCH)) == [heartbeat()]


def test_a_directory_whose_id_was_never_known_is_registered_too(life: Life) -> None:
    assert life.handle(DirectoryRevived(None)) == [SendRegistration()]
    assert life.handle(Registered(EPOCH)) == [heartbeat()]


def test_a_broker_that_leaves_does_not_register_once_more(life: Life) -> None:
    told_of(life, D1)
    assert life.handle(ShutdownBegun(controlled=True)) == [heartbeat(D1, want_shut_down=True)]
    assert life.handle(DirectoryRevived(D1)) == []
    assert life.handle(AGREED) == [heartbeat(D1, want_shut_down=True)]


def test_a_forgotten_broker_registers_its_revived_directories_with_everything_else(
    life: Life,
) -> None:
    told_of(life, D1)
    assert life.after(2_000) == [heartbeat(D1)]
    life.handle(DirectoryRevived(D1))
    life.handle(HeartbeatRefused(ErrorCode.STALE_BROKER_EPOCH))
    assert life.after(100) == [SendRegistration()]
    assert life.handle(Registered(BrokerEpoch(30))) == [heartbeat()]


def test_another_controller_is_told_at_once_how_this_broker_is() -> None:
    life = Life()
    life.serve()
    assert life.handle(DirectoryFailed(D1)) == [heartbeat(D1)]
    life.handle(HeartbeatAnswered(is_caught_up=True, is_fenced=False))
    assert life.after(100, ControllerFound()) == [heartbeat(D1)]


def test_what_the_former_controller_did_not_answer_goes_to_the_next_one_without_a_pause() -> None:
    life = Life()
    life.serve()
    life.after(10_000)
    for _ in range(4):
        life.handle(ControllerUnreachable())
        assert life.delay_ms
        life.after(life.delay_ms)
    assert life.handle(ControllerFound()) == []
    assert life.handle(ControllerUnreachable()) == [heartbeat()]
    # The next one is as slow to be reached as any.
    assert life.handle(ControllerUnreachable()) == []
    assert life.delay_ms


def test_a_registration_goes_to_another_controller_without_a_pause() -> None:
    life = Life()
    assert life.handle(Started()) == [SendRegistration()]
    life.handle(ControllerFound())
    assert life.handle(ControllerUnreachable()) == [SendRegistration()]
