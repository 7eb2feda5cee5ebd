"""The file `quorum-state`: the leader epoch that this node has seen, and whom it voted for.

One line of JSON, replaced atomically. The level of kraft.version that the log has at that moment
is the `data_version`. At level 0 the directory of the vote is not kept (KAFKA-16526), and
`currentVoters` is for humans:

    {"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,
     "currentVoters":[{"voterId":1}],"data_version":0}
    {"leaderId":-1,"leaderEpoch":2,"votedId":3,"votedDirectoryId":"b4d9ExdORgaQq38CyHwWTA",
     "data_version":1}

Source: `org.apache.kafka.raft.FileQuorumStateStore`.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary import directory_id, kafka_uuid
from jbodlab.vocabulary.errors import CorruptRecordError
from jbodlab.vocabulary.ids import DirectoryId

FILE_NAME = "quorum-state"
DATA_VERSION_MAX = 1
UNKNOWN = -1


class QuorumState(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file; ids are -1 when unknown.

    Attributes:
        voted_directory_id: Zero when unknown, and always with data version 0.
        voters: Node ids; empty with data version 1.
    """

    leader_id: int = UNKNOWN
    leader_epoch: int = 0
    voted_id: int = UNKNOWN
    voted_directory_id: DirectoryId = directory_id.MIGRATING
    voters: tuple[int, ...] = ()
    data_version: int = 0


def encode_quorum_state(state: QuorumState) -> bytes:
    """Return the bytes of the file."""
    content: dict[str, object] = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
    }
    if state.data_version == 0:
        content = {
            "clusterId": "",
            **content,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in state.voters],
        }
    else:
        content["votedDirectoryId"] = kafka_uuid.to_text(state.voted_directory_id)
    content["data_version"] = state.data_version
    return json.dumps(content, separators=(",", ":")).encode()


def decode_quorum_state(data: bytes) -> QuorumState:
    """Return the content of the file.

    Raises:
        ValueError: the file is malformed, or of a version that is not known: what it says about a
            vote might be lost (KAFKA-15412).
    """
    try:
        content = json.loads(data)
        version = int(content["data_version"])
        if not 0 <= version <= DATA_VERSION_MAX:
            raise ValueError(f"data_version {version} is not known")
        voted = kafka_uuid.parse(content["votedDirectoryId"]) if version else directory_id.MIGRATING
        return QuorumState(
            leader_id=int(content["leaderId"]),
            leader_epoch=int(content["leaderEpoch"]),
            voted_id=int(content["votedId"]),
            voted_directory_id=DirectoryId(voted),
            voters=tuple(int(voter["voterId"]) for voter in content.get("currentVoters") or ()),
            data_version=version,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(repr(error)) from error


def write_quorum_state(
    directory: Path, state: QuorumState, *, fs: FileSystem | None = None
) -> None:
    """Replace the file in the directory of the metadata log; durable at return."""
    (fs or PosixFileSystem()).write_atomically(directory / FILE_NAME, encode_quorum_state(state))


def read_quorum_state(directory: Path, *, fs: FileSystem | None = None) -> QuorumState | None:
    """Return the content of the file, None if there is none.

    Raises:
        CorruptRecordError: the file is malformed, or of a version that is not known.
    """
    path = directory / FILE_NAME
    fs = fs or PosixFileSystem()
    if not fs.exists(path):
        return None
    try:
        return decode_quorum_state(fs.read_bytes(path))
    except ValueError as error:
        raise CorruptRecordError(path, 0, f"not a quorum state: {error}") from error
