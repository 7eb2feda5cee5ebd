"""Which place each log directory is, by its id."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from jbodlab.cli.lab_state import NodeState
from jbodlab.picture.places import Place
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import DirectoryId


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
