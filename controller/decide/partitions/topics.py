"""CreateTopics and DeleteTopics. An error of one topic does not affect the others.

Source: `ReplicationControlManager.createTopics`, `deleteTopics`, KIP-516.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from controller.decide import config_checks as settings
from controller.decide.mutation_quotas import Mutations
from controller.decide.partitions.initial_partitions import (
    check_assignment,
    manual_partition,
    placed_partitions,
)
from controller.decide.state import (
    MIN_ISR_CONFIG,
    ControllerResult,
    ControllerState,
    IdSource,
    Randomness,
    RecordList,
    check_count,
    offset_of_done,
)
from jbodlab.controller_api.requests import (
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    TopicToDelete,
)
from jbodlab.metadata.image.topics_image import TopicImage
from jbodlab.metadata.records.config_records import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigRecord
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import METADATA_TOPIC, BrokerId, TopicId

NAME_LENGTH_MAX = 249
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def create_topics(
    request: CreateTopicsRequest,
    state: ControllerState,
    now_ms: int,
    *,
    randomness: Randomness,
    new_id: IdSource,
) -> ControllerResult[CreateTopicsResponse]:
    """Create topics; with `validate_only` answer as if they were created.

    A topic that exists with the very id that the request gives was created by it before.

    Args:
        request: The topics.
        state: The controller's state.
        now_ms: For the quota of who asks.
        randomness: Where placement begins.
        new_id: Draws topic ids.

    Raises:
        KafkaError: POLICY_VIOLATION, too many partitions for one request.
    """
    records = RecordList(state.metadata_version)
    mutations = state.mutations_of(request, now_ms)
    given = Counter(topic.name for topic in request.topics)
    ids = Counter(topic.topic_id for topic in request.topics if topic.topic_id is not None)
    taken = {_collision_key(name): name for name in state.image.topics.by_name}
    is_again, responses = False, []
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        try:
            if given[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if topic.topic_id is not None and ids[topic.topic_id] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
            image = state.image.topics.by_name.get(name)
            if image is not None and image.topic_id == topic.topic_id:
                is_again = True
                responses.append(_created_before(image, state))
                continue
            _check_name(name, state, taken)
            responses.append(_create_topic(topic, state, records, mutations, randomness, new_id))
            taken[_collision_key(name)] = name
        except KafkaError as error:
            responses.append(
                CreatedTopic(name=name, error_code=error.code, error_message=error.message)
            )
    records.check_size()
    return ControllerResult(
        response=CreateTopicsResponse(
            topics=tuple(responses),
            throttle_time_ms=mutations.throttle_time_ms,
            metadata_offset=offset_of_done(state, is_again=is_again),
        ),
        records=() if request.validate_only else records.as_tuple(),
        mutations=mutations.used,
        atomic=True,
    )


def delete_topics(
    request: DeleteTopicsRequest, state: ControllerState, now_ms: int
) -> ControllerResult[DeleteTopicsResponse]:
    """Delete topics, each named by its name or by its id.

    Raises:
        KafkaError: POLICY_VIOLATION, too many topics for one request.
    """
    records = RecordList(state.metadata_version)
    mutations = state.mutations_of(request, now_ms)
    found = [_find(topic, state, is_again=request.is_again) for topic in request.topics]
    times = Counter(each.topic_id for each in found if isinstance(each, TopicImage))
    responses = []
    for topic, image in zip(request.topics, found, strict=True):
        try:
            if request.is_again and isinstance(image, KafkaError) and image.code in UNKNOWN:
                responses.append(DeletedTopic(name=topic.name, topic_id=topic.topic_id))
                continue
            if not state.settings.delete_topic_enable:
                raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            if isinstance(image, KafkaError):
                raise image
            if times[image.topic_id] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in the request.")
            mutations.take(len(image.partitions))
        except KafkaError as problem:
            responses.append(
                DeletedTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    error_code=problem.code,
                    error_message=problem.message,
                )
            )
        else:
            records.add(RemoveTopicRecord(topic_id=image.topic_id))
            responses.append(DeletedTopic(name=image.name, topic_id=image.topic_id))
    records.check_size()
    return ControllerResult(
        response=DeleteTopicsResponse(
            responses=tuple(responses),
            throttle_time_ms=mutations.throttle_time_ms,
            metadata_offset=offset_of_done(state, is_again=request.is_again),
        ),
        records=records.as_tuple(),
        mutations=mutations.used,
        atomic=True,
    )


def _check_name(name: str, state: ControllerState, taken: dict[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif _LEGAL_NAME.fullmatch(name) is None:
        problem = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if name in state.image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = taken.get(_collision_key(name))
    if other is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def _collision_key(name: str) -> str:
    """Return what must differ between any two names: metrics do not tell dots and underscores."""
    return name.replace(".", "_")


def _create_topic(
    topic: NewTopic,
    state: ControllerState,
    records: RecordList,
    mutations: Mutations,
    randomness: Randomness,
    new_id: IdSource,
) -> CreatedTopic:
    configs = settings.check_topic_configs(topic.configs)
    topic_id = _unused_id(topic.topic_id, state, new_id)
    if topic.assignments:
        partitions = _manual_partitions(topic, topic_id, state)
    else:
        partitions = _placed_partitions(topic, topic_id, state, randomness)
    mutations.take(len(partitions))
    records.add(TopicRecord(name=topic.name, topic_id=topic_id))
    for name, value in configs.items():
        records.add(
            ConfigRecord(
                resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value
            )
        )
    if state.has_elr and MIN_ISR_CONFIG in configs:
        records.add(ClearElrRecord(topic_name=topic.name))
    for partition in partitions:
        records.add(partition)
    replicas = len(partitions[0].replicas)
    return _created(topic.name, topic_id, len(partitions), replicas, configs, state)


def _created_before(image: TopicImage, state: ControllerState) -> CreatedTopic:
    configs = state.image.configs.topic(image.name)
    replicas = len(image.partitions[0].replicas)
    return _created(image.name, image.topic_id, len(image.partitions), replicas, configs, state)


def _created(
    name: str,
    topic_id: TopicId,
    partitions: int,
    replicas: int,
    configs: Mapping[str, str],
    state: ControllerState,
) -> CreatedTopic:
    return CreatedTopic(
        name=name,
        topic_id=topic_id,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=settings.effective_configs(
            configs,
            state.settings.static_configs,
            state.image.configs.resource(BROKER_RESOURCE, ""),
        ),
    )


def _unused_id(given: TopicId | None, state: ControllerState, new_id: IdSource) -> TopicId:
    """Return the id that a broker has drawn, unless another topic has it."""
    topic_id = given or TopicId(new_id())
    while topic_id in state.image.topics.by_id:
        topic_id = TopicId(new_id())
    return topic_id


def _manual_partitions(
    topic: NewTopic, topic_id: TopicId, state: ControllerState
) -> list[PartitionRecord]:
    if topic.replication_factor != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to "
            "-1.",
        )
    if topic.num_partitions != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    chosen: dict[int, tuple[BrokerId, ...]] = {}
    size: int | None = None
    partitions = []
    for index, replicas in topic.assignments:
        if index in chosen:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        check_assignment(replicas, size, state)
        size = len(replicas)
        chosen[index] = replicas
        partitions.append(manual_partition(topic_id, index, replicas, state))
    if sorted(chosen) != list(range(len(chosen))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return sorted(partitions, key=lambda partition: partition.partition_id)


def _placed_partitions(
    topic: NewTopic, topic_id: TopicId, state: ControllerState, randomness: Randomness
) -> list[PartitionRecord]:
    factor, count = topic.replication_factor, topic.num_partitions
    if factor < -1 or factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count < -1 or count == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    factor = state.settings.default_replication_factor if factor == -1 else factor
    count = state.settings.num_partitions if count == -1 else count
    check_count(count)
    try:
        return placed_partitions(topic_id, 0, count, factor, state, randomness)
    except KafkaError as error:
        raise KafkaError(
            error.code, f"Unable to replicate the partition {factor} time(s): {error.message}"
        ) from error


def _find(
    topic: TopicToDelete, state: ControllerState, *, is_again: bool
) -> TopicImage | KafkaError:
    topics = state.image.topics
    if topic.name is None and topic.topic_id is None:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if topic.name is not None and topic.topic_id is not None and not is_again:
        return KafkaError(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if topic.topic_id is not None:
        image = topics.by_id.get(topic.topic_id)
        code, text = ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
    else:
        image = topics.by_name.get(topic.name or "")
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        text = "This server does not host this topic-partition."
    return KafkaError(code, text) if image is None else image
