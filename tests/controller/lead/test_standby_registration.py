"""How a controller that is not active gets into the metadata."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from controller.lead.activation import registration_records
from controller.lead.standby_registration import (
    register_as_standby,
    register_controller,
    registered,
)
from controller.quorum.raft_wire import registration_message, registration_of
from controller.quorum.replicated_log import NotLeaderError
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.records.cluster_records import RegisterControllerRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId
from tests.builders import PureController
from tests.waiting import DEADLINE_S

LISTENERS = (
    Endpoint(name="CONTROLLER", host="host", port=9093),
    Endpoint(name="CONTROLLER_GRPC", host="host", port=9094),
)


def record(incarnation: int = 1) -> RegisterControllerRecord:
    (made,) = registration_records(30, BrokerId(101), UUID(int=incarnation), LISTENERS)
    assert isinstance(made.record, RegisterControllerRecord)
    return made.record


def test_a_controller_is_registered_once() -> None:
    controller = PureController()
    first = register_controller(record(), controller.state, 0)
    assert first.records == (VersionedRecord(record(), 0),)
    controller.ask(register_controller, record())
    assert controller.state.image.cluster.controllers[101].end_points == record().end_points
    assert register_controller(record(), controller.state, 0).records == ()
    # Another process of it is another registration.
    assert register_controller(record(2), controller.state, 0).records


def test_a_registration_survives_the_wire() -> None:
    assert registration_of(registration_message(record())) == record()


async def test_a_controller_that_is_not_active_registers_nobody() -> None:
    class Leadership:
        @property
        def term(self) -> Any:
            raise NotLeaderError

    leadership: Any = Leadership()
    with pytest.raises(KafkaError) as refused:
        await registered(leadership, record())
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


class Pool:
    """Notes what is asked; the second question and all behind it have an answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, int, Any]] = []
        self.answered = asyncio.Event()

    def close(self) -> None:
        pass

    async def call(self, address: Any, key: int, version: int, message: Any, _: float) -> Any:
        self.asked.append((address, key, message))
        if len(self.asked) == 1:
            raise ConnectionRefusedError("gone")
        self.answered.set()
        return SimpleNamespace(error_code=ErrorCode.NONE, error_message=None)


async def test_a_standby_asks_the_active_controller_until_the_metadata_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.lead.standby_registration.REGISTRATION_PAUSE_S", 0.001)
    controller, pool = PureController(), Pool()
    committed = SimpleNamespace(image=EMPTY)
    leadership: Any = SimpleNamespace(
        committed=committed, registration=lambda: [VersionedRecord(record(), 0)]
    )
    leader: list[tuple[str, int] | None] = [None]
    task = asyncio.create_task(register_as_standby(leadership, lambda: leader[0], pool))  # type: ignore[arg-type]
    await asyncio.sleep(0.02)
    assert pool.asked == []

    leader[0] = ("host", 9093)
    async with asyncio.timeout(DEADLINE_S):
        await pool.answered.wait()
    controller.ask(register_controller, record())
    committed.image = controller.state.image
    await asyncio.sleep(0.02)
    count = len(pool.asked)
    await asyncio.sleep(0.02)
    task.cancel()

    assert len(pool.asked) == count
    expected = (("host", 9093), ApiKey.CONTROLLER_REGISTRATION, registration_message(record()))
    assert pool.asked[0] == pool.asked[1] == expected
