"""The image `jbodlab`, as somebody uses it who has nothing of this repository but the image."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from lab.cluster import wait_for
from lab.machine.ports import HeldPorts
from tests.compose.engine import ROOT, docker, missing_engine

pytestmark = [pytest.mark.compose, pytest.mark.timeout(900)]

SIZE_MAX = 200_000_000
API = 8080
BROKERS = (9092, 9093, 9094)


@dataclass(frozen=True)
class Container:
    """A running container with a cluster; `ports` are those of the host, by those inside."""

    id: str
    ports: dict[int, int]

    def ask(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports[API]}/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={**headers, "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def wait_answering(self) -> None:
        def answers() -> bool:
            try:
                return bool(self.ask("GET", "/health")["status"] == "ok")
            except OSError:
                return False

        wait_for("the cluster in the container", answers, 90, last_seen=self.printed)

    def printed(self) -> str:
        return docker("logs", self.id)

    def token(self) -> str:
        return self.printed().partition("#token=")[2].split()[0]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[port]}" for port in BROKERS)


@pytest.fixture(scope="module")
def image() -> str:
    if reason := missing_engine():
        pytest.skip(reason)
    docker("build", "-q", "--target", "jbodlab", "-t", "jbodlab", str(ROOT), deadline_s=600)
    return "jbodlab"


@contextmanager
def running(
    image: str, ports: dict[int, int], *words: str, command: Sequence[str] = ()
) -> Iterator[Container]:
    published = [f"--publish=127.0.0.1:{there or ''}:{here}" for here, there in ports.items()]
    # Of its errors `docker run` prints some beside the id.
    found = docker("run", "--detach", "--rm", *published, *words, image, *command).split()[-1]
    try:
        told = {
            here: int(docker("port", found, str(here)).splitlines()[0].rpartition(":")[2])
            for here in ports
        }
        yield Container(found, told)
    finally:
        subprocess.run(
            ["docker", "rm", "--force", found], capture_output=True, timeout=60, check=False
        )


@pytest.fixture(scope="module")
def container(image: str) -> Iterator[Container]:
    """A container that can write nowhere but to its /tmp."""
    held = HeldPorts.hold(1 + len(BROKERS))
    ports = dict(zip((API, *BROKERS), held.numbers, strict=True))
    advertised = ",".join(f"127.0.0.1:{ports[port]}={port}" for port in BROKERS)
    closed = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges")
    try:
        with running(image, ports, *closed, command=("--advertise", advertised)) as found:
            found.wait_answering()
            yield found
    finally:
        held.close()


def test_the_image_takes_less_than_200_mb(image: str) -> None:
    assert int(docker("image", "inspect", "-f", "{{.Size}}", image)) < SIZE_MAX


def test_one_tree_of_processes_runs_as_an_unprivileged_user(container: Container) -> None:
    script = "cat /proc/1/comm; id -u; cat /proc/[0-9]*/stat | cut -d' ' -f3 | grep -c Z"
    shown = docker("exec", container.id, "sh", "-c", f"{script} || true")

    assert shown.split() == ["tini", "1500", "0"]


def test_the_engine_finds_it_healthy(container: Container) -> None:
    def status() -> str:
        return docker("inspect", "-f", "{{.State.Health.Status}}", container.id).strip()

    wait_for("healthy", lambda: status() == "healthy", 30, last_seen=status)


def test_it_prints_the_request_that_breaks_its_first_disk(container: Container) -> None:
    (line,) = (line for line in container.printed().splitlines() if line.startswith("curl "))
    # The host has another port than the container.
    words = shlex.split(line.replace(f":{API}/", f":{container.ports[API]}/"))
    done = subprocess.run(
        [*words, "--silent"], capture_output=True, text=True, timeout=60, check=True
    )

    fault, token = json.loads(done.stdout), container.token()
    assert (fault["kind"], fault["where"]) == ("permission", "broker-1/1")
    container.ask("GET", f"/wait?detected={fault['id']}&timeout=30s", token=token)
    container.ask("POST", "/heal", token=token)


@pytest.mark.parametrize("kind", ["permission", "eio"])
def test_clients_outside_produce_and_read_while_the_leaders_disk_breaks(
    container: Container, kind: str
) -> None:
    token, topic = container.token(), f"orders-{kind}"
    container.ask("POST", "/topics", {"name": topic, "partitions": 1, "replicas": 3}, token)
    assert container.ask("GET", "/cluster", token=token)["advertised"] == container.bootstrap
    client = {"bootstrap.servers": container.bootstrap, "log_level": 0}
    producer = Producer({**client, "acks": "all"})
    producer.produce(topic, b"before")
    assert producer.flush(60) == 0

    body = {"kind": kind, "where": f"leader of {topic}-0", "for": "60s"}
    fault = container.ask("POST", "/faults", body, token)
    container.ask("GET", f"/wait?detected={fault['id']}&timeout=30s", token=token)
    producer.produce(topic, b"during")
    assert producer.flush(60) == 0
    container.ask("POST", "/heal", token=token)

    consumer = Consumer({**client, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    seen: list[bytes | None] = []

    def read() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            seen.append(message.value())
        return len(seen) == 2

    wait_for("both records", read, 60)
    consumer.close()
    assert seen == [b"before", b"during"]


def test_the_ports_may_be_known_only_once_the_container_runs(image: str, tmp_path: Path) -> None:
    script = "/tmp/start.sh"
    waiting = f"while [ ! -f {script} ]; do sleep 0.05; done; exec sh {script}"
    words = ("--entrypoint=sh", "--env=JBODLAB_TOKEN=known")
    ports = dict.fromkeys((API, *BROKERS), 0)
    with running(image, ports, *words, command=("-c", waiting)) as found:
        there = ",".join(f"127.0.0.1:{found.ports[port]}={port}" for port in BROKERS)
        line = f"exec tini -- jbodlab serve --listen 0.0.0.0:{API} --advertise {there}\n"
        (tmp_path / "start.sh").write_text(line)
        docker("cp", str(tmp_path / "start.sh"), f"{found.id}:{script}")
        found.wait_answering()

        assert found.ask("GET", "/cluster", token="known")["advertised"] == found.bootstrap
        producer = Producer({"bootstrap.servers": found.bootstrap, "log_level": 0})
        producer.produce("orders", b"value")
        assert producer.flush(60) == 0


def test_the_testcontainers_module_of_java_runs_it(image: str) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("mvn is not on the path")
    done = subprocess.run(
        ["mvn", "-q", "-B", "test", "-Dtest=JbodlabContainerTest"],
        cwd=ROOT / "clients" / "java",
        env={
            **os.environ,
            "JBODLAB_IMAGE": image,
            # Else it starts images of its own, which only registries have.
            "TESTCONTAINERS_RYUK_DISABLED": "true",
            "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    said = done.stdout + done.stderr
    if "Could not transfer artifact" in said:
        pytest.skip("packages of the client cannot be had")
    assert done.returncode == 0, said[-5000:]


def test_it_ends_when_the_engine_stops_it(image: str) -> None:
    with running(image, {API: 0}) as found:
        found.wait_answering()
        # The engine kills what has not ended after so long: then the code is 137.
        docker("kill", "--signal=TERM", found.id)
        assert docker("wait", found.id).strip() == "130"
