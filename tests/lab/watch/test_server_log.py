"""Which lines of a server tell that a log directory failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.watch.server_log import Failure, FailureLines, last_failures, last_words

PATHS = ("/d/1", "/d/10", "/d/2")
AT = "2026-01-01 00:00:00,001"

OURS = (
    f"{AT} ERROR broker.disk log directory /d/1 (uMnA) went offline: [Errno 5] I/O: '/d/1/x' "
    "cause=full"
)
CHANNEL_3_7 = (
    f"[{AT}] ERROR Error while writing to checkpoint file /d/1/replication-offset-checkpoint "
    "(kafka.server.LogDirFailureChannel)"
)
CHANNEL_4_3 = (
    f"{AT} ERROR org.apache.kafka.storage.internals.log.LogDirFailureChannel - Error while "
    "appending records to foo-1 in dir /d/10"
)
REPLICAS = (
    f"{AT} WARN kafka.server.ReplicaManager - [ReplicaManager broker=1] Stopping serving replicas "
    "in dir /d/1 with uuid Some(fri) because the log directory has failed."
)
LOGS = f"[{AT}] WARN Stopping serving logs in dir /d/1 (kafka.log.LogManager)"
STARTING = (
    f"{AT} INFO kafka.server.BrokerServer - "
    "[BrokerServer id=1] Transition from SHUTDOWN to STARTING"
)


def read(*lines: str) -> list[tuple[str, str]]:
    news = FailureLines(PATHS)
    found = map(news.read, lines)
    return [(one.path, one.cause) for one in found if one is not None]


@pytest.mark.parametrize(
    ("line", "path", "cause"),
    [
        (OURS, "/d/1", "[Errno 5] I/O: '/d/1/x'"),
        (
            CHANNEL_3_7,
            "/d/1",
            "Error while writing to checkpoint file /d/1/replication-offset-checkpoint",
        ),
        (CHANNEL_4_3, "/d/10", "Error while appending records to foo-1 in dir /d/10"),
        (REPLICAS, "/d/1", ""),
        (LOGS, "/d/1", ""),
    ],
)
def test_the_first_sentence_of_each_release_names_the_directory(
    line: str, path: str, cause: str
) -> None:
    assert read(line) == [(path, cause)]


def test_of_kafkas_sentences_about_one_failure_the_first_counts() -> None:
    assert read(CHANNEL_3_7, REPLICAS, LOGS, CHANNEL_3_7) == [read(CHANNEL_3_7)[0]]


def test_a_directory_that_fails_after_a_restart_is_told_again() -> None:
    assert len(read(LOGS, STARTING, LOGS)) == 2


def test_the_time_of_a_line_is_that_of_its_stamp() -> None:
    news = FailureLines(PATHS)
    assert news.read(LOGS.removeprefix(f"[{AT}] ")) == Failure(path="/d/1", cause="", wall_ms=None)
    other = FailureLines(PATHS).read(LOGS)
    assert other is not None
    assert other.wall_ms is not None
    assert other.wall_ms % 1000 == 1


@pytest.mark.parametrize(
    "line",
    [
        f"{AT} INFO broker.disk log directory /d/1 is online",
        CHANNEL_3_7.replace("/d/1/", "/other/"),
        CHANNEL_3_7.replace("/d/1/", "/d/11/"),
        f"{AT} WARN kafka.log.LogCleaner - Stopping cleaning logs in dir /d/1",
    ],
)
def test_other_lines_tell_of_no_failure(line: str) -> None:
    assert read(line) == []


def test_the_last_words_of_a_server_are_no_frame_of_a_stack_trace() -> None:
    lines = [
        "ERROR kafka.Kafka$ - Exiting",
        "java.lang.RuntimeException: No x",
        "\tat kafka.Kafka.main",
        "",
    ]
    assert last_words(lines) == "java.lang.RuntimeException: No x"
    assert last_words([]) == ""


def test_the_last_failure_of_each_directory_is_read_from_the_end_of_a_log(tmp_path: Path) -> None:
    file = tmp_path / "broker-1.log"
    file.write_text("\n".join((LOGS, CHANNEL_4_3, STARTING, CHANNEL_3_7, "")))
    found = last_failures(file, PATHS)
    assert {path: one.cause != "" for path, one in found.items()} == {"/d/1": True, "/d/10": True}
    assert last_failures(tmp_path / "none.log", PATHS) == {}
