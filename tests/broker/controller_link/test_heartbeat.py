from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.controller_link.channel import ControllerChannel
from broker.controller_link.conversation import Tick
from broker.controller_link.heartbeat import BrokerIdentity, BrokerLifecycle
from broker.controller_link.lifecycle import BrokerState, Lifecycle, LifecycleSettings
from jbodlab.controller_api.grpc_transport import GrpcTransport
from jbodlab.controller_api.requests import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId
from tests.broker.controller_link.scripted_controller import ScriptedController, serving
from tests.broker.disks import directory_id, eventually, make_log_dirs, run
from tests.waiting import turns

IDENTITY = BrokerIdentity(
    broker_id=BrokerId(3),
    cluster_id="41QSStLtR3qOekbX4ZlbHA",
    listeners=(Listener(name="PLAINTEXT", host="localhost", port=9092),),
    rack="r1",
)


def accept(_request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(broker_epoch=BrokerEpoch(17))


def agree(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    """Answer as a controller whose log holds the registration at offset 17."""
    return BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= 17,
        is_fenced=request.want_fence,
        should_shut_down=request.want_shut_down,
    )


def controller() -> ScriptedController:
    made = ScriptedController()
    made.answers = {BrokerRegistrationRequest: accept, BrokerHeartbeatRequest: agree}
    return made


def make_lifecycle(channel: ControllerChannel, **changes: Any) -> BrokerLifecycle:
    arguments: dict[str, Any] = {
        "identity": IDENTITY,
        "incarnation_id": system_environment().new_id(),
        "random": system_environment().random.random,
        "settings": LifecycleSettings(heartbeat_interval_ms=60_000),
        "channel": channel,
        "online_directories": lambda: (directory_id(1), directory_id(2)),
        "applied_offset": lambda: 17,
        "leads_in": lambda _directory: False,
        "previous_broker_epoch": BrokerEpoch(9),
        "on_shutdown_required": lambda _reason: None,
    }
    return BrokerLifecycle(**(arguments | changes))


def test_a_broker_registers_its_online_directories_and_is_unfenced_when_ready() -> None:
    async def body() -> None:
        scripted = controller()
        async with serving(scripted) as port:
            channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
            lifecycle = make_lifecycle(channel)

            lifecycle.start()
            await lifecycle.wait_caught_up()
            lifecycle.ready_to_unfence()
            await lifecycle.wait_unfenced()

            registration = scripted.requests[0]
            assert registration.broker_id == 3
            assert registration.log_dirs == (directory_id(1), directory_id(2))
            assert registration.previous_broker_epoch == 9
            assert registration.incarnation_id == lifecycle.incarnation_id
            assert {each.name for each in registration.features} >= {"metadata.version"}
            assert lifecycle.broker_epoch == 17
            assert lifecycle.state is BrokerState.RUNNING
            await lifecycle.stop()
            await channel.close()

    run(body)


def test_a_failed_directory_reaches_the_controller_at_once(tmp_path: Path) -> None:
    async def body() -> None:
        scripted = controller()
        async with serving(scripted) as port:
            channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
            lifecycle = make_lifecycle(channel)
            log_dirs = make_log_dirs(tmp_path)
            log_dirs.add_failure_listener(lifecycle)
            lifecycle.start()
            await lifecycle.wait_caught_up()
            lifecycle.ready_to_unfence()
            await lifecycle.wait_unfenced()

            log_dirs.fail(log_dirs.all[1], "gone")

            # The interval is a minute: this one was not due.
            await eventually(lambda: scripted.requests[-1].offline_log_dirs == (directory_id(2),))
            await lifecycle.stop()
            await channel.close()
            log_dirs.stop()

    run(body)


def test_a_revived_directory_is_registered_in_the_same_epoch_and_then_dropped_from_the_heartbeats(
    tmp_path: Path,
) -> None:
    async def body() -> None:
        scripted = controller()
        async with serving(scripted) as port:
            channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
            log_dirs = make_log_dirs(tmp_path)
            lifecycle = make_lifecycle(channel, online_directories=log_dirs.online_ids)
            log_dirs.add_failure_listener(lifecycle)
            log_dirs.add_return_listener(lifecycle)
            lifecycle.start()
            await lifecycle.wait_caught_up()
            lifecycle.ready_to_unfence()
            await lifecycle.wait_unfenced()
            former = log_dirs.all[1]
            log_dirs.fail(former, "gone")
            await eventually(lambda: scripted.requests[-1].offline_log_dirs == (directory_id(2),))
            count = len(scripted.requests)

            life = former.next_life(directory_id(2), former.disk.identity(former.path))
            log_dirs.revive(former, life, [])

            await eventually(lambda: len(scripted.requests) == count + 2)
            registration, heartbeat = scripted.requests[count:]
            assert registration.log_dirs == tuple(directory_id(n) for n in (1, 2, 3))
            assert registration.incarnation_id == lifecycle.incarnation_id
            assert registration.previous_broker_epoch == -1
            assert heartbeat.broker_epoch == 17
            assert heartbeat.offline_log_dirs == ()
            await lifecycle.stop()
            await channel.close()
            log_dirs.stop()

    run(body)


def test_a_refused_registration_is_repeated_until_it_is_accepted() -> None:
    async def body() -> None:
        scripted = controller()
        refusals = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 2

        def answer(request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
            if refusals:
                return BrokerRegistrationResponse(error_code=refusals.pop())
            return accept(request)

        scripted.answers[BrokerRegistrationRequest] = answer
        async with serving(scripted) as port:
            channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
            settings = LifecycleSettings(heartbeat_interval_ms=20)
            lifecycle = make_lifecycle(channel, settings=settings)

            lifecycle.start()
            await lifecycle.wait_caught_up()

            assert len(scripted.of_type(BrokerRegistrationRequest)) == 3
            await lifecycle.stop()
            await channel.close()

    run(body)


def test_a_broker_registers_again_after_it_was_forgotten_and_then_names_no_clean_shutdown() -> None:
    async def body() -> None:
        scripted = controller()
        async with serving(scripted) as port:
            channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
            settings = LifecycleSettings(heartbeat_interval_ms=20)
            lifecycle = make_lifecycle(channel, settings=settings)
            lifecycle.start()
            await lifecycle.wait_caught_up()

            forgotten = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
            scripted.answers[BrokerHeartbeatRequest] = lambda _request: forgotten
            await eventually(lambda: len(scripted.of_type(BrokerRegistrationRequest)) == 2)

            first, second = scripted.of_type(BrokerRegistrationRequest)
            assert (first.previous_broker_epoch, second.previous_broker_epoch) == (9, -1)
            assert first.incarnation_id == second.incarnation_id
            await lifecycle.stop()
            await channel.close()

    run(body)


def test_without_a_controller_the_broker_gives_up_at_the_registration_deadline() -> None:
    async def body() -> None:
        reasons: list[str] = []
        channel = ControllerChannel(GrpcTransport("127.0.0.1:1"))
        lifecycle = make_lifecycle(
            channel,
            settings=LifecycleSettings(initial_registration_timeout_ms=200),
            on_shutdown_required=reasons.append,
        )
        lifecycle.start()

        await eventually(lambda: reasons)

        assert reasons == ["unable to register with the controller quorum"]
        await lifecycle.stop()
        await channel.close()

    run(body)


def test_a_timer_that_breaks_ends_the_broker_instead_of_its_heartbeats(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        scripted = controller()
        reasons: list[str] = []
        async with serving(scripted) as port:
            channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
            lifecycle = make_lifecycle(
                channel,
                settings=LifecycleSettings(heartbeat_interval_ms=20),
                on_shutdown_required=reasons.append,
            )
            handle = Lifecycle.handle

            def broken(core: Lifecycle, event: object, now_ms: int) -> object:
                if isinstance(event, Tick) and core.state is BrokerState.RUNNING:
                    raise ZeroDivisionError("fault of this program")
                return handle(core, event, now_ms)

            lifecycle.start()
            lifecycle.ready_to_unfence()
            await lifecycle.wait_unfenced()
            with monkeypatch.context() as patch:
                patch.setattr(Lifecycle, "handle", broken)
                await eventually(lambda: bool(reasons))
            assert "fault of this program" in reasons[0]
            assert "fault of this program" in caplog.text
            await lifecycle.stop()
            await channel.close()

    run(body)


def test_a_controlled_shutdown_ends_when_the_controller_lets_go() -> None:
    async def body() -> None:
        scripted = controller()
        async with serving(scripted) as port:
            channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
            lifecycle = make_lifecycle(channel)
            lifecycle.start()
            await lifecycle.wait_caught_up()
            lifecycle.ready_to_unfence()
            await lifecycle.wait_unfenced()

            assert await lifecycle.controlled_shutdown(10)

            assert scripted.requests[-1].want_shut_down
            assert lifecycle.state is BrokerState.SHUTTING_DOWN
            await lifecycle.stop()
            await channel.close()

    run(body)


def test_a_controlled_shutdown_does_not_wait_for_ever() -> None:
    async def body() -> None:
        scripted = controller()
        async with serving(scripted) as port:
            channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
            lifecycle = make_lifecycle(channel)
            lifecycle.start()
            await lifecycle.wait_caught_up()
            lifecycle.ready_to_unfence()
            await lifecycle.wait_unfenced()
            still = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
            scripted.answers[BrokerHeartbeatRequest] = lambda _request: still

            assert not await lifecycle.controlled_shutdown(0.2)

            assert lifecycle.state is BrokerState.SHUTTING_DOWN
            await lifecycle.stop()
            await channel.close()

    run(body)


def test_a_dying_broker_asks_to_be_fenced() -> None:
    async def body() -> None:
        scripted = controller()
        async with serving(scripted) as port:
            channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
            lifecycle = make_lifecycle(channel)
            lifecycle.start()
            await lifecycle.wait_caught_up()

            await lifecycle.leave_at_once(5)

            last = scripted.requests[-1]
            assert (last.want_fence, last.want_shut_down) == (True, True)
            count = len(scripted.requests)
            await turns()
            await lifecycle.stop()
            assert len(scripted.requests) == count
            await channel.close()

    run(body)
