"""UpdateFeatures, UnregisterBroker, DescribeQuorum, and the features that ApiVersions tells."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from jbodlab.controller_api import requests
from jbodlab.metadata.image.cluster_image import ClusterImage
from jbodlab.metadata.records.cluster_records import BrokerEndpoint, RegisterControllerRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.waiting import called, turns

API_VERSIONS, DESCRIBE_QUORUM, UPDATE_FEATURES, UNREGISTER_BROKER = 18, 55, 57, 64
ALL = {
    "metadata.version": (7, 30),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}


def update(version: int, timeout_ms: int = 5000, **fields: Any) -> Any:
    """Set metadata.version to 22."""
    kio = import_module(f"kio.schema.update_features.v{version}.request")
    top = {name: fields.pop(name) for name in ("validate_only",) if name in fields}
    return kio.UpdateFeaturesRequest(
        timeout=datetime.timedelta(milliseconds=timeout_ms),
        feature_updates=(
            kio.FeatureUpdateKey(feature="metadata.version", max_version_level=22, **fields),
        ),
        **top,
    )


@pytest.mark.parametrize(
    ("version", "fields", "upgrade_type"),
    [
        (0, {"allow_downgrade": False}, 1),
        (0, {"allow_downgrade": True}, 2),
        (1, {"upgrade_type": 3}, 3),
        (2, {}, 1),
    ],
)
async def test_levels_are_set_by_the_controller_and_known_here_at_the_answer(
    cluster: Any, client: Any, version: int, fields: dict[str, Any], upgrade_type: int
) -> None:
    cluster.controller.results["UpdateFeatures"] = requests.UpdateFeaturesResponse(
        metadata_offset=cluster.next_offset
    )

    answer = asyncio.ensure_future(client.call(UPDATE_FEATURES, version, update(version, **fields)))
    await called(cluster.controller.calls)
    await turns()
    assert not answer.done()
    cluster.advance()

    response = await asyncio.wait_for(answer, 5)
    assert (int(response.error_code), response.error_message) == (0, None)
    if version < 2:
        assert [(each.feature, int(each.error_code)) for each in response.results] == [
            ("metadata.version", 0)
        ]
    assert cluster.controller.calls == [
        requests.UpdateFeaturesRequest(
            feature_updates=(
                requests.FeatureUpdate(
                    feature="metadata.version",
                    max_version_level=22,
                    upgrade_type=upgrade_type,
                ),
            ),
            timeout_ms=5000,
        )
    ]


async def test_levels_that_are_only_checked_are_not_waited_for(cluster: Any, client: Any) -> None:
    cluster.controller.results["UpdateFeatures"] = requests.UpdateFeaturesResponse()

    call = client.call(UPDATE_FEATURES, 2, update(2, validate_only=True))
    assert int((await asyncio.wait_for(call, 5)).error_code) == 0
    assert cluster.controller.calls[0].validate_only


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_controllers_reason_against_a_level_is_told(
    cluster: Any, client: Any, version: int
) -> None:
    cluster.controller.results["UpdateFeatures"] = requests.UpdateFeaturesResponse(
        error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="too high"
    )
    fields = {"allow_downgrade": False} if version == 0 else {}

    response = await client.call(UPDATE_FEATURES, version, update(version, **fields))

    assert (int(response.error_code), response.error_message) == (95, "too high")


def unregister(broker_id: int) -> Any:
    kio = import_module("kio.schema.unregister_broker.v0.request")
    return kio.UnregisterBrokerRequest(broker_id=broker_id)


async def test_a_broker_is_unregistered_and_gone_here_at_the_answer(
    cluster: Any, client: Any
) -> None:
    cluster.controller.results["UnregisterBroker"] = requests.UnregisterBrokerResponse(
        metadata_offset=cluster.next_offset
    )

    answer = asyncio.ensure_future(client.call(UNREGISTER_BROKER, 0, unregister(2)))
    await called(cluster.controller.calls)
    await turns()
    assert not answer.done()
    cluster.advance()

    assert int((await asyncio.wait_for(answer, 5)).error_code) == 0
    (request,) = cluster.controller.calls
    assert request == requests.UnregisterBrokerRequest(broker_id=BrokerId(2))


async def test_a_broker_that_is_not_registered_is_refused(cluster: Any, client: Any) -> None:
    cluster.controller.results["UnregisterBroker"] = requests.UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message="not here"
    )

    response = await client.call(UNREGISTER_BROKER, 0, unregister(7))

    assert (int(response.error_code), response.error_message) == (102, "not here")


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_quorum_is_described_as_the_controller_sees_it(
    cluster: Any, client: Any, version: int
) -> None:
    kio = import_module(f"kio.schema.describe_quorum.v{version}.request")

    def asked(topic: str, partition: int) -> Any:
        return kio.TopicData(
            topic_name=topic, partitions=(kio.PartitionData(partition_index=partition),)
        )

    listener = BrokerEndpoint(name="CONTROLLER", host="c", port=9093)
    controller = RegisterControllerRecord(
        controller_id=100, incarnation_id=UUID(int=1), end_points=(listener,)
    )
    image = dataclasses.replace(
        cluster.cache.image, cluster=ClusterImage(controllers={100: controller})
    )
    cluster.cache.publish(image)
    cluster.controller.results["DescribeQuorum"] = requests.DescribeQuorumResponse(
        leader_id=BrokerId(100),
        leader_epoch=LeaderEpoch(3),
        high_watermark=Offset(40),
        current_voters=(
            requests.QuorumReplica(
                replica_id=BrokerId(100),
                log_end_offset=Offset(40),
                last_fetch_timestamp=8,
                last_caught_up_timestamp=9,
            ),
        ),
        observers=(requests.QuorumReplica(replica_id=BrokerId(1), log_end_offset=Offset(39)),),
    )

    topics = (asked("__cluster_metadata", 0), asked("__cluster_metadata", 1), asked("foo", 0))
    request = kio.DescribeQuorumRequest(topics=topics)
    response = await client.call(DESCRIBE_QUORUM, version, request)

    assert int(response.error_code) == 0
    found, *unknown = [each for topic in response.topics for each in topic.partitions]
    assert (found.leader_id, found.leader_epoch, found.high_watermark) == (100, 3, 40)
    for states, expected in (
        (found.current_voters, (100, 40, 8, 9)),
        (found.observers, (1, 39, -1, -1)),
    ):
        (state,) = states
        assert (state.replica_id, state.log_end_offset) == expected[:2]
        if version >= 1:
            times = (state.last_fetch_timestamp, state.last_caught_up_timestamp)
            assert times == expected[2:]
    assert [int(each.error_code) for each in unknown] == [3, 3]
    if version >= 2:
        (node,) = response.nodes
        assert node.node_id == 100
        assert [(each.name, each.host, each.port) for each in node.listeners] == [
            ("CONTROLLER", "c", 9093)
        ]


@pytest.mark.parametrize("version", [3, 4])
async def test_features_are_told_as_of_an_offset(cluster: Any, client: Any, version: int) -> None:
    kio = import_module(f"kio.schema.api_versions.v{version}.request")
    request = kio.ApiVersionsRequest(client_software_name="a", client_software_version="1")

    cluster.publish_levels(metadata_version=30)

    response = await client.call(API_VERSIONS, version, request)

    # Older clients take a lowest level of 0 for a mistake.
    expected = ALL if version >= 4 else {"metadata.version": (7, 30)}
    assert {
        each.name: (each.min_version, each.max_version) for each in response.supported_features
    } == expected
    assert [
        (each.name, each.min_version_level, each.max_version_level)
        for each in response.finalized_features
    ] == [("metadata.version", 30, 30)]
    assert response.finalized_features_epoch == cluster.cache.image.offset

    # The metadata do not have it: the active controller says it.
    cluster.kraft_version = 1
    response = await client.call(API_VERSIONS, version, request)
    assert [(each.name, each.max_version_level) for each in response.finalized_features] == [
        ("metadata.version", 30),
        ("kraft.version", 1),
    ]
