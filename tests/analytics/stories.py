"""Cases of tables as text: a log, or rows of other tables, and the rows that a table then has.

    --- BEGIN                   batches that several logs begin with
    === NAME                    a case
    log BEGIN [every SECONDS]   batches follow, a line each, a second after the other
    1 isr=2,3 leader=2; unregister 1     changes partition 1 of orders, and another record
    29 x no-op                           as many batches
    snapshot 2: register 1 1a            of that end offset
    with BEGIN                  rows that several cases begin with
    given TABLE: COLUMN ...     its rows follow
    table TABLE: COLUMN ...     its rows follow, as they are expected, in their order
    ask why broker 1            the answer follows, its lines behind `| `, and the exit code, if
                                it is not 0
    report                      the text of the report follows in the same way

A record without a word of its own has its name in capitals, and its fields. `1a` and `1b` are
directories of broker 1, `?` is one that is not assigned. Of a row `-` is null, `[1,2]` a list, a
time is in seconds since the begin of the log. Behind `#` stand remarks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import convert
from msgspec.structs import replace

from jbodlab.metadata.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.metadata.records.control_records import KRaftVersionRecord, LeaderChangeMessage
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    PartitionChangeRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, TopicId
from tests.analytics.builders import partition_record, register, uid
from tests.analytics.small_logs import (
    START,
    TOPIC,
    Row,
    schema_of,
)

DIRECTORIES = {
    **{f"{broker}{'abc'[n]}": uid(broker * 10 + n) for broker in range(1, 5) for n in range(3)},
    "?": directory_ids.UNASSIGNED,
}
NAMES = {kafka_uuid.to_text(each): name for name, each in DIRECTORIES.items()}
NAMES |= {kafka_uuid.to_text(TOPIC): "TOPIC", kafka_uuid.to_text(uid(7)): "ANOTHER"}
ANOTHER = TopicId(uid(7))
"""The topic that a star stands for, behind a name or alone."""
_ID = re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])")
_NUMBERS = ("leader", "fenced", "in_controlled_shutdown")


_RECORDS = {cls.NAME: cls for cls in RECORD_TYPES.values()}
_WORDS = {
    "abort": "ABORT_TRANSACTION_RECORD reason=y",
    "begin": "BEGIN_TRANSACTION_RECORD name=x",
    "clear-elr": "CLEAR_ELR_RECORD topic_name={}",
    "feature": "FEATURE_LEVEL_RECORD name={} feature_level={}",
    "fence": "FENCE_BROKER_RECORD id={} epoch=0",
    "no-op": "NO_OP_RECORD",
    "unfence": "UNFENCE_BROKER_RECORD id={} epoch=0",
    "unregister": "UNREGISTER_BROKER_RECORD broker_id={} broker_epoch=0",
}
"""Records of which a case says little."""


@dataclass(slots=True)
class Story:
    """One case; the rows that are expected as its lines have them, by table and columns."""

    name: str
    is_log: bool = False
    step_s: float = 1.0
    batches: list[list[Record]] = field(default_factory=list)
    snapshots: dict[int, list[Record]] = field(default_factory=dict)
    given: dict[str, list[Row]] = field(default_factory=dict)
    expected: list[tuple[str, list[str], list[str]]] = field(default_factory=list)
    asked: list[tuple[str, list[str]]] = field(default_factory=list)


def stories(*, is_log: bool) -> Iterator[Story]:
    """Yield the cases of all files: those of logs, or of rows that are given."""
    for file in sorted(Path(__file__).with_name("stories").glob("*.txt")):
        begins: dict[str, Story] = {}
        text = file.read_text("utf-8")
        for block in re.split(r"^(?=(?:===|---) )", text, flags=re.MULTILINE)[1:]:
            head, _, lines = block.partition("\n")
            story = _story(f"{file.stem}: {head[4:]}", lines, begins)
            if head.startswith("---"):
                begins[head[4:]] = story
            elif story.is_log == is_log:
                yield story


def batches(text: str) -> list[list[Record]]:
    """Return the batches of a text, a line each."""
    return [_records(line) for line in text.strip().splitlines()]


def named(text: str) -> str:
    """Return a text with the names of directories and topics instead of their ids."""
    return _ID.sub(lambda found: NAMES.get(found[0], found[0]), text)


def told(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Return columns of rows, or fields of them, as a case has them."""
    return [" ".join(_text(_at(row, name.split("."))) for name in columns) for row in rows]


def _story(name: str, lines: str, begins: Mapping[str, Story]) -> Story:
    story = Story(name)
    add: Callable[[str], object] = partial(_add_batch, story)
    for text in lines.splitlines():
        if text.startswith("| "):
            story.asked[-1][1].append(text[2:])
            continue
        line = " ".join(text.split("#")[0].split())
        word, _, rest = line.partition(" ")
        table, _, columns = rest.partition(":")
        if word == "log":
            begin, _, step = rest.partition(" every ")
            story.is_log, story.step_s = True, float(step or 1)
            story.batches += begins[begin].batches if begin else []
        elif word == "with":
            story.given |= {table: list(rows) for table, rows in begins[rest].given.items()}
        elif word == "given":
            add = partial(_add_row, story.given.setdefault(table, []), columns.split(), table)
        elif word == "table":
            story.expected.append((table, columns.split(), []))
            add = story.expected[-1][2].append
        elif word in ("ask", "report"):
            story.asked.append((rest, []))
        elif line:
            add(line)
    return story


def _add_batch(story: Story, line: str) -> None:
    if snapshot := re.fullmatch(r"snapshot (\d+): (.*)", line):
        story.snapshots[int(snapshot[1])] = _records(snapshot[2])
        return
    times = re.fullmatch(r"(\d+) x (.*)", line)
    story.batches += (
        [_records(times[2]) for _ in range(int(times[1]))] if times else [_records(line)]
    )


def _records(line: str) -> list[Record]:
    return [_record(text) for text in line.split(";")]


def _record(text: str) -> Record:
    word, *more = text.split()
    if word in _WORDS:
        word, *more = _WORDS[word].format(*more).split()
    named = dict(one.split("=", 1) for one in more if "=" in one)
    plain = [one for one in more if "=" not in one]
    if word.isdecimal():
        index, topic_id = int(word), TopicId(TOPIC)
        return PartitionChangeRecord(partition_id=index, topic_id=topic_id, **_fields(named))
    match word:
        case "register":
            own = _directories([one for one in plain[1:] if one != "fenced"])
            found = register(int(plain[0]), own, epoch=int(named.get("epoch", 0)))
            return replace(found, fenced="fenced" in plain)
        case "broker":
            return BrokerRegistrationChangeRecord(
                broker_id=BrokerId(int(plain[0])),
                broker_epoch=BrokerEpoch(int(named.pop("epoch", 0))),
                **_fields(named),
            )
        case "topic":
            return TopicRecord(name=plain[0].rstrip("*"), topic_id=_topic(plain[0]))
        case "remove":
            return RemoveTopicRecord(topic_id=_topic(plain[0]))
        case "partition":
            return partition_record(_topic(plain[-1]), int(plain[0]), **_fields(named))
        case "config":
            ((name, value),) = named.items()
            resource = "" if "cluster" in plain else plain[-1] if plain else "orders"
            kind = 2 if resource else 4
            value = None if value == "-" else value
            return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
        case "controller":
            return LeaderChangeMessage(leader_id=int(plain[0]))  # type: ignore[return-value]
        case "kraft.version":
            return KRaftVersionRecord(k_raft_version=int(plain[0]))  # type: ignore[return-value]
    return convert(named, _RECORDS[word], strict=False)


def _topic(text: str) -> TopicId:
    return ANOTHER if text.endswith("*") else TopicId(TOPIC)


def _fields(named: Mapping[str, str]) -> dict[str, Any]:
    return {name: _field(name, text) for name, text in named.items()}


def _field(name: str, text: str) -> object:
    parts = text.split(",") if text else []
    if name in ("directories", "log_dirs"):
        return _directories(parts)
    numbers = tuple(BrokerId(int(one)) for one in parts)
    return numbers[0] if name in _NUMBERS else numbers


def _directories(names: Sequence[str]) -> tuple[DirectoryId, ...]:
    return tuple(DirectoryId(DIRECTORIES[name]) for name in names)


def _add_row(rows: list[Row], columns: Sequence[str], table: str, line: str) -> None:
    rows.append(given_row(columns, schema_of(table), line, START))


def given_row(columns: Sequence[str], schema: pa.Schema, line: str, begin: datetime) -> Row:
    """Return a row of a table from its text; times are since a begin."""
    cells = zip(columns, line.split(), strict=True)
    return {name: _value(text, schema.field(name).type, begin) for name, text in cells}


def _value(text: str, kind: pa.DataType, begin: datetime) -> object:
    if text == "-":
        return None
    if pa.types.is_timestamp(kind):
        return begin + timedelta(seconds=float(text))
    if pa.types.is_list(kind):
        return [_value(one, kind.value_type, begin) for one in text[1:-1].split(",") if one]
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_boolean(kind):
        return text == "true"
    if pa.types.is_string(kind):
        return json.loads(text) if text[0] == '"' else text
    return float(text) if pa.types.is_floating(kind) else int(text)


def _at(value: Any, names: Sequence[str]) -> object:
    for name in names:
        value = None if value is None else value[name]
    return value


def _text(value: object) -> str:
    match value:
        case None | "":
            return "-" if value is None else '""'
        case list():
            return f"[{','.join(map(_text, value))}]"
        case datetime():
            return f"{(value - START).total_seconds():g}"
        case bool() | float():
            return f"{value:g}" if isinstance(value, float) else str(value).lower()
        case _:
            return NAMES.get(str(value), str(value))
