from __future__ import annotations

import base64

import pytest

from jbodlab.security.scram import ScramMechanism, credential, salted_password
from jbodlab.vocabulary.errors import FormatError
from storage_tool.scram_argument import credentials

SHA_256, SHA_512 = ScramMechanism


def test_a_password_is_salted_and_hashed() -> None:
    (record,) = credentials(["SCRAM-SHA-256=[name=alice,password=alice-secret]"])
    assert (record.name, record.mechanism, record.iterations) == ("alice", 1, 4096)
    assert len(record.salt) == 26
    salted = salted_password(SHA_256, "alice-secret", record.salt, 4096)
    assert record.stored_key == credential(SHA_256, salted, record.salt, 4096).stored_key


def test_salt_and_iterations_are_as_given_and_quotes_are_stripped() -> None:
    salt = base64.b64encode(b"saltsaltsalt").decode()
    (record,) = credentials(
        [f'SCRAM-SHA-512=[name="a b",iterations=8192,salt="{salt}",password="p,w=x"]']
    )
    assert (record.name, record.salt, record.iterations) == ("a b", b"saltsaltsalt", 8192)
    salted = salted_password(SHA_512, "p,w=x", b"saltsaltsalt", 8192)
    assert record.server_key == credential(SHA_512, salted, record.salt, 8192).server_key


def test_a_salted_password_is_taken_as_it_is() -> None:
    salt, salted = (base64.b64encode(each).decode() for each in (b"saltsalt", bytes(32)))
    (record,) = credentials([f"SCRAM-SHA-256=[name=a,salt={salt},saltedpassword={salted}]"])
    assert record.stored_key == credential(SHA_256, bytes(32), b"saltsalt", 4096).stored_key


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("SCRAM-SHA-256", "expects MECHANISM="),
        ("SCRAM-SHA-256=name=a,password=geheim", "expects MECHANISM="),
        ("SCRAM-SHA-1=[name=a,password=geheim]", "unknown mechanism SCRAM-SHA-1"),
        ("SCRAM-SHA-256=[password=geheim]", "name is missing"),
        ("SCRAM-SHA-256=[name=,password=geheim]", "name is missing"),
        ("SCRAM-SHA-256=[name=a]", "a needs one of password and saltedpassword"),
        ("SCRAM-SHA-256=[name=a,password=geheim,saltedpassword=AAAA]", "a needs one of"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=AAAA]", "a has a saltedpassword, and no salt"),
        ("SCRAM-SHA-256=[name=a,salt=AAAA,saltedpassword=AAAA]", "has 3 bytes, expected 32"),
        ("SCRAM-SHA-256=[name=a,salt=geheim!,password=geheim]", "the salt of a is not base64"),
        ("SCRAM-SHA-256=[name=a,password=geheim,iterations=4095]", "must be 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=geheim,iterations=16385]", "must be 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=geheim,iterations=x]", "'x' is not a number"),
        ("SCRAM-SHA-256=[name=a,password=geheim,color=red]", "expected parts KEY=VALUE"),
        ("SCRAM-SHA-256=[name=a,password=geheim,password=geheim]", "password is given twice"),
    ],
)
def test_a_wrong_argument_is_named_without_its_password(argument: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as raised:
        credentials([argument])
    assert "geheim" not in str(raised.value)


def test_two_credentials_of_one_user_and_mechanism() -> None:
    one = "SCRAM-SHA-256=[name=a,password=x]"
    with pytest.raises(FormatError, match="SCRAM-SHA-256 of user a is given twice"):
        credentials([one, one])
    assert len(credentials([one, one.replace("256", "512")])) == 2
