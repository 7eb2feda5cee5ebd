from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from admin_tool.log_dir_actions.balance import movable
from admin_tool.log_dir_actions.drain import check_source, returning
from admin_tool.log_dir_actions.move_plan import Move, balance, drain
from admin_tool.log_dir_actions.planning import (
    MISSING_POLLS_MAX,
    Awaited,
    Plan,
    carry_out,
    dir_states,
    execute,
    immovable,
    report,
    shown_effect,
)
from admin_tool.log_dir_actions.table import BrokerDirs
from admin_tool.reassignment import moves as reassignment_moves
from admin_tool.reassignment.moves import why_refused
from admin_tool.reassignment.target_dirs import why_blocked
from jbodlab.cli.output import Output
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import DescribedLogDir, HeldReplica, Replica, ReplicaDirs
from jbodlab.runtime import event_loop
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

MIB = 1 << 20
EFFECT = ("path", "state", "bytes_before", "bytes_after", "room_bytes")
LONG = "x" * 230
NO_CLIENT: Any = None


def held(index: int, size_bytes: int, *, is_future: bool = False) -> HeldReplica:
    return HeldReplica(
        topic="foo", partition=index, size_bytes=size_bytes, offset_lag=0, is_future=is_future
    )


def log_dir(
    path: str, *replicas: HeldReplica, usable: int = 900, **fields: object
) -> DescribedLogDir:
    return DescribedLogDir(
        path=path,
        error_code=fields.pop("error_code", 0),  # type: ignore[arg-type]
        replicas=replicas,
        total_bytes=fields.pop("total_bytes", 1000),  # type: ignore[arg-type]
        usable_bytes=usable,
        **fields,  # type: ignore[arg-type]
    )


def broker(*dirs: DescribedLogDir, **conditions: tuple[str, ...]) -> BrokerDirs:
    """A broker of jbodlab, with conditions by the last part of the path."""
    return BrokerDirs(
        broker=1,
        log_dirs=tuple(replace(one, conditions=conditions.get(one.path[1:], ())) for one in dirs),
    )


def test_cordoned_full_and_loading_directories_take_nothing_and_offline_ones_are_no_part() -> None:
    found = dir_states(
        broker(
            log_dir("/a"),
            log_dir("/b", is_cordoned=True),
            log_dir("/c"),
            log_dir("/d"),
            log_dir("/e", error_code=56, usable=-1),
            log_dir("/f"),
            c=("FULL", "SLOW"),
            d=("SLOW",),
            f=("REVIVING",),
        )
    )

    assert [(one.path, one.takes, one.room_bytes) for one in found] == [
        ("/a", True, 880),
        ("/b", False, 0),
        ("/c", False, 0),
        ("/d", True, 880),
        ("/f", False, 0),
    ]


def test_a_replica_on_its_way_counts_where_it_goes_with_the_room_it_still_needs() -> None:
    one = broker(
        log_dir("/a", held(0, 300), held(1, 50)), log_dir("/b", held(0, 100, is_future=True))
    )

    source, target = dir_states(one)

    assert source.sizes == {TopicPartition("foo", 1): 50}
    assert source.held_bytes == 50
    assert (target.held_bytes, target.room_bytes) == (300, 680)


def test_who_does_not_say_how_much_room_there_is_gets_no_plan() -> None:
    with pytest.raises(AdminError, match="broker 1 does not say how much room there is in /a"):
        dir_states(broker(log_dir("/a", usable=-1)))


def test_a_drain_ends_the_moves_into_the_directory() -> None:
    one = broker(
        log_dir("/a", held(0, 10, is_future=True), held(1, 20)), log_dir("/b", held(0, 30))
    )

    assert returning(one, "/a") == [Move(TopicPartition("foo", 0), "/a", "/b", 30)]
    assert drain(dir_states(one), "/a") == [Move(TopicPartition("foo", 1), "/a", "/b", 20)]


def test_only_an_online_directory_of_the_broker_is_drained() -> None:
    one = broker(log_dir("/a"), log_dir("/b", error_code=56, usable=-1))
    with pytest.raises(AdminError, match="cannot read /b of broker 1: it is OFFLINE"):
        check_source(one, one.log_dirs[1])
    with pytest.raises(AdminError, match="broker 1 moves nothing while a log directory is offline"):
        check_source(one, one.log_dirs[0])
    check_source(broker(log_dir("/a")), log_dir("/a"))


def test_a_broker_with_an_offline_directory_moves_nothing() -> None:
    whole = broker(log_dir("/a"), log_dir("/b"))
    broken = broker(log_dir("/a"), log_dir("/b", error_code=56, usable=-1))
    reason = "broker 1 moves nothing while a log directory is offline: /b"
    assert why_blocked(1, whole.log_dirs) is None
    assert why_blocked(1, broken.log_dirs) == reason
    assert movable([whole], Output()) == [whole]
    with pytest.raises(AdminError, match=f"^{reason}$"):
        movable([broken], Output())


def test_brokers_that_move_are_balanced_without_those_that_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = broker(log_dir("/a"), log_dir("/b", error_code=56, usable=-1))
    whole = BrokerDirs(broker=2, log_dirs=(log_dir("/a"),))
    assert movable([broken, whole], Output()) == [whole]
    assert capsys.readouterr().err == (
        "skipped: broker 1 moves nothing while a log directory is offline: /b\n"
    )


def test_a_plan_is_shown_with_its_effect() -> None:
    one = broker(
        log_dir("/mnt/d1", held(0, 3 * MIB), held(1, 3 * MIB), usable=50 * MIB, total_bytes=0),
        log_dir("/mnt/d2", usable=60 * MIB, total_bytes=0, is_cordoned=True),
        log_dir("/mnt/d3", usable=70 * MIB, total_bytes=0),
    )
    dirs = dir_states(one)

    plan = Plan(one, dirs, balance(dirs))
    assert plan.as_text().splitlines() == [
        "plan for broker 1: 1 move, 3.0 MiB",
        "",
        "MOVE   SIZE     FROM     TO",
        "foo-0  3.0 MiB  /mnt/d1  /mnt/d3",
        "",
        "PATH     STATE     BEFORE   AFTER    ROOM",
        "/mnt/d1  ONLINE    6.0 MiB  3.0 MiB  50.0 MiB",
        "/mnt/d2  CORDONED  0 B      0 B      0 B",
        "/mnt/d3  ONLINE    0 B      3.0 MiB  70.0 MiB",
        "spread (fullest minus emptiest): 6.0 MiB before, 3.0 MiB after",
    ]
    assert plan.as_value() == {
        "broker": 1,
        "moves": [
            {"partition": "foo-0", "source": "/mnt/d1", "target": "/mnt/d3", "bytes": 3 * MIB}
        ],
        "directories": [
            dict(zip(EFFECT, ("/mnt/d1", "ONLINE", 6 * MIB, 3 * MIB, 50 * MIB), strict=True)),
            dict(zip(EFFECT, ("/mnt/d2", "CORDONED", 0, 0, 0), strict=True)),
            dict(zip(EFFECT, ("/mnt/d3", "ONLINE", 0, 3 * MIB, 70 * MIB), strict=True)),
        ],
    }
    assert Plan(one, dirs, []).as_text().splitlines()[:3] == [
        "plan for broker 1: 0 moves, 0 B",
        "",
        "PATH     STATE     BEFORE   AFTER    ROOM",
    ]


def test_a_dry_run_prints_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    one = broker(log_dir("/a", held(0, 300)), log_dir("/b"))
    plan = Plan(one, dir_states(one), [Move(TopicPartition("foo", 0), "/a", "/b", 300)])
    options: Any = Namespace(dry_run=True)

    with pytest.raises(AdminError, match="1 replica not moved"):
        event_loop.run(
            execute(
                NO_CLIENT, [plan], options, Output(is_json=True), "?", {Replica(1, LONG, 0): "long"}
            )
        )

    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "plans": [plan.as_value()],
        "not_moved": [{"broker": 1, "topic": LONG, "partition": 0, "reason": "long"}],
    }
    assert err == f"{LONG}-0-1: long\n"


def test_the_effect_is_what_the_broker_has_afterwards() -> None:
    before = broker(log_dir("/a", held(0, 300), held(1, 100)), log_dir("/b"))
    now = broker(log_dir("/a", held(1, 120)), log_dir("/b", held(0, 310)))

    assert shown_effect(before, now).splitlines() == [
        "broker 1:",
        "PATH  STATE   BEFORE  AFTER  ROOM",
        "/a    ONLINE  400 B   120 B  880 B",
        "/b    ONLINE  0 B     310 B  880 B",
        "spread (fullest minus emptiest): 400 B before, 190 B after",
    ]


def test_a_plan_knows_which_replicas_have_names_too_long_to_be_moved() -> None:
    long = HeldReplica(topic=LONG, partition=0, size_bytes=40, offset_lag=0, is_future=False)
    one = broker(log_dir("/a", held(0, 20), long), log_dir("/b"))

    source, target = dir_states(one)

    assert drain([source, target], "/a") == [Move(TopicPartition("foo", 0), "/a", "/b", 20)]
    assert source.held_bytes == 60
    (refused,) = immovable(one, "/a").items()
    assert refused[0] == Replica(1, LONG, 0)
    assert "the topic's name is too long" in refused[1]
    assert "move the replica to another broker with `jbodlab reassign execute`" in refused[1]
    assert immovable(one, "/b") == {}
    assert balance(dir_states(broker(log_dir("/a", long), log_dir("/b")))) == []


FOO, BAR = Replica(1, "foo", 0), Replica(1, "bar", 0)


def test_the_wait_goes_on_for_the_others_when_one_replica_is_lost() -> None:
    awaited = Awaited({FOO: "/b", BAR: "/b"})

    for _ in range(MISSING_POLLS_MAX + 1):
        awaited.saw(FOO, ReplicaDirs("/a", None))
        awaited.saw(BAR, ReplicaDirs("/a", "/b"))

    assert set(awaited.pending) == {BAR}
    assert "ended early, and it is still in /a" in awaited.lost[FOO]
    awaited.saw(BAR, ReplicaDirs("/b", None))
    assert awaited.pending == {}
    assert set(awaited.lost) == {FOO}


def test_a_replica_that_is_missed_at_one_look_is_not_lost() -> None:
    awaited = Awaited({FOO: "/b"})

    for _ in range(3):
        for _ in range(MISSING_POLLS_MAX):
            awaited.saw(FOO, ReplicaDirs(None, None))
        awaited.saw(FOO, ReplicaDirs("/a", "/b"))

    assert (set(awaited.pending), awaited.lost) == ({FOO}, {})


@pytest.mark.parametrize(
    ("where", "problem", "why"),
    [
        (ReplicaDirs("/a", "/c"), "", "sent it to /c instead of /b"),
        (ReplicaDirs(None, "/b"), "", "its source directory is offline"),
        (ReplicaDirs(None, None), "", "in no online log directory of broker 1"),
        (ReplicaDirs(None, None), "no connection to broker 1", "no connection to broker 1"),
    ],
)
def test_a_lost_replica_has_its_reason(where: ReplicaDirs, problem: str, why: str) -> None:
    awaited = Awaited({FOO: "/b"})

    for _ in range(MISSING_POLLS_MAX + 1):
        awaited.saw(FOO, where, problem)

    assert why in awaited.lost[FOO]


def test_refused_moves_are_noted_and_are_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(Output(), {}) == 0
    with pytest.raises(AdminError, match=r"^2 replicas not moved$"):
        report(Output(), {FOO: "why", BAR: "because"})
    assert capsys.readouterr().err == "bar-0-1: because\nfoo-0-1: why\n"


def test_all_moves_but_the_refused_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = {"foo": ErrorCode.KAFKA_STORAGE_ERROR, "bar": ErrorCode.NONE}

    async def answer(
        _: object, broker: int, wanted: Mapping[TopicPartition, str]
    ) -> dict[Any, int]:
        return {each: int(codes[each.topic]) for each in wanted}

    monkeypatch.setattr(reassignment_moves, "alter_replica_log_dirs", answer)
    client: Any = None
    options = Namespace(wait=False)

    refused = event_loop.run(carry_out(client, {FOO: "/b", BAR: "/b"}, options, Output()))

    assert capsys.readouterr().out == "started 1 move\n"
    assert set(refused) == {FOO}
    assert "/b is full" in refused[FOO]


@pytest.mark.parametrize(
    ("replica", "code", "why"),
    [
        (Replica(1, LONG, 0), ErrorCode.INVALID_TOPIC_EXCEPTION, "name is too long"),
        (FOO, ErrorCode.KAFKA_STORAGE_ERROR, "offline, or /b is full"),
        (FOO, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "/b is cordoned: uncordon it"),
        (FOO, ErrorCode.LOG_DIR_NOT_FOUND, "/b is not a log directory of broker 1"),
        (FOO, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist any more"),
        (FOO, ErrorCode.REPLICA_NOT_AVAILABLE, "broker 1 does not have it"),
        (FOO, ErrorCode.UNKNOWN_SERVER_ERROR, "see its log"),
    ],
)
def test_each_refusal_is_a_sentence(replica: Replica, code: ErrorCode, why: str) -> None:
    said = why_refused(replica, "/b", int(code))

    assert why in said
    assert said.endswith(f"({code.name})")
