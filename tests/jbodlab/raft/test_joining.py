"""The requests of a follower about itself; KIP-853 and `jbodlab.raft.joining`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jbodlab.metadata.records.control_records import KRaftVotersRecord
from jbodlab.raft.events import ResponseReceived
from jbodlab.raft.log_view import LogView
from jbodlab.raft.messages import (
    AddVoterRequest,
    FetchRequest,
    PlainResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from jbodlab.raft.voters import History, ReplicaKey, VoterSet
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.jbodlab.raft.lone_node import (
    SETTINGS,
    LoneNode,
    batch,
    endpoints_of,
    follower,
    log_of,
    moved,
    static_log,
)
from tests.jbodlab.raft.world import key_of, voter

KINDS = (AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest)
AUTO_JOIN = replace(SETTINGS, auto_join=True)


def fetched(node: LoneNode) -> None:
    """Let the leader answer the Fetch that is under way."""
    node.answer(FetchRequest, epoch=5, leader=2)


def wait_a_period(node: LoneNode) -> list[object]:
    """Fetch for a fetch timeout; returns what the node has asked for about itself."""
    before = len(node.under_way)
    for _ in range(4):
        node.wait(SETTINGS.fetch_timeout_ms // 4)
        fetched(node)
    sent = node.under_way[before:]
    return [each.request for each in sent if isinstance(each.request, KINDS)]


def log_with(*voters: object) -> LogView:
    log = log_of()
    log.voters = History(VoterSet.of(voters))  # type: ignore[arg-type]
    return log


def test_a_voter_that_is_known_as_it_is_asks_for_nothing() -> None:
    assert wait_a_period(follower()) == []


def test_a_voter_with_another_address_tells_its_leader_after_a_fetch_timeout() -> None:
    node = follower(log=log_with(moved(1), voter(2), voter(3)))

    assert wait_a_period(node) == [UpdateVoterRequest(epoch=LeaderEpoch(5), voter=voter(1))]
    assert node.newest(UpdateVoterRequest).destination == 2


def test_the_order_of_endpoints_is_no_other_address() -> None:
    known = moved(1)
    node = follower(
        log=log_with(known, voter(2), voter(3)), endpoints=tuple(reversed(known.endpoints))
    )

    assert wait_a_period(node) == []


def test_a_voter_at_level_0_tells_each_leader_once() -> None:
    node = follower(log=static_log())

    assert wait_a_period(node) == [UpdateVoterRequest(epoch=LeaderEpoch(5), voter=voter(1))]

    node.answer(UpdateVoterRequest, epoch=5, leader=2)
    assert wait_a_period(node) == []


def test_a_leader_that_does_not_know_the_request_is_told_once() -> None:
    node = follower(log=static_log())
    wait_a_period(node)

    node.fail(node.newest(UpdateVoterRequest), ErrorCode.UNSUPPORTED_VERSION)

    node.wait(SETTINGS.retry_backoff_ms)
    assert wait_a_period(node) == []


def test_a_request_that_failed_is_repeated_a_fetch_timeout_later() -> None:
    node = follower(log=static_log())
    wait_a_period(node)

    node.fail(node.newest(UpdateVoterRequest))

    node.wait(SETTINGS.retry_backoff_ms)
    assert len(wait_a_period(node)) == 1


def observer(**more: object) -> LoneNode:
    return follower(voters=(2, 3), settings=AUTO_JOIN, **more)


def test_an_observer_joins_by_itself_if_it_is_told_to() -> None:
    (request,) = wait_a_period(observer())

    assert request == AddVoterRequest(
        voter=key_of(1),
        endpoints=endpoints_of(1),
        acks_commit=False,
        timeout_ms=SETTINGS.request_timeout_ms,
    )


def test_an_observer_does_not_join_without_the_setting() -> None:
    assert wait_a_period(follower(voters=(2, 3))) == []


def test_an_observer_at_level_0_does_not_join() -> None:
    log = static_log()
    log.voters = History(VoterSet.of(voter(each) for each in (2, 3)))

    assert wait_a_period(observer(log=log)) == []


def test_an_observer_removes_its_former_directory_first() -> None:
    me = ReplicaKey(BrokerId(1), key_of(77).directory_id)
    node = observer(me=me, log=log_of())

    assert wait_a_period(node) == [RemoveVoterRequest(voter=key_of(1))]


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER])
def test_an_observer_asks_again_a_fetch_timeout_later(error: ErrorCode) -> None:
    node = observer()
    wait_a_period(node)

    sent = node.newest(AddVoterRequest)
    node.handle(ResponseReceived(sent.request_id, PlainResponse(error=error)))

    assert node.newest(FetchRequest).request_id > sent.request_id
    assert len(wait_a_period(node)) == 1


def test_a_voter_that_is_removed_while_it_runs_does_not_join_again() -> None:
    node = follower(settings=AUTO_JOIN)
    record = KRaftVotersRecord(voters=tuple(map(voter, (2, 3))))
    removal = batch(0, 1, 5, controls=((Offset(0), record),))

    node.answer(FetchRequest, epoch=5, leader=2, batches=(removal,))
    node.disk_works()

    assert node.core.voters.ids == (2, 3)
    assert wait_a_period(node) == []


def test_an_update_is_answered_by_who_leads() -> None:
    node = follower(log=static_log())
    wait_a_period(node)
    sent = node.newest(UpdateVoterRequest)

    node.reply(
        sent,
        UpdateVoterResponse(
            error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            epoch=LeaderEpoch(6),
            leader_id=BrokerId(3),
            leader_endpoints=endpoints_of(3),
        ),
    )

    assert (node.state.epoch, node.core.leader_id) == (6, 3)
