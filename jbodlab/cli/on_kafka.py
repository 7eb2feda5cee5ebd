"""Behaviour of commands and faults on Apache Kafka's brokers: its one declaration.

Commands that refuse or differ say so with these sentences; `docs/your-kafka.md` shows them all.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class How(enum.Enum):
    """How far a command or a fault works on Apache Kafka's brokers."""

    WORKS = "works"
    DIFFERS = "works differently"
    REFUSED = "refused"


class OnKafka(NamedTuple):
    """The behaviour of a command or a fault there.

    Attributes:
        text: The difference, or why it is refused; empty where it works as on our own brokers.
    """

    how: How
    text: str = ""


_WORKS = OnKafka(How.WORKS)


def _differs(text: str) -> OnKafka:
    return OnKafka(How.DIFFERS, text)


BY_KAFKAS_TOOL = "`kafka-metadata-quorum` adds and removes controllers there"

COMMANDS: Mapping[str, OnKafka] = MappingProxyType(
    {
        "demo": _differs("its log tells Kafka's own story; a healed directory needs a restart"),
        "up": _WORKS,
        "down": _WORKS,
        "list": _WORKS,
        "status": _differs("Apache Kafka's brokers tell neither FULL nor SLOW, nor a cause"),
        "logs": _differs("lines are those of Kafka's loggers"),
        "start": _WORKS,
        "stop": _WORKS,
        "kill": _WORKS,
        "restart": _WORKS,
        "serve": _WORKS,
        "controllers list": _WORKS,
        "controllers add": OnKafka(How.REFUSED, BY_KAFKAS_TOOL),
        "controllers remove": OnKafka(How.REFUSED, BY_KAFKAS_TOOL),
        "controllers transfer": OnKafka(How.REFUSED, "Apache Kafka has no such request"),
        "ui": _differs(
            "whether a log directory is FULL or SLOW, and why it is offline: only jbodlab says so"
        ),
        "inject": _differs("the broker's own log must tell that it noticed; its answers do not do"),
        "heal": _differs("--revive restarts the broker: only so do Kafka's take a directory back"),
        "faults": _WORKS,
        "run": _WORKS,
        "rehearse": _differs("a healed directory comes back with a restart of its broker"),
        "topics": _WORKS,
        "dirs list": _differs("Apache Kafka's brokers do not tell the ids of directories"),
        "dirs describe": _WORKS,
        "dirs revive": OnKafka(
            How.REFUSED,
            "only jbodlab's brokers take a directory back while they run; Kafka's need a restart",
        ),
        "dirs cordon": _differs("from release 4.3 on, which has cordons (KIP-1066)"),
        "dirs uncordon": _differs("from release 4.3 on, which has cordons (KIP-1066)"),
        "dirs move": _WORKS,
        "dirs drain": _differs(
            "before release 4.3, which has cordons, nothing keeps new replicas out of the directory"
        ),
        "dirs balance": _WORKS,
        "reassign": _WORKS,
        "records": _WORKS,
        "groups": _WORKS,
        "transactions": _WORKS,
        "configs": _WORKS,
        "offsets": _WORKS,
        "acls": _WORKS,
        "users": _WORKS,
        "storage": _WORKS,
        "replay": _WORKS,
        "why": _WORKS,
        "what-if": _WORKS,
        "completion": _WORKS,
    }
)
"""By command; by command and verb where verbs differ."""

_AT_CHECKPOINT = "Apache Kafka notices at its next checkpoint, up to 5 s later"
_NEVER = "Apache Kafka does not look for it: the broker goes on, and nothing is reported"
_KEY_STORE = OnKafka(
    How.REFUSED, "Apache Kafka looks at a key store again when its setting is set again"
)

FAULTS: Mapping[str, OnKafka] = MappingProxyType(
    {
        "permission": _differs(_AT_CHECKPOINT),
        "read-only-bits": _differs(_AT_CHECKPOINT),
        "file-in-place": _differs(_AT_CHECKPOINT),
        "deleted": _differs(_AT_CHECKPOINT),
        "replaced": _differs("Apache Kafka notices when a partition next needs a new file"),
        "files-deleted": _differs("Apache Kafka notices at its next start"),
        "eio": _differs(f"{_AT_CHECKPOINT}; calls only, not the mapped index files"),
        "read-only": _differs(_AT_CHECKPOINT),
        "full": _differs(f"a full disk is a failed directory there; {_AT_CHECKPOINT}"),
        "slow": _differs(f"{_NEVER}; calls only, not the mapped index files"),
        "hang": _differs(f"{_NEVER}; calls only, not the mapped index files"),
        "power-loss": _WORKS,
        "swapped": _differs("Apache Kafka serves both directories where they are now"),
        "emptied": _differs("Apache Kafka does not start with a directory that is not formatted"),
        "twin": _differs("Apache Kafka does not start with two directories of one id"),
        "kill": _WORKS,
        "stop": _WORKS,
        "restart": _WORKS,
        "cut": _WORKS,
        "certificate-expires": _KEY_STORE,
        "certificate-replaced": _KEY_STORE,
        "certificate-untrusted": _KEY_STORE,
        "user-removed": _differs("connections of the user stay until they end by themselves"),
        "acl-removed": _WORKS,
    }
)
"""By kind of fault."""

COLUMNS = ("", "On jbodlab", "On Apache Kafka", "Difference or reason")


def table(found: Mapping[str, OnKafka], title: str) -> list[str]:
    """Return the lines of a Markdown table of commands or faults."""
    rows = [(title, *COLUMNS[1:]), ("---",) * len(COLUMNS)]
    rows += [(f"`{name}`", "works", one.how.value, one.text) for name, one in found.items()]
    return [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
