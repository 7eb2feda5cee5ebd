"""Runs the text stories of consumer groups in `scenarios`.

A story is a list of commands. Behind each stand the records that it writes, by type and member (`-`
before a tombstone), the answer, and the members of the group when they are others.

    group TOPIC=COUNT ... [interval=MS] [session=MS]   the topics, and settings; by default t=12
    joined NAME ...           members of the topic t. Tells nothing
    two                       members a and b have what they shall have. Tells nothing
    join NAME [TOPIC ...] [KEY=VALUE ...]              of the topic t, unless said otherwise
    beat NAME [epoch=N] [owned=told|has|none] [topics=..] [KEY=VALUE ...]
    asks NAME [owned=..]      a heartbeat whose answer may wait, and is not looked at
    commit NAME PARTITION ... epoch=N [version=N]      offsets of t; NAME `-` is no member
    txn NAME PARTITION ... epoch=N                     the same in a transaction
    fetch NAME epoch=N
    settle                    members confirm and are told until nothing changes. Tells nothing
    shows NAME ...            state, epoch, partitions, and those to be given up
    epochs                    of the group and of its assignment
    expressions               those that are resolved, in ms from the beginning, with their topics
    timers                    those of members, in ms from now
    wait MS, back MS          timers fire; the clock is set back
    fires KIND NAME           a timer that is not set fires nevertheless
    topic NAME COUNT, grow NAME COUNT, delete NAME
    config KEY=VALUE          of the group
    load                      another leader loads the log
    stall, replicate, late    the high watermark stays; goes on; what waits for it is too late

`JBODLAB_REWRITE_SCENARIOS=1` writes what happens in place of what is expected.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from broker.groups.consumer.replay import group_of
from broker.groups.requests import ConsumerGroupHeartbeat
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicIdPartition
from tests.broker.groups.bench import START_MS, FakeTopics
from tests.broker.groups.consumer.commits import commit, fetch, in_transaction
from tests.broker.groups.consumer.rig import GROUP, Rig, named

SETTINGS = {
    "interval": "consumer_assignment_interval_ms",
    "session": "consumer_session_timeout_ms",
}
SILENT = ("group", "joined", "two", "settle")
INTERVAL_MS = 5_000
"""The interval of heartbeats that goes without saying."""


def run_story(text: str) -> str:
    """Return a story with what happens behind each command."""
    story = _Story()
    lines = []
    for line in text.splitlines():
        command = line.partition(" -> ")[0]
        told = "" if not command or command.startswith("#") else "; ".join(story.run(command))
        lines.append(f"{command} -> {told}" if told else command)
    return "\n".join(lines) + "\n"


class _Story:
    def __init__(self) -> None:
        self.rig = Rig()
        self.told: dict[str, Any] = {}
        self.written = 0
        self.members: set[str] = set()

    def run(self, line: str) -> list[str]:
        command, *words = line.split()
        fields: dict[str, Any] = {}
        for key, _, value in (word.partition("=") for word in words if "=" in word):
            fields[key] = int(value) if value.lstrip("-").isdigit() else value
        names = [word for word in words if "=" not in word]
        answer = getattr(self, f"_{command}")(names, fields)
        happened = [*self._written(), *([answer] if answer else []), *self._changed()]
        return [] if command in SILENT else happened

    def _written(self) -> Iterable[str]:
        new = self.rig.records[self.written :]
        self.written = len(self.rig.log)
        if new:
            yield "writes " + " ".join(
                ("-" if value is None else "")
                + str(key.RECORD_TYPE)
                + getattr(key, "member_id", "")
                for key, value in new
            )

    def _changed(self) -> Iterable[str]:
        group = group_of(self.rig.shard.tables.written, GROUP)
        now = set() if group is None else {*group.members}
        if now != self.members:
            self.members = now
            yield f"members {' '.join(sorted(now)) or 'none'}"

    def _response(self, member_id: str, response: Any) -> str:
        if isinstance(response, ErrorCode):
            return response.name
        said = f"epoch {response.member_epoch}"
        if response.assignment is not None:
            self.told[member_id] = response.assignment
            said += f" gets {self._ranges(response.assignment)}"
        return said

    def _ranges(self, partitions: Iterable[TopicIdPartition]) -> str:
        """Return partitions by topic, those in a row as the first and the last."""
        found = []
        by_topic = sorted((self._topic_name(each), each.partition) for each in partitions)
        for topic, group in groupby(by_topic, key=lambda each: each[0]):
            numbers = [number for _, number in group]
            rows = groupby(enumerate(numbers), key=lambda each: each[1] - each[0])
            ends = [(row[0], row[-1]) for row in ([n for _, n in each] for _, each in rows)]
            spans = (f"{a}-{b}" if a < b else str(a) for a, b in ends)
            found.append(f"{topic} {','.join(spans)}")
        return " ".join(found) or "nothing"

    def _topic_name(self, partition: TopicIdPartition) -> str:
        return self.rig.topics.topic_name(partition.topic_id) or "?"

    def _owned(self, member_id: str, which: str | None) -> Iterable[TopicIdPartition] | None:
        if which == "has":
            return self.rig.current(member_id).assigned
        return None if which is None else self.told[member_id] if which == "told" else ()

    # The commands

    def _group(self, names: list[str], fields: dict[str, Any]) -> None:
        settings = {SETTINGS[key]: fields.pop(key) for key in SETTINGS if key in fields}
        self.rig = Rig(FakeTopics(**fields), **settings)

    def _joined(self, names: list[str], fields: dict[str, Any]) -> None:
        for name in names:
            self.told[name] = self.rig.join(name).assignment

    def _two(self, names: list[str], fields: dict[str, Any]) -> None:
        self._joined(["a", "b"], fields)
        self.rig.settle()

    def _join(self, names: list[str], fields: dict[str, Any]) -> str:
        response = self.rig.join(*names, **fields)
        said = self._response(names[0], response)
        interval_ms = getattr(response, "heartbeat_interval_ms", INTERVAL_MS)
        return said if interval_ms == INTERVAL_MS else f"{said}, every {interval_ms} ms"

    def _beat(self, names: list[str], fields: dict[str, Any]) -> str:
        (name,) = names
        owned = self._owned(name, fields.pop("owned", None))
        if "topics" in fields:
            fields["subscribed_topic_names"] = tuple(fields.pop("topics").split(","))
        return self._response(name, self.rig.beat(name, fields.pop("epoch", None), owned, **fields))

    def _asks(self, names: list[str], fields: dict[str, Any]) -> None:
        (name,) = names
        owned = self._owned(name, fields.pop("owned", None))
        who = {"group_id": GROUP, "member_id": name, "client_id": "c", "client_host": "/1.2.3.4"}
        given = None if owned is None else named(owned)
        epoch = self.rig.current(name).epoch
        self.rig.ask(ConsumerGroupHeartbeat(**who, member_epoch=epoch, topic_partitions=given))

    def _commit(self, names: list[str], fields: dict[str, Any]) -> str:
        numbers = map(int, names[1:])
        return _errors(
            commit(self.rig, names[0].strip("-"), fields.pop("epoch"), *numbers, **fields)
        )

    def _txn(self, names: list[str], fields: dict[str, Any]) -> str:
        numbers = map(int, names[1:])
        return _errors(in_transaction(self.rig, names[0].strip("-"), fields["epoch"], *numbers))

    def _fetch(self, names: list[str], fields: dict[str, Any]) -> str:
        return _errors(fetch(self.rig, names[0].strip("-") or None, fields["epoch"]))

    def _settle(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.settle()

    def _shows(self, names: list[str], fields: dict[str, Any]) -> str:
        return "; ".join(self._shown(name) for name in names)

    def _shown(self, name: str) -> str:
        current = self.rig.current(name)
        said = f"{current.state.name} epoch {current.epoch} has {self._ranges(current.assigned)}"
        if current.pending_revocation:
            said += f" gives up {self._ranges(current.pending_revocation)}"
        return said

    def _epochs(self, names: list[str], fields: dict[str, Any]) -> str:
        group = self.rig.group()
        return f"{group.epoch}, {group.assignment_epoch}"

    def _expressions(self, names: list[str], fields: dict[str, Any]) -> str:
        found = self.rig.group().regexes.items()
        rows = (
            f"{regex} at {each.timestamp - START_MS} {' '.join(each.topics) or 'nothing'}"
            for regex, each in found
        )
        return ", ".join(rows) or "none"

    def _timers(self, names: list[str], fields: dict[str, Any]) -> str:
        rows = [
            (at_ms - self.rig.now_ms, str(key[1]), str(key[-1]))
            for key, at_ms in self.rig.timers.items()
            if key[0] == "consumer"
        ]
        return ", ".join(f"{kind} {who} {ms}" for ms, kind, who in sorted(rows)) or "none"

    def _wait(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.advance(int(names[0]))

    def _back(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.now_ms -= int(names[0])

    def _fires(self, names: list[str], fields: dict[str, Any]) -> None:
        key = ("consumer", names[0], GROUP, names[1])
        self.rig.carry_out(self.rig.shard.timer(key, self.rig.now_ms))

    def _topic(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.topics.create(names[0], int(names[1]))

    def _grow(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.topics.grow(names[0], int(names[1]))

    def _delete(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.topics.delete(names[0])

    def _config(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.configs[GROUP] = {key: str(value) for key, value in fields.items()}

    def _load(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.load()

    def _stall(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.replicates = False

    def _replicate(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.replicates = True
        self.rig.replicate()

    def _late(self, names: list[str], fields: dict[str, Any]) -> None:
        self.rig.commit_in_time_failed()


def _errors(found: ErrorCode | dict[int, ErrorCode]) -> str:
    """Return one error for all, or those of the partitions."""
    if isinstance(found, dict):
        return ", ".join(f"{number} {code.name}" for number, code in found.items())
    return found.name
