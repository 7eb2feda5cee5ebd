"""One cluster: everything that is done to it as a whole, and what it tells from outside."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from fault_injection import kinds
from fault_injection.closed_cluster import ClosedCluster
from fault_injection.errors import FaultError
from fault_injection.journal import Fault as InjectedFault
from fault_injection.mechanism import COMMAND_LINE, Advice, Target
from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.storage.directory.names import META_PROPERTIES_FILE
from jbodlab.vocabulary import kafka_uuid
from lab.cluster import layout
from lab.cluster import security as closed
from lab.cluster.clients_view import ASK_TIMEOUT_S, ClientsView
from lab.cluster.faults import Fault, Faults
from lab.cluster.kafka_servers import KafkaServers
from lab.cluster.node import Broker, Node, OwnServers, Servers, Surroundings
from lab.cluster.spec import ClusterSpec, spec_of
from lab.errors import LabError
from lab.machine import disks, folders, processes, programs
from lab.machine.ports import HeldPorts
from lab.machine.processes import ServerUser
from lab.machine.waiting import wait_for, witnesses

if TYPE_CHECKING:
    from jbodlab.kafka_admin.quorum import Quorum

STOP_DEADLINE_S = 10.0
DEFAULT_SPEC = ClusterSpec()


class Cluster(ClientsView):
    """A controller and brokers below one folder.

    Attributes:
        root: The folder.
        user: User that the servers run as.
        nodes: All nodes by id, those that are only controllers first.
        controllers: The controllers, which may be brokers as well.
        spec: Description that it was made from.
        engine: Engine that the nodes run.
        brokers: The brokers, by rising id.
        faults: The faults of their directories.
    """

    def __init__(
        self,
        state: ClusterState,
        *,
        servers: Servers | None = None,
        ports: HeldPorts | None = None,
        state_dir: Path | None = None,
        journal: Path | None = None,
        variables: Mapping[str, str] | None = None,
        record: Callable[[ClusterState], None] = lambda _: None,
        guard: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
        outlives_us: bool = False,
        advice: Advice = COMMAND_LINE,
    ) -> None:
        """Take hold of a cluster, whether it exists yet or not.

        Args:
            state: Where everything is, or shall be.
            servers: Servers that the nodes run, in place of those of the state's engine.
            ports: The ports, if they are held here.
            state_dir: Where clusters are written down, if this one is.
            journal: Where faults are written down; in the cluster's folder by default.
            variables: Variables that are added to the environment of all servers.
            record: Told whenever what is known of the cluster changed.
            guard: Entered around what must not be interrupted.
            outlives_us: Whether its processes go on when this one ends; else they are killed.
            advice: Advice where a fault cannot be made.
        """
        self.root = Path(state.root)
        self.user = ServerUser(uid=state.uid, gid=state.gid)
        self.faults = Faults(
            journal or self.root / "faults.jsonl", start=self._revive, outlives_us=outlives_us
        )
        self._state = state
        self._record = record
        self._state_dir = state_dir
        self._variables = dict(variables or {})
        self.spec = spec_of(state)
        self.engine = self.spec.runs
        self._servers: Servers = servers or _servers(self.spec, state)
        self._ports = [] if ports is None else [ports]
        self._closing = False
        self._outlives_us = outlives_us
        self._serving: list[subprocess.Popen[bytes]] = []
        around = Surroundings(
            user=self.user,
            servers=self._servers,
            environment=self.environment,
            inherited=lambda: [fd for held in self._ports for fd in held.descriptors],
            changed=lambda: self._record(self.state),
            guard=guard,
            outlives_us=outlives_us,
            nodes=lambda: self.nodes.values(),
            advice=advice,
            closed=self._closed,
        )
        self._advice = advice
        self._around = around
        self.brokers = [Broker(node, around, self.faults) for node in state.brokers]
        separate = [
            Node(node, around, self.faults) for node in state.nodes if node.role == "controller"
        ]
        self.nodes: dict[int, Node] = {node.id: node for node in (*separate, *self.brokers)}
        self.controllers = [self.nodes[node.node_id] for node in state.controllers]
        witnesses[id(self)] = self

    @classmethod
    def plan(
        cls,
        root: Path,
        spec: ClusterSpec = DEFAULT_SPEC,
        *,
        name: str = "cluster",
        user: ServerUser | None = None,
        **options: Any,
    ) -> Self:
        """Plan a cluster that does not exist; its ports are held from now on.

        Args:
            root: Its folder, which the servers' user must be able to enter.
            spec: Its description.
            name: Its name.
            user: User that the servers run as; by default as the description says.
            options: As for the constructor.

        Raises:
            LabError: there are no free ports, or the engine has no such nodes.
        """
        if refused := layout.refusal(root):
            raise LabError(refused)
        spec.check()
        # Each broker of Kafka's has one more, for its metrics; so has one that counts its clients.
        served = spec.controller_count + spec.brokers
        grpc_end = served + spec.grpc_count
        count = grpc_end + (spec.brokers if spec.runs.is_kafka or spec.security else 0)
        if spec.port_base is None:
            ports = HeldPorts.hold(count)
        else:
            ports = HeldPorts.hold_from(spec.port_base, count)
        state = layout.plan(
            name,
            root,
            kafka_uuid.to_text(kafka_uuid.random_uuid(os.urandom)),
            user or programs.server_user(spec.uid),
            ports.numbers[:served],
            spec,
            ports.numbers[grpc_end:],
            ports.numbers[served:grpc_end],
        )
        return cls(state, ports=ports, **options)

    def __repr__(self) -> str:
        return f"cluster {self._state.name} in {self.root}"

    # Facts about it

    @property
    def state(self) -> ClusterState:
        """All that is known of it, as it is written down."""
        return replace(self._state, nodes=tuple(node.state for node in self.nodes.values()))

    @property
    def controller(self) -> Node:
        """The first controller."""
        return self.controllers[0]

    def take_controller(self, state: NodeState, ports: HeldPorts) -> Node:
        """Take notice of one more controller, whose ports are held."""
        node = Node(state, self._around, self.faults)
        self._ports.append(ports)
        self.controllers.append(node)
        self._order_nodes()
        return node

    def drop_controller(self, node: Node) -> None:
        """Take notice that a controller is gone."""
        self.controllers.remove(node)
        self._order_nodes()

    def move_controller(self, node: Node, ports: HeldPorts) -> None:
        """Have other controllers reach a controller at a port of its own from its next start on."""
        self._ports.append(ports)
        (port,) = ports.numbers
        node.state = replace(node.state, port=port, grpc_port=node.state.port)
        self._record(self.state)

    def _order_nodes(self) -> None:
        self.nodes = {node.id: node for node in (*self.controllers, *self.brokers)}
        self._record(self.state)

    def quorum(self) -> Quorum | None:
        """Return the controllers as the active one describes them; None where none is active."""
        from lab.cluster import questions

        running = [broker.state for broker in self.brokers if broker.is_running]
        return questions.quorum(running, ASK_TIMEOUT_S)

    def active_controller(self) -> Node:
        """Return the controller that is active, waiting until one is.

        Raises:
            NotInTimeError: none is for too long, or no broker knows.
        """
        return self.nodes[wait_for("an active controller", self.quorum).leader_id]

    @property
    def id(self) -> str:
        """The cluster's id, as text."""
        return self._state.cluster_id

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the brokers, rising."""
        return [broker.id for broker in self.brokers]

    def target(self) -> Target:
        """Return the whole cluster as the target of a fault.

        Raises:
            LabError: it is open, and has neither users nor rights.
        """
        closed_cluster = self._closed()
        if closed_cluster is None:
            raise LabError(f"an open cluster has no users and no rights: {self._advice.closed}")
        return Target(cluster=closed_cluster, uid=self.user.uid, gid=self.user.gid)

    def fails(self, kind: str, **parameters: Any) -> Fault:
        """Take something from users of the cluster; otherwise as `LogDir.fails`."""
        return self.faults.inject(kinds.spec(kind, parameters), self.target())

    def _closed(self) -> ClosedCluster | None:
        if not self.spec.security:
            return None
        return ClosedCluster(
            security=self.spec.security,
            root=self.root,
            brokers=tuple(
                broker.closed(counts=not self.engine.is_kafka) for broker in self.brokers
            ),
            is_kafka=self.engine.is_kafka,
        )

    @property
    def application_config(self) -> dict[str, str]:
        """Settings of librdkafka to reach it as an application, which may do less than the lab."""
        files = closed.client_files(self._state)
        return {
            "bootstrap.servers": self.bootstrap,
            **closed.librdkafka(files["java"] if files else ""),
        }

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of what belongs to this cluster."""
        return programs.environment(
            self.root, self.user, self._state_dir, **self._variables, **(more or {})
        )

    # Making

    def make_directories(self) -> None:
        """Make the directories of a cluster whose folders are there, and format them.

        Raises:
            LabError: something could not be made.
        """
        disks.make_plain(layout.directories(self._state), self.user)
        self.format()

    def make_folders(self, settings: Mapping[str, str] | None = None) -> None:
        """Make the folders and property files of a cluster, without its directories.

        Raises:
            LabError: that failed.
        """
        try:
            if self.root.exists():
                shutil.rmtree(self.root)
            for folder in (self.root, self.root / "config", self.root / "logs"):
                disks.make_folder(folder)
            if self.spec.security:
                closed.make(self._state, self.user)
            for node in self.nodes.values():
                text = layout.property_file(self._state, node.state, settings)
                # With passwords in it, which settings of an open cluster may have too, it is for
                # the servers alone.
                node.properties_file.touch(mode=0o600)
                node.properties_file.write_text(text, "utf-8")
                self.own(node.properties_file)
        except OSError as error:
            raise LabError(f"cannot make the folders of the cluster: {error}") from error

    def check_servers(self) -> None:
        """Try, as their user, that the servers of a cluster whose folders are there can be run.

        Raises:
            LabError: they cannot; the text says what to do.
        """
        self._servers.check(self.user, self.root, self.environment())

    def metrics_commands(self) -> dict[int, list[str]]:
        """Return, by broker id, what prints the metrics of a broker again and again.

        Brokers without such metrics are left out.

        Raises:
            LabError: the engine has no program for that.
        """
        commands = {
            node.node_id: self._servers.metrics_command(node) for node in self._state.brokers
        }
        return {number: command for number, command in commands.items() if command}

    def serve_disk(self, command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
        """Start the process of a disk, which lives as long as the cluster."""
        # Asked to end it unmounts what it serves; killed it would leave a dead mount.
        started = processes.start(
            command if self._outlives_us else processes.ending_with_us(command, "TERM"),
            user=processes.own_user(),
            log_file=output,
            environment=self.environment(),
        )
        self._serving.append(started)
        return started

    def use_disks(self, mounts: Sequence[Path]) -> None:
        """Take notice that directories lie on mounts, which `close` and others will undo."""
        self._state = replace(self._state, mounts=tuple(map(str, mounts)))
        self._record(self.state)

    def format(self, nodes: Collection[Node] | None = None) -> None:
        """Format the directories, of all nodes or of some, that have no id yet.

        Raises:
            LabError: a node could not be formatted.
        """
        with ThreadPoolExecutor(max_workers=len(self.nodes)) as pool:
            list(pool.map(self._format, nodes or self.nodes.values()))

    def _format(self, node: Node) -> None:
        wanted = list(dict.fromkeys([*node.configured_dirs, node.metadata_dir]))
        empty = [path for path in wanted if not (path / META_PROPERTIES_FILE).exists()]
        security = closed.records(self._state) if self.spec.security else []
        self._servers.format(node.state, self.id, empty, security)
        for path in empty:
            if security:
                # The metadata log has the keys of users in it, and data is for who has a right.
                path.chmod(0o700)
            self.own(path)

    def own(self, path: Path) -> None:
        """Give a file, or a folder with all below, to the servers' user."""
        if self.user.is_other:
            for each in (path, *path.rglob("*")):
                os.chown(each, self.user.uid, self.user.gid, follow_symlinks=False)

    # Life

    def start(
        self, *, deadline_s: float | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """Start all nodes and wait until every broker serves.

        Args:
            deadline_s: Longest time to wait; None: that of the engine.
            meanwhile: Called once, when all nodes are starting.

        Raises:
            LabError: a node ended at once, or cannot be executed.
            NotInTimeError: one does not serve within the deadline.
        """
        for node in self.nodes.values():
            node.start()
        meanwhile()
        self.wait_served(deadline_s=deadline_s)
        # Without one of its controllers a quorum serves all the same.
        for node in self.controllers:
            _refuse_ended(node)

    def wait_served(self, *brokers: Broker, deadline_s: float | None = None) -> None:
        """Wait until each of these brokers, or of all, names them all.

        Raises:
            LabError: one of them has ended, or half of the controllers have.
            NotInTimeError: one does not serve within the deadline.
        """
        # The module that asks is imported only here: the starting servers do the same meanwhile.
        from lab.cluster import questions

        missing = list(brokers or self.brokers)
        wanted = {broker.id for broker in missing}

        def served() -> bool:
            ended = [node for node in self.controllers if not node.is_running]
            majority_is_gone = 2 * len(ended) >= len(self.controllers)
            for node in (*(ended if majority_is_gone else ()), *missing):
                _refuse_ended(node)
            # They are ready at nearly the same time, so one is asked until it is: questions take
            # the processors from their start.
            while missing:
                view = questions.view(missing[0].state, ASK_TIMEOUT_S)
                if view is None or not wanted <= view.broker_ids:
                    return False
                del missing[0]
            return True

        wait_for(
            f"every broker of {sorted(wanted)} serving",
            served,
            self.engine.served_deadline_s if deadline_s is None else deadline_s,
            last_seen=lambda: f"{missing} do not name all of them",
        )

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """End all nodes cleanly, as far as they do so within the deadline; the files stay."""
        # Brokers first: one that ends hands its leadership over, for which it needs the controller.
        for nodes in (self.brokers, self.controllers):
            running = [node for node in nodes if node.is_running]
            for node in running:
                node.thaw()
                node.signal(signal.SIGTERM)
            end = time.monotonic() + deadline_s
            for node in running:
                with contextlib.suppress(AssertionError):
                    node.wait_ended(max(0.0, end - time.monotonic()))
                node.kill()

    def kill(self) -> None:
        """End all nodes at once, as a power switch."""
        for node in self.nodes.values():
            node.signal(signal.SIGKILL)
        for node in self.nodes.values():
            node.kill()

    def heal(self) -> None:
        """Undo every fault, and let frozen nodes go on."""
        for node in self.nodes.values():
            node.heal()
        self.faults.heal_all()

    def _revive(self, fault: InjectedFault) -> None:
        """Start the node that a fault has ended."""
        for node in self.nodes.values():
            if node.folder == fault.path or node.folder in fault.path.parents:
                if not node.is_running and not self._closing:
                    node.start()
                return
        raise FaultError(f"there is no {fault.broker or fault.path} to start in {self}")

    def let_go(self) -> None:
        """Give back the descriptors of a cluster that goes on without this object."""
        for node in self.nodes.values():
            node.let_go()
        for held in self._ports:
            held.close()

    def close(self) -> None:
        """End everything at once and remove it: faults, processes, disks, files, ports."""
        witnesses.pop(id(self), None)
        self._admin = None
        self._closing = True
        # Each step is taken whatever becomes of those before; the last one comes first here.
        with contextlib.ExitStack() as steps:
            for held in self._ports:
                steps.callback(held.close)
            steps.callback(shutil.rmtree, self.root, ignore_errors=True)
            for process in self._serving:
                steps.callback(_end_of, process)
            steps.callback(disks.unmount_below, self.root)
            steps.callback(self.kill)
            # A process that hangs in a call does not even die of SIGKILL before it is healed.
            steps.callback(self.heal)
        self._serving.clear()
        if left := folders.left_of(self.root):
            raise LabError(f"something is left of {self}: {'; '.join(left)}")

    def last_words(self) -> str:
        """Return what every node printed last."""
        return "\n".join(f"--- {node!r} of {self}: {_tail(node)}" for node in self.nodes.values())


def _servers(spec: ClusterSpec, state: ClusterState) -> Servers:
    if not spec.runs.is_kafka:
        return OwnServers()
    return KafkaServers(
        spec.runs,
        brokers=len(state.brokers),
        controllers=state.controllers,
        jvm_options=spec.jvm_options,
    )


def _end_of(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that ends by itself; one that does not is killed."""
    try:
        process.wait(STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _refuse_ended(node: Node) -> None:
    if node.state.process is not None and not node.is_running:
        raise LabError(f"{node} ended while starting; {_tail(node)}")


def _tail(node: Node) -> str:
    lines = node.log_lines()
    return "the end of its output:" + "".join(f"\n    {line}" for line in lines)
