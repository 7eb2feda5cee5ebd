"""`--add-scram`: a credential that a cluster has from its first start on.

Source: `org.apache.kafka.metadata.storage.ScramParser`. Beyond Kafka no message repeats a password.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Sequence

from jbodlab.metadata.records.scram import credential_record
from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.security.scram import (
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramMechanism,
    salted_password,
)
from jbodlab.vocabulary.errors import FormatError

SPEC = re.compile(r"([^=]+)=\[(.*)\]", re.DOTALL)
PART = re.compile(r'([^=,]+)=("(?:[^"]*)"|[^,]*)(?:,|$)')
KEYS = ("name", "salt", "iterations", "password", "saltedpassword")
SALT_BYTES = 26


def credentials(arguments: Sequence[str]) -> list[UserScramCredentialRecord]:
    """Return the records of all arguments, such as `SCRAM-SHA-256=[name=alice,password=pw]`.

    Raises:
        FormatError: an argument is wrong, or two are for the same user and mechanism.
    """
    records = [_record(argument) for argument in arguments]
    seen = set()
    for record in records:
        if (record.name, record.mechanism) in seen:
            raise FormatError(
                f"--add-scram: {ScramMechanism(record.mechanism).text} of user {record.name} is "
                "given twice."
            )
        seen.add((record.name, record.mechanism))
    return records


def _record(argument: str) -> UserScramCredentialRecord:
    found = SPEC.fullmatch(argument.strip())
    if found is None:
        raise FormatError("--add-scram expects MECHANISM=[name=USER,password=PASSWORD].")
    mechanism = MECHANISMS.get(found[1])
    if mechanism is None:
        raise FormatError(
            f"--add-scram: unknown mechanism {found[1]}, expected one of {', '.join(MECHANISMS)}."
        )
    parts = _parts(found[2])
    name = parts.get("name", "")
    if not name:
        raise FormatError("--add-scram: name is missing.")
    iterations = _iterations(parts.get("iterations", str(MIN_ITERATIONS)))
    if ("password" in parts) == ("saltedpassword" in parts):
        raise FormatError(f"--add-scram: {name} needs one of password and saltedpassword.")
    salt = _bytes(name, "salt", parts["salt"]) if "salt" in parts else _random_salt()
    if "password" in parts:
        salted = salted_password(mechanism, parts["password"], salt, iterations)
    elif "salt" not in parts:
        raise FormatError(f"--add-scram: {name} has a saltedpassword, and no salt.")
    else:
        salted = _bytes(name, "saltedpassword", parts["saltedpassword"])
        if len(salted) != mechanism.digest_bytes:
            raise FormatError(
                f"--add-scram: the saltedpassword of {name} has {len(salted)} bytes, expected "
                f"{mechanism.digest_bytes}."
            )
    return credential_record(name, mechanism, salted, salt, iterations)


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = PART.match(text, position)
        if found is None or found[1].strip() not in KEYS:
            raise FormatError(
                f"--add-scram: expected parts KEY=VALUE with the keys {', '.join(KEYS)}."
            )
        key, value = found[1].strip(), found[2]
        if key in parts:
            raise FormatError(f"--add-scram: {key} is given twice.")
        parts[key] = value[1:-1] if value.startswith('"') else value
        position = found.end()
    return parts


def _iterations(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise FormatError(f"--add-scram: iterations {text!r} is not a number.")
    iterations = int(text)
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise FormatError(
            f"--add-scram: iterations {iterations} must be {MIN_ITERATIONS} to {MAX_ITERATIONS}."
        )
    return iterations


def _bytes(name: str, key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise FormatError(f"--add-scram: the {key} of {name} is not base64.") from None


def _random_salt() -> bytes:
    """Return a salt of digits and small letters, as Kafka's tools make them."""
    alphabet = b"0123456789abcdefghijklmnopqrstuvwxyz"
    return bytes(secrets.choice(alphabet) for _ in range(SALT_BYTES))
