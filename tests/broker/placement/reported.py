"""A broker that reports the directories of its replicas, driven by a text.

Each line is a command, and behind ` -> ` stands what was reported since the last one:

    partition 0 1:? 2 isr=2   broker 1 has it in a directory that nobody knows, broker 2 in its own
    change 0 isr=2 leader=2   what the metadata say next of a partition
    publish                   let the metadata of the lines above come, in one delta
    online, review            wait for the logs; compare the metadata with what there is
    accept                    let the controller take over what was reported

A directory is `d0`, `d1`, `?` (unknown), `lost`, `migrating` or `-` (not assigned).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from broker.controller_link.assignments import Assignment
from broker.disk.directory.log_dirs import LogDirs
from broker.placement.directory_reports import DirectoryReports
from broker.replica.registry.registry import ReplicaRegistry
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.storage.log.loaded_log import create_log
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.directory_id import LOST, MIGRATING, UNASSIGNED
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicId, TopicIdPartition
from tests.broker.groups.scenario import scenarios_of
from tests.broker.replicas import ME, TOPIC_ID, Metadata, change, directory_id, partition_record
from tests.broker.stage import Stage, tp
from tests.waiting import turns

UNKNOWN = directory_id(777)


class Story(NamedTuple):
    """A story of a file; `JBODLAB_REWRITE_SCENARIOS` writes what happens into it."""

    file: Path
    title: str
    text: str

    async def check(self, broker: Reported) -> None:
        happened = await broker.play(self.text)
        if os.environ.get("JBODLAB_REWRITE_SCENARIOS"):
            whole = self.file.read_text()
            before, after = (f"== {self.title}\n{each}" for each in (self.text, happened))
            self.file.write_text(whole.replace(before, after))
        assert happened == self.text


def stories(name: str) -> dict[str, Story]:
    """The stories of a file of `scenarios/`, by their titles."""
    file = Path(__file__).parent / "scenarios" / f"{name}.txt"
    found = scenarios_of(file.read_text()).items()
    return {title: Story(file, title, text.rstrip("\n") + "\n") for title, text in found}


class Sender:
    """Keeps what was reported; nothing is accepted before the metadata says so."""

    def __init__(self) -> None:
        self.reports: list[tuple[int, DirectoryId]] = []
        self.waiting: dict[TopicIdPartition, Assignment] = {}

    def assign(
        self,
        topic_id: TopicId,
        partition: int,
        directory_id: DirectoryId,
        callback: Callable[[], None] | None = None,
    ) -> None:
        key = TopicIdPartition(topic_id, partition)
        self.reports.append((partition, directory_id))
        self.waiting[key] = Assignment(
            partition=key, directory_id=directory_id, on_accepted=callback
        )

    def pending(self, partition: TopicIdPartition) -> Assignment | None:
        return self.waiting.get(partition)


class Reported(Stage):
    """A broker with two directories, its replicas, and what it tells of them."""

    ARE_ASKED_BY_REPLICAS = False
    """Whether replicas have their directory reported as soon as they are made."""

    def __init__(self, root: Path) -> None:
        self.sender = Sender()
        self.new: set[int] = set()
        """Partitions that this broker has never heard of before."""
        super().__init__(root, assigner=self._reports if self.ARE_ASKED_BY_REPLICAS else None)
        if not self.ARE_ASKED_BY_REPLICAS:
            self._reports(self.host.registry, self.host.log_dirs)
        self.host.log_dirs.add_failure_listener(self.reports)
        self.metadata = Metadata(self.host.manager.roles, self.reports)
        self.pending: list[Record] = []
        self.printed = 0
        here = dict(zip(("d0", "d1"), self.host.directories, strict=True))
        self.named = {
            **here,
            **{"?": UNKNOWN, "lost": LOST, "migrating": MIGRATING, "-": UNASSIGNED},
        }

    def _reports(self, replicas: ReplicaRegistry, log_dirs: LogDirs) -> DirectoryReports:
        self.reports = DirectoryReports(
            replicas, log_dirs, self.sender, lambda key: key.partition in self.new
        )
        return self.reports

    def publish(self, *records: Record) -> None:
        """Let metadata come; the first ones have the brokers and the topic as well."""
        if self.metadata.image.topics.by_id:
            self.apply(*records)
        else:
            self.describe((), *records, partitions=0)

    def accept(self) -> None:
        """The controller takes over all that was reported."""
        waiting, self.sender.waiting = self.sender.waiting, {}
        self.apply(
            *(
                PartitionChangeRecord(
                    partition_id=key.partition,
                    topic_id=key.topic_id,
                    directories=self._with(key, each.directory_id),
                )
                for key, each in waiting.items()
            )
        )

    def _with(self, key: TopicIdPartition, directory: DirectoryId) -> tuple[DirectoryId, ...]:
        state = self.metadata.image.topics.partition(key.topic_id, key.partition)
        assert state is not None
        known = dict(zip(state.replicas, state.directories, strict=True))
        return tuple({**known, ME: directory}[replica] for replica in state.replicas)

    async def play(self, text: str) -> str:
        """Return the text with what is reported, command by command."""
        lines = []
        for line in text.splitlines():
            command = line.partition(" -> ")[0]
            told = "" if not command or command.startswith("#") else await self._run(command)
            lines.append(f"{command} -> {told}" if told else command)
        return "\n".join(lines) + "\n"

    async def _run(self, line: str) -> str:
        command, *words = line.split()
        fields = dict(word.split("=") for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        if command in ("partition", "change"):
            if command == "partition":
                self.pending.append(self._partition(*names))
            if command == "change" or fields:
                self.pending.append(self._change(names[0], fields))
            return ""
        told = await self._do(command, names)
        await turns()
        if command == "knows":
            # Replicas are made by threads then: the next command waits for them, and tells.
            return ""
        new, self.printed = self.sender.reports[self.printed :], len(self.sender.reports)
        names_of = {directory: name for name, directory in self.named.items()}
        reports = [f"{index} {names_of[found]}" for index, found in sorted(new)]
        return ", ".join([*([told] if told else []), *reports])

    async def _do(self, command: str, names: list[str]) -> str | None:
        match command:
            case "publish":
                records, self.pending = self.pending, []
                self.publish(*records)
            case "online":
                all_of_them = [each.topic_partition for each in self.host.registry.partitions()]
                for partition in [tp(int(name)) for name in names] or all_of_them:
                    await self.host.online(partition)
            case "fails":
                self.fail(int(names[0].removeprefix("d")))
            case "log-fails":
                self.log_at(int(names[0])).fail()
                self.log_at(int(names[0])).on_failed(RuntimeError("of this log alone"))
            case "logs":
                for index in range(int(names[0])):
                    self._load(index)
            case "new":
                self.new |= set(map(int, names))
            case "moves":
                self.reports.assign(TOPIC_ID, int(names[0]), self.named[names[1]], lambda: None)
            case "loss":
                return ", ".join(self.partition_at(int(each)).data_loss.name for each in names)
            case "review":
                self.reports.review()
            case "accept":
                self.accept()
            case "forgets":
                self.sender.waiting.clear()
            case _:
                raise AssertionError(command)
        return None

    def _partition(self, index: str, *places: str) -> Record:
        replicas = [int(each.partition(":")[0]) for each in places]
        directories = [
            self.named[name] if name else self.place(broker)
            for broker, name in zip(replicas, (e.partition(":")[2] for e in places), strict=True)
        ]
        return partition_record(replicas, directories, index=int(index))

    def _change(self, index: str, fields: dict[str, str]) -> Record:
        given: dict[str, Any] = {}
        for key, value in fields.items():
            if key == "leader":
                given[key] = int(value)
            elif key == "dirs":
                given["directories"] = tuple(
                    self.place(BrokerId(2)) if each == "2" else self.named[each]
                    for each in value.split(",")
                )
            else:
                members = tuple(int(each) for each in value.split(",") if each)
                given["last_known_elr" if key == "known" else key] = members
        return change(index=int(index), **given)

    def _load(self, index: int) -> None:
        log_dir = self.host.dirs[0]
        log = create_log(log_dir.fs, log_dir.path, tp(index), TOPIC_ID, LogConfig(), log_dir.files)
        self.host.manager.placement.add_loaded(log, log_dir, 0)
