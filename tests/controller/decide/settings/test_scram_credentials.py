from __future__ import annotations

import pytest

from controller.decide.settings.scram_credentials import alter_user_scram_credentials
from jbodlab.controller_api.requests import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.security.scram import ScramMechanism, credential, salted_password
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.builders import PureController

SHA_256, SHA_512 = ScramMechanism
SALT = b"0123456789"


def put(
    name: str = "alice",
    mechanism: int = SHA_256,
    *,
    iterations: int = 4096,
    salt: bytes = SALT,
    length: int = 32,
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=bytes(length),
    )


def remove(name: str = "alice", mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(
    controller: PureController, *changes: ScramCredentialDeletion | ScramCredentialUpsertion
) -> dict[str, ErrorCode]:
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in changes if isinstance(each, ScramCredentialDeletion)),
        upsertions=tuple(each for each in changes if isinstance(each, ScramCredentialUpsertion)),
    )
    result = alter_user_scram_credentials(request, controller.state, 0)
    assert result.atomic
    controller.replay(*(record for record, _ in result.records))
    return {each.user: each.error_code for each in result.response.results}


def test_a_credential_is_set_replaced_and_removed() -> None:
    controller = PureController()
    assert alter(controller, put(iterations=5000)) == {"alice": ErrorCode.NONE}
    expected = credential(SHA_256, bytes(32), SALT, 5000)
    assert controller.state.image.security.scram == {
        ("alice", 1): UserScramCredentialRecord(
            name="alice",
            mechanism=1,
            salt=SALT,
            stored_key=expected.stored_key,
            server_key=expected.server_key,
            iterations=5000,
        )
    }
    alter(controller, put(iterations=6000))
    assert controller.state.image.security.scram["alice", 1].iterations == 6000
    assert alter(controller, remove()) == {"alice": ErrorCode.NONE}
    assert not controller.state.image.security.scram


def test_the_salted_password_is_that_of_clients() -> None:
    """The mechanism's keys are derived from what the client has salted."""
    salted = salted_password(SHA_512, "pw", SALT, 4096)
    controller = PureController()
    change = ScramCredentialUpsertion(
        name="bob", mechanism=SHA_512, iterations=4096, salt=SALT, salted_password=salted
    )
    alter(controller, change)
    record = controller.state.image.security.scram["bob", 2]
    assert record.stored_key == credential(SHA_512, salted, SALT, 4096).stored_key
    assert str(salted) not in repr(change)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (put(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (put(iterations=100), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (put(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (put(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (put(iterations=20000), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (put(salt=b"1234567"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (put(length=31), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (put(mechanism=SHA_512), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (put(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (put(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (remove(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (remove(), ErrorCode.RESOURCE_NOT_FOUND),
        (remove(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_s23_alter_scram_refuses_one_change_and_makes_the_others(
    change: ScramCredentialDeletion | ScramCredentialUpsertion, code: ErrorCode
) -> None:
    controller = PureController()
    found = alter(controller, change, put("good"))
    assert found == {change.name: code, "good": ErrorCode.NONE}
    assert list(controller.state.image.security.scram) == [("good", 1)]


@pytest.mark.parametrize(
    "changes",
    [
        (put(), put()),
        (put(), put(mechanism=SHA_512, length=64)),
        (remove(), put()),
        (remove(), remove(mechanism=SHA_512)),
    ],
)
def test_s23_alter_scram_refuses_a_user_who_is_named_twice(
    changes: tuple[ScramCredentialDeletion | ScramCredentialUpsertion, ...],
) -> None:
    """Even for two mechanisms."""
    controller = PureController()
    alter(controller, put(iterations=5000))
    found = alter(controller, *changes, put("good"))
    assert found == {"alice": ErrorCode.DUPLICATE_RESOURCE, "good": ErrorCode.NONE}
    assert controller.state.image.security.scram["alice", 1].iterations == 5000


def test_a_metadata_version_without_credentials() -> None:
    controller = PureController(level=10)
    with pytest.raises(KafkaError) as raised:
        alter(controller, put())
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
