"""Registration, sessions and removal of brokers, as any gRPC client sees them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
import pytest

from jbodlab.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.records.topic_records import PartitionChangeRecord
from jbodlab.rpc import controller_pb2 as pb
from tests.builders import brokers, directories
from tests.controller.grpc_client import Client, ids, served

Request = pb.BrokerRegistrationRequest
LISTENER = Request.Listener(name="PLAINTEXT", host="localhost", port=9092)


def feature(name: str, low: int, high: int) -> Request.Feature:
    return Request.Feature(name=name, min_supported_version=low, max_supported_version=high)


def test_the_epoch_of_a_new_process_is_the_offset_of_its_record(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        before = (await it.stub.DescribeQuorum(pb.DescribeQuorumRequest())).high_watermark
        answer = await it.register(1, "A2,A1", rack="r1")
        (record,) = await it.written()

        assert (answer.error_code, answer.broker_epoch) == (0, before)
        assert isinstance(record, RegisterBrokerRecord)
        assert (record.broker_epoch, record.fenced, record.rack) == (before, True, "r1")
        # In the order of the request; in memory they are sorted.
        assert record.log_dirs == directories("A2,A1")
        assert (await it.broker(1)).directories == directories("A1,A2")

    served(tmp_path, body)


def test_checks_come_in_their_order(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.add(1, "A1")
        await it.add(2, "B1")
        await it.written()
        wrong: list[tuple[dict[str, Any], int, str]] = [
            ({"cluster_id": "other"}, 104, "Expected cluster ID"),
            ({}, 101, "Another broker is registered with that broker id."),
            ({"is_migrating_zk_broker": True}, 102, "ZooKeeper"),
            ({"log_dirs": []}, 119, "No directories specified in request"),
            ({"log_dirs": ids("UNASSIGNED")}, 119, "Reserved directory ID in request"),
            ({"log_dirs": ids("MIGRATING")}, 119, "Reserved directory ID in request"),
            ({"log_dirs": ids("LOST")}, 119, "Reserved directory ID in request"),
            ({"log_dirs": [bytes(15) + b"\x63"]}, 119, "Reserved directory ID in request"),
            ({"log_dirs": ids("C1,C1")}, 119, "Duplicate directory ID in request"),
            ({"log_dirs": ids("C1,B1")}, 119, "Broker 2 is already registered with directory"),
            ({"listeners": [Request.Listener(name="A", host="", port=1)]}, 42, "no host"),
            ({"listeners": [Request.Listener(name="A", host="h", port=0)]}, 42, "port 0"),
            (
                {"listeners": [Request.Listener(name="A", host="h", port=1, security_protocol=9)]},
                42,
                "security protocol 9",
            ),
            ({"listeners": [LISTENER, LISTENER]}, 42, "same name"),
            (
                {"features": [feature("metadata.version", 7, 29)]},
                35,
                "finalized version 30 of metadata.version. The broker wants a version between 7 "
                "and 29, inclusive.",
            ),
            ({"features": []}, 35, "The broker wants a version between 1 and 1, inclusive."),
            (
                {"features": [feature("metadata.version", 7, 30), feature("group.version", 1, 2)]},
                35,
                "finalized version 0 of group.version. The broker wants a version between 1 and 2",
            ),
        ]
        # Each one has also what the ones behind it complain of.
        later: dict[str, Any] = {}
        for fields, code, text in reversed(wrong):
            broker = 1 if code == 101 else 3
            answer = await it.register(broker, "D1", **{**later, **fields})
            assert (answer.error_code, answer.broker_epoch) == (code, -1), fields
            assert text in answer.error_message
            if code in (104, 102, 119):
                later.update(fields)
        assert await it.written() == []

    served(tmp_path, body)


@pytest.mark.parametrize(
    "message",
    [
        Request(incarnation_id=b""),
        Request(incarnation_id=bytes(15)),
        Request(incarnation_id=bytes(17)),
        Request(incarnation_id=bytes(16), log_dirs=[bytes(16), b"x"]),
    ],
    ids=["none", "short", "long", "directory"],
)
def test_an_id_of_a_wrong_length_is_refused_and_changes_nothing(
    tmp_path: Path, message: pb.BrokerRegistrationRequest
) -> None:
    async def body(it: Client) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await it.stub.BrokerRegistration(message)

        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "where an id has 16" in (refused.value.details() or "")
        assert await it.written() == []
        assert (await it.register(1, "A1")).error_code == 0

    served(tmp_path, body)


def test_a_negative_broker_id_is_refused(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        assert (await it.register(-1, "A1")).error_code == 42
        assert await it.written() == []

    served(tmp_path, body)


def test_a_broker_may_have_a_thousand_directories(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        many = [UUID(int=(number + 1) << 64).bytes for number in range(1_000)]
        await it.register(1, "", log_dirs=many)
        await it.beat(1)
        await it.written()
        await it.beat(1, offline_log_dirs=many[:999])

        (record,) = await it.written()
        assert record.log_dirs == (UUID(bytes=many[999]),)

    served(tmp_path, body)


def test_the_same_process_keeps_its_epoch_and_stays_unfenced(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.register(1, "A1", incarnation_id=bytes(15) + b"\x07")
        await it.beat(1)
        epoch = it.epochs[1]
        again = await it.register(1, "A1,A2", incarnation_id=bytes(15) + b"\x07")

        assert again.broker_epoch == epoch
        assert not (await it.broker(1)).fenced
        assert (await it.broker(1)).directories == directories("A1,A2")
        # The offset of its record counts for being caught up, not the epoch.
        assert not (await it.beat(1, current_metadata_offset=epoch)).is_caught_up

    served(tmp_path, body)


def test_a_second_process_is_refused_until_the_session_of_the_first_has_ended(
    tmp_path: Path,
) -> None:
    async def body(it: Client) -> None:
        old = await it.add(1, "A1")
        assert (await it.register(1, "A1")).error_code == 101
        async with asyncio.timeout(20):
            while (await it.register(1, "A1")).error_code != 0:
                pass

        assert it.epochs[1] > old
        # The process before has nothing more to say.
        late = await it.beat(1, broker_epoch=old)
        assert (late.error_code, late.is_fenced) == (77, True)

    served(tmp_path, body, broker_session_timeout_ms="300")


def test_a_broker_that_was_stopped_cleanly_registers_again_at_once(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.add(1, "A1")
        await it.add(2, "B1")
        await it.create("foo", [1, 2])
        epoch = it.epochs[1]
        assert not (await it.beat(1, want_shut_down=True)).should_shut_down
        await it.beat(2)
        assert (await it.beat(1, want_shut_down=True)).should_shut_down
        await it.written()

        answer = await it.register(1, "A1", previous_broker_epoch=epoch)

        assert answer.error_code == 0
        assert [type(record) for record in await it.written()] == [RegisterBrokerRecord]

    served(tmp_path, body)


def test_below_the_level_of_directories_they_are_neither_checked_nor_stored(
    tmp_path: Path,
) -> None:
    async def body(it: Client) -> None:
        assert (await it.register(1, "", log_dirs=ids("LOST,LOST"))).error_code == 0
        assert (await it.broker(1)).directories == ()
        await it.beat(1, offline="LOST,A1")
        await it.create("foo", [1])
        assert (await it.partition("foo")).directories == directories("MIGRATING")
        assert await it.assign(1, ("foo", 0, "A1")) == [35]

    served(tmp_path, body, level=16)


@pytest.mark.parametrize("level", range(17, 31))
def test_at_every_level_with_directories_a_failure_is_followed_through(
    tmp_path: Path, level: int
) -> None:
    async def body(it: Client) -> None:
        assert (await it.register(3, "", log_dirs=[])).error_code == 119
        await it.add(1, "A1,A2")
        await it.add(2, "B1")
        await it.create("foo", [1, 2])
        assert (await it.partition("foo")).directories == directories("UNASSIGNED,B1")
        assert await it.assign(1, ("foo", 0, "A1")) == [0, 0]
        await it.written()
        await it.beat(1, offline="A1")

        change, registration = await it.written()
        assert isinstance(change, PartitionChangeRecord)
        assert (change.isr, change.leader) == (brokers(2), 2)
        assert isinstance(registration, BrokerRegistrationChangeRecord)
        assert registration.log_dirs == directories("A2")

    served(tmp_path, body, level=level)


def test_unregistering_frees_directories_and_id(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.add(1, "A1,A2")
        await it.add(2, "B1")
        await it.create("foo", [1, 2])
        await it.create("bar", [1])
        assert await it.assign(1, ("foo", 0, "A1"), ("bar", 0, "A1")) == [0, 0, 0]
        await it.written()

        unknown = await it.stub.UnregisterBroker(pb.UnregisterBrokerRequest(broker_id=9))
        negative = await it.stub.UnregisterBroker(pb.UnregisterBrokerRequest(broker_id=-5))
        known = await it.stub.UnregisterBroker(pb.UnregisterBrokerRequest(broker_id=1))

        assert (unknown.error_code, negative.error_code, known.error_code) == (102, 102, 0)
        *changes, last = await it.written()
        assert isinstance(last, UnregisterBrokerRecord)
        assert {(change.isr, change.leader) for change in changes} == {((2,), 2), (None, -1)}
        assert (await it.beat(1)).error_code == 77
        assert (await it.register(3, "A1")).error_code == 0
        foo = await it.partition("foo")
        assert (foo.replicas, foo.directories[0]) == ((1, 2), directories("A1")[0])

    served(tmp_path, body)


def test_after_a_restart_everybody_was_heard_of_just_now(tmp_path: Path) -> None:
    async def first(it: Client) -> None:
        await it.add(1, "A1,A2")
        await it.create("foo", [1])
        await it.beat(1, offline="A2", degraded_log_dirs=ids("A1"))

    async def second(it: Client) -> None:
        known = await it.broker(1)
        it.epochs[1] = known.epoch
        assert (known.fenced, known.directories) == (False, directories("A1"))
        # Another process has to wait; this one just goes on.
        assert (await it.register(1, "A1")).error_code == 101
        answer = await it.beat(1, offline="A2")
        assert (answer.error_code, answer.is_fenced) == (0, False)
        assert await it.written() == []

    served(tmp_path, first)
    served(tmp_path, second)


def test_a_silent_broker_is_fenced_after_its_session_and_only_then(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.add(1, "A1")
        await it.add(2, "B1")
        await it.create("foo", [1, 2])
        async with asyncio.timeout(20):
            while not (await it.broker(1)).fenced:
                assert not (await it.beat(2)).is_fenced

        foo = await it.partition("foo")
        assert (foo.leader, foo.isr) == (2, (2,))
        # It has the epoch still, and may come back with it.
        assert not (await it.beat(1)).is_fenced

    served(tmp_path, body, broker_session_timeout_ms="600")
