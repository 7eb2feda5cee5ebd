"""Content of a plan, as values; `reader` makes them of a file.

Instants are seconds from the end of the steady state, lengths are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct, field, structs

from fault_injection.kinds import KINDS, FaultSpec
from jbodlab.vocabulary.expressions import MetricUnit
from lab.cluster.engine import Engine, EngineError
from lab.cluster.spec import DEFAULTS, SETTINGS, ClusterSpec, Form, Setting
from lab.machine.disk_kinds import FOLDER, FUSE, SIZED
from lab.machine.kafka_jars import RELEASE
from lab.plan.targets import Target
from lab.plan.values import parse_rate
from lab.plan.vocabulary import OF_CHANGES, OF_COMMAND, OF_READERS, OF_STREAMS, OF_WRITERS
from lab.plan.written import (
    RATE_MAX,
    Addresses,
    Condition,
    DiskBytes,
    LongerThanZero,
    MessageBytes,
    NodeSettings,
    Probe,
    Rate,
    Release,
    Seconds,
    Settings,
    Text,
    Words,
    one_of,
    written,
)

BROKERS_MAX, DISKS_MAX = SETTINGS["brokers"].most, SETTINGS["disks"].most
PARTITIONS_MAX = 1000

MOMENTS = ("injected", "proved", "detected", "reported", "elected", "first_ack", "healed")
"""Moments of an entry that another one may come after."""
LAST = "last"
"""In place of a name: all entries of the timeline; to an entry itself, those above it."""


class Keys(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of a plan: its fields are the keys, and there are no others."""


def _form(name: str, one: Setting) -> Any:
    """Return the type of a setting of a cluster as plans write it."""
    match one.form:
        case Form.NUMBER:
            return Annotated[int, Meta(ge=1, le=one.most)]
        case Form.WORD:
            return Annotated[str, one_of(*(one.words_of_plan or one.words))]
        case Form.SIZE:
            return DiskBytes | None
        case Form.SETTINGS:
            return NodeSettings
        case Form.FLAG:
            return bool
        case Form.TEXT | Form.ENGINE:
            return Text
    raise AssertionError(f"plans have no setting such as {name}")


def _keys_of_clusters() -> Any:
    """Return the keys below `cluster`: those of the settings, by their groups."""
    groups: dict[str, list[tuple[str, Any, Any]]] = {"": []}
    for name, one in SETTINGS.items():
        if one.key:
            group, _, key = one.key.rpartition(".")
            # Where a plan says nothing, the engine and the size follow from something else.
            default = {Form.SIZE: None, Form.ENGINE: ""}.get(one.form, DEFAULTS[name])
            keys = groups.setdefault(group, [])
            keys.append((name, _form(name, one), field(name=key, default=default)))
    for group in [name for name in groups if name]:
        inner = msgspec.defstruct(group.title(), groups[group], bases=(Keys,), frozen=True)
        groups[""].append((group, inner, field(name=group, default=inner())))
    # A fault of several keys together is told where the mapping begins.
    checks = {"__post_init__": lambda keys: cluster_of(keys) and None}
    return msgspec.defstruct(
        "ClusterKeys", groups[""], bases=(Keys,), namespace=checks, frozen=True
    )


DISK_MB = 256
"""The size of a disk of a plan that does not say one."""


def cluster_of(keys: Keys) -> ClusterSpec:
    """Return the cluster that is started for a rehearsal, and gone afterwards.

    Raises:
        ValueError: its keys do not fit each other.
    """
    found: dict[str, Any] = {}
    values = [getattr(keys, each.name) for each in structs.fields(keys)]
    for value in [keys, *(each for each in values if isinstance(each, Keys))]:
        found |= {each.name: getattr(value, each.name) for each in structs.fields(value)}
    size, mechanism = found["disk_mb"], found["mechanism"]
    kind = found["disk_kind"] or (FUSE if mechanism == FUSE else FOLDER)
    try:
        engine = Engine.parse(found["engine"]) if found["engine"] else None
    except EngineError as error:
        raise ValueError(str(error)) from None
    if size is not None and kind not in SIZED:
        kinds = " or ".join(SIZED)
        raise ValueError(f"'size' is for disks of the kind {kinds}, a {kind} has none")
    if mechanism == FUSE != kind:
        raise ValueError(f"the mechanism fuse needs disks of the kind fuse, and these are {kind}")
    made = {"disk_kind": kind, "engine": engine, "disk_mb": DISK_MB if size is None else size >> 20}
    return ClusterSpec(**{name: found[name] for name in SETTINGS if name in found} | made)


if TYPE_CHECKING:
    ClusterKeys = Keys
else:
    ClusterKeys = _keys_of_clusters()


class AttachedBroker(Keys, frozen=True, kw_only=True):
    """Facts about a broker that somebody else started; missing ones are empty."""

    log_dirs: Words = ()
    pid: Annotated[int, Meta(ge=2, le=2**22)] = 0
    output: Text = ""


class Attach(Keys, frozen=True, kw_only=True):
    """A cluster that is there: one of `jbodlab up` by its name, or any by its addresses.

    Attributes:
        brokers: Facts about them, by their numbers.
    """

    cluster: Text = ""
    bootstrap: Addresses = ""
    controller_log: Text = ""
    brokers: dict[str, AttachedBroker] = {}

    def __post_init__(self) -> None:
        if bool(self.cluster) == bool(self.bootstrap):
            raise ValueError(
                "expected either 'cluster', the name of one of `jbodlab up`, or 'bootstrap'"
            )
        for number in self.brokers:
            if not number.isdecimal():
                raise ValueError(f"expected the number of a broker, got {number!r}")


class TopicKeys(Keys, frozen=True, kw_only=True):
    """Keys of a topic that the rehearsal makes, under its name."""

    partitions: Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)] = 1
    replicas: Annotated[int, Meta(ge=1, le=BROKERS_MAX)] = 1
    config: Settings = {}


class Topic(TopicKeys, frozen=True, kw_only=True):
    """A topic with its name."""

    name: str


class Writers(Keys, frozen=True, kw_only=True):
    """A producer: an unmodified client that sends by a schedule.

    Attributes:
        rate: Messages a second, over all partitions.
        idempotent: None: as `acks` allow.
        transactional: Whether messages are acknowledged by the commits of transactions.
        commit_s: How long a transaction takes messages before its commit.
        client: Further settings of the client library.
    """

    metrics: ClassVar[Mapping[str, MetricUnit]] = OF_WRITERS
    name: Text = "writers"
    topic: Text
    rate: Rate
    size_bytes: MessageBytes = field(default=100, name="size")
    acks: Annotated[str, one_of("all", "-1", "1", "0")] = "all"
    idempotent: bool | None = None
    transactional: bool = False
    commit_s: LongerThanZero | None = field(default=None, name="commit")
    keys: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    client: Settings = {}

    def __post_init__(self) -> None:
        if isinstance(self.rate, str):
            structs.force_setattr(self, "rate", parse_rate(self.rate, self.size_bytes))
        if self.rate > RATE_MAX:
            raise ValueError(
                f"expected a rate of at most {RATE_MAX} messages a second, got {self.rate:.0f}"
            )
        if self.acks == "0":
            raise ValueError("acks: 0 acknowledges nothing, so nothing could be judged")
        if self.idempotent and self.acks == "1":
            raise ValueError(f"an idempotent producer needs acks: all, got {self.acks}")
        if self.transactional and not self.is_idempotent:
            raise ValueError("a transactional producer is idempotent and needs acks: all")
        if self.commit_s is not None and not self.transactional:
            raise ValueError("'commit' goes with 'transactional' only")

    @property
    def transactional_id(self) -> str:
        """By which the coordinator knows it."""
        return f"jbodlab-rehearsal-{self.name}"

    @property
    def is_idempotent(self) -> bool:
        """Whether the broker drops what the client sends twice."""
        return self.acks != "1" if self.idempotent is None else self.idempotent


class Readers(Keys, frozen=True, kw_only=True):
    """A consumer: by its partitions, or as member of a group where one is named."""

    metrics: ClassVar[Mapping[str, MetricUnit]] = OF_READERS
    name: Text = "readers"
    topic: Text
    group: Text = ""
    isolation: Annotated[str, one_of("read_uncommitted", "read_committed")] = "read_uncommitted"
    client: Settings = {}


class Command(Keys, frozen=True, kw_only=True):
    """The user's own application, as a client like others.

    Attributes:
        command: Program and arguments; `{bootstrap}` and `{topic:NAME}` are filled in.
        probe: An address that answers 200 to 399 while the application is well; empty without.
        every_s: Time between two probes.
        timeout_s: After which a probe has failed.
        ready_s: How long the first good probe may take.
        is_foreground: Whether it is started at the end of the steady state, not before it, and
            reads and writes where the lab does, not into a log.
    """

    metrics: ClassVar[Mapping[str, MetricUnit]] = OF_COMMAND
    name: Text = "app"
    command: Words
    probe: Probe = ""
    every_s: LongerThanZero = field(default=0.1, name="every")
    timeout_s: LongerThanZero = field(default=1.0, name="timeout")
    ready_s: LongerThanZero = field(default=10.0, name="ready")
    is_foreground: ClassVar[bool] = False


class ForegroundCommand(Command, frozen=True, kw_only=True):
    """The program of `jbodlab run`."""

    is_foreground: ClassVar[bool] = True


class Streams(Keys, frozen=True, kw_only=True):
    """An application of Kafka Streams, with `exactly_once_v2` unless its settings say otherwise.

    `word-count` counts the words of the messages of producers in a store, and writes each count
    that has changed.

    Attributes:
        streams: Which one it is.
        source: The topic that it reads.
        target: The topic that it writes.
        release: Of Kafka Streams.
        client: Further settings of Kafka Streams.
    """

    metrics: ClassVar[Mapping[str, MetricUnit]] = OF_STREAMS
    name: Text = "words"
    streams: Annotated[str, one_of("word-count")]
    source: Text = field(name="from")
    target: Text = field(name="to")
    release: Release = RELEASE
    client: Settings = {}

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise ValueError(f"expected two topics, got {self.source} in both")

    @property
    def application_id(self) -> str:
        """How its transactional ids begin, and the names of its group and its topics."""
        return f"jbodlab-rehearsal-{self.name}"


class Changes(Keys, frozen=True, kw_only=True):
    """A writer of metadata: it changes a setting of a topic again and again.

    Attributes:
        changes: The topic.
        every_s: Time between two changes.
        timeout_s: After which a change without an answer is given up.
    """

    metrics: ClassVar[Mapping[str, MetricUnit]] = OF_CHANGES
    name: Text = "controller"
    changes: Text
    every_s: LongerThanZero = field(default=0.2, name="every")
    timeout_s: LongerThanZero = field(default=1.0, name="timeout")


Load = Writers | Readers | Command | Streams | Changes


class Steady(Keys, frozen=True, kw_only=True):
    """Conditions that must hold before the first fault, for `hold_s` without a break."""

    within_s: LongerThanZero = field(default=20.0, name="within")
    hold_s: Seconds = field(default=2.0, name="hold")
    that: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        if self.hold_s > self.within_s:
            raise ValueError(
                f"expected hold <= within, got {self.hold_s:g} s and {self.within_s:g} s"
            )


class At(Struct, frozen=True, kw_only=True):
    """So long after the steady state."""

    seconds: float


class After(Struct, frozen=True, kw_only=True):
    """So long after a moment of another entry; `LAST` for all entries."""

    name: str
    moment: str
    plus_s: float = 0.0


def read_moment(value: object) -> After:
    """Return a moment of an entry, such as `first.healed`.

    Raises:
        ValueError: it is not written so.
    """
    name, _, moment = str(value).rpartition(".")
    if moment not in MOMENTS:
        moments = ", ".join(MOMENTS)
        raise ValueError(f"expected NAME.MOMENT with a moment of {moments}, got {value!r}")
    return After(name=name, moment=moment)


class When(Struct, frozen=True, kw_only=True):
    """As soon as an expression holds, at most so long after the entry before was made."""

    expression: Condition
    within_s: float


Instant = At | After | When


Moment = Annotated[Any, written(read_moment, "string", examples=["first.healed"])]


class Repeat(Keys, frozen=True, kw_only=True):
    """How often an entry is carried out."""

    times: Annotated[int, Meta(ge=2, le=100)]
    every_s: LongerThanZero = field(name="every")


class EntryKeys(Keys, frozen=True, kw_only=True):
    """The keys that all entries of the timeline have."""

    name: Text = field(default="", name="as")
    at_s: Seconds | None = field(default=None, name="at")
    after: Moment | None = None
    when: Condition | None = None
    plus_s: Seconds | None = field(default=None, name="plus")
    within_s: LongerThanZero | None = field(default=None, name="within")
    repeat: Repeat | None = None

    def __post_init__(self) -> None:
        instants = {"at": self.at_s, "after": self.after, "when": self.when}
        given = [key for key, value in instants.items() if value is not None]
        if len(given) != 1:
            which = " and ".join(map(repr, given)) if given else "none"
            raise ValueError(f"expected one of 'at', 'after', 'when', got {which}")
        if self.plus_s is not None and not self.after:
            raise ValueError("'plus' goes with 'after' only")
        if self.within_s is not None and not self.when:
            raise ValueError("'within' goes with 'when' only")


class Entry(Struct, frozen=True, kw_only=True):
    """One line of the timeline.

    Attributes:
        name: By which others name it.
        do: A kind of fault, or an action.
        instant: When.
        where: On what; None for actions that say it otherwise.
        length_s: How long a fault lasts; None: until the end.
        spec: The fault; None for an action.
        given: The fault's own keys, as `fault_injection.kinds.spec` takes them.
        other: The second directory of a fault.
        details: The keys of an action.
    """

    name: str
    do: str
    instant: Instant
    where: Target | None = None
    length_s: float | None = None
    spec: FaultSpec | None = None
    given: Mapping[str, object] = {}
    other: Target | None = None
    details: Mapping[str, Any] = {}

    @property
    def is_fault(self) -> bool:
        """Whether it breaks something."""
        return self.do in KINDS


class Exit(Struct, frozen=True, kw_only=True):
    """As soon as a command of the load has ended."""

    name: str


class End(Struct, frozen=True, kw_only=True):
    """When the load ends: so long after a moment or the steady state, or with a command."""

    instant: At | After | Exit = After(name=LAST, moment="healed")
    within_s: float = 600.0


class Objective(Keys, frozen=True, kw_only=True):
    """A condition that the run is judged by."""

    that: Condition
    severity: Annotated[str, one_of("fail", "warn")] = "fail"
    aborts: bool = field(default=False, name="abort")

    @property
    def is_warning(self) -> bool:
        """Whether the run passes without it."""
        return self.severity == "warn"


class Plan(Struct, frozen=True, kw_only=True):
    """A whole plan; `text` is the file as it was read."""

    name: str
    hypothesis: str = ""
    source: str = ""
    seed: int = 0
    cluster: ClusterSpec | Attach = cluster_of(ClusterKeys())
    topics: tuple[Topic, ...] = ()
    load: tuple[Load, ...] = ()
    steady: Steady = Steady()
    timeline: tuple[Entry, ...] = ()
    end: End = End()
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

    @property
    def streams(self) -> list[Streams]:
        """The applications of Kafka Streams."""
        return [load for load in self.load if isinstance(load, Streams)]

    @property
    def transactional_ids(self) -> dict[str, str]:
        """The ids of the transactional producers, by their names."""
        return {one.name: one.transactional_id for one in self.writers if one.transactional}

    @property
    def has_transactions(self) -> bool:
        """Whether anybody of the load has any."""
        return bool(self.transactional_ids or self.streams)
