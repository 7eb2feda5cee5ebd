from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest

from controller.decide.partitions.added_partitions import create_partitions
from controller.decide.partitions.topics import create_topics, delete_topics
from jbodlab.controller_api.requests import (
    Caller,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    Mutator,
    NewTopic,
    PartitionsToAdd,
    TopicToDelete,
)
from jbodlab.metadata.records.config_records import ClientQuotaRecord, QuotaEntity
from jbodlab.vocabulary.error_code import ErrorCode
from tests.builders import PureController, named_uuid

ALICE = Caller(principal="User:alice", host="10.0.0.1")
STRICT = Mutator(client_id="c", is_strict=True)
REFUSED, NONE = ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.NONE
RATE = 2
KEPT = 11 * RATE
"""The number that a client may change at once."""


@pytest.fixture
def controller() -> PureController:
    made = PureController()
    made.add_broker(1, "A1")
    limit(made, RATE)
    return made


def limit(
    controller: PureController, rate: float, kind: str = "client-id", name: str = "c"
) -> None:
    entity = (QuotaEntity(entity_type=kind, entity_name=name),)
    controller.replay(
        ClientQuotaRecord(
            entity=entity, key="controller_mutation_rate", value=float(rate), remove=False
        )
    )


def create(
    controller: PureController,
    *partitions: int,
    by: Mutator | None = STRICT,
    validate_only: bool = False,
    caller: Caller | None = None,
) -> CreateTopicsResponse:
    """Create topics with so many partitions each."""
    names = [f"t{controller.state.next_offset}-{index}" for index in range(len(partitions))]
    request = CreateTopicsRequest(
        topics=tuple(
            NewTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in zip(names, partitions, strict=True)
        ),
        mutator=by,
        caller=caller,
        validate_only=validate_only,
    )
    ids = map(named_uuid, names)
    decide = partial(create_topics, randomness=controller.random, new_id=lambda: next(ids))
    return controller.ask(decide, request)


def codes(response: CreateTopicsResponse) -> list[ErrorCode]:
    return [topic.error_code for topic in response.topics]


def test_a_client_goes_on_until_it_is_in_debt_and_then_is_refused_topic_by_topic(
    controller: PureController,
) -> None:
    answer = create(controller, KEPT, 4, 1)
    assert codes(answer) == [NONE, NONE, REFUSED]
    assert "controller_mutation_rate" in answer.topics[-1].error_message
    assert answer.throttle_time_ms == 2_000
    assert len(controller.state.image.topics.by_id) == 2


def test_the_limit_of_a_user_holds_for_who_has_logged_in(controller: PureController) -> None:
    limit(controller, RATE / 2, "user", "alice")
    assert codes(create(controller, KEPT // 2, 1, 1, caller=ALICE)) == [NONE, NONE, REFUSED]
    assert codes(create(controller, KEPT, 1)) == [NONE, NONE], "another user"


def test_who_was_refused_nothing_need_not_wait(controller: PureController) -> None:
    assert create(controller, KEPT + 10).throttle_time_ms == 0
    controller.now_ms += 4_999
    assert codes(create(controller, 1)) == [REFUSED]
    controller.now_ms += 1
    assert codes(create(controller, 1)) == [NONE]


def test_what_may_be_used_at_once_has_a_limit_however_long_a_client_was_silent(
    controller: PureController,
) -> None:
    controller.now_ms += 10**9
    assert codes(create(controller, KEPT, 1, 1)) == [NONE, NONE, REFUSED]


def test_an_older_version_is_served_and_its_client_waits(controller: PureController) -> None:
    old = Mutator(client_id="c", is_strict=False)
    answer = create(controller, KEPT, 4, 2, by=old)
    assert codes(answer) == [NONE, NONE, NONE]
    assert answer.throttle_time_ms == 3_000


def test_brokers_and_clients_without_a_quota_are_free(controller: PureController) -> None:
    for free in (None, Mutator(client_id="another", is_strict=True)):
        answer = create(controller, KEPT, 1, 1, by=free)
        assert (codes(answer), answer.throttle_time_ms) == ([NONE] * 3, 0)


def test_what_is_only_validated_counts_as_well(controller: PureController) -> None:
    create(controller, KEPT + 2, validate_only=True)
    assert codes(create(controller, 1, validate_only=True)) == [REFUSED]


def test_added_and_deleted_partitions_count(controller: PureController) -> None:
    create(controller, KEPT - 1)
    (topic,) = controller.state.image.topics.by_id.values()
    more = CreatePartitionsRequest(
        topics=(PartitionsToAdd(name=topic.name, count=KEPT + 2),), mutator=STRICT
    )
    decide = partial(create_partitions, randomness=controller.random)
    assert [each.error_code for each in controller.ask(decide, more).results] == [NONE]
    more = CreatePartitionsRequest(
        topics=(PartitionsToAdd(name=topic.name, count=KEPT + 3),), mutator=STRICT
    )
    grown = controller.ask(decide, more)
    assert ([each.error_code for each in grown.results], grown.throttle_time_ms) == (
        [REFUSED],
        1_000,
    )
    gone = DeleteTopicsRequest(topics=(TopicToDelete(name=topic.name),), mutator=STRICT)
    refused = controller.ask(delete_topics, gone)
    assert [each.error_code for each in refused.responses] == [REFUSED]
    assert refused.throttle_time_ms == 1_000
    controller.now_ms += 1_000
    assert [each.error_code for each in controller.ask(delete_topics, gone).responses] == [NONE]
    assert codes(create(controller, 1)) == [REFUSED]


def test_a_changed_quota_begins_anew(controller: PureController) -> None:
    create(controller, KEPT + 100)
    limit(controller, 1)
    assert codes(create(controller, 11)) == [NONE]


def test_what_is_refused_for_another_reason_costs_nothing(controller: PureController) -> None:
    request = CreateTopicsRequest(
        topics=(NewTopic(name="x", num_partitions=KEPT + 9, replication_factor=5),),
        mutator=STRICT,
    )
    decide = partial(create_topics, randomness=controller.random, new_id=lambda: UUID(int=1))
    assert codes(controller.ask(decide, request)) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert codes(create(controller, KEPT, 1)) == [NONE, NONE]
