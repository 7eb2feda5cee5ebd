from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.controller_link.broker_life import BrokerIdentity, BrokerLife
from broker.controller_link.broker_life_events import Tick
from broker.controller_link.broker_life_rules import (
    BrokerLifeRules,
    BrokerLifeSettings,
    BrokerState,
)
from broker.controller_link.channel import ControllerChannel
from jbodlab.controller_api.grpc_transport import GrpcTransport
from jbodlab.controller_api.requests import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from jbodlab.controller_api.transport import Refusal, RpcRefusedError
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId
from tests.broker.controller_link.scripted_controller import ScriptedController, connected
from tests.broker.disks import directory_id, eventually, make_log_dirs
from tests.waiting import DEADLINE_S, turns

IDENTITY = BrokerIdentity(
    broker_id=BrokerId(3),
    cluster_id="41QSStLtR3qOekbX4ZlbHA",
    listeners=(Endpoint(name="PLAINTEXT", host="localhost", port=9092),),
    rack="r1",
)

OFTEN = BrokerLifeSettings(heartbeat_interval_ms=20)


def accept(_request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(broker_epoch=BrokerEpoch(17))


def agree(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    """Answer as a controller whose log holds the registration at offset 17."""
    return BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= 17,
        is_fenced=request.want_fence,
        should_shut_down=request.want_shut_down,
    )


@asynccontextmanager
async def living(
    controller: ScriptedController,
    *,
    is_unfenced: bool = True,
    answers: dict[type, Callable[[Any], Any]] | None = None,
    **changes: Any,
) -> AsyncIterator[BrokerLife]:
    """Give a broker that the controller knows, and has unfenced if it shall."""
    controller.answers = {
        BrokerRegistrationRequest: accept,
        BrokerHeartbeatRequest: agree,
        **(answers or {}),
    }
    async with connected(controller) as channel:
        life = make_life(channel, **changes)
        life.start()
        await life.wait_caught_up()
        if is_unfenced:
            life.ready_to_unfence()
            await life.wait_unfenced()
        yield life
        await life.stop()


@pytest.fixture
async def life(
    controller: ScriptedController, options: dict[str, Any]
) -> AsyncIterator[BrokerLife]:
    async with living(controller, **options) as life:
        yield life


def make_life(channel: ControllerChannel, **changes: Any) -> BrokerLife:
    arguments: dict[str, Any] = {
        "identity": IDENTITY,
        "incarnation_id": system_environment().new_id(),
        "random": system_environment().random.random,
        "settings": BrokerLifeSettings(heartbeat_interval_ms=60_000),
        "channel": channel,
        "online_directories": lambda: (directory_id(1), directory_id(2)),
        "applied_offset": lambda: 17,
        "leads_in": lambda _directory: False,
        "previous_broker_epoch": BrokerEpoch(9),
        "on_shutdown_required": lambda _reason: None,
    }
    return BrokerLife(**(arguments | changes))


async def test_a_broker_registers_its_online_directories_and_is_unfenced_when_ready(
    life: BrokerLife, controller: ScriptedController
) -> None:
    registration = controller.requests[0]
    assert registration.broker_id == 3
    assert registration.log_dirs == (directory_id(1), directory_id(2))
    assert registration.previous_broker_epoch == 9
    assert registration.incarnation_id == life.incarnation_id
    assert {each.name for each in registration.features} >= {"metadata.version"}
    assert life.broker_epoch == 17
    assert life.state is BrokerState.RUNNING


async def test_a_failed_directory_reaches_the_controller_at_once(
    life: BrokerLife, controller: ScriptedController, tmp_path: Path
) -> None:
    log_dirs = make_log_dirs(tmp_path)
    log_dirs.add_failure_listener(life)

    log_dirs.fail(log_dirs.all[1], "gone")

    # The interval is a minute: this one was not due.
    await eventually(lambda: controller.requests[-1].offline_log_dirs == (directory_id(2),))
    log_dirs.stop()


async def test_a_revived_directory_is_registered_in_the_same_epoch_and_dropped_from_the_heartbeats(
    controller: ScriptedController, tmp_path: Path
) -> None:
    log_dirs = make_log_dirs(tmp_path)
    async with living(controller, online_directories=lambda: log_dirs.online_ids()) as life:
        log_dirs.add_failure_listener(life)
        log_dirs.add_return_listener(life)
        former = log_dirs.all[1]
        log_dirs.fail(former, "gone")
        await eventually(lambda: controller.requests[-1].offline_log_dirs == (directory_id(2),))
        count = len(controller.requests)

        next_life = former.next_life(directory_id(2), former.disk.identity(former.path))
        log_dirs.revive(former, next_life, [])

        await eventually(lambda: len(controller.requests) == count + 2)
        registration, heartbeat = controller.requests[count:]
        assert registration.log_dirs == tuple(directory_id(n) for n in (1, 2, 3))
        assert registration.incarnation_id == life.incarnation_id
        assert registration.previous_broker_epoch == -1
        assert heartbeat.broker_epoch == 17
        assert heartbeat.offline_log_dirs == ()
    log_dirs.stop()


async def test_a_refused_registration_is_repeated_until_it_is_accepted(
    controller: ScriptedController,
) -> None:
    refusals = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 2

    def answer(request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        if refusals:
            return BrokerRegistrationResponse(error_code=refusals.pop())
        return accept(request)

    refusing = {BrokerRegistrationRequest: answer}
    async with living(controller, is_unfenced=False, answers=refusing, settings=OFTEN):
        assert len(controller.of_type(BrokerRegistrationRequest)) == 3


@pytest.mark.stage(is_unfenced=False, settings=OFTEN)
async def test_a_broker_registers_again_after_it_was_forgotten_and_then_names_no_clean_shutdown(
    life: BrokerLife, controller: ScriptedController
) -> None:
    forgotten = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    controller.answers[BrokerHeartbeatRequest] = lambda _request: forgotten
    await eventually(lambda: len(controller.of_type(BrokerRegistrationRequest)) == 2)

    first, second = controller.of_type(BrokerRegistrationRequest)
    assert (first.previous_broker_epoch, second.previous_broker_epoch) == (9, -1)
    assert first.incarnation_id == second.incarnation_id


async def test_without_a_controller_the_broker_gives_up_at_the_registration_deadline() -> None:
    reasons: list[str] = []
    channel = ControllerChannel(GrpcTransport("127.0.0.1:1"))
    settings = BrokerLifeSettings(initial_broker_registration_timeout_ms=200)
    life = make_life(channel, settings=settings, on_shutdown_required=reasons.append)
    life.start()

    await eventually(lambda: reasons)

    assert reasons == ["unable to register with the controller quorum"]
    await life.stop()
    await channel.close()


async def test_a_timer_that_breaks_ends_the_broker_instead_of_its_heartbeats(
    controller: ScriptedController,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reasons: list[str] = []
    handle = BrokerLifeRules.handle

    def broken(core: BrokerLifeRules, event: object, now_ms: int) -> object:
        if isinstance(event, Tick) and core.state is BrokerState.RUNNING:
            raise ZeroDivisionError("fault of this program")
        return handle(core, event, now_ms)

    async with living(controller, settings=OFTEN, on_shutdown_required=reasons.append):
        with monkeypatch.context() as patch:
            patch.setattr(BrokerLifeRules, "handle", broken)
            await eventually(lambda: bool(reasons))
        assert "fault of this program" in reasons[0]
        assert "fault of this program" in caplog.text


async def test_a_controlled_shutdown_ends_when_the_controller_lets_go(
    life: BrokerLife, controller: ScriptedController
) -> None:
    assert await life.controlled_shutdown(10)

    assert controller.requests[-1].want_shut_down
    assert life.state is BrokerState.SHUTTING_DOWN


async def test_a_controlled_shutdown_does_not_wait_for_ever(
    life: BrokerLife, controller: ScriptedController
) -> None:
    still = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
    controller.answers[BrokerHeartbeatRequest] = lambda _request: still

    assert not await life.controlled_shutdown(0.2)

    assert life.state is BrokerState.SHUTTING_DOWN


@pytest.mark.stage(is_unfenced=False)
async def test_a_dying_broker_asks_again_when_its_controller_dies_in_the_same_moment(
    life: BrokerLife, controller: ScriptedController
) -> None:
    begun, refused = len(controller.requests), 2

    def answer(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        if len(controller.requests) <= begun + refused:
            raise RpcRefusedError(Refusal.NOT_CONTROLLER, "it has not claimed")
        return agree(request)

    controller.answers[BrokerHeartbeatRequest] = answer

    await life.leave_at_once(DEADLINE_S)

    last = [(each.want_fence, each.want_shut_down) for each in controller.requests[begun:]]
    assert last == [(True, True)] * (refused + 1)


@pytest.mark.stage(is_unfenced=False)
async def test_a_dying_broker_ends_without_a_controller(
    life: BrokerLife, controller: ScriptedController
) -> None:
    def refuse(_request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        raise RpcRefusedError(Refusal.NOT_CONTROLLER, "it has not claimed")

    controller.answers[BrokerHeartbeatRequest] = refuse

    await life.leave_at_once(0.1)


@pytest.mark.stage(is_unfenced=False)
async def test_a_dying_broker_asks_to_be_fenced(
    life: BrokerLife, controller: ScriptedController
) -> None:
    await life.leave_at_once(5)

    last = controller.requests[-1]
    assert (last.want_fence, last.want_shut_down) == (True, True)
    count = len(controller.requests)
    await turns()
    await life.stop()
    assert len(controller.requests) == count
