"""The file quorum-state."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.metadata.log.quorum_state import (
    QuorumState,
    decode_quorum_state,
    encode_quorum_state,
    read_quorum_state,
    write_quorum_state,
)
from jbodlab.vocabulary import directory_id, kafka_uuid
from jbodlab.vocabulary.errors import CorruptRecordError
from jbodlab.vocabulary.ids import DirectoryId


def test_file_is_kafkas(tmp_path: Path) -> None:
    state = QuorumState(leader_id=1, leader_epoch=2, voters=(1,))

    write_quorum_state(tmp_path, state)

    assert (tmp_path / "quorum-state").read_text() == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert read_quorum_state(tmp_path) == state
    assert [path.name for path in tmp_path.iterdir()] == ["quorum-state"]


def test_missing_file_is_no_state(tmp_path: Path) -> None:
    assert read_quorum_state(tmp_path) is None


DIRECTORY = DirectoryId(kafka_uuid.parse("b4d9ExdORgaQq38CyHwWTA"))
VOTES = [(5, -1, 2, DIRECTORY), (6, 3, 2, DIRECTORY), (7, -1, -1, directory_id.MIGRATING)]
"""Epoch, leader, and the node and directory that the vote is for."""

CURRENT_VOTERS = '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}]'

# Written by Kafka 4.3.1, FileQuorumStateStore.writeElectionState.
KAFKAS = [
    [
        '{"clusterId":"","leaderId":-1,"leaderEpoch":5,"votedId":2,"appliedOffset":0,'
        + CURRENT_VOTERS
        + ',"data_version":0}',
        '{"clusterId":"","leaderId":3,"leaderEpoch":6,"votedId":2,"appliedOffset":0,'
        + CURRENT_VOTERS
        + ',"data_version":0}',
        '{"clusterId":"","leaderId":-1,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
        + CURRENT_VOTERS
        + ',"data_version":0}',
    ],
    [
        '{"leaderId":-1,"leaderEpoch":5,"votedId":2,'
        '"votedDirectoryId":"b4d9ExdORgaQq38CyHwWTA","data_version":1}',
        '{"leaderId":3,"leaderEpoch":6,"votedId":2,'
        '"votedDirectoryId":"b4d9ExdORgaQq38CyHwWTA","data_version":1}',
        '{"leaderId":-1,"leaderEpoch":7,"votedId":-1,'
        '"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
    ],
]


@pytest.mark.parametrize("version", [0, 1])
def test_a_vote_is_kept_as_kafka_does(version: int) -> None:
    for (epoch, leader, voted, directory), text in zip(VOTES, KAFKAS[version], strict=True):
        state = QuorumState(
            leader_epoch=epoch,
            leader_id=leader,
            voted_id=voted,
            # Version 0 keeps the node only.
            voted_directory_id=directory if version else directory_id.MIGRATING,
            voters=() if version else (1, 2, 3),
            data_version=version,
        )

        assert encode_quorum_state(state).decode() == text
        assert decode_quorum_state(text.encode()) == state


@pytest.mark.parametrize("version", [-1, 2])
def test_a_version_that_is_not_known_is_refused(tmp_path: Path, version: int) -> None:
    text = KAFKAS[1][0].replace('"data_version":1', f'"data_version":{version}')
    (tmp_path / "quorum-state").write_text(text)

    with pytest.raises(CorruptRecordError, match=f"data_version {version} is not known"):
        read_quorum_state(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", '{"leaderId":null}', "7"),
        KAFKAS[0][0].replace(',"data_version":0', ""),
        KAFKAS[1][0].replace("b4d9ExdORgaQq38CyHwWTA", "x"),
        KAFKAS[1][0].replace(',"votedDirectoryId":"b4d9ExdORgaQq38CyHwWTA"', ""),
    ],
)
def test_damaged_file_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "quorum-state").write_text(text)

    with pytest.raises(CorruptRecordError, match="quorum state"):
        read_quorum_state(tmp_path)
