from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.directory.logs_in_use import FoundLog
from jbodlab.vocabulary.errors import LogDirError
from tests.broker.disks import (
    bring_back,
    directory_id,
    eio,
    failed_ids,
    make_log_dir,
    make_log_dirs,
)


class Listener:
    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told

    def log_dir_failed(self, log_dir: LogDir, error: LogDirError) -> None:
        self.told.append(f"{self.name}: {log_dir.path.name} {error.cause}")

    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        self.told.append(f"{self.name}: {log_dir.path.name} is back for {former.path.name}")


class BrokenListener:
    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        raise RuntimeError("one replica could not be taken in")

    def log_dir_failed(self, log_dir: LogDir, error: LogDirError) -> None:
        raise RuntimeError("a second failure while the first is handled")


def test_exactly_the_failed_directory_goes_offline(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path)

    log_dirs.fail(log_dirs.all[1], "[Errno 5] Input/output error")

    assert [log_dir.path.name for log_dir in log_dirs.online()] == ["d1", "d3"]
    assert log_dirs.any_offline
    assert log_dirs.by_id(directory_id(2)) is None
    assert log_dirs.by_id(directory_id(1)) is log_dirs.all[0]
    assert log_dirs.by_path(tmp_path / "d2") is log_dirs.all[1]
    assert log_dirs.online_ids() == (directory_id(1), directory_id(3))
    assert failed_ids(log_dirs) == (directory_id(2),)


def test_listeners_are_told_once_and_in_order(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path)
    told: list[str] = []
    log_dirs.add_failure_listener(Listener("replicas", told))
    log_dirs.add_failure_listener(Listener("controller link", told))

    log_dirs.fail(log_dirs.all[0], "first")
    log_dirs.fail(log_dirs.all[0], "second")

    assert told == ["replicas: d1 first", "controller link: d1 first"]


def test_a_failing_listener_does_not_keep_the_news_from_the_others(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path)
    told: list[str] = []
    log_dirs.add_failure_listener(BrokenListener())
    log_dirs.add_failure_listener(Listener("controller link", told))

    log_dirs.fail(log_dirs.all[0], "gone")

    assert told == ["controller link: d1 gone"]


def test_the_last_directory_takes_the_process_along(tmp_path: Path) -> None:
    reasons: list[str] = []
    log_dirs = make_log_dirs(tmp_path, 2, on_fatal=reasons.append)

    log_dirs.fail(log_dirs.all[0], "gone")
    assert reasons == []
    log_dirs.fail(log_dirs.all[1], "gone too")

    assert len(reasons) == 1
    assert "all log directories" in reasons[0]


def test_the_metadata_directory_takes_the_process_along(tmp_path: Path) -> None:
    reasons: list[str] = []
    log_dirs = make_log_dirs(tmp_path, on_fatal=reasons.append)
    log_dirs.fail(log_dirs.metadata_dir, "gone")
    assert reasons == [f"the metadata log directory {tmp_path}/metadata has failed: gone"]
    assert failed_ids(log_dirs) == ()

    reasons.clear()
    shared = make_log_dir(tmp_path / "shared", 1)
    log_dirs = LogDirs(
        [shared, make_log_dir(tmp_path / "other", 2)],
        metadata_dir=shared,
        on_fatal=reasons.append,
    )
    log_dirs.fail(shared, "gone")
    assert len(reasons) == 1
    assert failed_ids(log_dirs) == (directory_id(1),)


async def test_a_failed_call_takes_its_directory_offline_and_no_other(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path)
    told: list[str] = []
    log_dirs.add_failure_listener(Listener("replicas", told))

    with pytest.raises(LogDirError):
        await log_dirs.all[2].run(eio)

    assert told == ["replicas: d3 [Errno 5] Input/output error"]
    assert await log_dirs.all[0].run(lambda: "unharmed") == "unharmed"


def test_revived_directory_takes_the_place_of_what_failed(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path)
    told: list[str] = []
    log_dirs.add_failure_listener(Listener("replicas", told))
    log_dirs.add_return_listener(BrokenListener())
    log_dirs.add_return_listener(Listener("replicas", told))
    former = log_dirs.all[1]
    log_dirs.fail(log_dirs.all[0], "gone")
    log_dirs.fail(former, "gone")

    life = bring_back(log_dirs, former)

    assert [log_dir.path.name for log_dir in log_dirs.online()] == ["d2", "d3"]
    assert log_dirs.by_id(directory_id(2)) is log_dirs.by_path(tmp_path / "d2") is life
    assert failed_ids(log_dirs) == (directory_id(1),)
    assert log_dirs.any_offline
    log_dirs.fail(former, "late news of the former life")
    assert life.is_online
    log_dirs.fail(life, "again")
    assert failed_ids(log_dirs) == (directory_id(1), directory_id(2))
    assert told == [
        "replicas: d1 gone",
        "replicas: d2 gone",
        "replicas: d2 is back for d2",
        "replicas: d2 again",
    ]


def test_directory_that_fails_while_it_is_being_revived_is_no_news(tmp_path: Path) -> None:
    reasons: list[str] = []
    log_dirs = make_log_dirs(tmp_path, 1, on_fatal=reasons.append)
    told: list[str] = []
    log_dirs.add_failure_listener(Listener("replicas", told))
    log_dirs.fail(log_dirs.all[0], "gone")
    reasons.clear()
    former = log_dirs.all[0]
    life = former.next_life(former.directory_id, (0, 0))

    log_dirs.fail(life, "still broken")

    assert (life.cause, former.cause) == ("still broken", "gone")
    assert log_dirs.all == (former,)
    assert told == ["replicas: d1 gone"]
    assert reasons == []
