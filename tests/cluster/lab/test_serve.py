"""`jbodlab serve`: a whole cluster behind one HTTP API, used as a test of an application would."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from lab.cluster import wait_for
from lab.machine.folders import make_folder, remove_folder
from lab.machine.ports import HeldPorts
from tests.cluster.live_page import Page
from tests.cluster.staying import Staying

pytestmark = pytest.mark.cluster

TIMEOUT_S = 90


class Served(Page):
    """A running `jbodlab serve`."""

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        more = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        status, _, answer = self.ask(
            method, f"/v1{path}", body, **{"Content_Type": "application/json", **more, **headers}
        )
        return status, json.loads(answer) if answer else None

    def done(self, method: str, path: str, body: Any = None) -> Any:
        status, found = self.call(method, path, body)
        assert status < 300, found
        return found


def started(root: Path, *words: str, stdin: int | None = None, **variables: str) -> Served:
    environment = {**Staying(root).environment, **variables}
    with (root / "serve.err").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "jbodlab", "serve", "--output", "json", *words],
            env=environment,
            cwd=root,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, (root / "serve.err").read_text()
    found = json.loads(line)
    port = urllib.parse.urlsplit(found["url"]).port
    assert port is not None
    return Served(found["url"], port, found["token"], process)


def ended(served: Served, number: signal.Signals = signal.SIGTERM) -> None:
    # The block closes its output, too.
    with served.process:
        served.process.send_signal(number)
        served.process.wait(TIMEOUT_S)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    folder = make_folder()
    yield folder
    remove_folder(folder)


@pytest.fixture(scope="module")
def served(root: Path) -> Iterator[Served]:
    found = started(root, "--kind", "folder", "--disks", "2")
    try:
        yield found
    finally:
        ended(found)


def new_topic(served: Served, name: str, partitions: int = 1, replicas: int = 3) -> str:
    body = {"name": name, "partitions": partitions, "replicas": replicas}
    assert len(served.done("POST", "/topics", body)["partitions"]) == partitions
    return name


def test_the_cluster_is_described(served: Served) -> None:
    assert served.done("GET", "/health") == {"status": "ok", "problems": []}
    cluster = served.done("GET", "/cluster")
    assert cluster["bootstrap"].count(",") == 2
    assert cluster["spec"]["disks"] == 2
    brokers = served.done("GET", "/brokers")
    assert [(one["id"], one["state"], one["running"]) for one in brokers] == [
        (number, "serving", True) for number in (1, 2, 3)
    ]
    assert len(served.done("GET", "/directories")) == 6
    (controller,) = served.done("GET", "/controllers")
    assert (controller["role"], controller["running"]) == ("active", True)


def test_the_disk_of_a_leader_breaks_under_a_client_and_comes_back(served: Served) -> None:
    topic = new_topic(served, "orders")
    bootstrap = served.done("GET", "/client-config?client=librdkafka")["config"]
    producer = Producer(bootstrap)
    producer.produce(topic, b"before")
    assert producer.flush(30) == 0

    fault = served.done("POST", "/faults", {"kind": "permission", "where": f"leader of {topic}-0"})
    served.done("GET", f"/wait?detected={fault['id']}&timeout=10s")
    served.done("GET", f"/wait?leaders={topic}")
    producer.produce(topic, b"during")
    assert producer.flush(30) == 0
    broken, number = fault["where"].removeprefix("broker-").split("/")
    assert served.done("GET", f"/directories/{broken}/{number}")["state"] == "offline"
    assert served.done("GET", "/health")["status"] == "degraded"

    healed = served.done("DELETE", f"/faults/{fault['id']}")
    assert (healed["healed"], healed["revived"]) == ([fault["id"]], [fault["where"]])
    served.done("GET", "/wait?settled=true&timeout=60s")
    assert served.done("GET", "/faults") == []
    assert served.done("GET", f"/faults/{fault['id']}")["state"] == "healed"
    consumer = Consumer({**bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    seen: list[bytes] = []

    def read() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            seen.append(message.value())
        return len(seen) == 2

    wait_for("both records", read, 60)
    consumer.close()
    assert seen == [b"before", b"during"]


def test_a_killed_broker_is_started_by_heal(served: Served) -> None:
    assert not served.done("POST", "/brokers/2/kill")["running"]
    assert "broker 2 does not run" in served.done("GET", "/health")["problems"]

    assert served.done("POST", "/heal")["started"] == ["broker-2"]
    assert served.done("GET", "/health")["status"] == "ok"


def test_a_repeated_request_with_a_key_breaks_once(served: Served) -> None:
    topic = new_topic(served, "once")
    words = {"kind": "permission", "where": f"follower of {topic}-0", "for": "60s"}

    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(
                lambda _: served.call("POST", "/faults", words, Idempotency_Key="k-1"), range(4)
            )
        )

    assert {status for status, _ in answers} == {201}
    assert len({found["id"] for _, found in answers}) == 1
    assert len(served.done("GET", "/faults")) == 1
    other = {**words, "kind": "eio"}
    assert served.call("POST", "/faults", other, Idempotency_Key="k-1")[0] == 422
    served.done("POST", "/heal")


def test_a_fault_heals_by_its_length_when_its_client_is_gone(served: Served) -> None:
    words = {"kind": "permission", "where": "broker-3/2", "for": "2s", "even_last_in_sync": True}
    fault = served.done("POST", "/faults", words)

    served.done("GET", f"/wait?healed={fault['id']}&timeout=20s")
    served.done("POST", "/heal")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/brokers/9", None, 404),
        ("GET", "/brokers/x", None, 404),
        ("GET", "/nothing", None, 404),
        ("PATCH", "/brokers", None, 405),
        ("GET", "/wait?detected=99", None, 404),
        ("GET", "/wait?isr=nothing&timeout=100ms", None, 409),
        ("GET", "/wait?isr=nothing&timeout=soon", None, 400),
        ("GET", "/wait?isr=nothing&timeout=11m", None, 400),
        ("GET", "/faults?open=1", None, 400),
        ("POST", "/faults", {"kind": "permission"}, 400),
        ("POST", "/faults", {"kind": "rust", "where": "broker-1/1"}, 400),
        ("POST", "/topics", {"name": "a", "config": {"no.such": "1"}}, 409),
        ("POST", "/faults", {"kind": "permission", "where": "leader of nothing-0"}, 404),
        ("POST", "/topics", {"name": "a b"}, 400),
        ("POST", "/topics", {"name": "a", "partitions": 1.5}, 400),
        ("GET", "/what-if?broker=99", None, 404),
        ("GET", "/what-if?directory=0&broker=1", None, 409),
        ("DELETE", "/topics/nothing", None, 404),
        ("PUT", "/cluster", {"brokers": 0}, 409),
        ("PUT", "/cluster", {"engine": "kafka"}, 409),
        ("PUT", "/cluster", {"colour": "red"}, 400),
        ("POST", "/rehearsals", {"plan": "no: plan"}, 409),
        ("GET", "/rehearsals/7", None, 404),
    ],
)
def test_a_wrong_request_is_a_problem_with_a_reason(
    served: Served, method: str, path: str, body: Any, status: int
) -> None:
    found, told = served.call(method, path, body)

    assert found == status, told
    assert (told["status"], told["type"].startswith("urn:jbodlab:")) == (status, True)
    assert told["detail"]


def test_a_wait_that_runs_out_is_told_by_its_type(served: Served) -> None:
    status, told = served.call("GET", "/wait?leaders=nothing&timeout=50ms")

    assert (status, told["type"]) == (409, "urn:jbodlab:not-in-time")


def test_a_whole_number_with_a_point_is_an_integer_as_for_json_schema(served: Served) -> None:
    made = served.done("POST", "/topics", {"name": "whole", "partitions": 2.0, "replicas": 1.0})

    assert len(made["partitions"]) == 2
    served.done("DELETE", "/topics/whole")


def test_the_metadata_log_and_what_if_are_answered(served: Served) -> None:
    status, headers, body = served.ask("GET", "/v1/metadata-log")
    assert (status, headers["content-type"]) == (200, "application/x-tar")
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        assert "__cluster_metadata-0/00000000000000000000.log" in archive.getnames()
    assert served.done("GET", "/what-if")["losses"]["directories"]
    assert served.done("GET", "/what-if?broker=1")


def test_a_rehearsal_is_run_and_cancelled(served: Served) -> None:
    run = served.done("POST", "/rehearsals", {"plan": "follower-disk-dies"})
    assert run["state"] == "running"
    assert served.call("POST", "/rehearsals", {"plan": "follower-disk-dies"})[0] == 409

    wait_for("progress", lambda: served.done("GET", f"/rehearsals/{run['id']}")["progress"])
    assert served.done("DELETE", f"/rehearsals/{run['id']}")["state"] == "cancelled"
    assert served.call("GET", f"/rehearsals/{run['id']}/page")[0] == 409


def test_no_request_leaves_a_descriptor_open(served: Served) -> None:
    def descriptors() -> Counter[str]:
        """Of files; a look at the cluster opens some, and closes them at any moment."""
        found: Counter[str] = Counter()
        for path in Path(f"/proc/{served.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found[str(path.readlink())] += 1
        return Counter({name: count for name, count in found.items() if name[0] == "/"})

    before = descriptors()
    for _ in range(3):
        served.done("GET", "/faults")
        served.done("GET", "/wait?settled=true")
        served.done("POST", "/brokers/1/thaw")

    wait_for("what was opened is closed", lambda: descriptors() <= before, last_seen=descriptors)
    # Only the input and the errors are files: those of the start are closed as well.
    wait_for(
        "no file of the cluster is open",
        lambda: not [path for path in descriptors() if "/clusters/" in path],
        last_seen=descriptors,
    )


def test_settings_come_from_the_environment_and_another_cluster_takes_the_place(
    tmp_path: Path,
) -> None:
    folder = make_folder()
    variables = {"JBODLAB_BROKERS": "1", "JBODLAB_CONFIG": "num.partitions=5 min.insync.replicas=1"}
    found = started(folder, "--kind", "folder", **variables)
    try:
        assert found.done("GET", "/cluster")["spec"]["brokers"] == 1
        first = found.done("GET", "/cluster")["id"]

        spec = {"brokers": 2, "disks": 1, "disk_kind": "folder", "config": {"num.partitions": "4"}}
        second = found.done("PUT", "/cluster", spec)

        assert (second["spec"]["brokers"], second["id"] == first) == (2, False)
        assert found.done("GET", "/health")["status"] == "ok"
        with found.events() as patch:
            patch()

        # One that does not start leaves another like the former in its place.
        status, told = found.call("PUT", "/cluster", {**spec, "config": {"num.partitions": "no"}})
        assert status == 409, told
        assert found.done("GET", "/cluster")["spec"] == second["spec"]
        assert found.done("GET", "/health")["status"] == "ok"
    finally:
        ended(found)
        assert not any((folder / "clusters").glob("*/"))
        remove_folder(folder)


def test_clients_elsewhere_reach_the_advertised_listeners() -> None:
    folder = make_folder()
    with HeldPorts.hold(1) as held:
        (port,) = held.numbers
    words = ("--kind", "folder", "--brokers", "1", "--advertise", f"localhost:{port}")
    found = started(folder, *words)
    try:
        assert found.done("GET", "/cluster")["advertised"] == f"localhost:{port}"
        new_topic(found, "far", replicas=1)
        producer = Producer({"bootstrap.servers": f"localhost:{port}"})
        told = producer.list_topics(timeout=30)
        assert {(one.host, one.port) for one in told.brokers.values()} == {("localhost", port)}
        producer.produce("far", b"x")
        assert producer.flush(30) == 0
    finally:
        ended(found)
        remove_folder(folder)


def test_another_controller_is_active_when_the_active_one_is_killed() -> None:
    folder = make_folder()
    found = started(folder, "--kind", "folder", "--brokers", "1", "--controllers", "3")
    try:
        found.done("GET", "/wait?active=true")
        before = {one["id"]: one["role"] for one in found.done("GET", "/controllers")}
        assert sorted(before.values()) == ["active", "standby", "standby"]
        killed = next(one for one, role in before.items() if role == "active")

        told = found.done("POST", f"/controllers/{killed}/kill")
        assert (told["role"], told["running"]) == (None, False)
        found.done("GET", "/wait?active=true")
        after = {one["id"]: one["role"] for one in found.done("GET", "/controllers")}
        assert after[killed] is None
        assert "active" in after.values()

        found.done("POST", f"/controllers/{killed}/start")
        found.done("GET", "/wait?active=true")
        active = next(
            one["id"] for one in found.done("GET", "/controllers") if one["role"] == "active"
        )
        place = f"controller-{active}"
        fault = found.done("POST", "/faults", {"kind": "kill", "where": place})
        assert fault["where"] == place
        found.done("GET", f"/wait?detected={fault['id']}&timeout=30s")
    finally:
        ended(found)
        remove_folder(folder)


def test_beyond_this_machine_everything_but_health_takes_the_token() -> None:
    folder = make_folder()
    words = ("--kind", "folder", "--brokers", "1", "--listen", "0.0.0.0:0")
    found = started(folder, *words)
    try:
        assert found.token
        assert found.ask("GET", "/v1/health")[0] == 200
        assert found.ask("GET", "/v1/brokers")[0] == 401
        assert found.call("GET", "/brokers")[0] == 200
        assert found.ask("POST", "/v1/heal", **{"Content_Type": "application/json"})[0] == 401
    finally:
        ended(found, signal.SIGINT)
        remove_folder(folder)


def test_a_server_ends_while_a_client_waits_for_what_never_comes() -> None:
    folder = make_folder()
    found = started(folder, "--kind", "folder", "--brokers", "1")
    try:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", found.port)) as client:
            client.request("GET", "/v1/wait?leaders=nothing&timeout=10m")
            found.done("GET", "/health")
            ended(found)
    finally:
        found.process.kill()
        remove_folder(folder)


def test_nothing_stays_of_a_server_that_is_killed() -> None:
    folder = make_folder()
    found = started(folder, "--kind", "folder", "--brokers", "1")
    try:
        (broker,) = found.done("GET", "/brokers")
        ended(found, signal.SIGKILL)

        wait_for("the end of the broker", lambda: not Path(f"/proc/{broker['pid']}").exists(), 60)
        clusters = folder / "clusters"
        wait_for("no files of the cluster", lambda: not any(clusters.glob("default*/")), 60)
    finally:
        remove_folder(folder)


def test_a_server_ends_with_the_process_that_holds_its_input() -> None:
    folder = make_folder()
    held, given = os.pipe()
    found = started(folder, "--kind", "folder", "--brokers", "1", "--until-input-ends", stdin=held)
    os.close(held)
    try:
        assert found.done("GET", "/health")["status"] == "ok"
        # A process that is killed closes it as well.
        os.close(given)
        with found.process:
            found.process.wait(TIMEOUT_S)
        assert not any((folder / "clusters").glob("default*/"))
    finally:
        found.process.kill()
        remove_folder(folder)
