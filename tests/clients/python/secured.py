"""How each library is told of TLS and logins; nothing where `SECURED` names no file."""

from __future__ import annotations

import json
import os
import ssl
from pathlib import Path
from typing import Any

NAMED = os.environ.get("SECURED")
FILE: dict[str, str] = json.loads(Path(NAMED).read_text()) if NAMED else {}

LIBRDKAFKA = {
    "protocol": "security.protocol",
    "ca": "ssl.ca.location",
    "certificate": "ssl.certificate.location",
    "key": "ssl.key.location",
    "mechanism": "sasl.mechanism",
    "user": "sasl.username",
    "password": "sasl.password",
}
KAFKA_PYTHON = {
    "protocol": "security_protocol",
    "ca": "ssl_cafile",
    "certificate": "ssl_certfile",
    "key": "ssl_keyfile",
    "mechanism": "sasl_mechanism",
    "user": "sasl_plain_username",
    "password": "sasl_plain_password",
}


def librdkafka() -> dict[str, Any]:
    return {LIBRDKAFKA[key]: value for key, value in FILE.items() if key in LIBRDKAFKA}


def kafka_python() -> dict[str, Any]:
    return {KAFKA_PYTHON[key]: value for key, value in FILE.items() if key in KAFKA_PYTHON}


def aiokafka() -> dict[str, Any]:
    found = {key: value for key, value in kafka_python().items() if not key.startswith("ssl_")}
    if FILE:
        context = ssl.create_default_context(cafile=FILE["ca"])
        if "key" in FILE:
            context.load_cert_chain(FILE["certificate"], FILE["key"])
        found["ssl_context"] = context
    return found
