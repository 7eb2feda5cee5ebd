"""A quorum whose controllers know each other by certificates: the case QC73."""

from __future__ import annotations

import datetime
import itertools
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from jbodlab.security.authority import Authority
from lab import opened, status
from lab.cluster import Node, membership, wait_for
from lab.testing.clusters import Cluster
from tests.certificates import Authority as AnotherAuthority
from tests.cluster.scenes import some

if TYPE_CHECKING:
    from confluent_kafka import Message

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

DAY = datetime.timedelta(days=1)
UNKNOWN = "a controller and this one do not know each other"


@pytest.fixture(scope="module", params=["sasl_ssl", "mtls"])
def closed(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One for all tests, each of which leaves it whole."""
    with Cluster(brokers=2, disks=1, controllers=3, security=request.param) as cluster:
        yield cluster


@pytest.fixture(params=some(("ssl", "mtls", "sasl_ssl"), "sasl_ssl"))
def closed_with_one(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=2, disks=1, security=request.param) as cluster:
        yield cluster


@pytest.fixture
def cluster(closed: Cluster) -> Iterator[Cluster]:
    yield closed
    closed.heal()
    first = active(closed)
    for node in closed.inner.controllers:
        if node is not first:
            stands_by(closed, node)


mtls_only = pytest.mark.parametrize("closed", ["mtls"], indirect=True)


def roles(cluster: Cluster) -> dict[str, str | None]:
    seen = status.look(cluster.inner.state, cluster.inner.root / "faults.jsonl")
    return {f"controller-{each['id']}": each["role"] for each in seen.to_json()["controllers"]}


def active(cluster: Cluster, *, not_: Node | None = None) -> Node:
    """Wait for an active controller."""

    def found() -> Node | None:
        now = roles(cluster)
        return next(
            (n for n in cluster.inner.controllers if n is not not_ and now[n.name] == "active"),
            None,
        )

    return wait_for("an active controller", found)


def stands_by(cluster: Cluster, node: Node) -> None:
    wait_for(f"{node.name} standing by", lambda: roles(cluster)[node.name] == "standby")


def key_store(node: Node) -> Path:
    return Path(node.state.properties_file).parents[1] / "keys" / f"{node.name}.pem"


def show(node: Node, text: str) -> None:
    """Give a controller another key and certificate."""
    store = key_store(node)
    owner = store.stat()
    new = store.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(text)
    os.chown(new, owner.st_uid, owner.st_gid)
    new.rename(store)


def issued(cluster: Cluster, name: str, lifetime: datetime.timedelta = DAY) -> str:
    """A key and a certificate of the cluster's own authority."""
    folder = cluster.inner.root / "security"
    authority = Authority.load((folder / "ca.pem").read_bytes(), (folder / "ca.key").read_bytes())
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    key, chain = authority.issue(name, ("127.0.0.1", "localhost"), now, now + lifetime)
    return key + chain


def test_a_closed_quorum_outlives_the_kill_of_its_active_controller(cluster: Cluster) -> None:
    first = active(cluster)
    first.kill()

    assert active(cluster, not_=first) is not first
    cluster.new_topic(partitions=1, replicas=2)
    first.start()
    stands_by(cluster, first)


@mtls_only
def test_the_majority_goes_on_when_the_certificate_of_the_active_controller_expires(
    cluster: Cluster,
) -> None:
    first = active(cluster)
    before = {node.name: len(node.output()) for node in cluster.inner.controllers}
    with first.fails("certificate-expires", lifetime="3s") as fault:
        second = active(cluster, not_=first)
        cluster.new_topic(partitions=1, replicas=1)
        assert any(UNKNOWN in each.output()[before[each.name] :] for each in (first, second))
        assert fault.broken.what == "handshakes"
    # With its certificate from before it follows at once, as it runs on.
    assert first.is_running
    stands_by(cluster, first)


@mtls_only
def test_the_majority_goes_on_when_nobody_trusts_the_certificate_of_the_active_controller(
    cluster: Cluster,
) -> None:
    first = active(cluster)
    spec, target = opened.described(cluster.inner, "certificate-untrusted", first.name, {})
    with cluster.inner.faults.inject(spec, target):
        active(cluster, not_=first)
        cluster.new_topic(partitions=1, replicas=1)
    # It runs on, and follows with its own certificate.
    assert first.is_running
    stands_by(cluster, first)


@mtls_only
def test_new_certificates_one_by_one_are_no_reason_for_an_election(cluster: Cluster) -> None:
    first = active(cluster)
    before = len(first.output())
    for node in cluster.inner.controllers:
        with node.fails("certificate-replaced"):
            cluster.new_topic(partitions=1, replicas=1)

    assert active(cluster) is first
    assert "active controller of the metadata log" not in first.output()[before:]


@mtls_only
@pytest.mark.parametrize("fault", ["unknown authority", "name of another controller"])
def test_a_controller_with_a_wrong_certificate_takes_no_part(cluster: Cluster, fault: str) -> None:
    first = active(cluster)
    wrong, other = (each for each in cluster.inner.controllers if each is not first)
    wrong.kill()
    if fault == "unknown authority":
        foreign = AnotherAuthority().issue(wrong.name)
        text = foreign.private_key() + foreign.chain
    else:
        text = issued(cluster, other.name)
    before = len(wrong.output())
    show(wrong, text)
    wrong.start()

    # Its vote does not count: with one of the others gone there is no majority.
    said = "do not know each other" if fault == "unknown authority" else "a controller refuses"
    wait_for("a refusal", lambda: said in wrong.output()[before:])
    assert active(cluster) is first
    other.kill()
    wait_for("no majority", lambda: "active" not in roles(cluster).values())

    wrong.kill()
    show(wrong, issued(cluster, wrong.name))
    wrong.start()
    active(cluster)
    cluster.new_topic(partitions=1, replicas=1)


def voter_ids(cluster: Cluster) -> set[int]:
    return set(wait_for("an active controller", cluster.inner.quorum).directory_ids)


class Load:
    """An application that writes while controllers come and go."""

    def __init__(self, cluster: Cluster) -> None:
        self._config = {**cluster.inner.application_config, "acks": "all"}
        self._topic = cluster.new_topic(partitions=1, replicas=2)
        self._stop = threading.Event()
        self._written: list[bytes] = []
        self._thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        producer = Producer(self._config)

        def acknowledged(error: object, message: Message) -> None:
            if error is None:
                self._written.append(message.value())

        for number in itertools.count():
            producer.produce(self._topic, b"%d" % number, on_delivery=acknowledged)
            producer.poll(0)
            if self._stop.wait(0.02):
                break
        assert producer.flush(60) == 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write until the end of the block; all that was acknowledged is there then."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(90)
        assert len(self._written) > 100
        assert not set(self._written) - set(self._read())

    def _read(self) -> list[bytes]:
        settings = {"group.id": "any", "enable.auto.commit": False}
        reader = Consumer({**self._config, **settings})
        try:
            place = TopicPartition(self._topic, 0)
            _, end = reader.get_watermark_offsets(place, timeout=30)
            place.offset = 0
            reader.assign([place])
            found = reader.consume(end, timeout=30)
            return [message.value() for message in found if message.error() is None]
        finally:
            reader.close()


def test_controllers_of_a_closed_cluster_come_and_go_while_it_is_written_to(
    closed_with_one: Cluster,
) -> None:
    cluster, inner = closed_with_one, closed_with_one.inner
    processes = [broker.state.process for broker in inner.brokers]
    first = inner.controller
    with Load(cluster).running():
        topics = [cluster.new_topic(partitions=1, replicas=2)]
        second, third = membership.add(inner), membership.add(inner)
        assert voter_ids(cluster) == {first.id, second.id, third.id}
        # Each has a key of its own, as after the first start.
        assert len({key_store(node).read_text() for node in inner.controllers}) == 3
        assert stat.S_IMODE(key_store(third).stat().st_mode) == 0o600
        topics.append(cluster.new_topic(partitions=1, replicas=2))

        # The first one may die: the others have all, and brokers reach them.
        membership.transfer(inner, first)
        first.kill()
        assert active(cluster, not_=first) in (second, third)
        topics.append(cluster.new_topic(partitions=1, replicas=2))
        first.start()
        stands_by(cluster, first)

        membership.transfer(inner, third)
        membership.remove(inner, second)
        membership.remove(inner, first)
        assert voter_ids(cluster) == {third.id}
        assert not key_store(first).exists()
        topics.append(cluster.new_topic(partitions=1, replicas=2))
        assert [broker.state.process for broker in inner.brokers] == processes
    # From its own files, without anybody else.
    inner.stop()
    inner.start()
    assert {key.topic for key in inner.view().partitions} >= set(topics)
