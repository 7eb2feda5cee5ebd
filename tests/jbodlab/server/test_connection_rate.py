from __future__ import annotations

from jbodlab.metadata.image.settings_image import Quotas
from jbodlab.server.connection_rate import ConnectionRate
from jbodlab.vocabulary.limits import CONNECTION_HELD_S_MAX, CONNECTIONS_KEPT_S

KEY = "connection_creation_rate"


class Clock:
    def __init__(self, **limits: float) -> None:
        self.now_s = 0.0
        self.quotas: Quotas = {}
        self.limit(**limits)
        self.rate = ConnectionRate(lambda: self.quotas, lambda: self.now_s)

    def limit(self, **limits: float) -> None:
        """Limit addresses by name; `each` is the default."""
        self.quotas = {
            frozenset({("ip", None if name == "each" else name)}): {KEY: value}
            for name, value in limits.items()
        }

    def served(self, ip: str, count: int) -> int:
        """Return how many of so many connections at once are served."""
        return sum(not self.rate.made(ip) for _ in range(count))


def test_an_address_may_come_at_its_rate_and_at_once_as_often_as_in_ten_seconds() -> None:
    clock = Clock(**{"10.0.0.1": 2.0})
    assert clock.served("10.0.0.1", 100) == 2 * CONNECTIONS_KEPT_S
    clock.now_s = 3.0
    assert clock.served("10.0.0.1", 100) == 6
    clock.now_s = 1_000.0
    assert clock.served("10.0.0.1", 100) == 2 * CONNECTIONS_KEPT_S


def test_one_too_many_is_held_until_it_might_have_come_for_a_second_at_most() -> None:
    clock = Clock(each=4.0, **{"10.0.0.2": 0.125})
    clock.served("10.0.0.1", 100)
    assert clock.rate.made("10.0.0.1") == 0.25
    clock.served("10.0.0.2", 100)
    assert clock.rate.made("10.0.0.2") == CONNECTION_HELD_S_MAX


def test_a_default_gives_each_address_a_limit_and_its_own_limit_counts_before_it() -> None:
    clock = Clock(each=1.0, **{"10.0.0.2": 3.0})
    assert [clock.served(ip, 50) for ip in ("10.0.0.1", "10.0.0.2", "10.0.0.3")] == [10, 30, 10]


def test_an_address_is_the_same_in_all_its_forms() -> None:
    clock = Clock(**{"10.0.0.1": 1.0, "fe80::1": 1.0})
    assert clock.served("::ffff:10.0.0.1", 5) + clock.served("10.0.0.1", 50) == 10
    assert clock.served("fe80:0:0::1", 50) == 10


def test_without_a_limit_nobody_is_held_and_a_new_one_counts_at_once() -> None:
    clock = Clock()
    assert clock.served("10.0.0.1", 1_000) == 1_000
    clock.limit(each=1.0)
    assert clock.served("10.0.0.1", 50) == 10
    clock.limit(each=2.0)
    assert clock.served("10.0.0.1", 50) == 20
