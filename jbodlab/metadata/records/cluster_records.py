"""Records about brokers and controllers: registrations with their directories, and fencing.

Fields, versions, tags and defaults are those of Kafka's message schemas of the same names
(KIP-631, KIP-858 for the directories, KIP-919 for controllers, KIP-1066 for cordoned directories).
"""

from uuid import UUID

from jbodlab.kafka_wire.kinds import Int8, Int16, Int32, UInt16
from jbodlab.kafka_wire.schema import Struct, field
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId

Directories = tuple[DirectoryId, ...]

FENCE = 1
UNFENCE = -1
ENTER_CONTROLLED_SHUTDOWN = 1
NO_CHANGE = 0
"""Codes of BrokerRegistrationChangeRecord; there is none for leaving a controlled shutdown."""


class BrokerEndpoint(Struct):
    """One listener of a broker or controller; the name is unique among its listeners."""

    name: str = field("name of the listener")
    host: str = field("host name for clients")
    port: UInt16 = field("port for clients")
    security_protocol: Int16 = field("0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL")


class BrokerFeature(Struct):
    """A feature and the levels of it that a node supports."""

    name: str = field("name of the feature, such as metadata.version")
    min_supported_version: Int16 = field("lowest level that the node supports")
    max_supported_version: Int16 = field("highest level that the node supports")


class RegisterBrokerRecord(Record, api_key=0, highest_version=4):
    """A whole registration, replacing an earlier one; `log_dirs` are the online directories."""

    broker_id: BrokerId = field("id of the broker")
    is_migrating_zk_broker: bool = field("whether the broker still works with ZooKeeper", since=2)
    incarnation_id: UUID = field("random id of the broker's process")
    broker_epoch: BrokerEpoch = field("offset at which the broker registered; changes name it")
    end_points: tuple[BrokerEndpoint, ...] = field("listeners of the broker")
    features: tuple[BrokerFeature, ...] = field("features that the broker supports")
    rack: str | None = field("rack of the broker, or null")
    fenced: bool = field("whether the broker is fenced: it may lead nothing", default=True)
    in_controlled_shutdown: bool = field("whether the broker has asked to be shut down", since=1)
    log_dirs: Directories = field("ids of the online log directories; KIP-858", since=3, tag=0)
    cordoned_log_dirs: Directories | None = field(
        "log directories that get no new replicas; KIP-1066", since=4, tag=1, default=None
    )


class BrokerRegistrationChangeRecord(Record, api_key=17, highest_version=3):
    """A difference to a registration; an empty `log_dirs` means no change."""

    broker_id: BrokerId = field("id of the broker")
    broker_epoch: BrokerEpoch = field("epoch of the registration that is changed")
    fenced: Int8 = field("-1 unfences the broker, 1 fences it, 0 changes nothing", tag=0)
    in_controlled_shutdown: Int8 = field("1: the shutdown begins, 0: no change", since=1, tag=1)
    log_dirs: Directories = field("online log directories; empty: no change", since=2, tag=2)
    cordoned_log_dirs: Directories | None = field(
        "cordoned log directories; null: no change", since=3, tag=3, default=None
    )


class UnregisterBrokerRecord(Record, api_key=1):
    """A broker leaves the cluster for good."""

    broker_id: BrokerId = field("id of the broker")
    broker_epoch: BrokerEpoch = field("epoch of the registration that ends")


class FenceBrokerRecord(Record, api_key=7):
    """A broker is fenced; written below metadata.version 6."""

    id: BrokerId = field("id of the broker")
    epoch: BrokerEpoch = field("epoch of its registration")


class UnfenceBrokerRecord(Record, api_key=8):
    """A broker is no longer fenced; written below metadata.version 6."""

    id: BrokerId = field("id of the broker")
    epoch: BrokerEpoch = field("epoch of its registration")


class RegisterControllerRecord(Record, api_key=27):
    """A controller announces itself, replacing its earlier registration."""

    controller_id: Int32 = field("id of the controller")
    incarnation_id: UUID = field("random id of the controller's process")
    zk_migration_ready: bool = field(
        "whether the controller is configured to migrate from ZooKeeper"
    )
    end_points: tuple[BrokerEndpoint, ...] = field("listeners of the controller")
    features: tuple[BrokerFeature, ...] = field("features that the controller supports")


class UnregisterControllerRecord(Record, api_key=29):
    """A controller's registration is removed."""

    controller_id: Int32 = field("id of the controller")
