"""One controller or broker: a process, its property file, its directories, its output."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from fault_injection import kinds, targets
from fault_injection.closed_cluster import ClosedBroker, ClosedCluster
from fault_injection.errors import FaultError
from fault_injection.mechanism import Advice, Peer, Target, TargetBroker
from fault_injection.preload import Control, build
from fault_injection.targets import PRELOADED
from jbodlab.cli.lab_state import NodeState
from jbodlab.vocabulary import properties
from jbodlab.vocabulary.errors import FormatError
from lab.cluster.faults import Fault, Faults
from lab.cluster.log_dir import LogDir
from lab.errors import LabError
from lab.machine import processes, programs
from lab.machine.disks import make_folder
from lab.machine.processes import ServerUser
from lab.machine.waiting import wait_for

if TYPE_CHECKING:
    from jbodlab.metadata.records.schema import Record

STOP_DEADLINE_S = 30.0
KILL_DEADLINE_S = 10.0
TAIL_LINES = 15


class Servers(Protocol):
    """Servers that nodes run: ours, or those of Apache Kafka to compare with."""

    def command(self, node: NodeState) -> list[str]:
        """Return the command that runs a node until it is asked to end."""

    def format(
        self,
        node: NodeState,
        cluster_id: str,
        directories: Sequence[Path],
        security: Sequence[Record] = (),
    ) -> None:
        """Format directories of a node, with users and their rights from the first start on.

        Raises:
            LabError: that failed.
        """

    def metrics_command(self, node: NodeState) -> list[str]:
        """Return what prints the metrics of a broker again and again; empty if it has none.

        Raises:
            LabError: there is no program for that.
        """

    def check(self, user: ServerUser, root: Path, variables: dict[str, str]) -> None:
        """Try, as the servers' user, that the servers can be run and that a folder is reached.

        Raises:
            LabError: they cannot, with the reason.
        """


class OwnServers:
    """Our controller and brokers, formatted in this process."""

    def command(self, node: NodeState) -> list[str]:
        """Return the command that runs a node."""
        return [*programs.command(node.role), "-c", node.properties_file]

    def format(
        self,
        node: NodeState,
        cluster_id: str,
        directories: Sequence[Path],
        security: Sequence[Record] = (),
    ) -> None:
        """Format directories, each without `meta.properties`."""
        from jbodlab.metadata.log.formatting import format_directories
        from jbodlab.metadata.records.metadata_version import LATEST

        try:
            format_directories(
                directories,
                cluster_id=cluster_id,
                node_id=node.node_id,
                level=LATEST,
                security=security,
            )
        except FormatError as error:
            raise LabError(f"{node.role} {node.node_id} could not be formatted: {error}") from error

    def metrics_command(self, node: NodeState) -> list[str]:
        """Return nothing: our brokers show their metrics over HTTP, and tell states themselves."""
        return []

    def check(self, user: ServerUser, root: Path, variables: dict[str, str]) -> None:
        """Try that our programs can be imported."""
        programs.check(user, root, variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The parts that all nodes of a cluster have in common.

    Attributes:
        user: User of their processes.
        servers: Servers that they run.
        environment: Makes the whole environment of a process, given what one node adds to it.
        inherited: File descriptors that they keep open.
        changed: Called after a process was started or ended.
        guard: Entered around what must not be interrupted.
        outlives_us: Whether they go on when this process ends.
        nodes: All nodes, the controllers first.
        advice: Advice where a fault cannot be made.
        closed: Returns the cluster as faults know it that need one that is closed; None for others.
    """

    user: ServerUser
    servers: Servers
    environment: Callable[[Mapping[str, str]], dict[str, str]]
    inherited: Callable[[], Sequence[int]]
    changed: Callable[[], None]
    guard: Callable[[], AbstractContextManager[None]]
    outlives_us: bool
    nodes: Callable[[], Iterable[Node]]
    advice: Advice
    closed: Callable[[], ClosedCluster | None]


class Node:
    """A node that may run or not.

    Attributes:
        state: Where everything of it lies, and the process that runs it.
        log_dirs: Its log directories, in the order of the property file at first; of a controller
            the one that has its metadata.
    """

    def __init__(self, state: NodeState, around: Surroundings, faults: Faults) -> None:
        self.state = state
        self._around = around
        self._faults = faults
        self._preload: Control | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self.log_dirs = [LogDir(Path(path), faults, self.target_node) for path in state.log_dirs]

    def __repr__(self) -> str:
        return f"{self.state.role} {self.id}"

    @property
    def name(self) -> str:
        """Its name, such as `broker-1` or `controller-100`."""
        return self.state.name

    @property
    def id(self) -> int:
        """Its `node.id`."""
        return self.state.node_id

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.state.port

    @property
    def address(self) -> str:
        """Host and port, as clients want them."""
        return f"{self.state.host}:{self.state.port}"

    @property
    def properties_file(self) -> Path:
        """Its settings."""
        return Path(self.state.properties_file)

    @property
    def metadata_dir(self) -> Path:
        """Its `metadata.log.dir`."""
        return Path(self.state.metadata_log_dir)

    @property
    def folder(self) -> Path:
        """Folder that all its directories lie in."""
        return self.state.folder

    # Process

    @property
    def pid(self) -> int:
        """Id of its process.

        Raises:
            LabError: it was not started.
        """
        if self.state.process is None:
            raise LabError(f"{self} was not started")
        return self.state.process.pid

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        if self._child is not None:
            return self._child.poll() is None
        return self.state.process is not None and processes.is_alive(self.state.process)

    def start(self) -> None:
        """Start the process; it need not serve yet.

        Raises:
            LabError: it runs already, or cannot be executed.
        """
        if self.is_running:
            raise LabError(f"{self} runs already")
        around = self._around
        with around.guard():
            try:
                command = around.servers.command(self.state)
                self._child = processes.start(
                    command if around.outlives_us else processes.ending_with_us(command),
                    user=around.user,
                    log_file=Path(self.state.log_file),
                    environment=around.environment(self.start_variables()),
                    inherited=around.inherited(),
                )
            except OSError as error:
                raise LabError(f"cannot start {self}: {error}") from error
            self.state = replace(self.state, process=processes.find(self._child.pid))
            around.changed()

    def start_variables(self) -> Mapping[str, str]:
        """Return what its next start adds to the environment.

        Where the library cannot be had any more, it starts without: its calls cannot be broken.
        """
        if self._preload is not None:
            try:
                return self._preload.environment()
            except FaultError:
                self._preload = None
        return {}

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it runs."""
        if self._child is not None:
            self._child.send_signal(number)
        elif self.state.process is not None:
            processes.send(self.state.process, number)

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        """Ask the process to end and wait for it; returns its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_ended(deadline_s)

    def kill(self) -> None:
        """As a power switch: SIGKILL; harmless where it does not run."""
        self.signal(signal.SIGKILL)
        if self.state.process is not None:
            self.wait_ended(KILL_DEADLINE_S)

    def freeze(self) -> None:
        """Freeze the process: SIGSTOP."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self.signal(signal.SIGCONT)

    def wait_ended(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        """Wait until the process has ended by itself.

        Returns:
            Its exit code, minus the signal's number where one ended it; -1 for a process that
            somebody else had started.

        Raises:
            NotInTimeError: it still runs at the deadline.
        """
        wait_for(f"the end of {self}", lambda: not self.is_running, deadline_s)
        code = -1 if self._child is None else self._child.returncode
        self._child = None
        self.state = replace(self.state, process=None)
        self._around.changed()
        return code

    # Settings and output

    @property
    def configured_dirs(self) -> list[Path]:
        """Its `log.dirs`, as the next start will read them."""
        known = properties.parse(self.properties_file.read_text("utf-8"))
        return [Path(path) for path in known["log.dirs"].split(",")]

    def output(self) -> str:
        """Return all that it has printed, over all its starts."""
        with contextlib.suppress(FileNotFoundError):
            return Path(self.state.log_file).read_text("utf-8", "replace")
        return ""

    def log_lines(self, count: int = TAIL_LINES) -> list[str]:
        """Return the last lines of what it has printed."""
        return self.output().splitlines()[-count:]

    # Directories and faults

    def log_dir(self, number: int) -> LogDir:
        """Return a log directory; the first is number 1."""
        return self.log_dirs[number - 1]

    @property
    def paths(self) -> list[Path]:
        """The paths of its log directories."""
        return [one.path for one in self.log_dirs]

    def preload(self) -> Control:
        """Start it, from its next start on, so that its calls can be broken; returns the rules.

        Raises:
            FaultError: the library cannot be had here.
        """
        if self._preload is None:
            path, user = self.folder / PRELOADED, self._around.user
            # Without a library there are no rules that a later start would follow.
            build.library()
            if not path.parent.exists():
                make_folder(path.parent)
            if not path.exists():
                Control.create(path, user.uid, user.gid)
            self._preload = Control.open(path)
        return self._preload

    def follow_again(self) -> None:
        """Go on following the rules that a node of this folder was started with before."""
        # Rules that are no more concern faults in calls alone: what needs them says so.
        with contextlib.suppress(FaultError):
            self._preload = Control.open(self.folder / PRELOADED)

    def let_go(self) -> None:
        """Follow no rules any more, which stay in force."""
        if self._preload is not None:
            self._preload.close()
            self._preload = None

    def heal(self) -> None:
        """Take back all that was preloaded, and let it go on if it was frozen."""
        if self._preload is not None:
            self._preload.clear()
        self.thaw()

    def target_node(self) -> TargetBroker:
        """Return it as faults know it, with the process that runs it now."""
        process = self.state.process if self.is_running else None
        peers = [peer for one in self._around.nodes() if one is not self for peer in one.peers()]
        return targets.as_target(self.state, process, self._rules, peers, self._around.advice)

    def peers(self) -> list[Peer]:
        """Return it as another node's faults know it."""
        return targets.as_peers(self.state, self.pid if self.is_running else 0, self._rules)

    @property
    def _rules(self) -> Path | None:
        return None if self._preload is None else self.folder / PRELOADED

    def target(self) -> Target:
        """Return it as the target of a fault."""
        user, cluster = self._around.user, self._around.closed()
        return Target(broker=self.target_node(), uid=user.uid, gid=user.gid, cluster=cluster)

    def fails(self, kind: str = "kill", **parameters: Any) -> Fault:
        """Break the process, connections or certificate; otherwise as `LogDir.fails`."""
        words = {key.removesuffix("_"): value for key, value in parameters.items()}
        return self._faults.inject(kinds.spec(kind, words), self.target())


class Broker(Node):
    """A broker."""

    def closed(self, *, counts: bool) -> ClosedBroker:
        """Return it as faults of a closed cluster know it.

        Args:
            counts: Whether its metrics tell whom it refuses.
        """
        return ClosedBroker(
            name=self.name,
            host=self.state.host,
            port=self.port,
            metrics_port=self.state.metrics_port if counts else 0,
            pid=self.pid if self.is_running else 0,
        )

    def log_dir_of(self, topic: str, partition: int) -> LogDir:
        """Return the directory that holds a replica, as the file system shows it.

        Clients hear of a leader as soon as it is elected; its files follow a moment later, and are
        waited for.
        """
        name = f"{topic}-{partition}"
        return wait_for(
            f"{name} at {self}",
            lambda: next((one for one in self.log_dirs if (one.path / name).is_dir()), None),
        )
