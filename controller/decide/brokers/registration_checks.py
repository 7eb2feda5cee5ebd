"""The checks of a broker registration, in the order of their errors.

Source: `ClusterControlManager.registerBroker`, KIP-631, KIP-858.
"""

from __future__ import annotations

from controller.decide.state import ControllerState
from jbodlab.controller_api.requests import BrokerRegistrationRequest, Feature
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.records.cluster_records import BrokerFeature
from jbodlab.metadata.records.metadata_version import FEATURE_NAME, JBOD_LEVEL, MINIMUM
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

PORTS = range(1, 65_536)
SECURITY_PROTOCOLS = range(4)
"""PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""


def checked_registration(
    request: BrokerRegistrationRequest,
    state: ControllerState,
    old: BrokerRegistration | None,
    now_ms: int,
) -> tuple[BrokerFeature, ...]:
    """Check a registration; returns the features to register, metadata.version always among them.

    Args:
        request: The registration.
        state: The controller's state.
        old: The broker's registration so far.
        now_ms: On the clock of the sessions.

    Raises:
        KafkaError: with the code and the text of the answer.
    """
    _check_identity(request, state, old, now_ms)
    if state.metadata_version >= JBOD_LEVEL:
        _check_directories(request, state)
    _check_listeners(request)
    return _checked_features(request, state)


def _check_identity(
    request: BrokerRegistrationRequest,
    state: ControllerState,
    old: BrokerRegistration | None,
    now_ms: int,
) -> None:
    if request.cluster_id != state.settings.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {state.settings.cluster_id}, but got cluster ID "
            f"{request.cluster_id}",
        )
    if (
        old is not None
        # A broker that was stopped can come back at once.
        and not old.fenced
        and old.incarnation_id != request.incarnation_id
        and state.heartbeats.session_is_valid(request.broker_id, now_ms)
    ):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id.",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support ZooKeeper brokers."
        )
    if request.broker_id < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"invalid broker id {request.broker_id}")


def _check_directories(request: BrokerRegistrationRequest, state: ControllerState) -> None:
    code = ErrorCode.INVALID_REGISTRATION
    if not request.log_dirs:
        raise KafkaError(code, "No directories specified in request")
    if any(directory_ids.is_reserved(directory) for directory in request.log_dirs):
        raise KafkaError(code, "Reserved directory ID in request")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise KafkaError(code, "Duplicate directory ID in request")
    owners = {
        directory: other.broker_id
        for other in state.image.cluster.brokers.values()
        for directory in other.directories
    }
    for directory in request.log_dirs:
        owner = owners.get(directory, request.broker_id)
        if owner != request.broker_id:
            raise KafkaError(
                code,
                f"Broker {owner} is already registered with directory ID "
                f"{kafka_uuid.to_text(directory)}",
            )


def _check_listeners(request: BrokerRegistrationRequest) -> None:
    """Refuse what no record could say; it must not reach the log."""
    code = ErrorCode.INVALID_REQUEST
    names = [listener.name for listener in request.listeners]
    if len(set(names)) != len(names):
        raise KafkaError(code, "duplicate listener name")
    for listener in request.listeners:
        if listener.port not in PORTS:
            raise KafkaError(code, f"listener {listener.name} has invalid port {listener.port}")
        if not listener.host.strip():
            raise KafkaError(code, f"listener {listener.name} has no host")
        if listener.security_protocol not in SECURITY_PROTOCOLS:
            raise KafkaError(
                code,
                f"listener {listener.name} has unknown security protocol "
                f"{listener.security_protocol}",
            )


def _checked_features(
    request: BrokerRegistrationRequest, state: ControllerState
) -> tuple[BrokerFeature, ...]:
    levels = dict(state.image.features.levels)
    levels[FEATURE_NAME] = state.metadata_version
    listed = {feature.name for feature in request.features}
    if len(listed) != len(request.features):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "duplicate feature")
    features = list(request.features)
    if FEATURE_NAME not in listed:
        features.append(_feature(FEATURE_NAME, MINIMUM))
    absent = [_feature(name, 0) for name in levels if name not in listed and name != FEATURE_NAME]
    for feature in (*features, *absent):
        low, high = feature.min_supported_version, feature.max_supported_version
        level = levels.get(feature.name, 0)
        if not low <= level <= high:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "Unable to register because the broker does not support finalized version "
                f"{level} of {feature.name}. The broker wants a version between {low} and {high}, "
                "inclusive.",
            )
    return tuple(
        BrokerFeature(
            name=feature.name,
            min_supported_version=feature.min_supported_version,
            max_supported_version=feature.max_supported_version,
        )
        for feature in features
    )


def _feature(name: str, level: int) -> Feature:
    return Feature(name=name, min_supported_version=level, max_supported_version=level)
