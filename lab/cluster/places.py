"""Places of a cluster: nodes and log directories, by numbers that people see."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jbodlab.cli.lab_state import NodeState
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import DirectoryId

CONTROLLER = 0
"""The number of a place that is the controller; brokers begin with 1."""
CLUSTER = -1
"""The number of a place that is the whole cluster, for what its users lose."""
WORDS = {CONTROLLER: "controller", CLUSTER: "cluster"}


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """What a target is in a moment: a directory of a broker, or a whole node with directory 0."""

    broker: int
    directory: int = 0

    def __str__(self) -> str:
        if self.broker in WORDS:
            return WORDS[self.broker]
        return f"broker-{self.broker}" + (f"/dir-{self.directory}" if self.directory else "")


def places_of(brokers: Sequence[NodeState]) -> dict[DirectoryId, Place]:
    """Return the log directories of brokers by their ids, as far as they can be read."""
    found = {}
    for node in brokers:
        for number, path in enumerate(node.log_dirs, start=1):
            with contextlib.suppress(OSError, JbodlabError):
                one = meta_properties.read(PosixFileSystem(), Path(path)).directory_id
                if one is not None:
                    found[one] = Place(node.node_id, number)
    return found
