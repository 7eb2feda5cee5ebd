from __future__ import annotations

import json

import pytest

from admin_tool.log_dir_actions.described import described, exception_name
from admin_tool.log_dir_actions.table import (
    BrokerDirs,
    Move,
    moves,
    progress,
    render,
    size_text,
    state_of,
)
from admin_tool.requests.dir_details import DirDetail
from admin_tool.requests.log_dirs import HeldReplica, LogDir

GIB = 1 << 30


def held(name: str, size_bytes: int = 1024, lag: int = 0, is_future: bool = False) -> HeldReplica:
    topic, _, partition = name.rpartition("-")
    return HeldReplica(
        topic=topic,
        partition=int(partition),
        size_bytes=size_bytes,
        offset_lag=lag,
        is_future=is_future,
    )


ONE = LogDir(
    path="/mnt/d1",
    error_code=0,
    replicas=(held("foo-0", 400), held("bar-1", 600)),
    total_bytes=10 * GIB,
    usable_bytes=4 * GIB,
)
TWO = LogDir(path="/mnt/d2", error_code=56, replicas=())
TARGET = LogDir(path="/mnt/d3", error_code=0, replicas=(held("foo-0", 100, 7, is_future=True),))


def test_the_json_is_kafkas_to_the_letter() -> None:
    assert described({0: [ONE, TWO], 1: []}) == (
        '{"brokers":[{"broker":0,"logDirs":['
        '{"partitions":[{"partition":"foo-0","size":400,"offsetLag":0,"isFuture":false},'
        '{"partition":"bar-1","size":600,"offsetLag":0,"isFuture":false}],'
        '"error":null,"logDir":"/mnt/d1"},'
        '{"partitions":[],"error":"org.apache.kafka.common.errors.KafkaStorageException",'
        '"logDir":"/mnt/d2"}]},{"broker":1,"logDirs":[]}],"version":1}'
    )


def test_topics_filter_the_output_only() -> None:
    found = json.loads(described({1: [ONE, TARGET]}, ["foo"]))
    assert [
        [one["partition"] for one in log_dir["partitions"]]
        for log_dir in found["brokers"][0]["logDirs"]
    ] == [["foo-0"], ["foo-0"]]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, None),
        (56, "KafkaStorageException"),
        (-1, "UnknownServerException"),
        (57, "LogDirNotFoundException"),
        (31, "ClusterAuthorizationException"),
        (17, "InvalidTopicException"),
    ],
)
def test_errors_are_shown_as_java_classes(code: int, name: str | None) -> None:
    expected = None if name is None else f"org.apache.kafka.common.errors.{name}"
    assert exception_name(code) == expected


def test_the_table_shows_id_state_space_and_moves() -> None:
    detail = DirDetail(directory_id="b4d9ExdORgaQq38CyHwWTA")
    gone = DirDetail(directory_id="", cause="[Errno 5] Input/output error")
    brokers = [
        BrokerDirs(
            broker=1,
            log_dirs=(TARGET, ONE, TWO),
            details={"/mnt/d1": detail, "/mnt/d2": gone},
        ),
        BrokerDirs(broker=2, problem="no connection to broker 2"),
    ]
    lines = render(brokers, rates={(1, "foo-0", "/mnt/d3"): 100.0}).splitlines()

    assert [line.split() for line in lines[:4]] == [
        line.split()
        for line in (
            "BROKER LOG DIR DIRECTORY ID STATE USED FREE TOTAL DATA REPLICAS FUTURE",
            "1 /mnt/d1 b4d9ExdORgaQq38CyHwWTA ONLINE 6.0 GiB 4.0 GiB 10.0 GiB 1000 B 2 0",
            "1 /mnt/d2 - OFFLINE - - - - - -",
            "1 /mnt/d3 - ONLINE - - - 100 B 0 1",
        )
    ]
    assert lines[4:6] == [
        "broker 1: /mnt/d2: [Errno 5] Input/output error",
        "broker 2: no connection to broker 2",
    ]
    assert lines[6] == ""
    assert lines[7].split() == ["MOVE", "BROKER", "FROM", "TO", "PROGRESS"]
    assert lines[8].split(maxsplit=4) == [
        *("foo-0", "1", "/mnt/d1", "/mnt/d3"),
        "[#####---------------]  25%  100 B of 400 B, 7 offsets behind, 100 B/s, 3 s left",
    ]


def test_a_move_of_a_compacted_log_says_that_there_is_no_compaction_of_it() -> None:
    (*_, move) = render(
        [BrokerDirs(broker=1, log_dirs=(ONE, TARGET))], compacted=["foo"]
    ).splitlines()
    assert move.endswith("7 offsets behind, compaction paused")


def test_a_topic_that_is_not_asked_for_is_not_counted() -> None:
    broker = BrokerDirs(broker=1, log_dirs=(ONE, TARGET))
    assert render([broker], ["bar"]).count("\n") == 2
    assert moves([broker], ["bar"]) == []
    (move,) = moves([broker])
    assert (move.source, move.target, move.total_bytes) == ("/mnt/d1", "/mnt/d3", 400)


def move(copied_bytes: int, total_bytes: int) -> Move:
    return Move(
        broker=1,
        topic="foo",
        partition=0,
        source="/a",
        target="/b",
        copied_bytes=copied_bytes,
        total_bytes=total_bytes,
        offset_lag=0,
    )


def test_a_move_that_is_still_listed_is_not_complete() -> None:
    assert progress(move(500, 400)).startswith("[###################-]  99%")
    assert progress(move(0, 0)).startswith("[###################-]  99%")
    assert progress(move(0, 100)).startswith("[--------------------]   0%")
    assert progress(move(2048, -1)) == "2.0 KiB copied"
    assert progress(move(50, 100), 0.0).endswith("0 offsets behind, 0 B/s")


@pytest.mark.parametrize(
    ("error_code", "conditions", "cordoned", "state"),
    [
        (0, (), False, "ONLINE"),
        (0, (), True, "CORDONED"),
        (0, ("FULL",), True, "FULL+CORDONED"),
        (0, ("FULL", "SLOW"), False, "FULL+SLOW"),
        (56, (), True, "OFFLINE"),
        (-1, (), False, "ERROR UNKNOWN_SERVER_ERROR"),
    ],
)
def test_the_state_says_what_is_wrong(
    error_code: int, conditions: tuple[str, ...], cordoned: bool, state: str
) -> None:
    log_dir = LogDir(path="/a", error_code=error_code, replicas=(), is_cordoned=cordoned)
    assert state_of(log_dir, DirDetail(directory_id="x", conditions=conditions)) == state


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(-1, "-"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (150 << 20, "150 MiB")],
)
def test_sizes_are_for_people(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text
