"""Changes of the configs of topics, brokers, groups and subscriptions to clients' metrics.

Each resource is decided separately: all of its changes are made, or none. Records are written only
for real changes, and for all that is asked of brokers. A broker has already checked what only it
knows of its own settings; the rest is checked here, in the state after the changes.

Source: `ConfigurationControlManager`, KIP-226, KIP-339.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import IntEnum

from controller.decide.config_checks import config_error_text
from controller.decide.partitions.elections import elect_unclean_leaders
from controller.decide.settings.elr import check_with_elr, clearing
from controller.decide.state import (
    RECORDS_PER_RESULT_MAX,
    ControllerResult,
    ControllerState,
    RecordList,
)
from jbodlab.config import client_metrics, dynamic_keys, group_configs, kafka_configs, topic_keys
from jbodlab.config.key_table import ConfigType, Key, Values
from jbodlab.controller_api.requests import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredResource,
    ConfigChange,
    ConfigResource,
    IncrementalAlterConfigsRequest,
)
from jbodlab.metadata.records.config_records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
)
from jbodlab.metadata.records.metadata_version import CORDONED_DIRECTORIES_LEVEL
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ConfigError, KafkaError
from jbodlab.vocabulary.ids import BrokerId

_TOGETHER = ("min.compaction.lag.ms", "max.compaction.lag.ms")
"""Configs that must not contradict each other."""

_TABLES: Mapping[int, Mapping[str, Key]] = {
    TOPIC_RESOURCE: kafka_configs.TOPIC,
    BROKER_RESOURCE: kafka_configs.BROKER,
    GROUP_RESOURCE: kafka_configs.GROUP,
    CLIENT_METRICS_RESOURCE: kafka_configs.CLIENT_METRICS,
}
"""Settings of each kind of resource."""


class Operation(IntEnum):
    """Changes that can be made to a config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, state: ControllerState, now_ms: int
) -> ControllerResult[AlterConfigsResponse]:
    """Change some configs of some resources.

    Raises:
        KafkaError: POLICY_VIOLATION, too many changes for one request.
    """
    return _alter(request.resources, state, now_ms, request.validate_only, replaces=False)


def alter_configs(
    request: AlterConfigsRequest, state: ControllerState, now_ms: int
) -> ControllerResult[AlterConfigsResponse]:
    """Replace all configs of some resources; raises as `incremental_alter_configs`."""
    return _alter(request.resources, state, now_ms, request.validate_only, replaces=True)


def _alter(
    resources: tuple[ConfigResource, ...],
    state: ControllerState,
    now_ms: int,
    validate_only: bool,
    *,
    replaces: bool,
) -> ControllerResult[AlterConfigsResponse]:
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    records = RecordList(state.metadata_version)
    responses = []
    for resource in {(each.resource_type, each.resource_name): each for each in resources}.values():
        code, text = ErrorCode.NONE, ""
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            for record in _changes(resource, state, replaces=replaces):
                records.add(record)
        except KafkaError as error:
            code, text = error.code, error.message
        responses.append(
            AlteredResource(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=code,
                error_message=text,
            )
        )
    if state.has_elr:
        for cleared in clearing([record for record, _ in records.as_tuple()]):
            records.add(cleared)
    records.check_size()
    if validate_only:
        records = RecordList(state.metadata_version)
    _elect_uncleanly(records, state, now_ms)
    return ControllerResult(
        response=AlterConfigsResponse(responses=tuple(responses)),
        records=records.as_tuple(),
        atomic=True,
    )


def _elect_uncleanly(records: RecordList, state: ControllerState, now_ms: int) -> None:
    """Append the elections that a config permits from now on; more of them come periodically."""
    if not any(
        isinstance(record, ConfigRecord) and record.name == topic_keys.UNCLEAN_ELECTION
        for record, _ in records.as_tuple()
    ):
        return
    elections = elect_unclean_leaders(state.with_records_replayed(records), now_ms).records
    records.extend(list(elections[: RECORDS_PER_RESULT_MAX - len(records)]))


def _changes(
    resource: ConfigResource, state: ControllerState, *, replaces: bool
) -> Iterator[ConfigRecord]:
    """Check everything, then return the records of one resource.

    Raises:
        KafkaError: something is wrong with the resource or its changes.
    """
    _check_resource(resource, state)
    names = [change.name for change in resource.configs]
    if len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        change.name
        for change in resource.configs
        if change.value is None and change.config_operation != Operation.DELETE
    ]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
        )
    before = state.image.configs.resource(resource.resource_type, resource.resource_name)
    after = {} if replaces else dict(before)
    for change in resource.configs:
        _apply(change, after, resource.resource_type, state)
    # KAFKA-14136: brokers read a setting anew, such as a file's name, if it is written once more.
    written = {*names} if resource.resource_type == BROKER_RESOURCE else set()
    records = [
        ConfigRecord(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            name=name,
            value=after.get(name),
        )
        for name in sorted(before.keys() | after.keys() | written)
        if name in written or before.get(name) != after.get(name)
    ]
    if state.has_elr:
        check_with_elr(records)
    _check(resource, before, after, state)
    return iter(records)


def _check_resource(resource: ConfigResource, state: ControllerState) -> None:
    kind, name = resource.resource_type, resource.resource_name
    if kind == TOPIC_RESOURCE:
        if name not in state.image.topics.by_name:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
    elif kind == GROUP_RESOURCE:
        # A group need not be there: its configs hold for the one that will be.
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    elif kind == CLIENT_METRICS_RESOURCE:
        # A subscription is what its settings are; `client_metrics.check` looks at its name.
        return
    elif kind != BROKER_RESOURCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    elif name and str(_number(name)) != name:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    elif name and BrokerId(int(name)) not in state.image.cluster.brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")


def _number(name: str) -> int | None:
    return int(name) if name.isascii() and name.isdecimal() else None


def _apply(
    change: ConfigChange, configs: dict[str, str], resource_type: int, state: ControllerState
) -> None:
    """Make one change.

    Raises:
        KafkaError: INVALID_REQUEST, INVALID_CONFIG: there is no such operation, or none on this
            config.
    """
    value = change.value or ""
    match change.config_operation:
        case Operation.SET:
            configs[change.name] = value
        case Operation.DELETE:
            configs.pop(change.name, None)
        case Operation.APPEND | Operation.SUBTRACT:
            operation = Operation(change.config_operation)
            key = _TABLES[resource_type].get(change.name)
            # Kafka's controller knows the types of the settings of topics, brokers and groups only.
            is_list = key is not None and key.kind is ConfigType.LIST
            if key is None or not is_list or resource_type == CLIENT_METRICS_RESOURCE:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"Can't {operation.name} to key {change.name} because its type is not LIST.",
                )
            below = _in_file(change.name, resource_type, state.settings.static_configs)
            old = dynamic_keys.words(configs.get(change.name, below or key.default or ""))
            given = dynamic_keys.words(value)
            if operation is Operation.APPEND:
                new = [*old, *(word for word in dict.fromkeys(given) if word not in old)]
            else:
                new = [word for word in old if word not in given]
            configs[change.name] = ",".join(new)
        case other:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown config operation {other}")


def _in_file(name: str, resource_type: int, static_configs: Mapping[str, str]) -> str | None:
    """Return what a config that is not set has from the property file."""
    names = [name]
    if resource_type == TOPIC_RESOURCE:
        names = [each for each, _ in kafka_configs.TOPIC[name].synonyms]
    return next((static_configs[each] for each in names if each in static_configs), None)


def _check(
    resource: ConfigResource,
    before: Mapping[str, str],
    after: Mapping[str, str],
    state: ControllerState,
) -> None:
    """Check what a resource will have; what an older version has let through may stay."""
    given = {
        change.name for change in resource.configs if change.config_operation != Operation.DELETE
    }
    configs = {
        name: value for name, value in after.items() if name in given or before.get(name) != value
    }
    try:
        if resource.resource_type == TOPIC_RESOURCE:
            if not configs.keys().isdisjoint(_TOGETHER):
                configs |= {name: after[name] for name in _TOGETHER if name in after}
            topic_keys.check(configs)
        elif resource.resource_type == GROUP_RESOURCE:
            node = Values(kafka_configs.NODE, state.settings.static_configs)
            group_configs.check(after, node)
        elif resource.resource_type == CLIENT_METRICS_RESOURCE:
            client_metrics.check(resource.resource_name, after)
        else:
            dynamic_keys.check(configs, all_brokers=not resource.resource_name)
    except ConfigError as error:
        code = ErrorCode.INVALID_CONFIG
        if error.reason.startswith((dynamic_keys.NOT_DYNAMIC, dynamic_keys.ONLY_PER_LISTENER)):
            code = ErrorCode.INVALID_REQUEST
        raise KafkaError(code, config_error_text(error)) from error
    if (
        configs.get(dynamic_keys.CORDONED_LOG_DIRS)
        and state.metadata_version < CORDONED_DIRECTORIES_LEVEL
    ):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The {dynamic_keys.CORDONED_LOG_DIRS} configuration value cannot be set because it "
            f"requires metadata.version {CORDONED_DIRECTORIES_LEVEL} (4.3-IV0); this cluster has "
            f"{state.metadata_version}.",
        )
