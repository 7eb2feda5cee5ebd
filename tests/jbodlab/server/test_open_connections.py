from __future__ import annotations

from jbodlab.server.open_connections import ConnectionLimits, OpenConnections
from jbodlab.vocabulary.limits import STALLED_MS, WAITING_CONNECTIONS_MAX
from tests.jbodlab.server.fakes import FakeConnection


class Clock:
    ms = 0

    def __call__(self) -> float:
        return self.ms / 1_000


def connections(clock: Clock | None = None, **limits: object) -> OpenConnections:
    return OpenConnections(ConnectionLimits(**limits), clock or Clock())  # type: ignore[arg-type]


def test_connections_beyond_the_limit_over_all_listeners_wait_for_their_turn() -> None:
    found = connections(total=2)
    first, second, third, fourth = (
        FakeConnection(),
        FakeConnection(listener_name="OTHERS"),
        FakeConnection(),
        FakeConnection(),
    )

    assert [found.add(each) for each in (first, second, third, fourth)] == [True] * 4
    assert [len(each.served) for each in (first, second, third, fourth)] == [1, 1, 0, 0]

    found.remove(second)
    found.remove(second)
    assert [len(each.served) for each in (third, fourth)] == [1, 0]


def test_who_leaves_while_it_waits_takes_nobodys_place() -> None:
    found = connections(total=1)
    first, second, third = FakeConnection(), FakeConnection(), FakeConnection()
    for each in (first, second, third):
        found.add(each)

    found.remove(second)
    assert third.served == []
    found.remove(first)
    assert third.served == [True]
    assert len(found) == 1


def test_raised_limit_serves_who_waits_and_a_lowered_one_closes_nobody() -> None:
    found = connections(total=1)
    waiting = [FakeConnection() for _ in range(4)]
    for each in waiting:
        found.add(each)

    found.use_limits(ConnectionLimits(total=3))
    assert [len(each.served) for each in waiting] == [1, 1, 1, 0]

    found.use_limits(ConnectionLimits(total=1))
    assert not any(each.closed for each in waiting)
    found.remove(waiting[0])
    assert waiting[3].served == []


def test_listener_has_a_limit_of_its_own() -> None:
    found = connections(per_listener={"plaintext": 1})
    first, second, other = (
        FakeConnection(listener_name="PLAINTEXT"),
        FakeConnection(listener_name="PLAINTEXT"),
        FakeConnection(listener_name="OTHERS"),
    )
    assert [found.add(each) for each in (first, second, other)] == [True] * 3
    assert [len(each.served) for each in (first, second, other)] == [1, 0, 1]

    found.remove(other)
    assert second.served == []
    found.remove(first)
    assert second.served == [True]


def test_only_so_many_wait() -> None:
    found = connections(total=0)

    assert all(found.add(FakeConnection()) for _ in range(WAITING_CONNECTIONS_MAX))
    assert not found.add(FakeConnection())


def test_listener_between_brokers_puts_out_the_longest_silent_connection_of_another() -> None:
    found = connections(total=3, protected_listener="BROKERS")
    broker, oldest, spoke = (
        FakeConnection(listener_name="BROKERS"),
        FakeConnection(),
        FakeConnection(),
    )
    for each in (broker, spoke, oldest):
        found.add(each)
    found.active(spoke)

    another = FakeConnection(listener_name="BROKERS")
    assert found.add(another)

    assert another.served
    assert (broker.closed, oldest.closed, spoke.closed) == ([], [True], [])


def test_an_address_is_welcome_again_when_one_of_its_connections_has_ended() -> None:
    found = connections(per_ip=1, per_ip_overrides={"10.0.0.2": 2})
    first = FakeConnection()

    assert found.add(first)
    assert not found.add(FakeConnection())
    assert found.add(FakeConnection(ip="10.0.0.2"))
    assert found.add(FakeConnection(ip="10.0.0.2"))
    assert found.add(FakeConnection(ip="10.0.0.3"))

    found.remove(first)
    assert found.add(FakeConnection())


def test_only_who_was_silent_long_enough_is_closed() -> None:
    clock = Clock()
    found = connections(clock, max_idle_ms=100)
    idle, active, busy = FakeConnection(), FakeConnection(), FakeConnection(is_busy=True)
    for each in (idle, active, busy):
        found.add(each)
    clock.ms = 50
    found.active(active)
    clock.ms = 100

    assert found.close_idle() == [idle]
    assert (idle.closed, active.closed, busy.closed) == ([True], [], [])


def test_who_was_answered_late_has_the_whole_time_again() -> None:
    clock = Clock()
    found = connections(clock, max_idle_ms=100)
    busy = FakeConnection(is_busy=True)
    found.add(busy)
    clock.ms = 100
    found.close_idle()
    busy.is_busy = False
    clock.ms = 199

    assert found.close_idle() == []
    clock.ms = 200
    assert found.close_idle() == [busy]


def test_negative_time_closes_nobody_but_who_stalls_in_the_middle_of_a_large_request() -> None:
    clock = Clock()
    found = connections(clock, max_idle_ms=-1)
    idle, stalled = FakeConnection(), FakeConnection(is_receiving=True)
    found.add(idle)
    found.add(stalled)
    clock.ms = STALLED_MS

    assert found.close_idle() == [stalled]
