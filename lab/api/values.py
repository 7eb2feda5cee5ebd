"""Values that the API takes and gives; each is a schema of its OpenAPI document by its name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fault_injection.kinds import KINDS, PARAMETERS
from lab.cluster.spec import DEFAULTS, SETTINGS, Form

Duration = Annotated[
    str,
    Meta(
        description="A length such as `500ms`, `20s` or `1m`, up to ten minutes.",
        pattern=r"^([0-9]{1,3}s|[0-9]{1,6}ms|[0-9]m|10m)$",
    ),
]
Place = Annotated[
    str,
    Meta(
        description="A target: `broker-1/2` (the second log directory of broker 1), `broker-1`, "
        "`controller-100`, `controller-100/1`, `leader of orders-0` or `follower of orders-0` (the "
        "directory with that replica), or `cluster`.",
        max_length=400,
    ),
]
Name = Annotated[str, Meta(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._-]+$")]
Index = Annotated[int, Meta(ge=0, le=2_147_483_647)]
Losing = Annotated[str, Meta(max_length=100, pattern=r"^[A-Za-z0-9/._:-]+$")]
Client = Annotated[str, Meta(pattern="^(librdkafka|java|kafka_python|franz_go)$")]
User = Annotated[str, Meta(pattern="^(alice|admin|mallory)$")]


class Problem(Struct, kw_only=True, omit_defaults=True):
    """Why a request was not carried out (RFC 9457).

    Attributes:
        type: Kind of the problem, below `urn:jbodlab:`.
        title: The same for every problem of this kind.
        status: The HTTP status.
        detail: The reason why this request is refused, in one line.
    """

    type: str
    title: str
    status: int
    detail: str = ""


class Health(Struct, kw_only=True):
    """State of the cluster in one word: `ok`, `degraded`, or `starting`."""

    status: str
    problems: list[str]


class Cluster(Struct, kw_only=True):
    """The cluster.

    Attributes:
        bootstrap: `bootstrap.servers` on this machine.
        advertised: The same for clients elsewhere; empty where nothing is advertised.
        id: Empty for a cluster of somebody else.
        spec: Settings that it was made from, by their names.
    """

    name: str
    id: str
    bootstrap: str
    advertised: str
    engine: str
    spec: dict[str, Any]


class Replica(Struct, kw_only=True):
    """A replica in a log directory."""

    topic: str
    partition: int
    bytes: int
    leads: bool


class Directory(Struct, kw_only=True):
    """A log directory.

    Attributes:
        place: Its name, such as `broker-1/2`.
        id: The id in its `meta.properties`; empty where that cannot be read.
        state: `online`, `offline`, or `unknown` where its broker does not answer.
        conditions: Such as `FULL` and `SLOW`.
        total, usable: Bytes of its disk; -1 where they are not known.
    """

    place: str
    broker: int
    number: int
    path: str
    id: str
    state: str
    conditions: list[str]
    cause: str
    bytes: int
    total: int
    usable: int
    replicas: list[Replica]


class Broker(Struct, kw_only=True):
    """A broker.

    Attributes:
        state: `serving`, `fenced` or `silent`.
        pid: Id of its process; null where it does not run, or not on this machine.
    """

    id: int
    address: str
    state: str
    running: bool
    pid: int | None
    leaders: int
    directories: list[Directory]


class Controller(Struct, kw_only=True):
    """A controller.

    Attributes:
        role: `active` or `standby`; null where it does not run, or no broker tells.
        pid: Id of its process; null where it does not run.
    """

    id: int
    address: str
    role: str | None
    running: bool
    pid: int | None


class PartitionReplica(Struct, kw_only=True):
    """A replica of a partition.

    Attributes:
        directory: Place of its log directory; empty where that cannot be seen.
        bytes: Null where they cannot be seen.
        eligible: Whether it is an eligible leader replica, where that is known.
        offline: Whether it may not lead, as its broker or its directory is offline.
    """

    broker: int
    directory: str
    bytes: int | None
    leads: bool
    in_sync: bool
    eligible: bool
    offline: bool


class Partition(Struct, kw_only=True):
    """A partition.

    Attributes:
        state: `in sync`, `under-replicated` or `no leader`.
        leader: A broker; -1 where there is none.
    """

    topic: str
    partition: int
    state: str
    leader: int
    isr: list[int]
    replicas: list[PartitionReplica]


class Topic(Struct, kw_only=True):
    """A topic with its partitions."""

    name: str
    partitions: list[Partition]


class NewTopic(Struct, kw_only=True, forbid_unknown_fields=True):
    """A topic that shall be created; `replicas` is at most the number of brokers."""

    name: Name
    partitions: Annotated[int, Meta(ge=1, le=1000)] = 1
    replicas: Annotated[int, Meta(ge=1, le=20)] = 3
    config: dict[str, str] = {}


class Broken(Struct, kw_only=True):
    """Effects of a fault so far: how many calls, files, processes or requests it broke."""

    count: int
    text: str


class Fault(Struct, kw_only=True):
    """A fault.

    Attributes:
        where: Its place.
        state: Such as `proved` (it is in effect) and `healed`.
        since: When it took effect, in UTC.
        length_s: It heals by itself after so long; null: it does not.
    """

    id: int
    kind: str
    where: str
    mechanism: str
    path: str
    state: str
    open: bool
    since: str
    length_s: float | None
    broken: Broken


class Healed(Struct, kw_only=True):
    """Result of healing: faults by their ids, directories that came back, brokers that started."""

    healed: list[int]
    revived: list[str]
    started: list[str]


class Waited(Struct, kw_only=True):
    """The awaited state has come, after so many seconds of the request."""

    waited_s: float


class Kind(Struct, kw_only=True):
    """A kind of fault, with the keys that it takes besides `kind`, `where` and `for`."""

    name: str
    meaning: str
    scope: str
    keys: list[str]


class NewRehearsal(Struct, kw_only=True, forbid_unknown_fields=True):
    """A plan that shall be run: a shipped one by its name, or a plan of one's own.

    Attributes:
        plan: Name of a shipped plan, or the plan as YAML text or as an object.
        engine: The engine of its cluster, where that is not this server's.
    """

    plan: Annotated[str, Meta(min_length=1, max_length=200_000)] | dict[str, Any]
    engine: Annotated[str, Meta(max_length=300)] = ""


class Rehearsal(Struct, kw_only=True):
    """A run of a plan.

    Attributes:
        state: `running`, `ended` or `cancelled`.
        progress: Lines that it printed so far.
        result: Verdict, findings and figures, as in `result.json`; null before its end.
    """

    id: int
    plan: str
    state: str
    exit_code: int | None
    progress: list[str]
    result: dict[str, Any] | None


class ClientConfig(Struct, kw_only=True):
    """Settings by which a client reaches the cluster."""

    client: str
    config: dict[str, Any]


_VALUE = str | float | bool | list[str] | None
NewFault = msgspec.defstruct(
    "NewFault",
    [
        ("kind", Literal[tuple(KINDS)]),
        ("where", Place),
        (
            "even_last_in_sync",
            Annotated[
                bool,
                Meta(description="Break the last replica in sync of a partition, too."),
            ],
            False,
        ),
        *(
            (
                f"{key}_" if key in ("for", "with", "from") else key,
                Annotated[_VALUE, Meta(description=f"{meaning[0].upper()}{meaning[1:]}.")],
                None,
            )
            for key, (_, meaning) in PARAMETERS.items()
        ),
    ],
    kw_only=True,
    forbid_unknown_fields=True,
    rename={f"{key}_": key for key in ("for", "with", "from")},
    namespace={"__doc__": "A fault that shall be made; its keys depend on its kind."},
    module=__name__,
)
"""A fault that is wanted, with the keys of its kind (`fault_injection.kinds`)."""

_TYPES: dict[Form, Any] = {
    Form.NUMBER: int,
    Form.PORT: int,
    Form.SIZE: int | str,
    Form.FLAG: bool,
    Form.SETTINGS: dict[str, str],
}
NewCluster = msgspec.defstruct(
    "NewCluster",
    [
        (name, Annotated[_TYPES.get(one.form, str) | UnsetType, Meta(description=one.help)], UNSET)
        for name, one in SETTINGS.items()
        if name in DEFAULTS and one.form is not Form.USER
    ],
    kw_only=True,
    forbid_unknown_fields=True,
    namespace={"__doc__": "A cluster that shall take the place of this one, by its settings."},
    module=__name__,
)
"""Settings of a cluster (`lab.cluster.spec`); those that are missing have their defaults."""
