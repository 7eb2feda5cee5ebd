"""Access control entries and users of a log: their tables, without a secret."""

from __future__ import annotations

import json
from uuid import UUID

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.secrets import redacted_text
from jbodlab.metadata.records.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from jbodlab.security.acl import AclOperation, PatternType, Permission, ResourceType
from tests.analytics.small_logs import config, picked, rows_of

ID = UUID(int=7)
ENTRY = AccessControlEntryRecord(
    id=ID,
    resource_type=ResourceType.TRANSACTIONAL_ID,
    resource_name="app-",
    pattern_type=PatternType.PREFIXED,
    principal="User:alice",
    host="*",
    operation=AclOperation.ALTER_CONFIGS,
    permission_type=Permission.DENY,
)
SECRET = b"not for everybody"


def credential(salt: bytes = SECRET) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name="alice",
        mechanism=2,
        salt=salt,
        stored_key=SECRET,
        server_key=SECRET,
        iterations=4_096,
    )


def test_an_entry_holds_until_it_is_removed() -> None:
    (found,) = rows_of("acls", [[ENTRY], [ENTRY], [RemoveAccessControlEntryRecord(id=ID)]])

    assert picked(
        [found],
        *("principal", "permission", "operation", "resource_type", "resource_name", "pattern"),
        *("host", "valid_from_offset", "valid_to_offset"),
    ) == [
        ("User:alice", "deny", "alter_configs", "transactional_id", "app-", "prefixed", "*", 0, 2)
    ]


def test_the_removal_of_an_unknown_entry_is_a_problem() -> None:
    (problem,) = rows_of("problems", [[RemoveAccessControlEntryRecord(id=ID)]])

    assert "removal of unknown access control entry" in str(problem["message"])


def test_an_entry_that_a_snapshot_does_not_have_is_gone() -> None:
    (found,) = rows_of("acls", [[ENTRY], [credential()]], snapshots={1: [config("a", "1")]})

    assert found["valid_to_offset"] == 1


def test_a_user_has_one_row_for_each_password_and_no_secret_in_it() -> None:
    found = rows_of(
        "scram_users",
        [
            [credential()],
            [credential(salt=b"another")],
            [RemoveUserScramCredentialRecord(name="alice", mechanism=2)],
        ],
    )

    assert picked(
        found, "user", "mechanism", "iterations", "keys", "valid_from_offset", "valid_to_offset"
    ) == [
        ("alice", "SCRAM-SHA-512", 4_096, "(redacted)", 0, 1),
        ("alice", "SCRAM-SHA-512", 4_096, "(redacted)", 1, 2),
    ]


def test_secrets_are_in_no_text_of_a_record() -> None:
    text = redacted_text(VersionedRecord(credential(), 0))

    assert json.loads(text)["data"] == {
        "name": "alice",
        "mechanism": 2,
        "salt": "(redacted)",
        "storedKey": "(redacted)",
        "serverKey": "(redacted)",
        "iterations": 4_096,
    }
    other = VersionedRecord(ENTRY, 0)
    assert redacted_text(other) == frame.payload_text(other)
