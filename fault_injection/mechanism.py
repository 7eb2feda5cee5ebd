"""The interface of mechanisms that make faults, and their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from fault_injection.clients import Clients
from fault_injection.kinds import CONTROLLER, FaultSpec
from jbodlab.cli.lab_state import ProcessState

if TYPE_CHECKING:
    from fault_injection.closed_cluster import ClosedCluster
    from fault_injection.journal import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another broker or controller, as one that is cut off from it has to know it.

    Attributes:
        name: As people call it, such as `broker-2` or `controller-101`.
        host, ports: Where it listens, as this; empty if that is not known.
        pid: Its process; 0 where it does not run.
        rules: The file that holds the rules for its calls; None if it was not started with one.
    """

    name: str
    ports: tuple[int, ...]
    host: str = ""
    pid: int = 0
    rules: Path | None = None

    @property
    def is_controller(self) -> bool:
        """Whether it is a controller, which connects to no broker."""
        return self.name.startswith(CONTROLLER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Advice for a user whose mechanism is missing, in the terms of the interface that is used.

    Attributes:
        preload: Where a broker runs without the preloaded library.
        disk: Where a directory is on a disk of another kind, with `{kind}` for the missing one;
            empty: nothing can be done there.
        closed: Where clients show and see no certificates.
    """

    preload: str = "start its cluster with `jbodlab up --mechanism preload`"
    closed: str = "start its cluster with `jbodlab up --security sasl_ssl`"
    disk: str = "start its cluster with `jbodlab up --kind {kind}`"

    def not_preloaded(self, broker: str) -> str:
        """Return that a broker runs without the preloaded library, and what to do."""
        return f"{broker} runs without the library for faults in single calls: {self.preload}"

    def not_on(self, kind: str, path: Path) -> str:
        """Return that a directory is not on a disk of a kind, and what to do."""
        reason = f"{path} is not on a disk of kind {kind}"
        return f"{reason}: {self.disk.format(kind=kind)}" if self.disk else reason


COMMAND_LINE = Advice()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetBroker:
    """The broker, or the controller, that a fault is meant for.

    Attributes:
        name: As people call it, such as `broker-2` or `controller-101`.
        folder: Parent of all its directories; the journal knows faults of the process by it.
        log_dirs: Its log directories.
        process: Its process; None where it does not run.
        rules: The file that holds the rules for its calls; None if it was not started with one.
        host, ports: Where it listens; the first port is the one for clients, or for controllers.
        peers: The other controllers and brokers; a node that is both is among them twice.
        is_controller: Whether it is a controller, alone or besides.
        advice: Advice where a mechanism is missing.
    """

    name: str
    folder: Path
    log_dirs: tuple[Path, ...] = ()
    process: ProcessState | None = None
    rules: Path | None = None
    host: str = ""
    ports: tuple[int, ...] = ()
    peers: tuple[Peer, ...] = ()
    is_controller: bool = False
    advice: Advice = COMMAND_LINE

    @property
    def is_broker(self) -> bool:
        """Whether it serves clients."""
        return not self.name.startswith(CONTROLLER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The place of a fault.

    Attributes:
        directory: A log directory, links followed; None for faults of a broker.
        broker: The broker; None where only the directory is known.
        uid, gid: User that the broker runs as, as whom the effect is proved.
        cluster: The cluster, where it is closed; the place itself of faults of a whole cluster.
    """

    directory: Path | None = None
    broker: TargetBroker | None = None
    uid: int
    gid: int
    cluster: ClosedCluster | None = None

    @property
    def advice(self) -> Advice:
        """Advice where a mechanism is missing."""
        return COMMAND_LINE if self.broker is None else self.broker.advice

    @property
    def path(self) -> Path:
        """The fault's path in the journal: the directory, or the folder of the broker."""
        if self.directory is not None:
            return self.directory
        if self.broker is not None:
            return self.broker.folder
        assert self.cluster is not None
        return self.cluster.folder


_SINGULAR = {"processes": "process"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The number of calls, files or processes that a fault broke so far.

    Attributes:
        what: Unit of the count: `calls`, `connections`, `packets`, `replicas`, `files`, `bytes`,
            `processes`, `handshakes`, `logins`, `requests`.
        count: How many were broken.
        seen: Of how many, where that is known.
        first_ns, last_ns: When the first and the last one was broken, monotonic; None where none
            was, or nobody saw it.
        clients: Fate of clients; None where the fault is not about them.
    """

    what: str
    count: int
    seen: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    clients: Clients | None = None

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Self:
        """Return what `dataclasses.asdict` has made values of."""
        clients = found.get("clients")
        return cls(**{**found, "clients": None if clients is None else Clients(**clients)})

    def __str__(self) -> str:
        """Return count and noun, such as `1 process` or `2 replicas`, or what clients met."""
        if self.clients is not None:
            return str(self.clients)
        noun = (
            _SINGULAR.get(self.what, self.what.removesuffix("s")) if self.count == 1 else self.what
        )
        return f"{self.count} {noun}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """The result of reverting a fault.

    Attributes:
        note: Something the operator should know; empty where there is nothing to tell.
        next_step: Work that is still to be done by hand, one sentence; empty where nothing is.
    """

    note: str = ""
    next_step: str = ""


RecordUndo = Callable[[Mapping[str, Any]], None]
"""Writes into the journal what the undoing will need, before it is done."""

Start = Callable[["Fault"], None]
"""Starts the process that a fault has ended."""


class Mechanism(Protocol):
    """One way to make faults.

    `prepare` only looks; what it returns is in the journal before `make` touches anything. `undo`
    looks at what is there and does what is missing: it can be run after an interruption at any
    point of `make` or of an earlier `undo`, and twice.
    """

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        """Return why it cannot make this here, as one sentence; empty if it can."""

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        """Return what undoing will need, as JSON has it.

        Raises:
            FaultError, OSError: it cannot be made after all.
        """

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> int | None:
        """Break it.

        Returns:
            When it took effect, on the monotonic clock, if that was before it was done.

        Raises:
            FaultError, OSError: a step failed; `undo` restores what was done until then.
        """

    def verify(self, fault: Fault) -> str:
        """Try, as the broker's user, whether it has an effect; returns why not, empty if it has."""

    def undo(self, fault: Fault, start: Start) -> Healing:
        """Bring everything back as it was.

        Raises:
            FaultError, OSError: a step failed; it may be run again.
        """

    def broken(self, fault: Fault) -> Broken:
        """Return what the fault broke so far."""
