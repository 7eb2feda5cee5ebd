"""What a plan says, as values; `reader` makes them of a file.

Instants are seconds from the end of the steady state, lengths are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fault_injection.kinds import KINDS, FaultSpec
from jbodlab.expressions import Expression
from jbodlab.ids import TopicPartition
from lab.rehearsal.targets import Target

MOMENTS = ("injected", "proved", "detected", "reported", "elected", "first_ack", "healed")
"""What of an entry another one may come after."""
LAST = "last"
"""In place of a name: all entries of the timeline; to an entry itself, those above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNeed:
    """A cluster that is started for the rehearsal and gone afterwards."""

    brokers: int = 3
    disks: int = 3
    kind: str = "folder"
    size_bytes: int = 256 << 20
    mechanism: str = "auto"
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerThere:
    """What is known of a broker that somebody else started; what is missing is empty."""

    number: int
    log_dirs: tuple[str, ...] = ()
    pid: int = 0
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """A cluster that is there: one of `jbodlab up` by its name, or any by its addresses."""

    name: str = ""
    bootstrap: str = ""
    controller_log: str = ""
    brokers: tuple[BrokerThere, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that the rehearsal makes."""

    name: str
    partitions: int
    replicas: int
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """A producer: an unmodified client that sends by a schedule.

    Attributes:
        rate: Messages a second, over all partitions.
        client: Further settings of the client library.
    """

    name: str
    topic: str
    rate: float
    size_bytes: int = 100
    acks: str = "all"
    idempotent: bool = True
    keys: int = 100
    client: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """A consumer: by its partitions, or as member of a group where one is named."""

    name: str
    topic: str
    group: str = ""
    isolation: str = "read_uncommitted"
    client: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The user's own application, as a client like others.

    Attributes:
        command: Program and arguments; `{bootstrap}` and `{topic:NAME}` are filled in.
        probe: An address that answers 200 to 399 while the application is well; empty without.
        every_s: Time between two probes.
        timeout_s: After which a probe has failed.
        ready_s: How long the first good probe may take.
        waits_for_steady: Whether it is started at the end of the steady state, not before it.
        owns_terminal: Whether it reads and writes where the lab does, and not into a log.
    """

    name: str
    command: tuple[str, ...]
    probe: str = ""
    every_s: float = 0.1
    timeout_s: float = 1.0
    ready_s: float = 10.0
    waits_for_steady: bool = False
    owns_terminal: bool = False


Load = Writers | Readers | Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """What must hold before the first fault, for `hold_s` without a break."""

    within_s: float = 20.0
    hold_s: float = 2.0
    that: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """So long after the steady state."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """So long after a moment of another entry; `LAST` for all entries."""

    name: str
    moment: str
    plus_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """As soon as an expression holds, at most so long after the entry before was made."""

    expression: Expression
    within_s: float


Instant = At | After | When


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the timeline.

    Attributes:
        name: By which others name it.
        do: A kind of fault, or an action.
        instant: When.
        where: On what; None for actions that say it otherwise.
        length_s: How long a fault stands; None: until the end.
        spec: The fault; None for an action.
        given: The fault's own words, as `fault_injection.kinds.spec` takes them.
        details: What an action is told.
    """

    name: str
    do: str
    instant: Instant
    where: Target | None = None
    length_s: float | None = None
    spec: FaultSpec | None = None
    given: Mapping[str, object] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, Target] = field(default_factory=dict)
    partition: TopicPartition | None = None

    @property
    def is_fault(self) -> bool:
        """Whether it breaks something."""
        return self.do in KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """As soon as a command of the load has ended."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """When the load ends: so long after a moment or the steady state, or with a command."""

    instant: At | After | Exit = field(default_factory=lambda: After(name=LAST, moment="healed"))
    within_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What is held against the run."""

    that: Expression
    is_warning: bool = False
    aborts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole plan; `text` is the file as it was read."""

    name: str
    hypothesis: str = ""
    source: str = ""
    seed: int = 0
    cluster: ClusterNeed | Attach = field(default_factory=ClusterNeed)
    topics: tuple[Topic, ...] = ()
    load: tuple[Load, ...] = ()
    steady: Steady = field(default_factory=Steady)
    timeline: tuple[Entry, ...] = ()
    end: End = field(default_factory=End)
    objectives: tuple[Objective, ...] = ()
    text: str = ""

    @property
    def faults(self) -> list[Entry]:
        """The entries that break something."""
        return [entry for entry in self.timeline if entry.is_fault]

    @property
    def writers(self) -> list[Writers]:
        """The producers."""
        return [load for load in self.load if isinstance(load, Writers)]
