"""The cluster and the topics of a plan."""

from __future__ import annotations

import shlex
from typing import Any

from fault_injection.kinds import size_bytes
from jbodlab.config.node_config import read_values
from jbodlab.errors import ConfigError
from lab.cluster.disks import FOLDER, FUSE, KINDS, SIZED
from lab.cluster.limits import DISK_MB_MIN
from lab.rehearsal.document import Fields, one_of, text, texts, whole
from lab.rehearsal.known import BROKERS_MAX, DISKS_MAX, PARTITIONS_MAX, Known
from lab.rehearsal.plan import Attach, BrokerThere, ClusterNeed, Topic

MECHANISMS = ("auto", "preload", "loop", "fuse")
NO_SETTINGS: dict[str, str] = {}


def read_cluster(top: Fields) -> ClusterNeed | Attach:
    """Return the cluster that a plan wants, or takes."""
    cluster, attach = top.get("cluster"), top.get("attach")
    if cluster is not None and attach is not None:
        attach.wrong(
            "expected 'cluster', which starts one, or 'attach', which takes one that runs; got both"
        )
    if attach is not None:
        return _attach(Fields(attach))
    return ClusterNeed() if cluster is None else _cluster(Fields(cluster))


def _cluster(fields: Fields) -> ClusterNeed:
    brokers = fields.read("brokers", whole(1, BROKERS_MAX), 3)
    mechanism = fields.read("mechanism", one_of(*MECHANISMS), "auto")
    config = fields.read("config", _settings_of_nodes, NO_SETTINGS)
    disks = fields.get("disks")
    each, kind, size = 3, FUSE if mechanism == FUSE else FOLDER, 256 << 20
    if disks is not None:
        inner = Fields(disks)
        each = inner.read("each", whole(1, DISKS_MAX), 3)
        kind = inner.read("kind", one_of(*KINDS), kind)
        if "size" in inner and kind not in SIZED:
            disks.wrong(f"'size' is for disks of the kind {' or '.join(SIZED)}, a {kind} has none")
        if mechanism == FUSE and kind != FUSE:
            disks.wrong(f"the mechanism fuse needs disks of the kind fuse, and these are {kind}")
        size = inner.read("size", _size_of_a_disk, size)
        inner.done()
    fields.done()
    return ClusterNeed(
        brokers=brokers,
        disks=each,
        kind=kind,
        size_bytes=size,
        mechanism=mechanism,
        config=config,
    )


def _attach(fields: Fields) -> Attach:
    name = fields.read("cluster", text, "")
    bootstrap = fields.read("bootstrap", _addresses, "")
    if bool(name) == bool(bootstrap):
        fields.item.wrong(
            "expected either 'cluster', the name of one of `jbodlab up`, or 'bootstrap'"
        )
    controller_log = fields.read("controller_log", text, "")
    found = fields.get("brokers")
    brokers = []
    for key, item in (found.value if found and isinstance(found.value, dict) else {}).items():
        inner = Fields(item)
        if not key.isdecimal():
            item.wrong(f"expected the number of a broker, got {key!r}")
        brokers.append(
            BrokerThere(
                number=int(key) if key.isdecimal() else 0,
                log_dirs=inner.read("log_dirs", words, ()),
                pid=inner.read("pid", whole(2, 2**22), 0),
                output=inner.read("output", text, ""),
            )
        )
        inner.done()
    if found is not None and not isinstance(found.value, dict):
        found.wrong(f"expected a mapping of numbers to brokers, got {found.shown}")
    fields.done()
    return Attach(
        name=name,
        bootstrap=bootstrap,
        controller_log=controller_log,
        brokers=tuple(brokers),
    )


def read_topics(top: Fields, known: Known) -> tuple[Topic, ...]:
    """Return the topics that are made before the load; they are known from then on."""
    found = top.get("topics", needed=True)
    if found is None or not isinstance(found.value, dict):
        if found is not None and found.value is not None:
            found.wrong(f"expected a mapping of names to topics, got {found.shown}")
        return ()
    for name, item in found.value.items():
        fields = Fields(item)
        topic = Topic(
            name=name,
            partitions=fields.read("partitions", whole(1, PARTITIONS_MAX), 1),
            replicas=fields.read("replicas", whole(1, BROKERS_MAX), 1),
            config=fields.read("config", texts, {}),
        )
        known.add_topic(item, topic)
        fields.done()
    return tuple(known.topics.values())


def words(value: Any) -> tuple[str, ...]:
    """Return a list of words, written as such or as a shell would split them.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, str) and value.strip():
        return tuple(shlex.split(value))
    if isinstance(value, list) and value and not any(isinstance(x, dict | list) for x in value):
        return tuple(map(str, value))
    raise ValueError(f"expected a list of words, got {value!r:.60}")


def _addresses(value: Any) -> str:
    found = ",".join(value) if isinstance(value, list) else str(value)
    for address in found.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"expected HOST:PORT, got {address!r}")
    return found


def _settings_of_nodes(value: Any) -> dict[str, str]:
    found = texts(value)
    try:
        read_values(found)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return found


def _size_of_a_disk(value: Any) -> int:
    found = size_bytes(value)
    if found < DISK_MB_MIN << 20:
        raise ValueError(f"expected at least {DISK_MB_MIN}MiB for a disk, got {value!r}")
    return found
