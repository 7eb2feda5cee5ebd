"""Errors that a request fails with, in responses that are derived from the schema."""

from __future__ import annotations

import datetime
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from jbodlab.kafka_wire.headers import RequestHeader
from jbodlab.server.answer import RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

NOW = datetime.timedelta(0)
CODE = ErrorCode.KAFKA_STORAGE_ERROR
TOPIC_ID = UUID(int=7)


def failure(request: Any, message: str = "why") -> Any:
    header = RequestHeader(request.__api_key__, request.__version__, 42, "client", 0)
    context = RequestContext(header, Session(listener_name="CLIENTS", peer="client:1"))
    return FailsBySchema().failure(request, context, KafkaError(CODE, message))


def messages(path: str) -> tuple[Any, Any]:
    return import_module(f"kio.schema.{path}.request"), import_module(f"kio.schema.{path}.response")


def test_the_error_is_at_the_top_where_the_message_has_a_place_for_it() -> None:
    asked, told = messages("alter_partition_reassignments.v1")
    topic = asked.ReassignableTopic(name="t", partitions=())

    assert failure(
        asked.AlterPartitionReassignmentsRequest(timeout=NOW, topics=(topic,))
    ) == told.AlterPartitionReassignmentsResponse(
        throttle_time=NOW, error_code=CODE, error_message="why", responses=()
    )


def test_else_each_element_of_the_request_gets_it_with_what_identifies_the_element() -> None:
    asked, told = messages("alter_configs.v2")
    resources = tuple(
        asked.AlterConfigsResource(resource_type=2, resource_name=name, configs=()) for name in "tu"
    )

    assert failure(
        asked.AlterConfigsRequest(resources=resources, validate_only=False)
    ) == told.AlterConfigsResponse(
        throttle_time=NOW,
        responses=tuple(
            told.AlterConfigsResourceResponse(
                error_code=CODE, error_message="why", resource_type=2, resource_name=name
            )
            for name in "tu"
        ),
    )


def test_what_a_partition_fails_with_makes_clients_look_for_its_leader() -> None:
    asked, told = messages("delete_records.v2")
    partition = asked.DeleteRecordsPartition(partition_index=3, offset=5)
    topic = asked.DeleteRecordsTopic(name="t", partitions=(partition,))

    assert failure(
        asked.DeleteRecordsRequest(topics=(topic,), timeout=NOW)
    ) == told.DeleteRecordsResponse(
        throttle_time=NOW,
        topics=(
            told.DeleteRecordsTopicResult(
                name="t",
                partitions=(
                    told.DeleteRecordsPartitionResult(
                        partition_index=3,
                        low_watermark=-1,
                        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    ),
                ),
            ),
        ),
    )


def test_elements_that_a_request_names_by_one_value_are_identified_by_it() -> None:
    asked, told = messages("delete_groups.v2")

    assert failure(asked.DeleteGroupsRequest(groups_names=("g", "h"))) == told.DeleteGroupsResponse(
        throttle_time=NOW,
        results=tuple(told.DeletableGroupResult(group_id=name, error_code=CODE) for name in "gh"),
    )


@pytest.mark.parametrize("message", ["why", ""])
def test_topics_are_identified_by_name_or_id_and_no_text_is_sent_as_null(message: str) -> None:
    asked, told = messages("delete_topics.v6")
    topic = asked.DeleteTopicState(name=None, topic_id=TOPIC_ID)

    assert failure(
        asked.DeleteTopicsRequest(topics=(topic,), timeout=NOW), message
    ) == told.DeleteTopicsResponse(
        throttle_time=NOW,
        responses=(
            told.DeletableTopicResult(
                name=None, topic_id=TOPIC_ID, error_code=CODE, error_message=message or None
            ),
        ),
    )


def test_elements_are_identified_by_structs_as_well() -> None:
    asked, _ = messages("alter_client_quotas.v1")
    entity = asked.EntityData(entity_type="user", entity_name="u")
    entry = asked.EntryData(entity=(entity,), ops=())

    (failed,) = failure(
        asked.AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    ).entries

    assert (failed.error_code, failed.entity) == (CODE, (entity,))


def test_ids_epochs_and_offsets_without_a_default_are_negative() -> None:
    asked, told = messages("init_producer_id.v4")
    request = asked.InitProducerIdRequest(transactional_id=None, transaction_timeout=NOW)

    assert failure(request) == told.InitProducerIdResponse(
        throttle_time=NOW, error_code=CODE, producer_id=-1, producer_epoch=-1
    )
