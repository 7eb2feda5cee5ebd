"""A cluster behind the HTTP API, as a test sees it that shares it with other processes.

The members are those of `clusters.Cluster`. A test that ends gives back what it took: its faults
are healed, its topics deleted, and nodes that it ended are started. Faults of others stay.
"""

from __future__ import annotations

import itertools
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Self

from jbodlab.vocabulary.ids import TopicPartition
from lab.errors import LabError
from lab.machine.waiting import NotInTimeError

REQUEST_TIMEOUT_S = 180.0
DETECTED_DEADLINE_S = 10.0
LEADERS_DEADLINE_S = 30.0
ISR_DEADLINE_S = 60.0
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_numbers = itertools.count(1)


class ServedFault:
    """A fault that was made and has a proved effect; heals at the end of a `with` block."""

    def __init__(self, cluster: ServedCluster, told: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self.id = int(told["id"])
        self.name = f"{told['kind']} {self.id}"

    @property
    def broken(self) -> int:
        """How many calls, files, processes or requests it broke."""
        return int(self._cluster.call("GET", f"/faults/{self.id}")["broken"]["count"])

    def heal(self) -> None:
        """Undo it, and bring back what it took away; harmless when it is healed already."""
        self._cluster.call("DELETE", f"/faults/{self.id}")

    def wait_detected(self, timeout: float = DETECTED_DEADLINE_S) -> None:
        """Wait until clients are told that the directory is offline, or the broker is gone."""
        self._cluster.wait(timeout, detected=self.id)

    def wait_broken(self, timeout: float = DETECTED_DEADLINE_S) -> None:
        """Wait until it has broken something of the running broker."""
        self._cluster.wait(timeout, broken=self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


class ServedLogDir:
    """One log directory of a broker."""

    def __init__(self, cluster: ServedCluster, place: str) -> None:
        self._cluster = cluster
        self.place = place

    @property
    def state(self) -> str:
        """`online`, `offline`, or `unknown` where its broker does not answer."""
        return str(self._told()["state"])

    def replicas(self) -> list[TopicPartition]:
        """Return the partitions of which a replica lies in it."""
        found = self._told()["replicas"]
        return sorted(TopicPartition(one["topic"], one["partition"]) for one in found)

    def fails(self, /, kind: str = "permission", **keys: Any) -> ServedFault:
        """Break it, by a kind of fault and its keys, as docs/faults.md lists them."""
        return self._cluster.inject(kind, self.place, keys)

    def hangs(self, **keys: Any) -> ServedFault:
        """Let its calls not return until it is healed."""
        return self.fails("hang", **keys)

    def slows(self, delay: str = "100ms", **keys: Any) -> ServedFault:
        """Let its calls take so much longer."""
        return self.fails("slow", delay=delay, **keys)

    def fills(self, **keys: Any) -> ServedFault:
        """Let it be full."""
        return self.fails("full", **keys)

    def _told(self) -> Any:
        return self._cluster.call("GET", f"/directories/{self.place.removeprefix('broker-')}")


class ServedNode:
    """A broker or a controller.

    Attributes:
        id: Its `node.id`; the first broker is 1, the first controller 100.
    """

    def __init__(self, cluster: ServedCluster, role: str, node_id: int) -> None:
        self._cluster = cluster
        self._role = role
        self.id = node_id

    @property
    def address(self) -> str:
        """Host and port."""
        return str(self._told()["address"])

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return bool(self._told()["running"])

    def start(self) -> None:
        """Start it where it does not run; a broker serves afterwards."""
        self._cluster.call("POST", f"/{self._role}s/{self.id}/start")

    def kill(self) -> None:
        """As a power switch: SIGKILL."""
        self._act("kill", undo="start")

    def stop(self) -> None:
        """End it cleanly."""
        self._act("stop", undo="start")

    def freeze(self) -> None:
        """Freeze it: SIGSTOP."""
        self._act("freeze", undo="thaw")

    def thaw(self) -> None:
        """Let it go on."""
        self._cluster.call("POST", f"/{self._role}s/{self.id}/thaw")

    def fails(self, /, kind: str = "kill", **keys: Any) -> ServedFault:
        """Break its process or connections, or the certificate of a broker."""
        return self._cluster.inject(kind, f"{self._role}-{self.id}", keys)

    def _act(self, act: str, undo: str) -> None:
        self._cluster.undoing.append(f"/{self._role}s/{self.id}/{undo}")
        self._cluster.call("POST", f"/{self._role}s/{self.id}/{act}")

    def _told(self) -> Any:
        found = self._cluster.call("GET", f"/{self._role}s")
        return next(one for one in found if one["id"] == self.id)


class ServedBroker(ServedNode):
    """One broker."""

    def __init__(self, cluster: ServedCluster, node_id: int) -> None:
        super().__init__(cluster, "broker", node_id)

    @property
    def log_dirs(self) -> list[ServedLogDir]:
        """Its log directories."""
        found = self._told()["directories"]
        return [ServedLogDir(self._cluster, one["place"]) for one in found]

    def log_dir(self, number: int = 1) -> ServedLogDir:
        """Return a log directory; the first is number 1."""
        return ServedLogDir(self._cluster, f"broker-{self.id}/{number}")

    def log_dir_of(self, topic: str, partition: int = 0) -> ServedLogDir:
        """Return the log directory that holds a replica."""
        for one in self._cluster.replicas(topic, partition):
            if one["broker"] == self.id and one["directory"]:
                return ServedLogDir(self._cluster, one["directory"])
        raise LabError(f"broker {self.id} has no replica of {topic}-{partition} in sight")


class ServedCluster:
    """A cluster behind the API of a server.

    Args:
        url: Of the server, such as `http://127.0.0.1:8080`.
        token: Its token; empty where it needs none.
    """

    def __init__(self, url: str, token: str = "") -> None:
        self._base = f"{url.split('#')[0].rstrip('/')}/v1"
        self._token = token
        self.undoing: list[str] = []
        """Requests that start again what this test has ended."""
        self._faults: list[ServedFault] = []
        self._topics: list[str] = []

    def __repr__(self) -> str:
        return f"cluster behind {self._base}"

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, as clients want them."""
        return str(self.call("GET", "/cluster")["bootstrap"])

    def client_config(self, client: str = "librdkafka", user: str = "alice") -> dict[str, Any]:
        """Return what a client needs to reach the cluster; as `Cluster.client_config`."""
        found = self.call("GET", "/client-config", client=client, user=user)
        return dict(found["config"])

    @property
    def brokers(self) -> list[ServedBroker]:
        """All brokers, by rising id."""
        return [ServedBroker(self, one["id"]) for one in self.call("GET", "/brokers")]

    def broker(self, number: int) -> ServedBroker:
        """Return a broker; the first is 1."""
        return ServedBroker(self, number)

    @property
    def controllers(self) -> list[ServedNode]:
        """All controllers, by rising id."""
        found = self.call("GET", "/controllers")
        return [ServedNode(self, "controller", one["id"]) for one in found]

    @property
    def active_controller(self) -> ServedNode:
        """The controller that is active, waiting until one is."""
        self.wait(LEADERS_DEADLINE_S, active=True)
        found = self.call("GET", "/controllers")
        return ServedNode(
            self, "controller", next(one["id"] for one in found if one["role"] == "active")
        )

    def leader(self, topic: str, partition: int = 0) -> ServedBroker:
        """Return the broker that leads a partition, waiting until there is one."""
        self.wait_leaders(topic)
        return ServedBroker(self, self.call("GET", f"/topics/{topic}/{partition}")["leader"])

    def leader_log_dir(self, topic: str, partition: int = 0) -> ServedLogDir:
        """Return the log directory from which a partition is led."""
        return self.leader(topic, partition).log_dir_of(topic, partition)

    def followers(self, topic: str, partition: int = 0) -> list[ServedBroker]:
        """Return the brokers that follow a partition."""
        found = self.replicas(topic, partition)
        return [ServedBroker(self, one["broker"]) for one in found if not one["leads"]]

    def fails(self, /, kind: str, **keys: Any) -> ServedFault:
        """Take something from users of a closed cluster: `user-removed` or `acl-removed`."""
        return self.inject(kind, "cluster", keys)

    def new_topic(
        self, /, partitions: int = 1, replicas: int = 3, name: str = "", **config: str
    ) -> str:
        """Create a topic that is gone at the end of the test; as `Cluster.new_topic`."""
        name = name or f"test-{os.getpid()}-{next(_numbers)}"
        wanted = {key.replace("_", "."): str(value) for key, value in config.items()}
        body = {"name": name, "partitions": partitions, "replicas": replicas, "config": wanted}
        self.call("POST", "/topics", body)
        self._topics.append(name)
        return name

    def wait_leaders(self, topic: str, timeout: float = LEADERS_DEADLINE_S) -> None:
        """Wait until every partition of a topic has a leader."""
        self.wait(timeout, leaders=topic)

    def wait_isr(self, topic: str, timeout: float = ISR_DEADLINE_S) -> None:
        """Wait until every replica of a topic is in sync."""
        self.wait(timeout, isr=topic)

    def wait_settled(self, timeout: float = ISR_DEADLINE_S) -> None:
        """Wait until all brokers serve, all directories are online, and all replicas in sync."""
        self.wait(timeout, settled=True)

    def heal(self) -> None:
        """Undo every fault, those of other tests too, and wait until all is well."""
        self.call("POST", "/heal")

    def give_back(self) -> None:
        """Undo what this test did, and nothing else."""
        faults, self._faults = self._faults, []
        undoing, self.undoing = self.undoing, []
        topics, self._topics = self._topics, []
        for fault in faults[::-1]:
            fault.heal()
        for path in undoing[::-1]:
            self.call("POST", path)
        here = {one["name"] for one in self.call("GET", "/topics")} if topics else set()
        for topic in here.intersection(topics):
            self.call("DELETE", f"/topics/{topic}")

    def replicas(self, topic: str, partition: int) -> list[dict[str, Any]]:
        """Return the replicas of a partition, as the API describes them."""
        return list(self.call("GET", f"/topics/{topic}/{partition}")["replicas"])

    def inject(self, kind: str, where: str, keys: Mapping[str, Any]) -> ServedFault:
        """Break something, by its place."""
        named = {key.rstrip("_"): value for key, value in keys.items()}
        body = {"kind": kind, "where": where, "even_last_in_sync": True, **named}
        fault = ServedFault(self, self.call("POST", "/faults", body))
        self._faults.append(fault)
        return fault

    def wait(self, timeout: float, **states: Any) -> None:
        """Wait for states of the API's `wait`.

        Raises:
            NotInTimeError: they have not come in time.
        """
        asked = {
            key: str(value).lower() if value is True else value for key, value in states.items()
        }
        self.call("GET", "/wait", timeout=f"{max(1, round(timeout * 1000))}ms", **asked)

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the answer to a request.

        Raises:
            NotInTimeError: an awaited state has not come in time.
            LabError: it was refused, or there is no answer.
        """
        request = urllib.request.Request(
            f"{self._base}{path}{'?' if query else ''}{urllib.parse.urlencode(query)}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with _opener.open(request, timeout=REQUEST_TIMEOUT_S) as answer:
                found = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                told = json.loads(error.read() or b"{}")
            is_late = told.get("type") == "urn:jbodlab:not-in-time"
            kind = NotInTimeError if is_late else LabError
            raise kind(told.get("detail") or f"{method} {path}: {error.code}") from error
        except OSError as error:
            raise LabError(f"no answer from {self._base}: {error}") from error
        return json.loads(found) if found else None
