from __future__ import annotations

import datetime

import pytest

from jbodlab.kafka_wire.api_table import ApiKey, response_class
from jbodlab.kafka_wire.codec import encode
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode

DELETE_RECORDS = ResponseStructs(ApiKey.DELETE_RECORDS, 2)
SASL_AUTHENTICATE = ResponseStructs(ApiKey.SASL_AUTHENTICATE, 2)


def test_structs_have_the_fields_and_defaults_of_the_schema() -> None:
    partition = DELETE_RECORDS.DeleteRecordsPartitionResult(partition_index=7)
    assert partition.partition_index == 7
    assert partition.low_watermark == 0
    assert partition.error_code is ErrorCode.NONE
    with pytest.raises(TypeError):
        DELETE_RECORDS.DeleteRecordsPartitionResult(partition=7)


def test_a_response_is_encoded_in_every_version() -> None:
    response = SASL_AUTHENTICATE.response(auth_bytes=b"abc")
    assert isinstance(response, Response)
    assert response.throttle_time == datetime.timedelta(0)
    for version in (0, 1, 2):
        assert b"abc" in encode(response_class(ApiKey.SASL_AUTHENTICATE, version), response)


def test_a_struct_that_the_message_has_not_is_an_error() -> None:
    with pytest.raises(AttributeError, match="DELETE_RECORDS 2 has no struct Topic"):
        DELETE_RECORDS.Topic(name="t")


def test_a_response_has_the_fields_of_each_version_that_is_named() -> None:
    metadata = ResponseStructs(ApiKey.METADATA, 13, 10)

    response = metadata.response(cluster_authorized_operations=7, error_code=ErrorCode.NONE)

    encoded = [encode(response_class(ApiKey.METADATA, version), response) for version in (10, 13)]
    assert b"\0\0\0\x07" in encoded[0]
    assert b"\0\0\0\x07" not in encoded[1]
    with pytest.raises(TypeError):
        ResponseStructs(ApiKey.METADATA, 13).response(cluster_authorized_operations=7)
