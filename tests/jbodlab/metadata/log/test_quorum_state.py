"""The file quorum-state."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.metadata.log.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from jbodlab.vocabulary.errors import CorruptRecordError


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


def test_file_of_a_dynamic_quorum_is_read(tmp_path: Path) -> None:
    text = '{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"x","data_version":1}'
    (tmp_path / "quorum-state").write_text(text)

    assert read_quorum_state(tmp_path) == QuorumState(leader_epoch=2, voted_id=1)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"leaderId":null}', "7"])
def test_damaged_file_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "quorum-state").write_text(text)

    with pytest.raises(CorruptRecordError, match="quorum state"):
        read_quorum_state(tmp_path)
