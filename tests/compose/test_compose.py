"""The compose cluster, used from the host: clients, a broken disk, a killed broker, the replay."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import tomllib
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jbodlab.cli.program import nouns
from lab.machine.ports import HeldPorts
from tests.cluster.harness import Load, assert_nothing_lost, read_all, wait_for
from tests.compose.engine import ROOT, docker, missing_engine

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1_500)]

BROKERS = (1, 2, 3)
SERVICES = ("controller", "broker-1", "broker-2", "broker-3")


def missing() -> str | None:
    """Why the compose tests cannot run here; None where they can."""
    if reason := missing_engine():
        return reason
    return "Docker Compose is not installed" if compose_command() is None else None


def compose_command() -> list[str] | None:
    """Compose 2 as a plugin, or Compose 1.29 as a program of its own."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if plugin.returncode == 0:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


class Compose:
    """One compose project with ports of its own."""

    def __init__(self, output: Path) -> None:
        self.output = output
        command = compose_command()
        assert command is not None
        self._name = f"jbodlab-test-{uuid.uuid4().hex[:8]}"
        self._command = [*command, "-p", self._name, "-f", str(ROOT / "docker-compose.yml")]
        self.clients = output.parent / "clients"
        self._held = HeldPorts.hold(2 * len(BROKERS) + 1)
        *ports, self.prometheus_port = self._held.numbers
        self.ports = dict(zip(BROKERS, ports[:3], strict=True))
        closed = dict(zip(BROKERS, ports[3:], strict=True))
        self._environment = {
            **os.environ,
            **{f"BROKER_{n}_PORT": str(port) for n, port in self.ports.items()},
            **{f"SECURE_BROKER_{n}_PORT": str(port) for n, port in closed.items()},
            "SECURE_CLIENTS": str(self.clients),
            "PROMETHEUS_PORT": str(self.prometheus_port),
            "REPLAY_OUTPUT": str(output),
            "COMPOSE_HTTP_TIMEOUT": "300",
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def run(self, *arguments: str, deadline_s: float = 300) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=deadline_s,
            check=False,
            cwd=ROOT,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout[-3000:]}"
        return done.stdout

    def close(self) -> None:
        profiles = ("replay", "observe", "secure")
        self.run(
            *(word for one in profiles for word in ("--profile", one)),
            "down",
            "-v",
            "--remove-orphans",
            "-t",
            "5",
        )
        self._held.close()

    def container(self, service: str) -> str:
        """The id of a service's container, running or not."""
        labels = {"project": self._name, "service": service}
        filters = [f"--filter=label=com.docker.compose.{key}={labels[key]}" for key in labels]
        (found,) = docker("ps", "-aq", *filters).split()
        return found

    def execute(self, service: str, *command: str) -> str:
        return docker("exec", self.container(service), *command)

    def health(self, *services: str) -> dict[str, str]:
        """The status of services by the engine's health checks."""
        containers = map(self.container, services)
        shown = docker("inspect", "-f", "{{.State.Health.Status}}", *containers)
        return dict(zip(services, shown.split(), strict=True))

    def wait_healthy(self, *services: str) -> None:
        wait_for(
            f"{', '.join(services)} healthy",
            lambda: set(self.health(*services).values()) == {"healthy"},
            120,
            last_seen=lambda: self.health(*services),
        )


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    output = tmp_path_factory.mktemp("replay-output")
    project = Compose(output)
    try:
        project.run("--profile", "replay", "build", deadline_s=1_200)
        project.run("up", "-d")
        project.wait_healthy(*SERVICES)
        yield project
    finally:
        project.close()


def admin_of(compose: Compose):
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": compose.bootstrap, "log_level": 0})


def leaders(compose: Compose, topic: str) -> dict[int, int]:
    found = admin_of(compose).list_topics(topic, timeout=10).topics[topic]
    return {p.id: p.leader for p in found.partitions.values()}


def directory_of(compose: Compose, broker: int, partition: str) -> str:
    def holding() -> str | None:
        listed = compose.execute(f"broker-{broker}", "sh", "-c", "ls -d /disks/*/data/*")
        paths = [line.strip() for line in listed.splitlines()]
        return next((path for path in paths if path.endswith(f"/{partition}")), None)

    path: str = wait_for(f"{partition} at broker {broker}", holding)
    return path.rpartition("/")[0]


def create_topic(compose: Compose, name: str) -> None:
    from confluent_kafka.admin import NewTopic

    admin = admin_of(compose)
    for future in admin.create_topics([NewTopic(name, 6, 3)]).values():
        future.result(30)
    wait_for(
        f"leaders of {name}", lambda: all(leader > 0 for leader in leaders(compose, name).values())
    )


def test_disk_broken_inside_a_container_fails_over(compose: Compose) -> None:
    create_topic(compose, "disks")
    with Load(compose.bootstrap, "disks") as load:
        victim = leaders(compose, "disks")[0]
        directory = directory_of(compose, victim, "disks-0")
        compose.execute(f"broker-{victim}", "chmod", "000", directory)
        wait_for(
            "a new leader", lambda: leaders(compose, "disks")[0] not in (victim, -1), deadline_s=30
        )
        moved = time.monotonic()
        wait_for("an acknowledgement afterwards", lambda: load.acknowledged_after(moved, 0))
    assert_nothing_lost(load, read_all(compose.bootstrap, "disks", 6))
    assert compose.health(f"broker-{victim}") == {f"broker-{victim}": "healthy"}, (
        "the other directories serve"
    )
    compose.execute(f"broker-{victim}", "chmod", "755", directory)
    compose.run("restart", f"broker-{victim}")
    compose.wait_healthy(f"broker-{victim}")


def test_killed_broker_finds_its_data_again(compose: Compose) -> None:
    create_topic(compose, "killed")
    with Load(compose.bootstrap, "killed") as load:
        wait_for("some records", lambda: len(load.acknowledged) > 300)
    victim = "broker-2"
    show = ("sh", "-c", "cat /disks/metadata/data/meta.properties /disks/1/data/meta.properties")
    before = compose.execute(victim, *show)

    compose.run("kill", victim)
    compose.run("up", "-d", victim)
    compose.wait_healthy(victim)

    assert compose.execute(victim, *show) == before, "never formatted anew"
    assert_nothing_lost(load, read_all(compose.bootstrap, "killed", 6))


def test_every_command_of_the_image_works(compose: Compose) -> None:
    scripts = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])
    calls = [*scripts, *(f"jbodlab {noun}" for noun in nouns())]
    script = "; ".join(f"{call} --help >/dev/null 2>&1 || echo {call}" for call in calls)
    assert compose.execute("broker-1", "sh", "-c", script) == ""


def test_processes_run_as_an_unprivileged_user(compose: Compose) -> None:
    for service in SERVICES:
        assert compose.execute(service, "id", "-u").strip() == "1500"


def test_replay_writes_tables_and_report_to_the_host(compose: Compose) -> None:
    create_topic(compose, "replayed")
    report = compose.run("--profile", "replay", "run", "--rm", "replay", deadline_s=1_200)
    written = {path.name for path in compose.output.iterdir() if path.is_dir()}
    assert {"records", "brokers", "log_dirs", "topics", "partitions", "problems"} <= written
    assert "outage" in report.lower()
    assert (compose.output / "report.txt").read_text() in report


def test_the_profile_secure_is_a_closed_cluster_with_files_for_clients(compose: Compose) -> None:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    compose.clients.mkdir()
    compose.run("--profile", "secure", "up", "-d")
    compose.wait_healthy(*(f"secure-{service}" for service in SERVICES))
    assert {path.stat().st_mode & 0o777 for path in compose.clients.iterdir()} == {0o600}

    def config(user: str) -> dict[str, str]:
        text = (compose.clients / f"{user}.librdkafka.properties").read_text()
        return {**dict(line.split("=", 1) for line in text.splitlines()), "log_level": "0"}

    # The futures of a collected client fail.
    admin = AdminClient(config("alice"))
    for future in admin.create_topics([NewTopic("closed", 3, 3)]).values():
        future.result(30)
    codes: dict[str, int] = {}
    for user in ("alice", "mallory"):
        producer = Producer({**config(user), "message.timeout.ms": "20000"})

        def delivered(error: Any, _: Any, user: str = user) -> None:
            codes[user] = 0 if error is None else error.code()

        producer.produce("closed", b"value", on_delivery=delivered)
        assert producer.flush(30) == 0
    assert codes == {"alice": 0, "mallory": KafkaError.TOPIC_AUTHORIZATION_FAILED}
    consumer = Consumer({**config("alice"), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["closed"])
    wait_for("the record", lambda: consumer.poll(0.5) is not None, 30)
    consumer.close()


@pytest.mark.soak
def test_prometheus_of_the_profile_observe_sees_a_disk_die(compose: Compose) -> None:
    compose.run("--profile", "observe", "build", "prometheus", deadline_s=1_200)
    compose.run("--profile", "observe", "up", "-d", "prometheus")

    def ask(path: str) -> Any:
        url = f"http://127.0.0.1:{compose.prometheus_port}/api/v1/{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.loads(answer.read())["data"]
        except OSError:
            return {}

    def answering() -> bool:
        found = ask("query?query=sum(up)").get("result")
        return bool(found) and found[0]["value"][1] == "4"

    def firing() -> set[str]:
        alerts = ask("alerts").get("alerts", ())
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

    wait_for("four servers that answer", answering, 60)
    compose.execute("broker-3", "chmod", "000", "/disks/2/data")
    wait_for("an alert", lambda: "LogDirectoryOffline" in firing(), 60, last_seen=firing)
    compose.execute("broker-3", "chmod", "755", "/disks/2/data")
    compose.run("restart", "broker-3")
    compose.wait_healthy("broker-3")
