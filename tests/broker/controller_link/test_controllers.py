"""Which controller a broker calls where several may be active."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any
from uuid import UUID

import pytest

from broker.bounds.limits import CONTROLLER_LATE_S
from broker.controller_link.channel import ControllerChannel
from broker.controller_link.controllers import ControllerDirectory
from jbodlab.controller_api.grpc_transport import GrpcTransport
from jbodlab.controller_api.requests import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    ControllerAddress,
    FindControllerRequest,
    FindControllerResponse,
    MetadataStreamRequest,
    MetadataStreamResponse,
)
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.controller_api.transport import NotControllerError, RpcTransport
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.records.cluster_records import RegisterControllerRecord
from jbodlab.vocabulary.errors import ControllerUnavailableError
from jbodlab.vocabulary.ids import NO_LEADER, BrokerEpoch, BrokerId, LeaderEpoch, Offset
from tests.broker.controller_link.scripted_controller import ScriptedController, serving
from tests.waiting import DEADLINE_S, turns

HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=BrokerId(1), broker_epoch=BrokerEpoch(5), current_metadata_offset=Offset(7)
)
STREAM = MetadataStreamRequest(
    broker_id=BrokerId(1),
    cluster_id="c",
    fetch_offset=Offset(0),
    last_fetched_epoch=LeaderEpoch(-1),
)


class Controller:
    """A controller, which leads in an epoch or, without one, refuses all but one question."""

    def __init__(self, epoch: int | None = None, node_id: int = 0, known_epoch: int = 99) -> None:
        self.epoch, self.node_id, self.known_epoch = epoch, BrokerId(node_id), known_epoch
        self.is_active = self.is_reached = True
        self.others: tuple[ControllerAddress, ...] = ()
        self.refusal: NotControllerError | None = None
        self.asked = self.heartbeats = 0
        self.silent = asyncio.Event()
        self.silent.set()

    def responses(self, method: str) -> list[Any]:
        if not self.is_reached:
            raise ControllerUnavailableError("gone")
        if method == FindControllerRequest.method():
            self.asked += 1
            return [self.known()]
        if self.epoch is None:
            raise self.refusal or ControllerUnavailableError("gone")
        if method == "MetadataStream":
            return [MetadataStreamResponse(high_watermark=Offset(self.epoch))]
        self.heartbeats += 1
        return [BrokerHeartbeatResponse(is_caught_up=True)]

    def known(self) -> FindControllerResponse:
        # One that does not lead knows the epoch of another one.
        return FindControllerResponse(
            node_id=self.node_id,
            leader_id=NO_LEADER if self.epoch is None else self.node_id,
            leader_epoch=LeaderEpoch(self.known_epoch if self.epoch is None else self.epoch),
            is_active=self.epoch is not None and self.is_active,
            controllers=self.others,
        )


def refusal(
    leader: Controller | None = None, *, epoch: int = -1, is_outcome_unknown: bool = False
) -> NotControllerError:
    """The answer of a controller that is not active, and perhaps who leads."""
    known = FindControllerResponse(
        node_id=BrokerId(0),
        leader_id=NO_LEADER if leader is None else leader.node_id,
        leader_epoch=LeaderEpoch(epoch),
    )
    hint = to_proto(known).SerializeToString()
    return NotControllerError("no", is_outcome_unknown=is_outcome_unknown, hint=hint)


class Way:
    """The way to one of them; `RpcTransport`."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._closed = asyncio.Event()

    async def unary(self, method: str, message: Any, timeout_s: float) -> Any:
        await asyncio.sleep(0)
        (response,) = self._controller.responses(method)
        if method == BrokerHeartbeatRequest.method():
            await self._unless_closed(self._controller.silent.wait())
        return to_proto(response)

    async def stream(self, method: str, message: Any) -> AsyncGenerator[Any, None]:
        for response in self._controller.responses(method):
            yield to_proto(response)
        await self._unless_closed(asyncio.Event().wait())

    async def close(self) -> None:
        self._closed.set()

    async def _unless_closed(self, waiting: Any) -> None:
        work = asyncio.ensure_future(waiting)
        end = asyncio.ensure_future(self._closed.wait())
        await asyncio.wait([work, end], return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        end.cancel()
        if self._closed.is_set():
            raise ControllerUnavailableError("closed")


@contextlib.asynccontextmanager
async def channel_to(
    found: asyncio.Event | None = None, **controllers: Controller
) -> AsyncIterator[ControllerChannel]:
    found = found or asyncio.Event()

    def connect(address: str) -> RpcTransport:
        return Way(controllers[address])

    addresses = [address for address in controllers if address != "elsewhere:9093"]
    channel = ControllerChannel(ControllerDirectory(addresses, connect, lambda: 0.0, found.set))
    yield channel
    await channel.close()


async def test_a_single_controller_is_not_asked_whether_it_is_active() -> None:
    only = Controller(epoch=1)
    async with channel_to(only=only) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
    assert (only.asked, only.heartbeats) == (0, 1)


async def test_a_single_controller_that_is_not_active_names_the_others() -> None:
    other = Controller(epoch=3, node_id=1)
    named = ControllerAddress(node_id=other.node_id, host="elsewhere", port=9093)
    standby = Controller()
    standby.others = (named,)
    standby.refusal = refusal()
    async with channel_to(standby=standby, **{"elsewhere:9093": other}) as channel:
        with pytest.raises(NotControllerError):
            await channel.call(HEARTBEAT, DEADLINE_S)
        await channel.call(HEARTBEAT, DEADLINE_S)
    assert other.heartbeats == 1


@pytest.mark.parametrize("count", [1, 2])
async def test_metadata_with_several_controllers_make_a_broker_look_for_the_active_one(
    count: int,
) -> None:
    only = Controller(epoch=1)
    directory = ControllerDirectory(["only"], lambda _: Way(only), lambda: 0.0)

    name_controllers(directory, range(count))

    assert directory.is_sole is (count == 1)
    await ControllerChannel(directory).call(HEARTBEAT, DEADLINE_S)
    assert (only.asked > 0, only.heartbeats) == (count > 1, 1)
    await directory.close()


def name_controllers(directory: ControllerDirectory, node_ids: Iterable[int]) -> None:
    """Tell a broker of metadata with controllers that are new."""
    delta = MetadataDelta(EMPTY)
    for offset, node_id in enumerate(node_ids):
        record = RegisterControllerRecord(
            controller_id=BrokerId(node_id),
            incarnation_id=UUID(int=1),
            zk_migration_ready=False,
            end_points=(),
            features=(),
        )
        delta.replay(record, offset)
    directory.metadata_changed(delta, delta.apply(1, 1, 1))


async def test_controllers_that_are_new_are_found_before_those_that_are_known_are_gone() -> None:
    first, new = Controller(epoch=1, node_id=100), Controller(node_id=102)
    standby = Controller(node_id=101)
    ways = {"first": first, "standby": standby, "elsewhere:9093": new}
    directory = ControllerDirectory(["first", "standby"], lambda each: Way(ways[each]), lambda: 0.0)
    channel = ControllerChannel(directory)
    await channel.call(HEARTBEAT, DEADLINE_S)

    first.others = (ControllerAddress(node_id=new.node_id, host="elsewhere", port=9093),)
    name_controllers(directory, (100, 101, 102))
    await turns()
    first.others = ()
    first.epoch, new.epoch = None, 2

    with pytest.raises(ControllerUnavailableError):
        await channel.call(HEARTBEAT, DEADLINE_S)
    await channel.call(HEARTBEAT, DEADLINE_S)
    assert new.heartbeats == 1
    await channel.close()


async def test_a_controller_with_the_id_of_one_that_is_gone_is_found_at_its_own_address() -> None:
    first, gone, new = Controller(1, 100), Controller(node_id=101), Controller(node_id=101)
    ways = {"first": first, "gone": gone, "elsewhere:9093": new}
    directory = ControllerDirectory(["first", "gone"], lambda each: Way(ways[each]), lambda: 0.0)
    channel = ControllerChannel(directory)
    await channel.call(HEARTBEAT, DEADLINE_S)
    gone.is_reached = False

    first.others = (ControllerAddress(node_id=new.node_id, host="elsewhere", port=9093),)
    name_controllers(directory, (100, 101))
    await turns()

    assert new.asked == 0
    name_controllers(directory, (100, 101))
    await turns()
    assert new.asked == 1
    await channel.close()


async def test_calls_go_to_the_active_controller_which_is_looked_for_once() -> None:
    first, second, third = Controller(), Controller(epoch=3), Controller()
    async with channel_to(first=first, second=second, third=third) as channel:
        await asyncio.gather(*(channel.call(HEARTBEAT, DEADLINE_S) for _ in range(3)))
        await channel.call(HEARTBEAT, DEADLINE_S)
    assert second.heartbeats == 4
    assert [each.asked for each in (first, second, third)] == [1, 1, 1]


async def test_of_two_that_say_to_be_active_the_one_with_the_higher_epoch_is() -> None:
    former, active = Controller(epoch=3), Controller(epoch=4)
    async with channel_to(former=former, active=active) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
    assert (former.heartbeats, active.heartbeats) == (0, 1)


async def test_a_controller_with_a_lower_epoch_than_one_seen_before_is_not_called() -> None:
    active, cut_off = Controller(epoch=4), Controller(epoch=3)
    async with channel_to(active=active, cut_off=cut_off) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
        active.epoch = None
        with pytest.raises(ControllerUnavailableError):
            await channel.call(HEARTBEAT, DEADLINE_S)
        with pytest.raises(ControllerUnavailableError, match="no active controller at active, cut"):
            await channel.call(HEARTBEAT, 0.2)
    assert cut_off.heartbeats == 0
    # One search after another, with pauses between them.
    assert 2 <= cut_off.asked <= 6


@pytest.mark.parametrize(
    ("of_active", "of_second", "of_third", "forgotten"),
    [
        (1, 1, 0, True),
        (1, 1, None, True),  # the third one gives no answer
        (1, None, None, False),
        (1, 1, 4, False),  # one that kept its directory
        (1, 1, 5, False),
        (None, 1, 1, False),
        (4, 1, 1, False),
    ],
)
async def test_controllers_have_lost_their_log_if_most_know_no_epoch_as_late_as_a_brokers(
    of_active: int | None, of_second: int | None, of_third: int | None, *, forgotten: bool
) -> None:
    first = Controller(epoch=4)
    second, third = Controller(known_epoch=4), Controller(known_epoch=4)
    controllers = {"first": first, "second": second, "third": third}
    directory = ControllerDirectory(
        list(controllers), lambda address: Way(controllers[address]), lambda: 0.0
    )
    channel = ControllerChannel(directory)
    try:
        await channel.call(HEARTBEAT, DEADLINE_S)
        first.is_reached = False
        with pytest.raises(ControllerUnavailableError):
            await channel.call(HEARTBEAT, DEADLINE_S)
        first.epoch, first.is_reached = of_active, of_active is not None
        for each, epoch in ((second, of_second), (third, of_third)):
            each.is_reached, each.known_epoch = epoch is not None, epoch or 0
        assert await directory.is_forgotten(4) is forgotten
        if forgotten:
            await channel.call(HEARTBEAT, DEADLINE_S)
            assert first.heartbeats == 2
    finally:
        await channel.close()


async def test_a_call_waits_until_a_controller_becomes_active() -> None:
    one, other = Controller(), Controller()
    async with channel_to(one=one, other=other) as channel:
        call = asyncio.create_task(channel.call(HEARTBEAT, DEADLINE_S))
        async with asyncio.timeout(DEADLINE_S):
            while one.asked < 2:  # noqa: ASYNC110 - a count
                await asyncio.sleep(0.001)
        other.epoch = 7
        assert (await call).is_caught_up


async def test_calls_that_a_former_controller_has_not_answered_fail_at_a_change() -> None:
    former, active = Controller(epoch=1), Controller()
    former.silent.clear()
    async with channel_to(former=former, active=active) as channel:
        stream = channel.metadata_stream(STREAM)
        assert (await anext(stream)).high_watermark == 1
        waiting = asyncio.create_task(channel.call(HEARTBEAT, DEADLINE_S))
        async with asyncio.timeout(DEADLINE_S):
            while not former.heartbeats:  # noqa: ASYNC110 - a count
                await asyncio.sleep(0.001)
        former.epoch, active.epoch = None, 2
        with pytest.raises(ControllerUnavailableError):
            await channel.call(HEARTBEAT, DEADLINE_S)
        assert (await channel.call(HEARTBEAT, DEADLINE_S)).is_caught_up
        with pytest.raises(ControllerUnavailableError):
            await waiting
        with pytest.raises(ControllerUnavailableError):
            await anext(stream)
        again = channel.metadata_stream(STREAM)
        assert (await anext(again)).high_watermark == 2
        await again.aclose()


@pytest.mark.parametrize("is_other_gone", [False, True])
async def test_a_controller_is_found_whose_answers_are_late(
    monkeypatch: pytest.MonkeyPatch, *, is_other_gone: bool
) -> None:
    monkeypatch.setattr("broker.controller_link.controllers.CONTROLLER_ASK_S", 0.01)

    class Late(Way):
        async def unary(self, method: str, message: Any, timeout_s: float) -> Any:
            if method == FindControllerRequest.method():
                try:
                    async with asyncio.timeout(timeout_s):
                        await asyncio.sleep(0.1)
                except TimeoutError:
                    raise ControllerUnavailableError("late") from None
            return await super().unary(method, message, timeout_s)

    busy, other = Controller(epoch=2), Controller()
    other.is_reached = not is_other_gone
    ways = {"busy": Late(busy), "other": Way(other)}
    channel = ControllerChannel(ControllerDirectory(list(ways), ways.__getitem__, lambda: 0.0))

    await channel.call(HEARTBEAT, DEADLINE_S)

    assert (busy.asked, busy.heartbeats) == (1, 1)
    await channel.close()


async def test_calls_go_to_the_next_controller_before_the_way_to_the_former_is_closed() -> None:
    former, active = Controller(epoch=1), Controller()
    closing = asyncio.Event()

    class Slow(Way):
        async def close(self) -> None:
            await closing.wait()
            await super().close()

    ways = {"former": Slow(former), "active": Way(active)}
    directory = ControllerDirectory(list(ways), ways.__getitem__, lambda: 0.0)
    channel = ControllerChannel(directory)
    await channel.call(HEARTBEAT, DEADLINE_S)
    former.epoch, active.epoch = None, 2
    with pytest.raises(ControllerUnavailableError):
        await channel.call(HEARTBEAT, DEADLINE_S)

    await channel.call(HEARTBEAT, DEADLINE_S)

    assert active.heartbeats == 1
    closing.set()
    await channel.close()


async def test_a_controller_that_hangs_is_left_when_another_one_is_active() -> None:
    hanging, second = Controller(epoch=1), Controller()
    async with channel_to(hanging=hanging, second=second) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
        hanging.silent.clear()
        late = asyncio.create_task(channel.call(HEARTBEAT, 10 * DEADLINE_S))
        await asyncio.wait([late], timeout=1.5 * CONTROLLER_LATE_S)
        assert not late.done()
        assert second.asked == 2
        second.epoch = 2

        with pytest.raises(ControllerUnavailableError, match="at second is active"):
            await late
        await channel.call(HEARTBEAT, DEADLINE_S)
        assert (hanging.heartbeats, second.heartbeats) == (2, 1)


async def test_a_leader_that_has_not_claimed_is_called_as_it_keeps_requests() -> None:
    leader, other = Controller(epoch=3), Controller()
    leader.is_active = False
    async with channel_to(leader=leader, other=other) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
    assert leader.heartbeats == 1


async def test_a_hint_at_a_later_leader_is_followed_without_a_further_question() -> None:
    former, next_one = Controller(epoch=1, node_id=101), Controller(node_id=102)
    async with channel_to(former=former, next_one=next_one) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
        former.epoch, next_one.epoch = None, 2
        former.refusal = refusal(next_one, epoch=2)
        await channel.call(HEARTBEAT, DEADLINE_S)
    assert next_one.heartbeats == 1
    assert (former.asked, next_one.asked) == (1, 1)


async def test_a_hint_of_an_epoch_that_is_over_is_not_followed() -> None:
    former, next_one = Controller(epoch=5, node_id=101), Controller(node_id=102)
    async with channel_to(former=former, next_one=next_one) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
        former.epoch, next_one.epoch = None, 4
        former.refusal = refusal(next_one, epoch=4)
        with pytest.raises(ControllerUnavailableError, match="no active controller"):
            await channel.call(HEARTBEAT, 0.2)
    assert next_one.heartbeats == 0


async def test_a_call_that_was_refused_before_it_was_carried_out_goes_to_the_next_one() -> None:
    former, next_one = Controller(epoch=1), Controller()
    async with channel_to(former=former, next_one=next_one) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
        former.epoch, next_one.epoch = None, 2
        former.refusal = refusal()
        assert (await channel.call(HEARTBEAT, DEADLINE_S)).is_caught_up


async def test_a_call_that_may_have_been_carried_out_is_the_callers_to_repeat() -> None:
    former, next_one = Controller(epoch=1), Controller()
    async with channel_to(former=former, next_one=next_one) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
        former.epoch, next_one.epoch = None, 2
        former.refusal = refusal(is_outcome_unknown=True)
        with pytest.raises(NotControllerError) as refused:
            await channel.call(HEARTBEAT, DEADLINE_S)
        assert refused.value.is_outcome_unknown
        assert next_one.heartbeats == 0
        await channel.call(HEARTBEAT, DEADLINE_S)


async def test_another_active_controller_is_told_of_as_soon_as_the_former_is_lost() -> None:
    former, next_one, found = Controller(epoch=1), Controller(), asyncio.Event()
    async with channel_to(found, former=former, next_one=next_one) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
        assert found.is_set()
        found.clear()
        await channel.call(HEARTBEAT, DEADLINE_S)
        assert not found.is_set()
        former.epoch, next_one.epoch = None, 2
        with pytest.raises(ControllerUnavailableError):
            await channel.call(HEARTBEAT, DEADLINE_S)
        # Nobody calls any more.
        async with asyncio.timeout(DEADLINE_S):
            await found.wait()


async def test_a_stream_that_is_silent_is_left_when_another_controller_is_active() -> None:
    hanging, second = Controller(epoch=1), Controller()
    async with channel_to(hanging=hanging, second=second) as channel:
        stream = channel.metadata_stream(STREAM)
        await anext(stream)
        second.epoch = 2
        with pytest.raises(ControllerUnavailableError, match="at second is active"):
            await anext(stream)
        again = channel.metadata_stream(STREAM)
        assert (await anext(again)).high_watermark == 2
        await again.aclose()


async def test_a_controller_that_another_one_names_is_found() -> None:
    one, other = Controller(node_id=101), Controller(node_id=102)
    third = Controller(epoch=2, node_id=103)
    one.others = (
        ControllerAddress(node_id=BrokerId(102), host="by-another-name", port=9093),
        ControllerAddress(node_id=BrokerId(103), host="elsewhere", port=9093),
    )
    async with channel_to(**{"one": one, "other": other, "elsewhere:9093": third}) as channel:
        await channel.call(HEARTBEAT, DEADLINE_S)
    assert third.heartbeats == 1


async def test_a_controller_that_comes_back_to_another_address_is_found_there() -> None:
    controller = ScriptedController()
    controller.answers[FindControllerRequest] = lambda _: FindControllerResponse(
        node_id=BrokerId(1), leader_id=BrokerId(1), leader_epoch=LeaderEpoch(1), is_active=True
    )
    controller.answers[BrokerHeartbeatRequest] = lambda _: BrokerHeartbeatResponse()
    async with serving(controller) as one, serving(controller) as other:
        ports = one, other
    async with serving(controller, ports[0]):
        channel = ControllerChannel(
            ControllerDirectory([f"127.0.0.1:{port}" for port in ports], GrpcTransport, lambda: 0.5)
        )
        await channel.call(HEARTBEAT, DEADLINE_S)
    with pytest.raises(ControllerUnavailableError):
        await channel.call(HEARTBEAT, DEADLINE_S)
    call = asyncio.create_task(channel.call(HEARTBEAT, DEADLINE_S))
    async with serving(controller, ports[1]):
        assert await call == BrokerHeartbeatResponse()
    await channel.close()
    assert from_proto(to_proto(HEARTBEAT)) in controller.requests
