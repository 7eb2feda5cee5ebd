"""A log directory of a node, as the file system shows it, and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fault_injection import kinds, operations
from fault_injection.mechanism import Target, TargetBroker
from jbodlab.storage.directory import meta_properties, names
from jbodlab.storage.directory.names import DirKind
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.ids import DirectoryId, TopicPartition
from lab.cluster.faults import Fault, Faults
from lab.errors import LabError


class LogDir:
    """One entry of `log.dirs`.

    Attributes:
        path: Where it lies.
    """

    def __init__(self, path: Path, faults: Faults, target_node: Callable[[], TargetBroker]) -> None:
        self.path = path
        self._faults = faults
        self._target_node = target_node

    def __repr__(self) -> str:
        return f"log directory {self.path}"

    @property
    def id(self) -> DirectoryId:
        """The id in its `meta.properties`.

        Raises:
            LabError: it has none.
        """
        found = meta_properties.read(PosixFileSystem(), self.path).directory_id
        if found is None:
            raise LabError(f"{self} has no id")
        return found

    def replicas(self) -> dict[TopicPartition, Path]:
        """Return the folders of the current replicas in it."""
        found = {}
        for path in self.path.iterdir():
            if path.name == names.METADATA_DIR_NAME or not path.is_dir():
                continue
            try:
                parsed = names.parse_partition_dir(path.name)
            except ValueError:
                continue
            if parsed.kind is DirKind.CURRENT:
                found[parsed.topic_partition] = path
        return found

    def fails(self, kind: str = "permission", **parameters: Any) -> Fault:
        """Break it; the fault heals at the end of a `with` block, by `heal`, or after its length.

        Args:
            kind: One of the injector's kinds.
            parameters: The keys that the kind accepts (`fault_injection.kinds`); a Python
                keyword such as `for` is written with a `_` behind it.

        Raises:
            FaultError: refused, or it had no effect and was reverted.
        """
        words = {key.removesuffix("_"): value for key, value in parameters.items()}
        return self._faults.inject(kinds.spec(kind, words), self.target())

    def target(self) -> Target:
        """Return it as the target of a fault.

        Raises:
            FaultError: only root could prove a fault as the servers' user.
        """
        return operations.directory_target(str(self.path), None, self._target_node())
