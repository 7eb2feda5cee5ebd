"""The file `quorum-state`: the leader epoch that this node has seen, and whom it voted for.

One line of JSON, replaced atomically. With a static quorum (`data_version` 0):

    {"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,
     "currentVoters":[{"voterId":1}],"data_version":0}

Source: `org.apache.kafka.raft.FileQuorumStateStore`.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import CorruptRecordError

FILE_NAME = "quorum-state"
DATA_VERSION = 0
UNKNOWN = -1


class QuorumState(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file; ids are -1 when unknown."""

    leader_id: int = UNKNOWN
    leader_epoch: int = 0
    voted_id: int = UNKNOWN
    voters: tuple[int, ...] = ()


def write_quorum_state(
    directory: Path, state: QuorumState, *, fs: FileSystem | None = None
) -> None:
    """Replace the file in the directory of the metadata log; durable at return."""
    content = {
        "clusterId": "",
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in state.voters],
        "data_version": DATA_VERSION,
    }
    text = json.dumps(content, separators=(",", ":"))
    (fs or PosixFileSystem()).write_atomically(directory / FILE_NAME, text.encode())


def read_quorum_state(directory: Path, *, fs: FileSystem | None = None) -> QuorumState | None:
    """Return the content of the file, None if there is none.

    Raises:
        CorruptRecordError: the file is malformed.
    """
    path = directory / FILE_NAME
    fs = fs or PosixFileSystem()
    if not fs.exists(path):
        return None
    try:
        content = json.loads(fs.read_bytes(path))
        return QuorumState(
            leader_id=int(content["leaderId"]),
            leader_epoch=int(content["leaderEpoch"]),
            voted_id=int(content["votedId"]),
            voters=tuple(int(voter["voterId"]) for voter in content.get("currentVoters") or ()),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptRecordError(path, 0, f"not a quorum state: {error!r}") from error
