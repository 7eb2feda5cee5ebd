"""A broker whose directories fail and come back, driven by a text: see `reported.py`, and these:

left d1, knows d1 new     the controller takes directories from the broker, and knows some of it
fails d0, replaced        a directory fails; directory 0 fails, and an empty disk is in its place
revive [new | third]      the directory comes back, with its own id or another one
keep PATH, back PATH      what lies there is copied away, and put back
gone PATH                 somebody removes it; `find` is the look for that
shows 0                   the state of a replica, where its log is, and its end
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from broker.disk.directory.log_dir import LogDir
from broker.disk.life.loading import load_revived
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.ids import DirectoryId, TopicPartition
from tests.broker.placement.reported import Reported
from tests.broker.replicas import (
    TOPIC,
    batch,
    broker,
    config,
    directories_left,
    directory_id,
    until,
)
from tests.waiting import quiet


class Returned(Reported):
    """One broker of two, with the directories 0 and 1, whose metadata a test writes."""

    ARE_ASKED_BY_REPLICAS = True

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        for listener in (self.host.manager.roles.returning, self.reports):
            self.host.log_dirs.add_return_listener(listener)
        self.named |= {"new": directory_id(15), "third": directory_id(12)}
        self.kept = root / "kept"

    @property
    def first(self) -> LogDir:
        return self.host.log_dirs.all[0]

    async def settle(self) -> None:
        await quiet(self.host.log_dirs.all)

    async def revive(
        self,
        new_id: DirectoryId | None = None,
        former: LogDir | None = None,
        in_use: Collection[object] | None = None,
    ) -> LogDir:
        former = former or self.first
        identity = former.disk.identity(former.path)
        life = former.next_life(new_id or former.directory_id, identity)
        roles = self.host.manager.roles
        if in_use is None:
            in_use = roles.returning.topic_partitions_in_use()
        logs = await load_revived(
            self.host.log_dirs,
            life,
            lambda _id, partition: (
                None if (TOPIC, partition) in in_use else TopicPartition(TOPIC, partition)
            ),
            lambda _: LogConfig(),
            is_ours=lambda _: True,
        )
        assert not roles.returning.unsettled(former)
        life.replica_count = len(logs)
        self.host.log_dirs.revive(former, life, logs)
        return life

    async def _do(self, command: str, names: list[str]) -> str | None:
        directories = [self.named[name] for name in names if name in self.named]
        path = self.first.path / names[0] if names and names[0] != "." else self.first.path
        match command:
            case "left":
                self.apply(directories_left(1, *directories))
            case "knows":
                self.apply(broker(1, *directories))
            case "fails" if names == ["d0"]:
                self.host.log_dirs.fail(self.first, "test")
            case "replaced":
                self.host.log_dirs.fail(self.first, "test")
                self.pending.insert(0, directories_left(1, self.named["d1"]))
                shutil.rmtree(self.first.path)
                self.first.path.mkdir()
            case "has-dead-third":
                third = LogDir(self.first.path.with_name("third"), self.named["third"])
                third.path.mkdir()
                self.host.log_dirs.all = (*self.host.log_dirs.all, third)
                third.go_offline("at start")
            case "revive":
                former = self.host.log_dirs.all[2] if names == ["third"] else None
                await self.revive(self.named[names[0]] if names else None, former)
            case "keep":
                shutil.copytree(path, self.kept)
            case "back":
                shutil.rmtree(path, ignore_errors=True)
                self.kept.rename(path)
            case "gone":
                shutil.rmtree(self.host.log_dirs.all[int(names[1][1:])].path / names[0])
            case "find":
                await self.reports.find_lost_replicas()
            case "cordon" | "uncordon":
                for log_dir in self.host.log_dirs.all:
                    if not directories or log_dir.directory_id in directories:
                        log_dir.is_cordoned = command == "cordon"
            case "opened":
                self.host.manager.roles.directories_opened()
            case "produce":
                return str((await self.host.produced(batch(int(names[0])), acks=1)).base_offset)
            case "config":
                self.pending.append(config(*names))
            case "settles":
                await self.settle()
            case "told":
                await until(lambda: self._told(*names))
            case "unsettled":
                return self.host.manager.roles.returning.unsettled(self.first) or "no"
            case "shows":
                return ", ".join(self._shown(int(name)) for name in names)
            case _:
                return await super()._do(command, names)
        return None

    def _told(self, index: str, directory: str) -> bool:
        return dict(self.sender.reports).get(int(index)) == self.named[directory]

    def _shown(self, index: int) -> str:
        partition = self.partition_at(index)
        state = type(partition.state).__name__
        if partition.log is None or partition.is_without_log:
            return f"{state} {partition.data_loss.name}"
        here = partition.log.log_dir.directory_id
        name = next(name for name, each in self.named.items() if each == here)
        return f"{state} {partition.data_loss.name} in {name} to {partition.log.end_offset}"
