"""Brokers come and go: registration of a broker process, and its removal by an operator.

A registration with a new incarnation begins a new broker epoch and begins fenced. What the old
incarnation led or replicated is settled in the same result: nobody may remain leader, or in an
ISR, through a process that has ended or a directory that is gone.

Source: `ClusterControlManager.registerBroker`, `ReplicationControlManager`, KIP-631, KIP-858,
KIP-966 for the epoch of a clean shutdown.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.heartbeats import Contact
from controller.leader_and_isr import in_directory, in_isr, without_broker
from controller.state import (
    RECORDS_PER_RESULT_MAX,
    TOO_LARGE,
    ControllerResult,
    ControllerState,
    Partition,
    RecordList,
)
from jbodlab import directory_id as directory_ids
from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError
from jbodlab.ids import BrokerEpoch
from jbodlab.image.broker_registration import BrokerRegistration
from jbodlab.records.cluster_records import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.records.metadata_version import ELR_LEVEL, FEATURE_NAME, JBOD_LEVEL, MINIMUM
from jbodlab.requests import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

PORTS = range(1, 65_536)
SECURITY_PROTOCOLS = range(4)
"""PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""


def register_broker(
    request: BrokerRegistrationRequest, state: ControllerState, now_ms: int
) -> ControllerResult[BrokerRegistrationResponse]:
    """Register a broker process; the answer is its broker epoch."""
    old = state.image.cluster.brokers.get(request.broker_id)
    try:
        _check_identity(request, state, old, now_ms)
        if state.metadata_version >= JBOD_LEVEL:
            _check_directories(request, state)
        _check_listeners(request)
        features = _checked_features(request, state)
    except KafkaError as error:
        return ControllerResult(
            response=BrokerRegistrationResponse(error_code=error.code, error_message=error.message)
        )
    is_same = old is not None and old.incarnation_id == request.incarnation_id
    epoch = old.epoch if is_same and old is not None else BrokerEpoch(state.next_offset)
    records = RecordList(state.metadata_version)
    for change in without_broker(state, request.broker_id, _left(request, state, old)):
        records.add(change)
    records.add(
        RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=epoch,
            end_points=tuple(
                BrokerEndpoint(
                    name=listener.name,
                    host=listener.host,
                    port=listener.port,
                    security_protocol=listener.security_protocol,
                )
                for listener in request.listeners
            ),
            features=features,
            rack=request.rack,
            fenced=old.fenced if is_same and old is not None else True,
            in_controlled_shutdown=(
                old.in_controlled_shutdown if is_same and old is not None else False
            ),
            log_dirs=request.log_dirs if state.metadata_version >= JBOD_LEVEL else (),
        )
    )
    heartbeats = state.heartbeats
    if is_same and request.broker_id in heartbeats.contacts:
        offset = heartbeats.contacts[request.broker_id].metadata_offset
        heartbeats = heartbeats.touched(request.broker_id, offset, now_ms)
    else:
        heartbeats = heartbeats.with_contact(request.broker_id, Contact(last_contact_ms=now_ms))
    return ControllerResult(
        response=BrokerRegistrationResponse(broker_epoch=epoch),
        records=records.as_tuple(),
        heartbeats=heartbeats,
        atomic=True,
    )


def unregister_broker(
    request: UnregisterBrokerRequest, state: ControllerState, now_ms: int
) -> ControllerResult[UnregisterBrokerResponse]:
    """Remove a broker; replica lists go on naming it, its directory ids are free for others."""
    registration = state.image.cluster.brokers.get(request.broker_id)
    if registration is None:
        return ControllerResult(
            response=UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
                error_message=f"Broker ID {request.broker_id} is not currently registered",
            )
        )
    records = RecordList(state.metadata_version)
    for change in without_broker(state, request.broker_id, in_isr(state, request.broker_id)):
        records.add(change)
    records.add(
        UnregisterBrokerRecord(broker_id=request.broker_id, broker_epoch=registration.epoch)
    )
    if len(records) > RECORDS_PER_RESULT_MAX:
        return ControllerResult(
            response=UnregisterBrokerResponse(
                error_code=ErrorCode.POLICY_VIOLATION,
                error_message=TOO_LARGE,
            )
        )
    return ControllerResult(
        response=UnregisterBrokerResponse(),
        records=records.as_tuple(),
        heartbeats=state.heartbeats.without(request.broker_id),
    )


def _left(
    request: BrokerRegistrationRequest, state: ControllerState, old: BrokerRegistration | None
) -> Iterator[Partition]:
    """Yield the partitions that this registration takes the broker out of."""
    if _died(request, state, old):
        yield from in_isr(state, request.broker_id)
        return
    if old is None or state.metadata_version < JBOD_LEVEL:
        return
    for directory in old.directories:
        if directory not in request.log_dirs:
            yield from in_directory(state, request.broker_id, directory)


def _died(
    request: BrokerRegistrationRequest, state: ControllerState, old: BrokerRegistration | None
) -> bool:
    """Return whether an earlier process of this broker ended without handing over."""
    if old is not None and old.incarnation_id == request.incarnation_id:
        return False
    if old is not None and not old.fenced:
        # Its session ran out, but the timer has not come round to fence it.
        return True
    is_clean = old is not None and request.previous_broker_epoch == old.epoch
    return state.metadata_version >= ELR_LEVEL and not is_clean


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
        # A fenced broker has no session, so one that was stopped can come back at once.
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
    for other in state.image.cluster.brokers.values():
        if other.broker_id != request.broker_id and set(other.directories) & set(request.log_dirs):
            raise KafkaError(
                code, f"Broker {other.broker_id} is already registered with directory ID"
            )


def _check_listeners(request: BrokerRegistrationRequest) -> None:
    """Refuse what no record could say; it must not reach the log."""
    code = ErrorCode.INVALID_REQUEST
    names = [listener.name for listener in request.listeners]
    if len(set(names)) != len(names):
        raise KafkaError(code, "two listeners have the same name")
    for listener in request.listeners:
        if listener.port not in PORTS:
            raise KafkaError(code, f"listener {listener.name} has port {listener.port}")
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
    """Return the features to register; metadata.version is always among them."""
    levels = dict(state.image.features.levels)
    levels[FEATURE_NAME] = state.metadata_version
    listed = {feature.name for feature in request.features}
    if len(listed) != len(request.features):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a feature is listed twice")
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
