"""Actions of the API on a cluster of this machine, through the code of the command line.

Each opens the cluster anew by its state file, so that commands of the shell may be used beside. All
block; `app` calls them in threads. Those that change the cluster hold its lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from fault_injection import journal, kinds, operations
from fault_injection.errors import FaultError
from fault_injection.mechanism import Broken
from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.quorum import Quorum
from jbodlab.kafka_admin.topics import create_topic, delete_topics
from jbodlab.picture.cluster_picture import (
    OFFLINE,
    ONLINE,
    SERVES,
    SILENT,
    BrokerPicture,
    ClusterPicture,
    DirectoryPicture,
)
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.durations import duration_s
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import TopicPartition
from lab import cluster as library
from lab import opened
from lab.api import values
from lab.api.operations import delete, get, post
from lab.api.problems import RequestError
from lab.cluster import NotInTimeError, picture, questions, wait_for
from lab.cluster.layout import controller_address
from lab.cluster.revival import revive
from lab.cluster.security import client_config
from lab.cluster.spec import spec_of, written
from lab.errors import LabError
from lab.machine import processes
from lab.state_files import StateFiles

ASK_TIMEOUT_S = 2.0
LOCK_DEADLINE_S = 60.0
WAIT_S_MAX = 600.0
WAIT_PIECE_S = 2.0
SETTLE_DEADLINE_S = 60.0
T = TypeVar("T")
_REPLICA = re.compile(r"(leader|follower) of ([A-Za-z0-9._-]+)-(\d+)")


class Actions:
    """Questions to a cluster, and actions on it.

    Args:
        state: Returns the description of the cluster with the processes that run it now.
        seen: Returns the cluster as it was seen last, with eligible leader replicas.
        files: Where the cluster is written down; None for one of somebody else, of which is told
            what was seen, and nothing can be done to it.
        length_s_max: Longest length of a fault, which then has to have one; None: any, or none.
    """

    def __init__(
        self,
        state: Callable[[], ClusterState],
        seen: Callable[[], ClusterPicture],
        files: StateFiles | None = None,
        length_s_max: float | None = None,
    ) -> None:
        self.state = state
        self._last_seen = seen
        self._files = files
        self._length_s_max = length_s_max
        self._made: list[int] = []
        self._has_ended = threading.Event()

    # State of it

    @get("/health")
    def get_health(self) -> values.Health:
        """Tell whether the cluster is well."""
        try:
            state, seen = self.state(), self._seen()
        except LabError:
            return values.Health(status="starting", problems=[])
        ended = [node for node in state.nodes if self._files is not None and not _runs(node)]
        problems = [f"{node.role} {node.node_id} does not run" for node in ended]
        problems += [
            f"broker {one.broker_id} is {seen.state_of(one).lower()}"
            for one in seen.brokers
            if seen.state_of(one) != SERVES
        ]
        problems += [
            f"{place_name(one.broker_id, each.number)} is offline"
            for one in seen.brokers
            for each in one.directories
            if each.state == OFFLINE
        ]
        if seen.leaderless:
            problems.append(f"{len(seen.leaderless)} partitions have no leader")
        return values.Health(status="degraded" if problems else "ok", problems=problems)

    @get("/cluster", 409)
    def get_cluster(self) -> values.Cluster:
        """Describe the cluster."""
        state = self.state()
        spec = spec_of(state)
        return values.Cluster(
            name=state.name,
            id=state.cluster_id,
            bootstrap=state.bootstrap,
            advertised=",".join(f"{host}:{port}" for host, port, _ in spec.advertised),
            engine=str(spec.runs) if self._files is not None else "",
            spec=written(spec) if self._files is not None else {},
        )

    @get("/brokers", 409)
    def list_brokers(self) -> list[values.Broker]:
        """List the brokers with their log directories."""
        nodes = {node.node_id: node for node in self.state().brokers}
        seen = self._seen()
        return [_broker(nodes[one.broker_id], one, seen) for one in seen.brokers]

    @get("/brokers/{broker}", 404, 409)
    def get_broker(self, broker: values.Index) -> values.Broker:
        """Describe a broker."""
        found = (one for one in self.list_brokers() if one.id == broker)
        return _one(found, f"there is no broker {broker}")

    @get("/controllers", 409)
    def list_controllers(self) -> list[values.Controller]:
        """List the controllers."""
        state = self.state()
        quorum = questions.quorum(state.brokers, ASK_TIMEOUT_S) if state.controllers else None
        return [_controller(node, quorum) for node in state.controllers]

    @get("/directories", 409)
    def list_directories(self) -> list[values.Directory]:
        """List the log directories of all brokers."""
        return [each for one in self.list_brokers() for each in one.directories]

    @get("/directories/{broker}/{number}", 404, 409)
    def get_directory(self, broker: values.Index, number: values.Index) -> values.Directory:
        """Describe a log directory."""
        wanted = place_name(broker, number)
        found = (one for one in self.list_directories() if one.place == wanted)
        return _one(found, f"there is no directory {wanted}")

    @get("/topics", 409, 503)
    def list_topics(self) -> list[values.Topic]:
        """List the topics with leaders and replicas."""
        seen = self._answered()
        found: dict[str, list[values.Partition]] = {}
        for key in seen.partitions:
            found.setdefault(key.topic, []).append(self._partition(seen, key))
        return [values.Topic(name=name, partitions=rows) for name, rows in sorted(found.items())]

    @get("/topics/{topic}", 404, 409, 503)
    def get_topic(self, topic: values.Name) -> values.Topic:
        """Describe a topic."""
        found = (one for one in self.list_topics() if one.name == topic)
        return _one(found, f"there is no topic {topic}")

    @get("/topics/{topic}/{partition}", 404, 409, 503)
    def get_partition(self, topic: values.Name, partition: values.Index) -> values.Partition:
        """Describe a partition."""
        key = TopicPartition(topic, partition)
        seen = self._answered()
        if key not in seen.partitions:
            raise RequestError(404, f"there is no partition {key}")
        return self._partition(seen, key)

    @get("/kinds")
    def list_kinds(self) -> list[values.Kind]:
        """List the kinds of faults."""
        return [
            values.Kind(
                name=kind.name,
                meaning=kind.meaning,
                scope=kind.scope.value,
                keys=["mechanism", *kind.parameters],
            )
            for kind in kinds.KINDS.values()
        ]

    @get("/client-config", 409)
    def get_client_config(
        self, client: values.Client = "java", user: values.User = "alice"
    ) -> values.ClientConfig:
        """Return the settings by which a client reaches the cluster."""
        config = client_config(self.state(), client, user)
        return values.ClientConfig(client=client, config=config)

    def metadata_log(self) -> Path:
        """Return the folder of the metadata log of the first controller."""
        self._files_here()
        return Path(self.state().controllers[0].metadata_log_dir) / METADATA_DIR_NAME

    # Topics

    @post("/topics", 409, 503, status=201)
    def create_topic(self, wanted: values.NewTopic) -> values.Topic:
        """Create a topic, and wait for its leaders."""
        with self.opened() as cluster:
            if cluster.partitions(wanted.name):
                raise RequestError(409, f"topic {wanted.name} exists")
            replicas = min(wanted.replicas, len(cluster.brokers))
            cluster.ask(
                lambda client: create_topic(
                    client,
                    wanted.name,
                    wanted.config,
                    partitions=wanted.partitions,
                    replication_factor=replicas,
                )
            )
            cluster.wait_leaders(wanted.name)
            # Metadata reach brokers one by one, and the next request may ask any of them.
            wait_for(f"{wanted.name} on all brokers", partial(_all_know, cluster, wanted.name))
        return self.get_topic(wanted.name)

    @delete("/topics/{topic}", 404, 409, 503, status=204)
    def delete_topic(self, topic: values.Name) -> None:
        """Delete a topic."""
        with self.opened() as cluster:
            refused = cluster.ask(lambda client: delete_topics(client, [topic]))
        if (error := refused.get(topic)) is not None:
            missing = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise RequestError(404 if missing else 409, f"topic {topic}: {error}")

    # Nodes

    def act(self, act: str, role: str, number: int) -> values.Broker | values.Controller:
        """Start, stop, kill, freeze or thaw a broker or a controller."""
        with self._changing() as cluster:
            among = cluster.brokers if role == "broker" else cluster.controllers
            missing = f"there is no {role} {number}"
            node = _one((one for one in among if one.id == number), missing)
            _act(act, node)
            if act == "start" and isinstance(node, library.Broker):
                cluster.wait_served(node)
        told = self.list_brokers() if role == "broker" else self.list_controllers()
        return _one((one for one in told if one.id == number), missing)

    # Faults

    @get("/faults", 409)
    def list_faults(self, all: bool = False) -> list[values.Fault]:
        """List the faults that are open, or all."""
        with self.opened() as cluster:
            return [
                _fault(cluster, fault)
                for fault in self._journal(cluster).values()
                if all or fault.is_open
            ]

    @get("/faults/{fault}", 404, 409)
    def get_fault(self, fault: values.Index) -> values.Fault:
        """Describe a fault."""
        with self.opened() as cluster:
            return _fault(cluster, self._known(cluster, fault))

    @post("/faults", 404, 409, 422, 503, status=201, once=True, body=values.NewFault)
    def create_fault(self, wanted: Any) -> values.Fault:
        """Break a directory, a broker or the cluster, and prove the effect."""
        words = structs.asdict(wanted)
        keys = {
            key.removesuffix("_"): value
            for key, value in words.items()
            if key not in ("kind", "where", "even_last_in_sync") and value is not None
        }
        try:
            asked = kinds.spec(wanted.kind, keys)
        except FaultError as error:
            raise RequestError(409, str(error)) from error
        most = self._length_s_max
        if most is not None and wanted.kind != "restart" and not 0 < (asked.length_s or 0) <= most:
            raise RequestError(409, f"expected a length of up to {most:g} s")
        with self._changing() as cluster:
            where = self._place(cluster, wanted.where)
            try:
                spec, target = opened.described(cluster, wanted.kind, where, keys)
            except LabError as error:
                raise RequestError(404, str(error)) from error
            if not wanted.even_last_in_sync:
                self._refuse_last(cluster, wanted.kind, where)
            made = cluster.faults.inject(spec, target)
            self._made.append(made.id)
            return _fault(cluster, made.entry)

    @delete("/faults/{fault}", 404, 409, 503)
    def heal_fault(self, fault: values.Index) -> values.Healed:
        """Undo a fault, and bring back what it took.

        Harmless where it is healed already.
        """
        with self._changing() as cluster:
            known = self._known(cluster, fault)
            cluster.faults.heal(fault)
            return self._brought_back(cluster, [fault], known.path)

    @post("/heal", 409, 503)
    def heal(self) -> values.Healed:
        """Undo every fault, start what has ended, and wait until all is well."""
        with self._changing() as cluster:
            open_faults = [one for one in self._journal(cluster).values() if one.is_open]
            for node in cluster.nodes.values():
                node.heal()
            cluster.faults.heal_all(under=cluster.root)
            found = self._brought_back(cluster, [one.fault_id for one in open_faults], None)
            self._settled(cluster, SETTLE_DEADLINE_S)
            return found

    @get("/wait", 404, 409, 503)
    def wait(
        self,
        *,
        detected: values.Index | None = None,
        broken: values.Index | None = None,
        healed: values.Index | None = None,
        leaders: values.Name | None = None,
        isr: values.Name | None = None,
        settled: bool = False,
        active: bool = False,
        timeout: values.Duration = "30s",
    ) -> values.Waited:
        """Wait for a state of a fault, a topic or the cluster.

        Args:
            detected: A fault: clients are told that its directory is offline, or its broker is
                gone; another controller than its own is active.
            broken: A fault: it has broken something.
            healed: A fault: it has ended.
            leaders: A topic: every partition of it has a leader.
            isr: A topic: every replica of it is in sync.
            settled: All brokers serve, all directories are online, all is in sync.
            active: One of the controllers that run is active.
            timeout: How long all that is named is awaited at most.
        """
        began = time.monotonic()
        end = began + min(duration_s(timeout), WAIT_S_MAX)

        def left_s() -> float:
            return max(0.0, end - time.monotonic())

        def awaited(wait: Callable[[float], object]) -> None:
            """Wait in pieces, between which the end of the server is noticed."""
            while True:
                try:
                    wait(min(left_s(), WAIT_PIECE_S))
                    return
                except NotInTimeError as error:
                    if self._has_ended.is_set() or not left_s():
                        what = str(error).partition(" within ")[0]
                        raise NotInTimeError(f"{what} within {timeout}") from error

        with self.opened() as cluster:
            if active:
                awaited(partial(wait_for, "an active controller", self._has_active_controller))
            if leaders is not None:
                awaited(partial(cluster.wait_leaders, leaders))
            if isr is not None:
                awaited(partial(cluster.wait_isr, isr))
            states: Mapping[str, tuple[int | None, Callable[[journal.Fault], bool]]] = {
                "detected": (detected, lambda fault: self._is_detected(cluster, fault)),
                "broken": (broken, lambda fault: operations.broken(self._entry(fault)).count > 0),
                "healed": (healed, lambda fault: not self._entry(fault).is_open),
            }
            for word, (number, holds) in states.items():
                if number is not None:
                    fault = self._known(cluster, number)
                    awaited(
                        partial(wait_for, f"fault {number} being {word}", partial(holds, fault))
                    )
            if settled:
                awaited(partial(self._settled, cluster))
        return values.Waited(waited_s=round(time.monotonic() - began, 3))

    def end_waits(self) -> None:
        """Answer all that wait, soon: the server ends."""
        self._has_ended.set()

    def end(self) -> list[str]:
        """Undo the faults that were made here and are open; returns a line for each."""
        if not self._made or self._files is None or self._files.read(self.state().name) is None:
            return []
        said = []
        with self.opened() as cluster:
            for number in self._made[::-1]:
                try:
                    if cluster.faults.heal(number) is not None:
                        said.append(f"fault {number} healed")
                except FaultError as error:
                    said.append(str(error))
        return said

    # Parts

    @contextlib.contextmanager
    def opened(self) -> Iterator[library.Cluster]:
        """Take hold of the cluster until the end of the block.

        Raises:
            LabError: it is not up.
            RequestError: it is one of somebody else.
        """
        cluster = opened.opened(self._files_here(), self.state().name, None)
        try:
            yield cluster
        finally:
            cluster.let_go()

    def _files_here(self) -> StateFiles:
        if self._files is None:
            raise RequestError(409, "`jbodlab up` did not start this cluster")
        return self._files

    @contextlib.contextmanager
    def _changing(self) -> Iterator[library.Cluster]:
        """Hold the lock of the cluster, for which other commands may be waited."""
        files, end = self._files_here(), time.monotonic() + LOCK_DEADLINE_S
        name = self.state().name
        while True:
            with files.try_lock(name) as is_held:
                if is_held:
                    with self.opened() as cluster:
                        yield cluster
                    return
            if time.monotonic() > end:
                raise RequestError(409, f"cluster {name} is in use by another command")
            time.sleep(0.02)

    def _seen(self) -> ClusterPicture:
        if self._files is None:
            return self._last_seen()
        return asyncio.run(picture.read(self.state(), ASK_TIMEOUT_S))

    def _answered(self) -> ClusterPicture:
        """Return the cluster as a broker tells it; raises RequestError where none answers."""
        seen = self._seen()
        if seen.listed is None:
            raise RequestError(503, "no broker answers")
        return seen

    def _has_active_controller(self) -> bool:
        return any(one.role == "active" for one in self.list_controllers())

    def _partition(self, seen: ClusterPicture, key: TopicPartition) -> values.Partition:
        found, holders = seen.partitions[key], seen.holders(key)
        # Brokers do not tell who is eligible: that is in the metadata log.
        before = self._last_seen().partitions.get(key)
        elr = before.elr if before is not None else ()
        return values.Partition(
            topic=key.topic,
            partition=key.partition,
            state=found.state,
            leader=found.leader,
            isr=list(found.isr),
            replicas=[
                values.PartitionReplica(
                    broker=one,
                    directory=place_name(one, holders[one][0]) if one in holders else "",
                    bytes=holders[one][1] if one in holders else None,
                    leads=one == found.leader,
                    in_sync=one in found.isr,
                    eligible=one in elr,
                    offline=one in found.offline,
                )
                for one in found.replicas
            ],
        )

    def _journal(self, cluster: library.Cluster) -> dict[int, journal.Fault]:
        return {
            number: fault
            for number, fault in journal.read_all(cluster.faults.journal).items()
            if cluster.root in fault.path.parents
        }

    def _known(self, cluster: library.Cluster, number: int) -> journal.Fault:
        found = self._journal(cluster).get(number)
        if found is None:
            raise RequestError(404, f"there is no fault {number}")
        return found

    def _entry(self, fault: journal.Fault) -> journal.Fault:
        return journal.read_all(self._files_here().journal)[fault.fault_id]

    def _place(self, cluster: library.Cluster, word: str) -> str:
        """Return the words of the command line for a place.

        Raises:
            RequestError: there is no such partition, or it has no such replica now.
        """
        match = _REPLICA.fullmatch(word)
        if match is None:
            return word
        key = TopicPartition(match[2], int(match[3]))
        found = self._answered().partitions.get(key)
        if found is None:
            raise RequestError(404, f"there is no partition {key}")
        if found.leader < 0:
            raise RequestError(409, f"partition {key} has no leader now")
        followers = [each for each in found.replicas if each != found.leader]
        if match[1] == "follower" and not followers:
            raise RequestError(404, f"partition {key} has no follower")
        number = found.leader if match[1] == "leader" else followers[0]
        broker = cluster.broker(number)
        directory = broker.log_dir_of(key.topic, key.partition)
        return f"broker-{number}/{broker.paths.index(directory.path) + 1}"

    def _refuse_last(self, cluster: library.Cluster, kind: str, where: str) -> None:
        if kinds.kind_named(kind).scope is kinds.Scope.CLUSTER:
            return
        node, directory = opened.target(cluster, where)
        number = None if directory is None else node.log_dirs.index(directory) + 1
        if not isinstance(node, library.Broker):
            return
        if last := self._seen().last_in_sync(node.id, number):
            raise RequestError(
                409,
                f"{where} has the last replica in sync of {last[0]} and of {len(last) - 1} more: "
                "say `even_last_in_sync` to break it",
            )

    def _is_detected(self, cluster: library.Cluster, fault: journal.Fault) -> bool:
        broken = operations.broken(self._entry(fault))
        if broken.clients is not None:
            return broken.count > 0
        role, _, number = _where(cluster, fault.path).partition("/")[0].partition("-")
        if role == "controller":
            # The others notice it by the one of them that becomes active.
            found = self.list_controllers()
            return any(one.role == "active" and one.id != int(number) for one in found)
        seen = self._seen()
        for one in seen.brokers:
            if one.folder == fault.path:
                return seen.state_of(one) != SERVES
            for each in one.directories:
                if each.path == str(fault.path):
                    return each.state == OFFLINE
        return False

    def _brought_back(
        self, cluster: library.Cluster, healed: list[int], only: Path | None
    ) -> values.Healed:
        """Start nodes that have ended and bring directories back, all or those of a fault."""
        started, revived = [], []
        for node in cluster.nodes.values():
            if only is not None and only != node.folder and node.folder not in only.parents:
                continue
            if not node.is_running:
                node.start()
                started.append(node.name)
        cluster.wait_served()
        for broker, one in zip(cluster.brokers, self._seen().brokers, strict=True):
            offline = [
                each
                for each in one.directories
                if each.state == OFFLINE and (only is None or str(only) in (each.path, one.folder))
            ]
            refusals = revive(cluster, broker, [each.path for each in offline]) if offline else {}
            for each in offline:
                if refusal := refusals.get(each.path):
                    raise RequestError(
                        409, f"broker-{broker.id}/{each.number} does not come back: {refusal}"
                    )
                revived.append(f"broker-{broker.id}/{each.number}")
        return values.Healed(healed=healed, revived=revived, started=started)

    def _settled(self, cluster: library.Cluster, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        cluster.wait_served(deadline_s=timeout_s)

        def online() -> bool:
            return all(
                each.state == ONLINE for one in self._seen().brokers for each in one.directories
            )

        wait_for("all directories online", online, max(0.0, end - time.monotonic()))
        cluster.wait_all_in_sync(max(0.0, end - time.monotonic()))


def place_name(broker: int, number: int) -> str:
    """Return the name of a log directory."""
    return f"broker-{broker}/{number}"


def _all_know(cluster: library.Cluster, topic: str) -> bool:
    for broker in cluster.brokers:
        if broker.is_running:
            view = questions.view(broker.state, ASK_TIMEOUT_S)
            if view is not None and TopicPartition(topic, 0) not in view.partitions:
                return False
    return True


def _runs(node: NodeState) -> bool:
    return node.process is not None and processes.is_alive(node.process)


def _one(found: Iterator[T], missing: str) -> T:
    one = next(found, None)
    if one is None:
        raise RequestError(404, missing)
    return one


def _act(act: str, node: library.Node) -> None:
    if not node.is_running and act in ("freeze", "thaw"):
        raise RequestError(409, f"{node} does not run")
    if node.is_running != (act == "start"):
        getattr(node, act)()


def _controller(node: NodeState, quorum: Quorum | None) -> values.Controller:
    return values.Controller(
        id=node.node_id,
        address=controller_address(node),
        role=quorum.role(node.node_id) if quorum is not None and _runs(node) else None,
        running=_runs(node),
        pid=node.process.pid if node.process is not None and _runs(node) else None,
    )


def _broker(node: NodeState, one: BrokerPicture, seen: ClusterPicture) -> values.Broker:
    state = seen.state_of(one)
    return values.Broker(
        id=one.broker_id,
        address=one.address,
        state="serving" if state == SERVES else state.lower(),
        running=_runs(node) or (not node.properties_file and state != SILENT),
        pid=node.process.pid if node.process is not None and _runs(node) else None,
        leaders=sum(found.leader == one.broker_id for found in seen.partitions.values()),
        directories=[_directory(one.broker_id, each, seen) for each in one.directories],
    )


def _directory(broker: int, each: DirectoryPicture, seen: ClusterPicture) -> values.Directory:
    told = each.told
    return values.Directory(
        place=place_name(broker, each.number),
        broker=broker,
        number=each.number,
        path=each.path,
        id=_id_of(Path(each.path)),
        state=each.state.lower(),
        conditions=list(told.conditions),
        cause=(told.cause or told.error or "") if each.state == OFFLINE else "",
        bytes=sum(told.sizes.values()),
        total=told.total_bytes,
        usable=told.usable_bytes,
        replicas=[
            values.Replica(
                topic=key.topic,
                partition=key.partition,
                bytes=size,
                leads=seen.leader(key) == broker,
            )
            for key, size in sorted(told.sizes.items())
        ],
    )


def _id_of(path: Path) -> str:
    with contextlib.suppress(OSError, JbodlabError):
        found = meta_properties.read(PosixFileSystem(), path).directory_id
        return "" if found is None else str(found)
    return ""


def _fault(cluster: library.Cluster, fault: journal.Fault) -> values.Fault:
    try:
        broken = operations.broken(fault)
    except (FaultError, AdminError):
        # Its broker is gone, and who counted with it.
        broken = Broken(what="calls", count=0)
    return values.Fault(
        id=fault.fault_id,
        kind=fault.kind,
        where=_where(cluster, fault.path),
        mechanism=fault.mechanism,
        path=str(fault.path),
        state=fault.state,
        open=fault.is_open,
        since=fault.since,
        length_s=fault.length_s,
        broken=values.Broken(count=broken.count, text=str(broken)),
    )


def _where(cluster: library.Cluster, path: Path) -> str:
    for node in cluster.nodes.values():
        if path == node.folder:
            return node.name
        if path in node.paths:
            return f"{node.name}/{node.paths.index(path) + 1}"
    return "cluster"
