"""Lines of brokers' logs about directories."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from analytics.ask.broker_logs import (
    LogLine,
    lines_about_directories,
    read_broker_logs,
    zone_named,
)
from analytics.errors import ReplayInputError

KAFKA = """\
[2026-01-31 12:00:00,001] INFO [KafkaRaftServer nodeId=3] Kafka Server started (kafka.server)
[2026-01-31 12:05:00,123] ERROR Error appending records to t-0 in dir /data/d1 (kafka.Ldfc)
java.io.IOException: Input/output error
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)
[2026-01-31 12:05:00,124] WARN [RM broker=3] Stopping serving replicas in dir /data/d1 (k.s)
[2026-01-31 12:05:00,125] INFO Loading logs from log dirs /data/d2 (kafka.log.LogManager)
[2026-02-31 12:05:00,126] ERROR Stopping serving logs in dir /data/d1 (kafka.log.LogManager)
"""
OURS = (
    "2026-01-31 12:05:00,200 ERROR broker.disk.log_dir log directory went offline "
    "broker_id=1 directory_id=D2 log_dir=/disks/2\n"
)
ID = "EDlTV87IbFJv0awjd6b7u-"
KAFKA_4 = f"""\
[2026-01-31 12:05:00,123] ERROR [RM broker=3] Error while writing in directory /data/d1 (k.s.RM)
[2026-01-31 12:05:00,124] WARN Stopping serving replicas in dir /data/d1 with uuid Some({ID}) (k)
[2026-01-31 12:05:00,125] WARN Broker 3: they are in the failed log directory /data/d1. (k.s.RM)
[2026-01-31 12:05:00,126] WARN Stopping serving logs in dir /data/d2 (kafka.log.LogManager)
"""
NOTICED = datetime(2026, 1, 31, 12, 5, 0, 123_000, tzinfo=UTC)


def found(text: str, zone: tzinfo = UTC) -> list[LogLine]:
    return list(lines_about_directories("server.log", text.splitlines(keepends=True), zone))


def test_warnings_and_errors_about_directories_are_found_with_their_broker() -> None:
    first, second = found(KAFKA)
    assert (first.line, first.level, first.broker, first.log_dir) == (2, "ERROR", 3, "/data/d1")
    assert (second.line, second.level, second.broker, second.log_dir) == (5, "WARN", 3, "/data/d1")
    assert first.time == NOTICED
    (own,) = found(OURS)
    assert (own.broker, own.log_dir, own.directory) == (1, "/disks/2", "D2")


def test_the_times_of_a_log_are_in_the_zone_of_its_broker() -> None:
    (winter, *_) = found(KAFKA, zone_named("Europe/Berlin"))
    (summer, *_) = found(KAFKA.replace("2026-01", "2026-07"), zone_named("Europe/Berlin"))

    assert winter.time == NOTICED - timedelta(hours=1)
    assert summer.time == NOTICED.replace(month=7) - timedelta(hours=2)


def test_without_a_zone_the_times_are_those_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        (line, *_) = lines_about_directories("server.log", KAFKA.splitlines())
    finally:
        monkeypatch.undo()
        time.tzset()

    assert line.time == NOTICED - timedelta(hours=9)


@pytest.mark.parametrize("name", ["Europe/Berlim", "", "../etc", "+25:00"])
def test_an_unknown_zone_is_one_line(name: str) -> None:
    with pytest.raises(ReplayInputError, match=r"--log-zone: expected a time zone such as UTC"):
        zone_named(name)


def test_an_id_in_one_line_of_kafkas_is_that_of_the_path_unless_another_follows_there() -> None:
    lines = found(KAFKA_4)

    assert [one.log_dir for one in lines] == ["/data/d1"] * 3 + ["/data/d2"]
    assert [one.directory for one in lines] == [ID] * 3 + [None]
    other = KAFKA_4.replace(ID, ID.lower())
    assert [one.directory for one in found(KAFKA_4 + other)][::2] == [None, None, None, None]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(b"\xff" + KAFKA.encode())
    assert len(read_broker_logs([tmp_path / "server.log"])) == 2
    with pytest.raises(ReplayInputError, match=r"broker log .*gone.* cannot be read: No such file"):
        read_broker_logs([tmp_path / "gone"])
