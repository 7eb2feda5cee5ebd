"""SCRAM credentials as records: made of a salted password, and read for a login."""

from __future__ import annotations

from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.security.scram import ScramCredential, ScramMechanism, credential


def credential_record(
    name: str, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> UserScramCredentialRecord:
    """Return the record of a user's salted password."""
    made = credential(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )


def credential_of(record: UserScramCredentialRecord) -> ScramCredential:
    """Return the credential in a record."""
    return ScramCredential(
        salt=record.salt,
        stored_key=record.stored_key,
        server_key=record.server_key,
        iterations=record.iterations,
    )
