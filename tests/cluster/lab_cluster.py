"""The lab's cluster with what only tests and measurements ask of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self
from weakref import WeakKeyDictionary

from confluent_kafka.admin import AdminClient

from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary import properties
from lab import cluster as library
from lab.cluster import ClusterSpec, LogDir, Node
from lab.cluster.cluster import DEFAULT_SPEC
from lab.cluster.controllers_log import ControllersLog
from lab.cluster.node import STOP_DEADLINE_S
from lab.machine.ports import HeldPorts
from tests import secrets


class Disk(Protocol):
    """Disks that log directories lie on."""

    def close(self) -> None:
        """Give it back."""


_admins: WeakKeyDictionary[library.Cluster, AdminClient] = WeakKeyDictionary()


def admin_of(cluster: library.Cluster) -> AdminClient:
    """One client of librdkafka for the life of a cluster.

    Futures of a client that is collected would fail.
    """
    if cluster not in _admins:
        _admins[cluster] = AdminClient({**cluster.client_config, "log_level": 0})
    return _admins[cluster]


class Cluster(library.Cluster):
    """A cluster of tests.

    Attributes:
        disks: Disks that were made for directories, by the directory; empty for plain folders.
    """

    _metadata: ControllersLog | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.disks: dict[Path, Disk] = {}

    def admin(self) -> AdminClient:
        """As `admin_of`."""
        return admin_of(self)

    @classmethod
    @contextlib.contextmanager
    def running(
        cls, root: Path, spec: ClusterSpec = DEFAULT_SPEC, **options: Any
    ) -> Iterator[Self]:
        """A started cluster that is gone afterwards, whatever happened."""
        cluster = cls.plan(root, spec, **options)
        try:
            cluster.make(spec.properties)
            cluster.start()
            yield cluster
        finally:
            cluster.close()

    def make(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        disk: Callable[[Path], Disk] | None = None,
    ) -> Self:
        """Make all folders, disks and property files, and format the directories."""
        self.make_folders(settings)
        if disk is not None:
            for path in (path for broker in self.brokers for path in broker.paths):
                self.disks[path] = disk(path.parent)
        self.make_directories()
        return self

    def close(self) -> None:
        """End everything at once and remove it, disks first; no log may show a secret."""
        with contextlib.ExitStack() as stack:
            stack.callback(super().close)
            # Before all is gone.
            stack.callback(self.check_logs)
            if self.disks:
                self.heal()
                self.kill()
            while self.disks:
                self.disks.popitem()[1].close()

    def check_logs(self) -> None:
        """Fail where a node has logged a secret."""
        for node in self.nodes.values():
            secrets.check(f"the log of {node}", [node.output()])

    def node(self, node_id: int) -> Node:
        """Return a node; the controller's id is `spec.CONTROLLER_ID`."""
        return self.nodes[node_id]

    def log_dir_at(self, path: Path) -> LogDir:
        """Return the log directory of one of the brokers with this path."""
        for broker in self.brokers:
            if broker.folder in path.parents or path in broker.paths:
                found = (one for one in broker.log_dirs if one.path == path)
                return next(found, None) or LogDir(path, self.faults, broker.target_node)
        raise AssertionError(f"no broker of {self} has the directory {path}")

    def more_ports(self, count: int) -> tuple[int, ...]:
        """Return further ports that are held as long as those of the nodes."""
        held = HeldPorts.hold(count)
        self._ports.append(held)
        return held.numbers

    def isr(self, topic: str) -> dict[int, set[int]]:
        """Return the ISR of each partition of a topic."""
        return {index: set(found.isr) for index, found in self.partitions(topic).items()}

    def hide_credentials(self) -> None:
        """Have salts and keys of all users of the metadata looked for in the logs."""
        for record in self.image().security.scram.values():
            for each in (record.salt, record.stored_key, record.server_key):
                secrets.secret_bytes(each)

    def image(self) -> MetadataImage:
        """The metadata as the controller's disk has it, snapshots included."""
        if self._metadata is None:
            self._metadata = ControllersLog(self.controller.metadata_dir / METADATA_DIR_NAME)
        return self._metadata.image()


def run_to_end(node: Node, deadline_s: float = STOP_DEADLINE_S) -> tuple[int, str]:
    """Start a node that cannot run; its exit code and its last line."""
    before = len(node.output())
    node.start()
    code = node.wait_ended(deadline_s)
    lines = [line for line in node.output()[before:].splitlines() if line.strip()]
    return code, lines[-1] if lines else ""


def set_property(node: Node, key: str, value: str) -> None:
    """Change a setting; it counts from the next start."""
    known = properties.parse(node.properties_file.read_text("utf-8"))
    node.properties_file.write_text(properties.render({**known, key: value}), "utf-8")
