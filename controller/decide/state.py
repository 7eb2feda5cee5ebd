"""The input and the result of a decision.

A decision is a function `(request, state, now_ms) -> ControllerResult`. It changes nothing: the
records describe the change of the hard state; `heartbeats` and `mutations` are the new soft state.
The active controller applies both before it runs the next decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableSequence
from typing import Generic, Protocol, TypeVar
from uuid import UUID

import msgspec
from msgspec.structs import replace

from controller.decide.degraded import Degraded
from controller.decide.heartbeats import Heartbeats
from controller.decide.mutation_quotas import Mutating, MutationQuotas, Mutations
from jbodlab.controller_api.requests import RECORDS_PER_REQUEST_MAX, TOO_LARGE
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.cluster_image import ClusterImage
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.config_records import BROKER_RESOURCE
from jbodlab.metadata.records.features import ELR_VERSION
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import ELR_LEVEL, JBOD_LEVEL, versioned
from jbodlab.metadata.records.schema import Record
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, Offset, TopicId

ResponseT_co = TypeVar("ResponseT_co", covariant=True)
T = TypeVar("T")

RECORDS_PER_RESULT_MAX = RECORDS_PER_REQUEST_MAX
"""Most records of one log batch, too."""

UNCLEAN_ELECTION_CONFIG = "unclean.leader.election.enable"
MIN_ISR_CONFIG = "min.insync.replicas"
MIN_ISR_DEFAULT = 1


class Randomness(Protocol):
    """Where random choices come from; `random.Random` is one."""

    def randrange(self, stop: int, /) -> int:
        """Return a number of 0..stop-1."""

    def shuffle(self, items: MutableSequence[T], /) -> None:
        """Put a sequence into random order."""


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that decisions need of the configuration.

    Attributes:
        static_configs: Values of the configuration file for keys that have one there.
        authorizer: Whose rights count; None without an authorizer.
    """

    cluster_id: str
    node_id: BrokerId
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    static_configs: Mapping[str, str] = msgspec.field(default_factory=dict)
    authorizer: AuthorizerSettings | None = None


class ControllerState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a decision may look at."""

    image: MetadataImage
    heartbeats: Heartbeats
    settings: ControllerSettings
    next_offset: Offset
    """Offset that the next record will have."""
    mutations: MutationQuotas = msgspec.field(default_factory=MutationQuotas)

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version."""
        return self.image.features.metadata_version

    @property
    def degraded(self) -> Degraded:
        """The directories that are full or slow."""
        return self.heartbeats.degraded()

    def mutations_of(self, request: Mutating, now_ms: int) -> Mutations:
        """Begin to count what the client of a request changes."""
        return Mutations(request, self.image.quotas, self.mutations, now_ms)

    def with_records_replayed(self, records: RecordList) -> ControllerState:
        """Return the state with the records of a result in the making replayed.

        For a second step that has to see what the first one decided.
        """
        if not len(records):
            return self
        delta = MetadataDelta(self.image)
        for offset, (record, _) in enumerate(records.as_tuple(), start=self.next_offset):
            delta.replay(record, offset)
        next_offset = Offset(self.next_offset + len(records))
        image = delta.apply(next_offset - 1, self.image.epoch, self.image.timestamp_ms)
        return replace(self, image=image, next_offset=next_offset)

    def unclean_election_enabled(self, topic: str) -> bool:
        """Return whether replicas outside of the ISR may lead this topic."""
        value = self._effective_config(topic, UNCLEAN_ELECTION_CONFIG)
        return value is not None and value.strip().lower() == "true"

    @property
    def has_elr(self) -> bool:
        """Whether the cluster has eligible leader replicas."""
        return (
            self.image.features.levels.get(ELR_VERSION, 0) > 0
            and self.metadata_version >= ELR_LEVEL
        )

    def min_isr(self, topic: str) -> int | None:
        """Return what makes replicas of a topic eligible leader replicas.

        Returns:
            `min.insync.replicas`; None in a cluster without eligible leader replicas.
        """
        if not self.has_elr:
            return None
        value = self._effective_config(topic, MIN_ISR_CONFIG)
        return MIN_ISR_DEFAULT if value is None else int(value)

    def _effective_config(self, topic: str, name: str) -> str | None:
        """Return a config of the topic, else of this node, of all nodes, or in the file."""
        configs = self.image.configs
        for entries in (
            configs.topic(topic),
            configs.resource(BROKER_RESOURCE, str(self.settings.node_id)),
            configs.resource(BROKER_RESOURCE, ""),
            self.settings.static_configs,
        ):
            value = entries.get(name)
            if value is not None:
                return value
        return None


class ControllerResult(msgspec.Struct, Generic[ResponseT_co], frozen=True, kw_only=True):
    """Records that a decision wants written, and its answer.

    Attributes:
        records: To append, in this order.
        heartbeats: The new soft state; None if it does not change.
        mutations: Quotas that clients have left; None likewise.
        atomic: Whether the records count all or none: they stand in one log batch, or, too many
            for one, in a metadata transaction.
    """

    response: ResponseT_co
    records: tuple[VersionedRecord, ...] = ()
    heartbeats: Heartbeats | None = None
    mutations: MutationQuotas | None = None
    atomic: bool = False


class RecordList:
    """Records of a result in the making, each in the version of the metadata.version."""

    def __init__(self, metadata_version: int) -> None:
        self.metadata_version = metadata_version
        self._records: list[VersionedRecord] = []

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Record | None) -> None:
        """Append a record; None is nothing."""
        if record is not None:
            self._records.append(versioned(record, self.metadata_version))

    def extend(self, records: list[VersionedRecord]) -> None:
        """Append records that have their versions already."""
        self._records += records

    def as_tuple(self) -> tuple[VersionedRecord, ...]:
        """Return the records, in order."""
        return tuple(self._records)

    def check_size(self) -> None:
        """Check that a user's request does not cause too much at once.

        Raises:
            KafkaError: POLICY_VIOLATION.
        """
        check_count(len(self._records))


def offset_of_done(state: ControllerState, *, is_again: bool) -> Offset:
    """Return the offset at which a broker knows a change made earlier; -1 without one."""
    return Offset(state.next_offset - 1 if is_again else -1)


def check_count(records: int) -> None:
    """Check a number of records that a user's request would cause.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    if records > RECORDS_PER_RESULT_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)


class PartitionEntry(msgspec.Struct, frozen=True):
    """One partition with its names and its state."""

    topic: str
    topic_id: TopicId
    index: int
    state: PartitionRegistration


def partitions(image: MetadataImage) -> Iterator[PartitionEntry]:
    """Yield every partition, topic by topic in the order of the image."""
    for topic in image.topics.by_id.values():
        for index, state in topic.partitions.items():
            yield PartitionEntry(topic.name, topic.topic_id, index, state)


IdSource = Callable[[], UUID]
"""Draws a new random id."""

LeaderTest = Callable[[BrokerId, DirectoryId], bool]
"""Whether the replica of a broker in a directory may lead."""


def leader_test(
    cluster: ClusterImage,
    *,
    excluding: BrokerId | None = None,
    unfencing: BrokerId | None = None,
    unfencing_directories: tuple[DirectoryId, ...] | None = None,
) -> LeaderTest:
    """Return the test for acceptable leaders: the broker is active, its directory online.

    Args:
        cluster: The registrations.
        excluding: Never acceptable: the broker that is being fenced, shut down or removed, or
            whose directory failed.
        unfencing: Counts as active although its registration still says fenced.
        unfencing_directories: The directories of that broker that are online from now on; None
            for those of its registration.
    """
    brokers = cluster.brokers

    def is_acceptable(broker_id: BrokerId, directory: DirectoryId) -> bool:
        if broker_id == excluding:
            return False
        registration = brokers.get(broker_id)
        if registration is None:
            return False
        if broker_id == unfencing:
            online = registration.directories
            if unfencing_directories is not None:
                online = unfencing_directories
            return directory_ids.is_online(directory, online)
        return registration.active and registration.directory_is_online(directory)

    return is_acceptable


def default_directory(
    registration: BrokerRegistration | None, metadata_version: int
) -> DirectoryId:
    """Return the directory that a new replica is given.

    The only online directory of a broker is filled in at once; with several, the broker chooses
    and reports its choice.
    """
    if metadata_version < JBOD_LEVEL:
        return directory_ids.MIGRATING
    if registration is None:
        return directory_ids.UNASSIGNED
    if not registration.directories:
        return directory_ids.MIGRATING
    if len(registration.directories) == 1:
        return registration.directories[0]
    return directory_ids.UNASSIGNED
