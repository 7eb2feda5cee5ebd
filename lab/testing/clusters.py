"""A cluster as a test sees it, over the lab's own one: names, waits, and nothing to clean up.

Whatever a test does to it is undone by `heal`, and whatever it made is gone with `close`. A process
that is killed leaves nothing either: servers end with it, and a keeper removes the rest.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from msgspec.structs import replace

from fault_injection.clients import Clients
from fault_injection.mechanism import Advice
from jbodlab.vocabulary.ids import DirectoryId, TopicPartition
from lab import cluster as library
from lab.cluster import ClusterSpec, NotInTimeError, wait_for
from lab.cluster.rights import ALICE
from lab.cluster.security import client_config
from lab.cluster.spec import OF_TESTS
from lab.errors import LabError
from lab.machine import folders
from lab.testing import keeper, needs

if TYPE_CHECKING:
    from lab.cluster.controllers_log import ControllersLog

DETECTED_DEADLINE_S = 10.0
LEADERS_DEADLINE_S = 30.0
ISR_DEADLINE_S = 60.0
BROKEN_DEADLINE_S = 10.0
SETTINGS = {**OF_TESTS, "auto.create.topics.enable": "false"}
"""Topics are made by who wants them."""
ADVICE = Advice(
    preload="mark the test with @pytest.mark.jbod(calls=True), or start it by Cluster(calls=True)",
    disk="",
    closed="mark the test with @pytest.mark.jbod(security='sasl_ssl')",
)
_numbers = itertools.count(1)


class Fault:
    """A fault that was made and has a proved effect; heals at the end of a `with` block."""

    def __init__(
        self,
        server: Broker | Controller | None,
        made: library.Fault,
        log_dir: LogDir | None = None,
    ) -> None:
        self._server = server
        self._made = made
        self._log_dir = log_dir

    @property
    def name(self) -> str:
        """Its kind and its number in the journal."""
        return f"{self._made.kind} {self._made.id}"

    @property
    def injected_at(self) -> float:
        """When it took effect, in seconds of `time.monotonic()`."""
        return self._made.injected_ns / 1e9

    @property
    def first_broken_at(self) -> float | None:
        """When it broke something first, likewise; None if it has not, or that is not counted."""
        found = self._made.broken.first_ns
        return None if found is None else found / 1e9

    @property
    def broken(self) -> int:
        """How many calls, files, processes, handshakes, logins or requests it broke."""
        return self._made.broken.count

    @property
    def clients(self) -> Clients:
        """Fate of the clients of a closed cluster since then, or until it was healed.

        Raises:
            ValueError: the fault is not about clients.
        """
        found = self._made.broken.clients
        if found is None:
            raise ValueError(f"{self.name} is not about clients")
        return found

    @property
    def is_proved(self) -> bool:
        """Whether its effect was proved as the broker's user; without that it is reverted."""
        return self._made.proved_ns is not None

    def heal(self) -> None:
        """Undo it, and bring back what it took away; harmless when it is healed already."""
        self._made.heal()
        if self._server is not None:
            self._server.bring_back(self._log_dir)

    def wait_detected(self, timeout: float = DETECTED_DEADLINE_S) -> None:
        """Wait until clients are told that the directory is offline, or the broker is gone.

        Of a fault of a controller: until another one is active. Of a fault of users or
        certificates: until a client was refused.
        """
        wait_for(f"{self.name} being detected", self._is_detected, timeout)

    def wait_broken(self, timeout: float = BROKEN_DEADLINE_S) -> None:
        """Wait until it has broken something of the running broker."""
        wait_for(f"{self.name} breaking something", lambda: self.broken > 0, timeout)

    def _is_detected(self) -> bool:
        if self._made.broken.clients is not None:
            return self.broken > 0
        assert self._server is not None
        return self._server.is_missed(self._log_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


class LogDir:
    """One log directory of a broker, or that of a controller."""

    def __init__(self, server: Broker | Controller, inner: library.LogDir) -> None:
        self._server = server
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self._inner.path

    @property
    def id(self) -> DirectoryId:
        """The id in its `meta.properties`."""
        return self._inner.id

    @property
    def state(self) -> str:
        """`online`, `offline`, or `unknown` where its broker does not answer."""
        return self._server.state_of(self.path)

    def replicas(self) -> list[TopicPartition]:
        """Return the partitions of which a replica lies in it."""
        return sorted(self._inner.replicas())

    def fails(self, /, kind: str = "permission", **parameters: Any) -> Fault:
        """Break it, by a kind of fault and its keys, as docs/faults.md lists them.

        Raises:
            FaultError: refused, or it had no effect and was reverted.
        """
        return Fault(self._server, self._inner.fails(kind, **parameters), self)

    def hangs(self, **parameters: Any) -> Fault:
        """Let its calls not return until it is healed."""
        return self.fails("hang", **parameters)

    def slows(self, delay: str = "100ms", **parameters: Any) -> Fault:
        """Let its calls take so much longer."""
        return self.fails("slow", delay=delay, **parameters)

    def fills(self, **parameters: Any) -> Fault:
        """Let it be full."""
        return self.fails("full", **parameters)


class _Server:
    """One process of a cluster."""

    def __init__(self, cluster: Cluster, inner: library.Node) -> None:
        self._cluster = cluster
        self._node = inner

    def __repr__(self) -> str:
        return repr(self._node)

    @property
    def id(self) -> int:
        """Its `node.id`; the first broker is 1, the first controller 100."""
        return self._node.id

    @property
    def address(self) -> str:
        """Host and port."""
        return self._node.address

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._node.is_running

    @property
    def output(self) -> Path:
        """The file that has what it printed."""
        return Path(self._node.state.log_file)

    def kill(self) -> None:
        """As a power switch: SIGKILL."""
        self._node.kill()

    def stop(self) -> None:
        """End it cleanly."""
        self._node.stop()

    def freeze(self) -> None:
        """Freeze it: SIGSTOP."""
        self._node.freeze()

    def thaw(self) -> None:
        """Let it go on."""
        self._node.thaw()

    def log_lines(self, count: int = 20) -> list[str]:
        """Return what it printed last."""
        return self._node.log_lines(count)


class Controller(_Server):
    """One controller."""

    @property
    def is_active(self) -> bool:
        """Whether it is the active controller, as brokers tell."""
        quorum = self._cluster.inner.quorum()
        return quorum is not None and quorum.leader_id == self.id

    @property
    def log_dir(self) -> LogDir:
        """The directory of its metadata."""
        return LogDir(self, self._node.log_dir(1))

    def start(self) -> None:
        """Start it again; without a majority of controllers it waits for others."""
        self._node.start()

    def fails(self, /, kind: str = "kill", **parameters: Any) -> Fault:
        """Break its process or connections; otherwise as `LogDir.fails`."""
        return Fault(self, self._node.fails(kind, **parameters))

    def state_of(self, path: Path) -> str:
        """Return `online` while the active controller hears of it, else `unknown`."""
        quorum = self._cluster.inner.quorum()
        is_heard = quorum is not None and quorum.end_offsets.get(self.id, -1) >= 0
        return "online" if is_heard and self.is_running else "unknown"

    def is_missed(self, log_dir: LogDir | None) -> bool:
        """Return whether another controller is active, as brokers tell."""
        quorum = self._cluster.inner.quorum()
        return quorum is not None and quorum.leader_id != self.id

    def bring_back(self, log_dir: LogDir | None) -> None:
        """Start it if it has ended."""
        if not self.is_running:
            self.start()


class Broker(_Server):
    """One broker."""

    def __init__(self, cluster: Cluster, inner: library.Broker) -> None:
        super().__init__(cluster, inner)
        self._inner = inner

    @property
    def log_dirs(self) -> list[LogDir]:
        """Its log directories."""
        return [LogDir(self, one) for one in self._inner.log_dirs]

    def log_dir(self, number: int = 1) -> LogDir:
        """Return a log directory; the first is number 1."""
        return LogDir(self, self._inner.log_dir(number))

    def log_dir_of(self, topic: str, partition: int = 0) -> LogDir:
        """Return the log directory that holds a replica."""
        return LogDir(self, self._inner.log_dir_of(topic, partition))

    @property
    def is_fenced(self) -> bool:
        """Whether clients are not told of it, since the controller does not hear from it."""
        try:
            return self.id not in self._cluster.inner.view().broker_ids
        except LabError:
            return True

    def start(self) -> None:
        """Start it again, and wait until it serves."""
        self._inner.start()
        self._cluster.inner.wait_served(self._inner)

    def fails(self, /, kind: str = "kill", **parameters: Any) -> Fault:
        """Break its process, connections or certificate; otherwise as `LogDir.fails`."""
        return Fault(self, self._inner.fails(kind, **parameters))

    def state_of(self, path: Path) -> str:
        """Return the state of one of its log directories, as clients are told."""
        found = self._cluster.log_dirs(self._inner)
        if found is None:
            return "unknown"
        errors = {view.path: view.error for view in found}
        return "online" if errors.get(str(path)) == "" else "offline"

    def is_missed(self, log_dir: LogDir | None) -> bool:
        """Return whether clients are told that a directory is offline, or that it is gone."""
        return self.is_fenced if log_dir is None else log_dir.state == "offline"

    def bring_back(self, log_dir: LogDir | None) -> None:
        """Start it if it has ended, and revive a directory that it calls offline."""
        if not self._inner.is_running:
            self.start()
            return
        # Healing may have started it a moment ago.
        self._cluster.inner.wait_served(self._inner)
        if log_dir is not None and log_dir.state == "offline":
            self._cluster.revive(self._inner, log_dir.path)


class Cluster:
    """A controller and brokers of their own, on ports that nobody else is given.

    Usable without pytest:

        with Cluster(brokers=3) as cluster:
            topic = cluster.new_topic(partitions=6, replicas=3)
    """

    def __init__(self, *, need: ClusterSpec | None = None, **wanted: Any) -> None:
        """Start it, and wait until every broker serves.

        Args:
            need: Its description.
            wanted: The same by the arguments of the mark `jbod`: `brokers`, `disks` (log
                directories of each), `config` (Kafka's settings for all nodes), `calls` (whether
                `eio`, `slow` and `hang` can be made), `engine` (by default what `JBODLAB_ENGINE`
                names, else our own servers) and the others in docs/engines.md.

        Raises:
            LabError: it cannot be started.
            TypeError: there is no such argument.
            ValueError: a value is out of its range, or there is no such engine, or it has no such
                nodes.
        """
        self.need = need or needs.need(wanted)
        self._folder = folders.make_folder()
        self._topics: list[str] = []
        self.inner = library.Cluster.plan(
            self._folder / "cluster",
            self.need,
            advice=ADVICE,
        )
        self._metadata: ControllersLog | None = None
        self._keeper: subprocess.Popen[bytes] | None = keeper.start(self._folder)
        try:
            self.inner.make_folders({**SETTINGS, **self.need.properties})
            self.inner.check_servers()
            self.inner.make_directories()
            if self.need.mechanism == "preload":
                for node in self.inner.nodes.values():
                    node.preload()
            self.inner.start()
            self._begun = self._settings()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"cluster at {self.bootstrap}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Facts about it

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, as clients want them."""
        return self.inner.bootstrap

    def client_config(self, client: str = "librdkafka", user: str = ALICE) -> dict[str, Any]:
        """Return what a client needs to reach the cluster, the addresses included.

        Args:
            client: `librdkafka` or `java` (properties), `kafka_python` (keyword arguments), or
                `franz_go` (as in the file).
            user: Of a closed cluster: `alice` may do what applications need, `admin` everything,
                `mallory` nothing.

        Raises:
            ValueError: no such client or user is known.
        """
        return client_config(self.inner.state, client, user)

    @property
    def work_dir(self) -> Path:
        """Where its files are."""
        return self.inner.root

    @property
    def journal(self) -> Path:
        """The file that says what was injected and healed; missing before the first fault."""
        return self.inner.faults.journal

    @property
    def brokers(self) -> list[Broker]:
        """All brokers, by rising id."""
        return [Broker(self, one) for one in self.inner.brokers]

    def broker(self, number: int) -> Broker:
        """Return a broker; the first is 1."""
        return Broker(self, self.inner.broker(number))

    @property
    def controllers(self) -> list[Controller]:
        """All controllers, by rising id."""
        return [Controller(self, one) for one in self.inner.controllers]

    @property
    def controller(self) -> Controller:
        """The first controller."""
        return self.controllers[0]

    @property
    def active_controller(self) -> Controller:
        """The controller that is active, waiting until one is."""
        return Controller(self, self.inner.active_controller())

    def leader(self, topic: str, partition: int = 0) -> Broker:
        """Return the broker that leads a partition, waiting until there is one."""
        return Broker(self, self.inner.leader(topic, partition))

    def leader_log_dir(self, topic: str, partition: int = 0) -> LogDir:
        """Return the log directory from which a partition is led."""
        return self.leader(topic, partition).log_dir_of(topic, partition)

    def followers(self, topic: str, partition: int = 0) -> list[Broker]:
        """Return the brokers that follow a partition."""
        return [Broker(self, one) for one in self.inner.followers(topic, partition)]

    def events(self, count: int = 20) -> list[str]:
        """Return what was injected and healed, and what each node printed last."""
        lines = self.journal.read_text("utf-8").splitlines() if self.journal.exists() else []
        return [*lines[-count:], *self.inner.last_words().splitlines()]

    # Users

    def fails(self, /, kind: str, **parameters: Any) -> Fault:
        """Take something from users: `user-removed` or `acl-removed`; else as `LogDir.fails`.

        Raises:
            FaultError: refused, or it had no effect and was reverted.
            LabError: the cluster is open.
        """
        return Fault(None, self.inner.fails(kind, **parameters))

    # Topics

    def new_topic(
        self, /, partitions: int = 1, replicas: int = 3, name: str = "", **config: str
    ) -> str:
        """Create a topic that is gone at the end of the test; returns its name.

        Args:
            partitions: How many.
            replicas: Of each partition, at most one for each broker.
            name: Its name; one that nobody else has by default.
            config: Settings, with `_` for each dot.
        """
        name = name or f"test-{next(_numbers)}"
        self.inner.create_topic(name, partitions, min(replicas, self.need.brokers), **config)
        self._topics.append(name)
        return name

    def wait_leaders(self, topic: str, timeout: float = LEADERS_DEADLINE_S) -> None:
        """Wait until every partition of a topic has a leader."""
        self.inner.wait_leaders(topic, timeout)

    def wait_isr(self, topic: str, timeout: float = ISR_DEADLINE_S) -> None:
        """Wait until every replica of a topic is in sync."""
        self.inner.wait_isr(topic, timeout)

    def wait_settled(self, timeout: float = ISR_DEADLINE_S) -> None:
        """Wait until all brokers serve, all directories are online, and all replicas in sync."""
        self.inner.wait_served(deadline_s=timeout)
        wait_for("all directories online", self._all_online, timeout)
        self.inner.wait_all_in_sync(timeout)

    # Between tests

    def heal(self, timeout: float = ISR_DEADLINE_S) -> None:
        """Undo every fault, start what has ended, bring back what is offline, and settle."""
        self.inner.heal()
        try:
            self._start_ended(timeout)
        except LabError:
            # One that was killed a moment ago still ran when it was looked at.
            self._start_ended(timeout)
        for one in self.brokers:
            for log_dir in one.log_dirs:
                one.bring_back(log_dir)
        self.wait_settled(timeout)

    def _start_ended(self, timeout: float) -> None:
        for node in (*self.inner.controllers, *self.inner.brokers):
            if not node.is_running:
                node.start()
        self.inner.wait_served(deadline_s=timeout)

    def forget_topics(self) -> None:
        """Delete the topics that were made since the last time, and are there still."""
        topics, self._topics = self._topics, []
        self.inner.delete_topics(*topics)

    @property
    def has_changed(self) -> bool:
        """Whether settings, quotas, features, users or rights are others than at the start.

        Raises:
            JbodlabError, OSError: the controller's log cannot be read.
        """
        return self._settings() != self._begun

    def stop_cleanly(self) -> None:
        """End all nodes as an operator would, brokers first; the files stay until `close`."""
        self.inner.stop()

    def close(self) -> None:
        """End it and remove it: faults, processes, files, ports. Harmless a second time."""
        if self._keeper is None:
            return
        try:
            self.inner.close()
        finally:
            folders.remove_folder(self._folder)
            keeper.end(self._keeper)
            self._keeper = None

    # For the parts

    def log_dirs(self, broker: library.Broker) -> Sequence[Any] | None:
        """Ask a broker for its log directories; None if it does not answer."""
        import asyncio

        from lab.cluster import questions

        return asyncio.run(questions.ask_log_dirs(broker.state, 2.0))

    def revive(self, broker: library.Broker, path: Path) -> None:
        """Ask a broker to bring a directory back; starts it anew where that does not help.

        Raises:
            NotInTimeError: neither helps.
        """
        from lab.cluster import revival

        if not revival.revive(self.inner, broker, [str(path)]):
            return
        broker.stop()
        broker.start()
        self.inner.wait_served(broker)

    def _settings(self) -> Sequence[object]:
        """Return what an application may have changed that no topic takes away with it."""
        from jbodlab.metadata.records.config_records import TOPIC_RESOURCE
        from jbodlab.storage.directory.names import METADATA_DIR_NAME
        from lab.cluster.controllers_log import ControllersLog

        if self._metadata is None:
            folder = self.inner.controller.metadata_dir / METADATA_DIR_NAME
            self._metadata = ControllersLog(folder)
        image = self._metadata.image()
        configs = image.configs.resources
        return (
            {key: configs[key] for key in configs if key[0] != TOPIC_RESOURCE},
            image.quotas,
            image.features,
            image.security.scram,
            # An administrator who brings one back gives it a new id.
            sorted(str(replace(acl, id=UUID(int=0))) for acl in image.security.acls.values()),
        )

    def _all_online(self) -> bool:
        states = [log_dir.state for broker in self.brokers for log_dir in broker.log_dirs]
        return all(state == "online" for state in states)


__all__ = ["Broker", "Cluster", "Controller", "Fault", "LogDir", "NotInTimeError"]
