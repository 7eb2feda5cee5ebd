from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.decide.settings.feature_updates import update_features
from jbodlab.controller_api.requests import Feature, FeatureUpdate, UpdateFeaturesRequest
from jbodlab.metadata.records.config_records import (
    BROKER_RESOURCE,
    ConfigRecord,
    FeatureLevelRecord,
)
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.builders import PureController

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def ask(
    controller: PureController, *updates: tuple[str, int, int], validate_only: bool = False
) -> Sequence[Record]:
    """Return the records that an update causes."""
    request = UpdateFeaturesRequest(
        feature_updates=tuple(
            FeatureUpdate(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ),
        validate_only=validate_only,
    )
    result = update_features(request, controller.state, 0)
    assert result.response.error_code == ErrorCode.NONE
    assert result.atomic
    return [item.record for item in result.records]


def refusal(controller: PureController, *updates: tuple[str, int, int]) -> str:
    """Return why an update is refused, without what is said of each."""
    with pytest.raises(KafkaError) as refused:
        ask(controller, *updates)
    assert refused.value.code == ErrorCode.INVALID_UPDATE_VERSION
    _, _, reason = refused.value.message.partition("the following feature had an error: ")
    return reason


ELR = "eligible.leader.replicas.version"


def minimum(broker: str, value: str | None) -> Record:
    return ConfigRecord(
        resource_type=BROKER_RESOURCE, resource_name=broker, name="min.insync.replicas", value=value
    )


def level(number: int, name: str = "metadata.version") -> Record:
    return FeatureLevelRecord(name=name, feature_level=number)


def test_a_level_is_raised_set_again_and_lowered() -> None:
    controller = PureController(level=22)

    assert ask(controller, ("metadata.version", 30, UPGRADE)) == [level(30)]
    assert ask(controller, ("metadata.version", 22, UPGRADE)) == [level(22)]
    assert ask(controller, ("metadata.version", 17, SAFE)) == [level(17)]


def test_a_level_is_changed_for_whoever_decides_next() -> None:
    controller = PureController(level=22)

    controller.replay(*ask(controller, ("metadata.version", 30, UPGRADE)))

    assert controller.state.metadata_version == 30


def test_a_feature_of_kafka_that_is_not_built_can_be_set_to_zero_only() -> None:
    controller = PureController()

    assert ask(controller, ("share.version", 0, UPGRADE)) == [level(0, "share.version")]
    assert ask(controller, ("group.version", 1, UPGRADE)) == [level(1, "group.version")]
    assert refusal(controller, ("share.version", 1, UPGRADE)) == (
        "Invalid update version 1 for feature share.version. "
        f"Local controller {controller.state.settings.node_id} does not support this feature."
    )


def test_eligible_replicas_need_one_minimum_for_the_cluster() -> None:
    controller = PureController(level=30, static_configs={"min.insync.replicas": "2"})
    controller.replay(minimum("1", "3"), minimum("2", "1"))

    assert ask(controller, (ELR, 1, UPGRADE)) == [
        minimum("", "2"),
        minimum("1", None),
        minimum("2", None),
        level(1, ELR),
    ]

    controller.replay(minimum("", "4"), minimum("1", None), minimum("2", None))
    assert ask(controller, (ELR, 1, UPGRADE)) == [level(1, ELR)]


def test_eligible_replicas_need_their_metadata_version() -> None:
    controller = PureController(level=22)

    assert refusal(controller, (ELR, 1, UPGRADE)).endswith(
        f"{ELR} could not be set to 1 because it depends on metadata.version=23 (4.0-IV1)"
    )
    both = ask(controller, ("metadata.version", 23, UPGRADE), (ELR, 1, UPGRADE))
    assert both == [minimum("", "1"), level(23), level(1, ELR)]


def test_what_is_only_checked_writes_nothing() -> None:
    updates = ("metadata.version", 30, UPGRADE)

    assert ask(PureController(level=22), updates, validate_only=True) == []


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (("metadata.version", 30, 0), "does not support the given upgrade type."),
        (("metadata.version", 30, 4), "does not support the given upgrade type."),
        (("metadata.version", -1, UPGRADE), "A feature version cannot be less than 0."),
        (("metadata.version", 31, UPGRADE), "only supports versions 7-30"),
        (("metadata.version", 6, SAFE), "only supports versions 7-30"),
        (("unheard.of", 1, UPGRADE), "does not support this feature."),
        (("metadata.version", 21, UPGRADE), "without setting the upgrade type to either safe or"),
        (("metadata.version", 23, SAFE), "Can't downgrade to a newer version."),
        (("metadata.version", 16, SAFE), "Refusing to perform the requested downgrade because"),
        (("metadata.version", 16, UNSAFE), "Unsafe metadata downgrade is not supported"),
    ],
)
def test_an_impossible_level_is_refused_with_the_reason(
    update: tuple[str, int, int], reason: str
) -> None:
    found = refusal(PureController(level=22), update)

    assert found.startswith("Invalid ")
    assert str(update[1]) in found
    assert reason in found


def test_a_broker_that_does_not_support_a_level_has_a_say() -> None:
    controller = PureController(level=22)
    old = Feature(name="metadata.version", min_supported_version=7, max_supported_version=25)
    controller.add_broker(3, "C1", features=(old,))

    assert refusal(controller, ("metadata.version", 30, UPGRADE)) == (
        "Invalid update version 30 for feature metadata.version. "
        "Broker 3 only supports versions 7-25"
    )
    assert ask(controller, ("metadata.version", 25, UPGRADE)) == [level(25)]


def test_one_impossible_level_changes_nothing() -> None:
    controller = PureController(level=22)

    refusal(controller, ("metadata.version", 30, UPGRADE), ("share.version", 1, UPGRADE))


def test_a_feature_that_is_named_twice_is_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        ask(PureController(), ("group.version", 0, UPGRADE), ("group.version", 0, SAFE))

    assert refused.value.code == ErrorCode.INVALID_REQUEST
