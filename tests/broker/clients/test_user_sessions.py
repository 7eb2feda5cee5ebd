from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.clients.user_sessions import UserSessions
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.security_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)


class Login:
    def __init__(self, user: str, mechanism: str) -> None:
        self.user, self.mechanism = user, mechanism


LOGINS = [Login("alice", "SCRAM-SHA-256"), Login("alice", "SCRAM-SHA-512"), Login("alice", "PLAIN")]


class Listener:
    def __init__(self) -> None:
        self.ended: list[str] = []

    def close_sessions(self, has_to_end: Callable[[Login], bool]) -> None:
        self.ended += [each.mechanism for each in LOGINS if has_to_end(each)]


def stored(name: str = "alice", mechanism: int = 1, salt: bytes = b"x") -> Record:
    return UserScramCredentialRecord(name=name, mechanism=mechanism, salt=salt)


@pytest.mark.parametrize(
    ("record", "ended"),
    [
        (RemoveUserScramCredentialRecord(name="alice", mechanism=1), ["SCRAM-SHA-256"]),
        (stored(salt=b"y"), ["SCRAM-SHA-256"]),
        (stored(), []),
        (stored("bob"), []),
    ],
)
def test_the_sessions_of_a_changed_credential_end(record: Record, ended: list[str]) -> None:
    """S22: of this user and mechanism; not where the same is written again."""
    delta = MetadataDelta(EMPTY)
    for each in (stored(), stored(mechanism=2)):
        delta.replay(each, 0)
    before = delta.apply(0, 0, 0)
    listener = Listener()
    change = MetadataDelta(before)
    change.replay(record, 1)
    UserSessions([listener]).metadata_changed(change, change.apply(1, 0, 0))  # type: ignore[list-item]
    assert listener.ended == ended
