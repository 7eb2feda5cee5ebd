"""The clients of a plan: producers, consumers, programs of the user's own."""

from __future__ import annotations

import re
from typing import Any

from fault_injection.kinds import size_bytes
from jbodlab.durations import duration_s
from lab.rehearsal.document import Fields, Item, one_of, text, texts, truth, whole
from lab.rehearsal.known import Known
from lab.rehearsal.plan import Command, Load, Readers, Writers
from lab.rehearsal.read_cluster import words
from lab.rehearsal.values import parse_rate
from lab.rehearsal.vocabulary import OF_COMMAND, OF_READERS, OF_WRITERS

RATE_MAX = 100_000
KEYS_MAX = 1_000_000


def read_load(item: Item, known: Known) -> Load:
    """Return one client; its name is known from then on."""
    fields = Fields(item)
    if "command" in fields:
        found: Load = _command(fields)
        metrics = OF_COMMAND
    elif "rate" in fields:
        found = _writers(fields, known)
        metrics = OF_WRITERS
    else:
        found = _readers(fields, known)
        metrics = OF_READERS
    fields.done()
    known.own(item, found.name, metrics)
    return found


def _writers(fields: Fields, known: Known) -> Writers:
    size = fields.read("size", size_bytes, 100)
    if size < 40 or size > 10 << 20:
        fields.item.wrong(f"expected a size from 40B to 10MiB, got {size} bytes")
        size = 100

    def rate(value: Any) -> float:
        found = parse_rate(value if isinstance(value, str) else f"{value}", size)
        if found > RATE_MAX:
            raise ValueError(f"expected at most {RATE_MAX} messages a second, got {value!r}")
        return found

    acks = fields.read("acks", one_of("all", "-1", "1", "0"), "all").replace("-1", "all")
    idempotent = fields.read("idempotent", truth, acks == "all")
    if idempotent and acks != "all":
        fields.item.wrong(f"an idempotent producer needs acks: all, got {acks}")
    if acks == "0":
        fields.item.wrong("acks: 0 acknowledges nothing, so nothing could be judged")
    return Writers(
        name=fields.read("name", text, "writers"),
        topic=fields.read("topic", known.topic, "", needed=True),
        rate=fields.read("rate", rate, 1.0, needed=True),
        size_bytes=size,
        acks=acks,
        idempotent=idempotent,
        keys=fields.read("keys", whole(1, KEYS_MAX), 100),
        client=fields.read("client", texts, {}),
    )


def _readers(fields: Fields, known: Known) -> Readers:
    return Readers(
        name=fields.read("name", text, "readers"),
        topic=fields.read("topic", known.topic, "", needed=True),
        group=fields.read("group", text, ""),
        isolation=fields.read(
            "isolation", one_of("read_uncommitted", "read_committed"), "read_uncommitted"
        ),
        client=fields.read("client", texts, {}),
    )


def _command(fields: Fields) -> Command:
    return Command(
        name=fields.read("name", text, "app"),
        command=fields.read("command", words, (), needed=True),
        probe=fields.read("probe", _probe, ""),
        every_s=fields.read("every", positive, 0.1),
        timeout_s=fields.read("timeout", positive, 1.0),
        ready_s=fields.read("ready", positive, 10.0),
    )


def positive(value: Any) -> float:
    """Return the seconds of a duration that is not nothing.

    Raises:
        ValueError: it is none.
    """
    found = duration_s(value)
    if found <= 0:
        raise ValueError(f"expected more than 0, got {value!r}")
    return found


def _probe(value: Any) -> str:
    if isinstance(value, str) and re.match(r"https?://[^/]+", value):
        return value
    raise ValueError(f"expected an address such as http://127.0.0.1:8000/health, got {value!r:.60}")
