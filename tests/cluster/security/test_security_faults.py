"""Faults of certificates, users and rights on a closed cluster, as its clients meet them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from fault_injection.errors import FaultError
from lab.cluster import wait_for
from lab.testing.clusters import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("closed-clusters")]

DEADLINE_S = 20.0
REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def topic(closed: Cluster) -> Iterator[str]:
    yield closed.new_topic(partitions=2, replicas=2, min_insync_replicas="1")
    closed.forget_topics()


class Application:
    """An unchanged client that sends now and then."""

    def __init__(self, closed: Cluster, topic: str, **config: Any) -> None:
        self.errors: list[int] = []
        self._topic = topic
        self._producer = Producer(
            {
                **closed.client_config("librdkafka"),
                "error_cb": lambda error: self.errors.append(error.code()),
                "log_level": 0,
                "reconnect.backoff.max.ms": 300,
                **config,
            }
        )

    def send(self) -> KafkaError | None:
        """Send a message to each partition; return the first error."""
        found: list[KafkaError | None] = []
        try:
            for partition in (0, 1):
                self._producer.produce(
                    self._topic, b"x", partition=partition, on_delivery=lambda e, _: found.append(e)
                )
        except KafkaException as refused:
            # It remembers that it may not, until it has asked again.
            self._producer.poll(0.1)
            return refused.args[0]  # type: ignore[no-any-return]
        assert self._producer.flush(DEADLINE_S) == 0
        return next(filter(None, found), None)


def asks(closed: Cluster, broker: int, timeout_s: float = 1.5) -> bool:
    """Whether a new client is answered by a broker."""
    config = {**closed.client_config("librdkafka"), "log_level": 0}
    config["bootstrap.servers"] = closed.broker(broker).address
    try:
        AdminClient(config).list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return True


def test_a_replaced_certificate_is_seen_by_new_clients_and_disturbs_nobody(
    closed: Cluster, topic: str
) -> None:
    application = Application(closed, topic)
    assert application.send() is None
    before = ssl.get_server_certificate(_address(closed))

    with closed.broker(1).fails("certificate-replaced") as fault:
        assert ssl.get_server_certificate(_address(closed)) != before
        assert asks(closed, 1)
        assert application.send() is None
        found = fault.clients
        assert (found.closed, found.handshakes_failed) == (0, 0)
        assert found.stayed >= 1
    assert application.errors == []
    assert ssl.get_server_certificate(_address(closed)) == before


def test_an_expired_certificate_lets_no_new_client_in_and_connected_ones_stay(
    closed: Cluster, topic: str
) -> None:
    application = Application(closed, topic)
    assert application.send() is None

    with closed.broker(1).fails("certificate-expires", lifetime="2s") as fault:
        assert not asks(closed, 1)
        found = fault.clients
        assert found.handshakes_failed
        assert found.stayed >= 1
        assert application.send() is None
        wait_for("the broker being fenced", lambda: closed.broker(1).is_fenced, DEADLINE_S)
    # The new certificate is taken by clients and by the controller, without a restart.
    closed.wait_settled()
    assert asks(closed, 1)
    assert closed.broker(1).is_running


def test_a_removed_user_is_sent_away_and_comes_back(closed: Cluster, topic: str) -> None:
    application = Application(closed, topic, **{"message.timeout.ms": 60_000})
    assert application.send() is None

    with closed.fails("user-removed") as fault:
        fault.wait_broken()
        wait_for("a failed login", lambda: fault.clients.logins_failed, DEADLINE_S)
        assert fault.clients.closed >= 1
        assert not asks(closed, 2)
    assert application.send() is None
    assert KafkaError._AUTHENTICATION in application.errors


def test_removed_rights_refuse_the_next_request_and_close_nothing(
    closed: Cluster, topic: str
) -> None:
    application = Application(closed, topic)
    assert application.send() is None

    with closed.fails("acl-removed") as fault:
        error = application.send()
        assert error is not None
        assert error.code() == REFUSED
        found = fault.clients
        assert found.requests_refused
        assert found.logins_failed == 0
        assert found.stayed >= 1
    assert application.errors == []
    wait_for("rights that are back", lambda: application.send() is None, DEADLINE_S)


@pytest.mark.parametrize(
    ("kind", "words", "reason"),
    [
        ("user-removed", {"principal": "carol"}, "unknown user 'carol'"),
        ("user-removed", {"principal": "admin"}, "whom the lab itself needs"),
        ("acl-removed", {"principal": "mallory"}, "mallory has no access control entries"),
    ],
)
def test_what_cannot_be_taken_away_is_refused(
    closed: Cluster, kind: str, words: dict[str, str], reason: str
) -> None:
    with pytest.raises(FaultError, match=reason):
        closed.fails(kind, **words)


def _address(closed: Cluster) -> tuple[str, int]:
    host, _, port = closed.broker(1).address.rpartition(":")
    return host, int(port)
