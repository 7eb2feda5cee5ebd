from __future__ import annotations

from dataclasses import replace

import pytest

from admin_tool.log_dir_actions import render_replicas
from admin_tool.log_dir_actions.render_replicas import exception_name
from admin_tool.log_dir_actions.table import BrokerDirs, Move, as_value, progress, render, state_of
from jbodlab.kafka_admin.log_dirs import DescribedLogDir, HeldReplica
from jbodlab.vocabulary.sizes import size_text

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


ONE = DescribedLogDir(
    path="/mnt/d1",
    error_code=0,
    replicas=(held("foo-0", 400), held("bar-1", 600)),
    total_bytes=10 * GIB,
    usable_bytes=4 * GIB,
)
TWO = DescribedLogDir(path="/mnt/d2", error_code=56, replicas=())
TARGET = DescribedLogDir(
    path="/mnt/d3", error_code=0, replicas=(held("foo-0", 100, 7, is_future=True),)
)


def test_the_json_is_kafkas() -> None:
    assert render_replicas.as_value({0: [ONE, TWO], 1: []}) == {
        "brokers": [
            {
                "broker": 0,
                "logDirs": [
                    {
                        "partitions": [
                            {"partition": "foo-0", "size": 400, "offsetLag": 0, "isFuture": False},
                            {"partition": "bar-1", "size": 600, "offsetLag": 0, "isFuture": False},
                        ],
                        "error": None,
                        "logDir": "/mnt/d1",
                    },
                    {
                        "partitions": [],
                        "error": "org.apache.kafka.common.errors.KafkaStorageException",
                        "logDir": "/mnt/d2",
                    },
                ],
            },
            {"broker": 1, "logDirs": []},
        ],
        "version": 1,
    }


def test_topics_filter_the_replicas() -> None:
    found = render_replicas.as_value({1: [ONE, TARGET]}, ["foo"])
    assert [
        [one["partition"] for one in log_dir["partitions"]]
        for log_dir in found["brokers"][0]["logDirs"]
    ] == [["foo-0"], ["foo-0"]]
    assert render_replicas.as_text({1: [ONE, TARGET]}, ["foo"]).splitlines() == [
        "DIR         PATH     PARTITION  SIZE   OFFSET LAG  REPLICA",
        "broker-1/1  /mnt/d1  foo-0      400 B           0  current",
        "broker-1/2  /mnt/d3  foo-0      100 B           7  future",
    ]


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


DETAILED = (
    replace(ONE, directory_id="b4d9ExdORgaQq38CyHwWTA"),
    replace(TWO, cause="[Errno 5] Input/output error"),
    TARGET,
)


def test_the_table_shows_state_space_id_and_moves() -> None:
    broker = BrokerDirs(broker=1, log_dirs=DETAILED)
    assert render([broker], rates={(1, "foo-0", "/mnt/d3"): 100.0}, compacted=["foo"]) == (
        """\
DIR         PATH     STATE    USED     FREE     TOTAL     DATA    REPLICAS  FUTURE  ID
broker-1/1  /mnt/d1  ONLINE   6.0 GiB  4.0 GiB  10.0 GiB  1000 B  2         0       b4d9ExdORgaQq38CyHwWTA
broker-1/2  /mnt/d2  OFFLINE  -        -        -         -       -         -       -
broker-1/3  /mnt/d3  ONLINE   -        -        -         100 B   0         1       -
broker-1/2: [Errno 5] Input/output error

MOVE   BROKER    FROM     TO       PROGRESS
foo-0  broker 1  /mnt/d1  /mnt/d3  [#####---------------]  25%  100 B of 400 B, 7 offsets behind, """  # noqa: E501 - a table
        "100 B/s, 3 s left, compaction paused"
    )


def test_the_json_of_the_table_has_none_for_what_is_unknown() -> None:
    value = as_value([BrokerDirs(broker=1, log_dirs=DETAILED)])
    assert value["directories"][1] == {
        "broker": 1,
        "number": 2,
        "path": "/mnt/d2",
        "id": None,
        "state": "OFFLINE",
        "cause": "[Errno 5] Input/output error",
        "used_bytes": None,
        "free_bytes": None,
        "total_bytes": None,
        "data_bytes": None,
        "replicas": None,
        "future_replicas": None,
    }
    assert value["moves"] == [
        {
            "partition": "foo-0",
            "broker": 1,
            "source": "/mnt/d1",
            "target": "/mnt/d3",
            "copied_bytes": 100,
            "total_bytes": 400,
            "offset_lag": 7,
            "compaction_paused": False,
        }
    ]


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
    log_dir = DescribedLogDir(
        path="/a", error_code=error_code, is_cordoned=cordoned, conditions=conditions
    )
    assert state_of(log_dir) == state


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(-1, "-"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (150 << 20, "150 MiB")],
)
def test_sizes_are_for_people(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text
