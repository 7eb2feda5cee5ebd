"""The cluster that a rehearsal is about: started for it, or there already."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fault_injection.kinds import KINDS, Scope
from fault_injection.mechanism import Target
from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.picture.places import CLUSTER, CONTROLLER, Place
from jbodlab.vocabulary.ids import METADATA_TOPIC, DirectoryId
from lab.cluster import Cluster, ClusterSpec, layout, limits, questions, revival
from lab.cluster.engine import Engine
from lab.cluster.picture import places_of
from lab.cluster.spec import CONTROLLER_ID
from lab.errors import LabError
from lab.machine import processes, programs
from lab.machine.interrupts import Interrupts
from lab.machine.kafka_jars import NoKafkaError
from lab.plan import targets
from lab.plan.plan import Attach, AttachedBroker, Entry, Plan
from lab.plan.targets import Node
from lab.plan.vocabulary import OF_CONTROLLER
from lab.state_files import StateFiles
from lab.up_and_down import make_breakable, make_disks

ASK_DEADLINE_S = 5.0
FIELDS_OF_METADATA = ("reported", "elected")
BY_RULES = ("preload", "connections")
"""Mechanisms that need brokers that were started to follow rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCluster:
    """A cluster that serves.

    Attributes:
        cluster: The cluster itself.
        may_start: Whether its processes are ours to end and to start.
        outlives_us: Whether it goes on when this process ends.
        revives: Whether its brokers bring a repaired directory back while they run; Apache
            Kafka's have to be restarted.
        metadata_logs: Folders that hold the logs of the controllers; none if they cannot be read.
        places: Its directories by their ids, as far as they can be read.
        metrics: Command that prints the metrics of a broker again and again, by broker id; it is
            left out where nothing reads them.
        not_measured: Metrics that nobody can know here, with the reason.
        versions: Versions of its servers, for the report.
    """

    cluster: Cluster
    may_start: bool
    outlives_us: bool
    revives: bool
    metadata_logs: Sequence[Path]
    places: Mapping[DirectoryId, Place] = field(default_factory=dict)
    metrics: Mapping[int, Sequence[str]] = field(default_factory=dict)
    not_measured: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def answers_tell(self) -> bool:
        """Whether a directory that DescribeLogDirs calls offline was noticed by its broker.

        Kafka's brokers look at the file system for that answer, whatever they know: where their log
        is read, only the log and the metrics count.
        """
        return self.revives or not all(node.log_file for node in self.cluster.state.brokers)

    def is_away(self, number: int) -> bool:
        """Return whether the node of a place has ended that may be started here."""
        return self.may_start and not self.cluster.nodes[abs(number)].is_running

    def path(self, place: Place) -> Path:
        """Return where a directory lies."""
        return self.cluster.broker(place.broker).log_dir(place.directory).path

    def revive(self, place: Place) -> str:
        """Bring a repaired directory back; returns what was done, empty if nothing could be.

        Raises:
            JbodlabError: that failed.
        """
        if place.broker < CONTROLLER:
            # A controller has one directory, and ends over it.
            node = self.cluster.nodes[-place.broker]
            if node.is_running or not self.may_start:
                return ""
            node.start()
            return f"{node.name} is started again"
        broker = self.cluster.broker(place.broker)
        if not broker.is_running and self.may_start:
            broker.start()
            self.cluster.wait_served(broker)
            return f"broker-{place.broker} is started again"
        may_come_back = self.revives or (self.may_start and broker.is_running)
        # One restart brings all directories of a broker of Kafka's back.
        if not may_come_back or self._is_online(place):
            return ""
        path = str(self.path(place))
        if refusal := revival.revive(self.cluster, broker, [path]).get(path):
            raise LabError(refusal)
        if self.revives:
            return f"{place} is revived"
        return f"{place} is back: broker-{place.broker} was restarted"

    def _is_online(self, place: Place) -> bool:
        """Return whether the broker itself has it online already, as after a start."""
        broker = self.cluster.broker(place.broker)
        found = asyncio.run(questions.ask_log_dirs(broker.state, ASK_DEADLINE_S)) or []
        return any(view.path == str(self.path(place)) and not view.error for view in found)


def of_lab(cluster: Cluster, *, outlives_us: bool = True) -> TargetCluster:
    """Return a cluster that the lab runs; one that goes on running has a name to tell."""
    engine, named = cluster.engine, f", {cluster.state.name}" if outlives_us else ""
    return TargetCluster(
        cluster=cluster,
        may_start=True,
        outlives_us=outlives_us,
        revives=engine.revives,
        metadata_logs=[each.metadata_dir for each in cluster.controllers],
        places=places_of(cluster.state.brokers),
        metrics=_metrics(cluster),
        versions={"cluster": f"{engine.title}{named}", "engine": str(engine)},
    )


@contextlib.contextmanager
def started(
    plan: Plan, root: Path, interrupts: Interrupts, engine: Engine
) -> Iterator[TargetCluster]:
    """Start a cluster for a plan, gone afterwards whatever happened.

    Args:
        plan: The plan.
        root: Its folder.
        interrupts: Held back around each mount.
        engine: Engine that its nodes run.

    Raises:
        LabError: it cannot be made, or a fault of the plan cannot be made on it.
    """
    with prepared(plan, root, interrupts, engine) as cluster:
        cluster.start()
        check_faults(plan.faults, cluster)
        yield of_lab(cluster, outlives_us=False)


@contextlib.contextmanager
def prepared(plan: Plan, root: Path, interrupts: Interrupts, engine: Engine) -> Iterator[Cluster]:
    """Make a cluster for a plan that does not run yet; otherwise as `started`."""
    assert isinstance(plan.cluster, ClusterSpec)
    need = plan.cluster.beside(engine)
    machine = limits.this_machine(root, programs.server_user(None).uid)
    if reason := limits.refusal(machine, need):
        raise LabError(reason)
    cluster = Cluster.plan(root, need)
    try:
        cluster.make_folders(need.properties)
        cluster.check_servers()
        make_disks(cluster, need, interrupts, _silent)
        if any(_needs_calls(entry, need) for entry in plan.faults):
            make_breakable(cluster, "preload" if need.mechanism == "preload" else "auto", _silent)
        cluster.format()
        of_directories = [one for one in plan.faults if KINDS[one.do].scope is Scope.DIRECTORY]
        check_faults(of_directories, cluster)
        yield cluster
    finally:
        cluster.close()


@contextlib.contextmanager
def attached(plan: Plan, *, is_mine: bool) -> Iterator[TargetCluster]:
    """Take hold of a cluster that somebody else started; it goes on afterwards, healed.

    Args:
        plan: Which one, and what is to be done to it.
        is_mine: Whether the user says that it may be broken, wherever it is.

    Raises:
        LabError: it is not there, it may not be touched, or a fault cannot be made on it.
    """
    attach = plan.cluster
    assert isinstance(attach, Attach)
    state = _known(attach.cluster) if attach.cluster else _described(attach)
    if not is_mine:
        _refuse_foreign(state)
    cluster = Cluster(state, journal=StateFiles.open().journal, outlives_us=True)
    for node in cluster.nodes.values():
        if node.state.metadata_log_dir:
            node.follow_again()
    check_faults(plan.faults, cluster)
    missing = dict(_missing(state))
    yield TargetCluster(
        cluster=cluster,
        may_start=bool(attach.cluster),
        outlives_us=True,
        revives=_revives(state),
        metadata_logs=() if "elected" in missing else (Path(state.controller.metadata_log_dir),),
        places=places_of(state.brokers),
        not_measured=missing,
        versions={"cluster": f"attached, at {cluster.bootstrap}"},
    )


def _silent(_text: str) -> None:
    """Print nothing: a fault that cannot be injected says so itself."""


def check_faults(faults: Sequence[Entry], cluster: Cluster) -> None:
    """Try whether each fault can be made here, before the first one is.

    Raises:
        LabError: one cannot; the text has all reasons.
    """
    problems = []
    for entry in faults:
        target = _any_target(entry, cluster)
        if target is None or entry.spec is None:
            continue
        wanted = entry.spec
        if entry.other is not None:
            # Which one it will be is resolved in the moment; any other one tells as much.
            wanted = replace(wanted, other=cluster.brokers[0].log_dirs[-1].path)
        if problem := cluster.faults.check(wanted, target):
            problems.append(f"{entry.name} ({entry.do}) cannot be injected here: {problem}")
    if problems:
        raise LabError("; ".join(problems))


def _any_target(entry: Entry, cluster: Cluster) -> Target | None:
    """Return some target of the right kind: which one it will be is not known before."""
    broker = cluster.brokers[0]
    if entry.where == targets.ActiveController():
        first = cluster.controller
        return first.target() if entry.do in OF_CONTROLLER else first.log_dir(1).target()
    if isinstance(entry.where, Node) and entry.where.number == CONTROLLER:
        return broker.target() if entry.do == "cut" else cluster.controller.target()
    if entry.where == Node(CLUSTER):
        return cluster.target()
    if isinstance(entry.where, Node):
        broker = cluster.broker(entry.where.number)
    is_node = entry.where is not None and targets.is_node(entry.where)
    if KINDS[entry.do].scope is Scope.BROKER or is_node:
        return broker.target()
    if not broker.log_dirs:
        raise LabError(f"{entry.name} needs log directories, and none is known of {broker}")
    return broker.log_dirs[0].target()


def _needs_calls(entry: Entry, need: ClusterSpec) -> bool:
    """Return whether a fault may be made below the system calls of a broker."""
    assert entry.spec is not None
    mechanisms = KINDS[entry.do].mechanisms
    wanted = entry.spec.mechanism or need.mechanism
    if wanted != "auto" and "connections" not in mechanisms:
        return wanted == "preload"
    return any(name in BY_RULES for name in mechanisms)


def _metrics(cluster: Cluster) -> dict[int, list[str]]:
    """Return what prints the metrics of brokers; nothing where the engine has no such program."""
    try:
        return cluster.metrics_commands()
    except NoKafkaError:
        return {}


def _known(name: str) -> ClusterState:
    state = StateFiles.open().read(name)
    if state is None:
        raise LabError(f"no cluster named {name} is up")
    return state


def _described(attach: Attach) -> ClusterState:
    """Describe a cluster by what it says of itself and what the plan says of its brokers."""
    first = attach.bootstrap.split(",")[0].strip()
    try:
        found = asyncio.run(questions.addresses(first, ASK_DEADLINE_S))
    except questions.NO_ANSWER as error:
        raise LabError(f"no cluster answers at {first}: {error}") from error
    described = {int(number): broker for number, broker in attach.brokers.items()}
    if unknown := sorted(described.keys() - found.keys()):
        raise LabError(f"the cluster at {first} has the brokers {sorted(found)}, not {unknown}")
    if sorted(found) != list(range(1, len(found) + 1)):
        raise LabError(
            f"brokers must be numbered from 1 without gaps, and there are {sorted(found)}"
        )
    nodes = [
        _node(number, address, described.get(number, AttachedBroker()))
        for number, address in sorted(found.items())
    ]
    controller = NodeState(
        role="controller",
        node_id=CONTROLLER_ID,
        host="",
        port=0,
        metadata_log_dir=attach.controller_log.removesuffix(f"/{METADATA_TOPIC}-0"),
    )
    return layout.foreign("attached", [controller, *nodes])


def _node(number: int, address: tuple[str, int], known: AttachedBroker) -> NodeState:
    # The folder of all directories of a broker is the one by which its faults are known.
    folder = Path(known.log_dirs[0]).parent if known.log_dirs else layout.NOWHERE
    return NodeState(
        role="broker",
        node_id=number,
        host=address[0],
        port=address[1],
        log_file=known.output,
        metadata_log_dir=str(folder / "metadata-disk" / "metadata"),
        log_dirs=known.log_dirs,
        process=processes.find(known.pid) if known.pid else None,
    )


def _missing(state: ClusterState) -> Iterator[tuple[str, str]]:
    """Yield the metrics that nobody can know here."""
    log = Path(state.controller.metadata_log_dir) / f"{METADATA_TOPIC}-0"
    if not state.controller.metadata_log_dir or not log.is_dir():
        for name in FIELDS_OF_METADATA:
            yield name, "the controller's metadata log cannot be read here"


def _refuse_foreign(state: ClusterState) -> None:
    for node in state.brokers:
        try:
            address = ipaddress.ip_address(socket.gethostbyname(node.host))
        except (OSError, ValueError) as error:
            raise LabError(f"the address of broker {node.node_id} is not known: {error}") from error
        if not (address.is_loopback or address.is_private):
            raise LabError(
                f"broker {node.node_id} at {node.host} is neither on this machine nor in a private "
                "network; --i-know-this-cluster-is-mine lets it be broken all the same"
            )


def _revives(state: ClusterState) -> bool:
    """Return whether the brokers are ours: only they know the request for states."""
    node = state.brokers[0]
    try:
        asyncio.run(questions.log_dir_states(node, ASK_DEADLINE_S))
    except questions.NO_ANSWER:
        return False
    return True
