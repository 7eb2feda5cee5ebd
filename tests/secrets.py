"""Secrets of tests, and whether somebody has written one down: case O01 over the whole suite.

A test names what nobody may show. From then on every log line, every output of a test of this
process and every log of a cluster's nodes is looked through for it, in each form that a program may
write it in. Tests whose secrets are in their own ids or messages name none.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

AT_DEBUG_LEVEL = {"JBODLAB_LOG_LEVEL": "DEBUG"}
"""Variables of servers that log all that they can."""

LEAST = 8
"""Characters of a form; a shorter one stands in logs by chance."""

_forms: dict[str, str] = {}
"""The secret that each text stands for."""


def secret(value: str) -> str:
    """Return a text that nobody may show from now on."""
    _add(value, value.encode())
    _forms[value] = value
    return value


def secret_bytes(value: bytes) -> bytes:
    """Return bytes that nobody may show from now on."""
    _add(repr(value), value)
    return value


def secret_key(pem: str) -> str:
    """Return a private key in PEM, none of whose lines anybody may show from now on."""
    for line in pem.splitlines():
        if not line.startswith("-----") and len(line) > LEAST:
            _forms[line] = "a private key"
    return pem


def shown(text: str) -> set[str]:
    """Return the secrets that a text shows."""
    return {of for form, of in _forms.items() if form in text}


def check(name: str, texts: Iterable[str]) -> None:
    """Fail where one of somebody's texts shows a secret."""
    for text in texts:
        found = shown(text)
        assert not found, f"{name} shows {found}"


def _add(name: str, value: bytes) -> None:
    for form in (
        base64.b64encode(value).decode(),
        base64.urlsafe_b64encode(value).decode(),
        value.hex(),
        repr(value)[2:-1],
        value.decode("latin-1"),
    ):
        if len(form.rstrip("=")) >= LEAST:
            _forms[form.rstrip("=")] = name
