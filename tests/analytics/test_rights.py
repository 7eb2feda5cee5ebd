"""A table has nothing of what lets a user in."""

from __future__ import annotations

import json

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.secrets import redacted_text
from jbodlab.metadata.records.security_records import UserScramCredentialRecord


def test_secrets_are_in_no_text_of_a_record() -> None:
    secret = b"not for everybody"
    credential = UserScramCredentialRecord(
        name="alice",
        mechanism=2,
        salt=secret,
        stored_key=secret,
        server_key=secret,
        iterations=4_096,
    )

    text = redacted_text(VersionedRecord(credential, 0))

    hidden = dict.fromkeys(("salt", "storedKey", "serverKey"), "(redacted)")
    known = {"name": "alice", "mechanism": 2, "iterations": 4_096}
    assert json.loads(text)["data"] == known | hidden
    other = VersionedRecord(NoOpRecord(), 0)
    assert redacted_text(other) == frame.payload_text(other)
