"""AlterUserScramCredentials: what the brokers keep of users' passwords.

Source: `org.apache.kafka.controller.ScramControlManager`, KIP-554. Beyond Kafka a salt of less
than 8 bytes and a salted password of another length than the mechanism's are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from controller.decide.state import ControllerResult, ControllerState, RecordList
from jbodlab.controller_api.requests import (
    AlteredUserScramCredentials,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from jbodlab.metadata.records.metadata_version import SCRAM_LEVEL
from jbodlab.metadata.records.scram import credential_record
from jbodlab.metadata.records.security_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from jbodlab.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

SALT_BYTES_MIN = 8

Change = ScramCredentialDeletion | ScramCredentialUpsertion
CredentialRecord = RemoveUserScramCredentialRecord | UserScramCredentialRecord


def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, state: ControllerState, _now_ms: int
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    """Remove and set credentials; changes that are wrong are left out, all others are made.

    Raises:
        KafkaError: UNSUPPORTED_VERSION, the metadata version has no credentials; POLICY_VIOLATION,
            too many changes for one request.
    """
    if state.metadata_version < SCRAM_LEVEL:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current metadata version does not support SCRAM credentials.",
        )
    changes: tuple[Change, ...] = (*request.deletions, *request.upsertions)
    times = Counter(change.name for change in changes)
    records = RecordList(state.metadata_version)
    results: dict[str, AlteredUserScramCredentials] = {}
    for change in changes:
        code, text = ErrorCode.NONE, ""
        try:
            if times[change.name] > 1:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            records.add(_record(change, state))
        except KafkaError as error:
            code, text = error.code, error.message
        results[change.name] = AlteredUserScramCredentials(
            user=change.name, error_code=code, error_message=text
        )
    records.check_size()
    return ControllerResult(
        response=AlterUserScramCredentialsResponse(results=tuple(results.values())),
        records=records.as_tuple(),
        atomic=True,
    )


def _record(change: Change, state: ControllerState) -> CredentialRecord:
    """Return the record of one change; raises KafkaError where it is not possible."""
    if not change.name:
        raise _unacceptable("Username must not be empty")
    try:
        mechanism = ScramMechanism(change.mechanism)
    except ValueError:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None
    if isinstance(change, ScramCredentialDeletion):
        if (change.name, mechanism) not in state.image.security.scram:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=mechanism)
    for reason in _doubts(change, mechanism):
        raise _unacceptable(reason)
    return credential_record(
        change.name, mechanism, change.salted_password, change.salt, change.iterations
    )


def _doubts(change: ScramCredentialUpsertion, mechanism: ScramMechanism) -> Iterator[str]:
    if change.iterations < MIN_ITERATIONS:
        yield "Too few iterations"
    if change.iterations > MAX_ITERATIONS:
        yield "Too many iterations"
    if len(change.salt) < SALT_BYTES_MIN:
        yield f"a salt of {len(change.salt)} bytes, expected at least {SALT_BYTES_MIN}"
    if len(change.salted_password) != mechanism.digest_bytes:
        yield (
            f"a salted password of {len(change.salted_password)} bytes, expected "
            f"{mechanism.digest_bytes}"
        )


def _unacceptable(text: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
