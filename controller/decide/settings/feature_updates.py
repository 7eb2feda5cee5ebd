"""UpdateFeatures: finalized levels are raised and lowered, all of those asked for or none.

Source: `org.apache.kafka.controller.FeatureControlManager`, KIP-584, KIP-778.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.decide.settings.elr import records_for_elr, without_elr
from controller.decide.settings.features import level_records
from controller.decide.state import ControllerResult, ControllerState, RecordList
from jbodlab.controller_api.requests import (
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from jbodlab.metadata.records.features import (
    ELR_VERSION,
    NOT_BUILT,
    NOTHING,
    SUPPORTED,
    LevelRange,
    unmet_requirement,
)
from jbodlab.metadata.records.metadata_version import FEATURE_NAME, downgrade_is_safe
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""Kinds of update that a client may ask for."""


def update_features(
    request: UpdateFeaturesRequest, state: ControllerState, _now_ms: int
) -> ControllerResult[UpdateFeaturesResponse]:
    """Set the levels of features.

    Raises:
        KafkaError: INVALID_REQUEST, a feature is named twice; INVALID_UPDATE_VERSION, one of the
            levels is not possible, with the reason.
    """
    levels = {update.feature: update.max_version_level for update in request.feature_updates}
    if len(levels) < len(request.feature_updates):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "duplicate feature")
    for update in request.feature_updates:
        reason = _reason_against(update, state) or _unmet(update, levels, state)
        if reason:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                + reason,
            )
    if request.validate_only:
        return ControllerResult(response=UpdateFeaturesResponse(), atomic=True)
    records = RecordList(state.metadata_version)
    if levels.get(ELR_VERSION, 0) > 0:
        for config in records_for_elr(state.image.configs, state.settings.static_configs):
            records.add(config)
    records.extend(level_records(levels))
    if state.has_elr and levels.get(ELR_VERSION) == 0:
        for change in without_elr(state):
            records.add(change)
    return ControllerResult(
        response=UpdateFeaturesResponse(), records=records.as_tuple(), atomic=True
    )


def _reason_against(update: FeatureUpdate, state: ControllerState) -> str:
    """Return why a level cannot be set; empty if it can."""
    name, level = update.feature, update.max_version_level
    reason = _impossible(update, state)
    if reason:
        return f"Invalid update version {level} for feature {name}. {reason}"
    if name != FEATURE_NAME or downgrade_is_safe(state.metadata_version, level):
        return ""
    if update.upgrade_type == UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    else:
        reason = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        )
    return f"Invalid metadata.version {level}. {reason}"


def _unmet(update: FeatureUpdate, levels: Mapping[str, int], state: ControllerState) -> str:
    """Return why the level does not go with the metadata.version that there will be."""
    name, level = update.feature, update.max_version_level
    metadata_level = levels.get(FEATURE_NAME, state.metadata_version)
    reason = unmet_requirement(name, level, metadata_level)
    return f"Invalid update version {level} for feature {name}. {reason}" if reason else ""


def _impossible(update: FeatureUpdate, state: ControllerState) -> str:
    name, level = update.feature, update.max_version_level
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    for who, supported in _supported(name, state):
        if not supported.low <= level <= supported.high:
            if supported.high == 0:
                return f"{who} does not support this feature."
            return f"{who} only supports versions {supported}"
    current = state.metadata_version
    if name != FEATURE_NAME:
        current = state.image.features.levels.get(name, 0)
    if level > current and name in NOT_BUILT:
        return f"Local controller {state.settings.node_id} does not support this feature."
    if level < current and update.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if level > current and update.upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    return ""


def _supported(name: str, state: ControllerState) -> Iterator[tuple[str, LevelRange]]:
    """Yield who has a say in the level of a feature, and which levels it supports."""
    yield f"Local controller {state.settings.node_id}", SUPPORTED.get(name, NOTHING)
    for broker in state.image.cluster.brokers.values():
        ranges = {
            each.name: LevelRange(each.min_supported_version, each.max_supported_version)
            for each in broker.features
        }
        yield f"Broker {broker.broker_id}", ranges.get(name, NOTHING)
