"""The target directories of a reassignment file are checked before anything begins."""

from __future__ import annotations

import pytest

from admin_tool.reassignment.target_dirs import problem_of
from jbodlab.kafka_admin.log_dirs import DescribedLogDir, HeldReplica, Replica

MIB = 1 << 20
HERE = Replica(1, "foo", 0)
OTHER = Replica(1, "foo", 1)
NEW = Replica(1, "foo", 2)


def held(replica: Replica, size_bytes: int = 10 * MIB, *, is_future: bool = False) -> HeldReplica:
    return HeldReplica(
        topic=replica.topic,
        partition=replica.partition,
        size_bytes=size_bytes,
        offset_lag=0,
        is_future=is_future,
    )


def log_dirs(
    *, error_code: int = 0, usable_bytes: int = 100 * MIB, is_cordoned: bool = False
) -> list[DescribedLogDir]:
    return [
        DescribedLogDir(path="/d1", error_code=0, replicas=(held(HERE), held(OTHER))),
        DescribedLogDir(
            path="/d2",
            error_code=error_code,
            replicas=(),
            usable_bytes=usable_bytes,
            is_cordoned=is_cordoned,
        ),
    ]


def test_a_directory_that_is_there_and_has_room_is_no_problem() -> None:
    assert problem_of({HERE: "/d2", OTHER: "/d1", NEW: "/d2"}, log_dirs()) is None
    assert problem_of({HERE: "/d2"}, log_dirs(usable_bytes=-1)) is None


def test_an_unknown_directory_is_named_with_those_that_there_are() -> None:
    assert problem_of({HERE: "/d3"}, log_dirs()) == (
        HERE,
        "/d3 is not a log directory of broker 1, which has /d1, /d2",
    )


def test_a_name_that_is_too_long_for_a_copy_is_refused_before_anything_begins() -> None:
    long = Replica(1, "x" * 230, 0)
    found = problem_of({HERE: "/d2", long: "/d2"}, log_dirs())
    assert found is not None
    assert found[0] == long
    assert "the topic's name is too long" in found[1]


def test_an_offline_directory_is_named() -> None:
    found = problem_of({HERE: "/d1", OTHER: "/d2"}, log_dirs(error_code=56))
    assert found == (OTHER, "/d2 of broker 1 is offline")


def test_nothing_moves_while_another_directory_is_offline_and_new_replicas_may_come() -> None:
    found = [
        *log_dirs(),
        DescribedLogDir(path="/d3", error_code=56, replicas=()),
    ]
    assert problem_of({HERE: "/d2"}, found) == (
        HERE,
        "broker 1 moves nothing while a log directory is offline: /d3",
    )
    assert problem_of({NEW: "/d2"}, found) is None
    assert problem_of({HERE: "/d1"}, found) is None


@pytest.mark.parametrize("replica", [HERE, NEW])
def test_a_cordoned_directory_takes_nothing(replica: Replica) -> None:
    found = problem_of({replica: "/d2"}, log_dirs(is_cordoned=True))
    assert found == (replica, "/d2 of broker 1 is cordoned")


def test_what_is_in_a_cordoned_directory_or_on_its_way_may_stay() -> None:
    first, second = log_dirs(is_cordoned=True)
    second = DescribedLogDir(
        path="/d2", error_code=0, replicas=(held(HERE, is_future=True),), is_cordoned=True
    )
    assert problem_of({HERE: "/d2"}, [first, second]) is None


def test_what_does_not_fit_is_refused_with_figures() -> None:
    both = {HERE: "/d2", OTHER: "/d2"}
    assert problem_of(both, log_dirs(usable_bytes=20 * MIB)) is None
    assert problem_of(both, log_dirs(usable_bytes=15 * MIB)) == (
        OTHER,
        "/d2 of broker 1 has 15.0 MiB left, and 20.0 MiB would come in",
    )
