"""A controller that is asked too much refuses by name, and goes on hearing its brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from msgspec.structs import replace

from controller.server import ControllerServer
from jbodlab.controller_api import messages as pb
from jbodlab.controller_api import requests
from jbodlab.controller_api.grpc_transport import ControllerStub
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, Offset
from lab.machine.ports import HeldPorts
from tests.builders import CLUSTER_ID, PureController, brokers
from tests.controller.formatted import config_of, format_dir

DEADLINE_S = 60.0
FROM_THE_START = pb.MetadataStreamRequest(cluster_id=CLUSTER_ID, last_fetched_epoch=-1)


@asynccontextmanager
async def served(tmp_path: Path, environment: Environment | None = None) -> AsyncIterator[Any]:
    """Run a controller in this process; yields calls to it."""
    stop = asyncio.Event()
    with HeldPorts.hold(1) as held:
        (port,) = held.numbers
        server = ControllerServer(config_of(format_dir(tmp_path / "metadata"), port), environment)
        running = asyncio.create_task(server.run(stop))
        # The first attempt comes before the controller listens.
        soon = [(f"grpc.{name}_reconnect_backoff_ms", 20) for name in ("initial", "min", "max")]
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=soon)
        stub: Any = ControllerStub(channel)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await stub.DescribeQuorum(pb.DescribeQuorumRequest(), wait_for_ready=True)
                yield stub
        finally:
            await channel.close()
            stop.set()
            await running


async def test_streams_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.serve.service.STREAMS_MAX", 2)

    async with served(tmp_path) as stub:
        streams = [stub.MetadataStream(FROM_THE_START) for _ in range(2)]
        for stream in streams:
            assert (await stream.read()).records

        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.MetadataStream(FROM_THE_START).read()
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert error.value.details() == "the limit of 2 open metadata streams is reached"

        # One that ends makes room.
        streams.pop().cancel()
        while True:
            stream = stub.MetadataStream(FROM_THE_START)
            try:
                assert (await stream.read()).records
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.01)
            else:
                break
        for each in (*streams, stream):
            each.cancel()


async def test_calls_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jbodlab.controller_api.grpc_server.CALLS_MAX", 3)

    async with served(tmp_path) as stub:
        streams = [stub.MetadataStream(FROM_THE_START) for _ in range(3)]
        for stream in streams:
            await stream.read()

        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.DescribeQuorum(pb.DescribeQuorumRequest())
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for stream in streams:
            stream.cancel()


async def test_a_flood_of_requests_does_not_keep_heartbeats_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as stub:
        registration = to_proto(PureController().registration(1, "A1,A2"))
        beat = requests.BrokerHeartbeatRequest(
            broker_id=BrokerId(1),
            broker_epoch=(await stub.BrokerRegistration(registration)).broker_epoch,
            current_metadata_offset=Offset(1 << 40),
        )

        async def create(number: int) -> requests.CreatedTopic:
            topic = requests.NewTopic(name=f"t{number}", assignments=((0, brokers(1)),))
            request = requests.CreateTopicsRequest(topics=(topic,))
            answer = from_proto(await stub.CreateTopics(to_proto(request)))
            created: requests.CreatedTopic = answer.topics[0]
            return created

        assert not (await stub.BrokerHeartbeat(to_proto(beat))).is_fenced
        # As if others had filled it, always: how calls arrive beside each other is chance.
        monkeypatch.setattr("controller.lead.active_controller.QUEUED_OPERATIONS_MAX", 0)
        calls = [asyncio.create_task(create(number)) for number in range(50)]
        answers = await asyncio.gather(*(stub.BrokerHeartbeat(to_proto(beat)) for _ in range(20)))
        created = await asyncio.gather(*calls)

        assert {(each.error_code, each.is_fenced) for each in answers} == {(0, False)}
        full = (ErrorCode.REQUEST_TIMED_OUT, "the controller's queue is full")
        outcomes = {(each.error_code, each.error_message) for each in created}
        assert outcomes == {full}


@pytest.mark.parametrize(("timeout_ms", "expected"), [(0, 3), (-1, 3), (5, 7), (60_000, 3)])
async def test_a_timeout_of_zero_means_not_to_wait_for_the_effect(
    tmp_path: Path, timeout_ms: int, expected: int
) -> None:
    # Every look at the clock is 10 ms after the one before.
    environment = replace(system_environment(), monotonic_s=count(step=0.010).__next__)
    wish = requests.PartitionToReassign(topic="unknown", partition=0, replicas=brokers(1))
    request = requests.AlterPartitionReassignmentsRequest(partitions=(wish,), timeout_ms=timeout_ms)

    async with served(tmp_path, environment) as stub:
        answer = from_proto(await stub.AlterPartitionReassignments(to_proto(request)))

        codes = {each.error_code for each in answer.results} | {answer.error_code}
        assert codes - {ErrorCode.NONE} == {expected}
