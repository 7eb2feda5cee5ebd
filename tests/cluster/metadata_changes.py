"""Records of a controller, as short lines by what they are about, to compare engines.

A line has only what a record changes: `isr 1 elr 2`, `fenced`, `dirs 1/1,1/2`. Ids that are
random are normalised: a directory of a broker is BROKER/DISK, and `BROKER/DISK'` after its disk was
replaced. Which of them a replica gets is up to its broker: `assigned 2` says that replica 2 has
another one, `lost 2` that it has none. Lists are sorted, as Kafka writes them in the order of a
hash set. A record that changes nothing is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatchmethod
from pathlib import Path

from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.records import cluster_records as cluster
from jbodlab.metadata.records import config_records as settings
from jbodlab.metadata.records import topic_records as topics
from jbodlab.metadata.records.schema import Record
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.vocabulary.directory_id import LOST
from jbodlab.vocabulary.ids import DirectoryId, TopicId
from lab.cluster.node import Broker
from tests.cluster.harness import directory_id

CLUSTER = "cluster"
RECOVERY_STATES = ("recovered", "recovering")
LEFT_OUT = (
    *(settings.NoOpRecord, settings.ProducerIdsRecord, cluster.RegisterControllerRecord),
    *(settings.BeginTransactionRecord, settings.EndTransactionRecord),
)


class MetadataChanges:
    """The records of a controller, read on from where the last look ended."""

    def __init__(self, brokers: Sequence[Broker], folder: Path) -> None:
        """Take what is read.

        Args:
            brokers: Whose directories have which ids.
            folder: The partition folder of the controller's log.
        """
        self._nodes, self._folder = brokers, folder
        self._read: dict[Path, int] = {}
        self._topics: dict[TopicId, str] = {}
        self._partitions: dict[tuple[TopicId, int], PartitionRegistration] = {}
        self._brokers: dict[int, dict[str, str]] = defaultdict(dict)
        self._disks: dict[DirectoryId, str] = {}

    def read_on(self) -> Iterator[tuple[str, str]]:
        """Yield what each new record is about (a topic, `broker N`, `cluster`), and its line."""
        for record in self._new_records():
            subject, words = self._described(record)
            if words:
                yield subject, " ".join(words)

    def _new_records(self) -> Iterator[Record]:
        for path in sorted(self._folder.glob("*.log")):
            begin = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(begin)
                data = file.read()
            whole = [position + header.size for position, header in iterate_headers(data)]
            self._read[path] = begin + (whole[-1] if whole else 0)
            for batch in read_batches(data):
                for _, item in batch.data_records:
                    yield item.record

    @singledispatchmethod
    def _described(self, record: Record) -> tuple[str, list[str]]:
        assert isinstance(record, LEFT_OUT), record
        return CLUSTER, []

    @_described.register
    def _(self, record: topics.TopicRecord) -> tuple[str, list[str]]:
        self._topics[record.topic_id] = record.name
        return record.name, ["created"]

    @_described.register
    def _(self, record: topics.RemoveTopicRecord) -> tuple[str, list[str]]:
        return self._topics[record.topic_id], ["removed"]

    @_described.register
    def _(self, record: topics.PartitionRecord) -> tuple[str, list[str]]:
        key = record.topic_id, record.partition_id
        self._partitions[key] = PartitionRegistration.from_record(record)
        return self._topics[record.topic_id], [f"partition {record.partition_id}"]

    @_described.register
    def _(self, record: topics.PartitionChangeRecord) -> tuple[str, list[str]]:
        words = []
        if record.leader != topics.NO_LEADER_CHANGE:
            words.append(f"leader {record.leader}")
        for name, members in (
            ("isr", record.isr),
            ("elr", record.eligible_leader_replicas),
            ("last", record.last_known_elr),
            ("replicas", record.replicas),
            ("removing", record.removing_replicas),
            ("adding", record.adding_replicas),
        ):
            if members is not None:
                words.append(f"{name} {listed(members)}")
        if record.leader_recovery_state != topics.NO_RECOVERY_STATE_CHANGE:
            words.append(RECOVERY_STATES[record.leader_recovery_state])
        key = record.topic_id, record.partition_id
        before, after = self._partitions[key], self._partitions[key].merge(record)
        self._partitions[key] = after
        for replica in after.replicas:
            if replica in before.replicas and after.directory(replica) != before.directory(replica):
                is_lost = after.directory(replica) == LOST
                words.append(f"{'lost' if is_lost else 'assigned'} {replica}")
        return self._topics[record.topic_id], words

    @_described.register
    def _(self, record: topics.ClearElrRecord) -> tuple[str, list[str]]:
        return record.topic_name or CLUSTER, ["clear elr"]

    @_described.register
    def _(self, record: settings.ConfigRecord) -> tuple[str, list[str]]:
        name = record.resource_name
        subject = name if record.resource_type == settings.TOPIC_RESOURCE else CLUSTER
        return subject, [f"{record.name}={record.value}"]

    @_described.register
    def _(self, record: settings.FeatureLevelRecord) -> tuple[str, list[str]]:
        return CLUSTER, [f"{record.name}={record.feature_level}"]

    @_described.register
    def _(self, record: cluster.RegisterBrokerRecord) -> tuple[str, list[str]]:
        self._brokers[record.broker_id] = known = {
            "fenced": "fenced" if record.fenced else "unfenced",
            "dirs": f"dirs {self._disks_of(record.log_dirs)}",
            "cordoned": f"cordoned {self._disks_of(record.cordoned_log_dirs or ())}",
        }
        return f"broker {record.broker_id}", ["registered", known["fenced"], known["dirs"]]

    @_described.register
    def _(self, record: cluster.BrokerRegistrationChangeRecord) -> tuple[str, list[str]]:
        new = {}
        if record.fenced:
            new["fenced"] = "fenced" if record.fenced == cluster.FENCE else "unfenced"
        if record.in_controlled_shutdown:
            new["shutdown"] = "shutting-down"
        if record.log_dirs:
            new["dirs"] = "dirs " + self._disks_of(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            new["cordoned"] = "cordoned " + self._disks_of(record.cordoned_log_dirs)
        known = self._brokers[record.broker_id]
        words = [value for key, value in new.items() if known.get(key) != value]
        known.update(new)
        return f"broker {record.broker_id}", words

    def _disks_of(self, directories: Iterable[DirectoryId]) -> str:
        return ",".join(sorted(map(self._disk, directories))) or "-"

    def _disk(self, directory: DirectoryId) -> str:
        if directory not in self._disks:
            self._look_for_disks()
        # A disk that was replaced before the first look has no name.
        return self._disks.get(directory, "gone")

    def _look_for_disks(self) -> None:
        for broker in self._nodes:
            for number, path in enumerate(broker.paths, 1):
                found = directory_id(path)
                if found not in self._disks:
                    name = f"{broker.id}/{number}"
                    others = [each for each in self._disks.values() if each.strip("'") == name]
                    self._disks[found] = name + "'" * len(others)


def listed(members: Iterable[int]) -> str:
    """Return brokers as text, sorted; `-` for none."""
    return ",".join(map(str, sorted(members))) or "-"
