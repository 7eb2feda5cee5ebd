"""What an entry of the timeline does: a fault with its words, or an action; and on what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fault_injection.errors import FaultError
from fault_injection.kinds import KINDS, Scope, kind_named, spec
from jbodlab.ids import TopicPartition
from lab.rehearsal import targets
from lab.rehearsal.document import Fields, Item, text, texts, whole
from lab.rehearsal.known import BROKERS_MAX, DISKS_MAX, PARTITIONS_MAX, Known
from lab.rehearsal.plan import Attach, ClusterNeed, Topic
from lab.rehearsal.read_cluster import NO_SETTINGS, words
from lab.rehearsal.targets import Target
from lab.rehearsal.vocabulary import ACTIONS, OF_CONTROLLER

FAULT_WORDS = tuple(dict.fromkeys(word for kind in KINDS.values() for word in kind.parameters))
DISK_MECHANISMS = ("loop", "fuse")
"""What makes faults by the disks themselves, whatever rules the brokers follow."""
_CONTROLLER = targets.Node(targets.CONTROLLER)
_WRONG_PARAMETER = re.compile(r"invalid [\w-]+ of [\w-]+: ")
_REPLICA = re.compile(r"([1-9]\d*)(?:/dir-([1-9]\d*))?")


def is_kind(word: object) -> bool:
    """Return whether a word names a fault."""
    try:
        kind_named(str(word))
    except FaultError:
        return False
    return True


def known_deed(value: Any) -> str:
    """Return the word for a fault or an action.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, str) and (value in ACTIONS or is_kind(value)):
        return value
    raise ValueError(
        f"expected a fault ({', '.join(KINDS)}) or an action ({', '.join(ACTIONS)}), got {value!r}"
    )


class Deeds:
    """Reads them.

    Args:
        known: What the plan has named.
    """

    def __init__(self, known: Known) -> None:
        self._known = known

    @property
    def _need(self) -> ClusterNeed | None:
        """The cluster that is started; None for one that is there."""
        found = self._known.cluster
        return None if isinstance(found, Attach) else found

    # Faults

    def fault(self, fields: Fields, do: str) -> dict[str, Any]:
        """Return what an entry is told of a fault."""
        where = fields.read("where", self._target, None, needed=True)
        item = fields.get("where")
        if where is not None and item is not None:
            self._check_where(item, do, where)
        given = self._by_disks(do)
        others: dict[str, Target] = {}
        for key, one in fields.rest(("for", "mechanism", *FAULT_WORDS)).items():
            if key == "with":
                other = fields.read("with", self._target, None)
                if other is not None:
                    others["with"] = other
                    self._check_other(one, where, other)
                continue
            given[key] = one.plain
            if key == "from":
                self._check_cut_from(one, where)
        wanted = self._spec(fields, do, given, others)
        return {
            "where": where,
            "length_s": None if wanted is None else wanted.length_s,
            "spec": wanted,
            "given": given,
            "targets": others,
        }

    def _check_where(self, item: Item, do: str, where: Target) -> None:
        kind = kind_named(do)
        if kind.scope is Scope.DIRECTORY and targets.is_node(where):
            item.wrong(f"expected a directory for {kind.name}, got the node {item.shown}")
        if kind.scope is Scope.BROKER and targets.is_directory(where):
            item.wrong(f"expected a broker for {kind.name}, got the directory {item.shown}")
        if (
            where == _CONTROLLER
            and kind.scope is not Scope.DIRECTORY
            and kind.name not in OF_CONTROLLER
        ):
            known = ", ".join(OF_CONTROLLER)
            item.wrong(f"{kind.name} is a fault of brokers; faults of the controller: {known}")
        elif self._need is not None and kind.mechanisms == ("loop",) and self._need.kind != "loop":
            item.wrong(f"{kind.name} needs disks of the kind loop, and these are {self._need.kind}")

    def _check_other(self, item: Item, where: Target | None, other: Target) -> None:
        """The second directory must be another one of the same broker."""
        if targets.is_node(other):
            item.wrong(f"expected a directory, got the node {item.shown}")
        elif isinstance(where, targets.Directory) and other == where:
            item.wrong(f"{item.shown} is the same directory twice")
        else:
            brokers = {getattr(each, "broker", None) for each in (where, other)} - {None}
            if len(brokers) > 1:
                item.wrong(f"{item.shown} is a directory of another broker")

    def _check_cut_from(self, item: Item, where: Target | None) -> None:
        if where == _CONTROLLER:
            item.wrong("a controller is cut off from all brokers")
        found = item.plain if isinstance(item.plain, list) else str(item.plain).split(",")
        for word in map(str, found):
            if isinstance(where, targets.Node) and word == f"broker-{where.number}":
                item.wrong(f"{word!r} cannot be cut off from itself")
            number = word.removeprefix("broker-")
            if self._need is not None and number.isdecimal() and int(number) > self._need.brokers:
                item.wrong(f"{word!r}: there are the brokers 1 to {self._need.brokers}")

    def _spec(
        self, fields: Fields, do: str, given: Mapping[str, object], others: Mapping[str, Target]
    ) -> Any:
        """Return the fault that the words make; each wrong word is a mistake of its own."""
        needs = {"with": "in the moment"} if others else {}
        right = True
        for key, value in given.items():
            try:
                spec(do, {key: value, **needs})
            except FaultError as error:
                if "needs `with`" in str(error):
                    continue
                item = fields.get(key)
                assert item is not None
                item.wrong(_WRONG_PARAMETER.sub("", str(error)))
                right = False
        if not right:
            return None
        try:
            return spec(do, {**given, **needs})
        except FaultError as error:
            fields.item.wrong(str(error))
            return None

    def _by_disks(self, do: str) -> dict[str, object]:
        """Name the disks of the cluster as what makes a fault, where the plan wants it so.

        Brokers may follow rules all the same, if only to be cut off.
        """
        wanted = "" if self._need is None else self._need.mechanism
        is_meant = wanted in DISK_MECHANISMS and wanted in kind_named(do).mechanisms
        return {"mechanism": wanted} if is_meant else {}

    # Actions

    def action(self, fields: Fields, do: str) -> dict[str, Any]:
        """Return what an entry is told of an action."""
        found: dict[str, Any] = {"details": {}, "targets": {}}
        details = found["details"]
        for key in ACTIONS[do]:
            match key:
                case "where":
                    found["where"] = fields.read("where", self._place_of(do), None, needed=True)
                case "to":
                    found["targets"]["to"] = fields.read("to", self._directory, None, needed=True)
                case "topic":
                    read = self._new_topic if do == "create-topic" else self._known.topic
                    details["topic"] = fields.read("topic", read, "", needed=True)
                case "config":
                    config = fields.read("config", _settings, NO_SETTINGS, needed=True)
                    details |= {f"config.{name}": value for name, value in config.items()}
                case "text":
                    details[key] = fields.read(key, text, "", needed=True)
                case "replicas" if do == "reassign":
                    details[key] = ",".join(fields.read(key, self._replicas, (), needed=True))
                case _:
                    need = self._need
                    brokers = BROKERS_MAX if need is None else need.brokers
                    most = brokers if key == "replicas" else PARTITIONS_MAX
                    least = 0 if key == "partition" else 1
                    details[key] = str(fields.read(key, whole(least, most), 0, needed=True))
        topic, partition = details.get("topic"), details.get("partition")
        if topic in self._known.topics and partition is not None:
            self._check_partition(fields.item, topic, int(partition))
            found["partition"] = TopicPartition(topic, int(partition))
        return found

    def _check_partition(self, item: Item, topic: str, partition: int) -> None:
        count = self._known.topics[topic].partitions
        if partition >= count:
            item.wrong(f"{topic} has the partitions 0 to {count - 1}, not {partition}")

    def _new_topic(self, value: Any) -> str:
        name = text(value)
        # As one of the plan's, which says what is wrong about its name.
        self._known.check_topic(Topic(name=name, partitions=1, replicas=1))
        return name

    def _place_of(self, do: str) -> Any:
        """Return what reads the target of an action: settings are of nodes, the rest of disks."""
        return self._node if do == "set-config" else self._directory

    def _node(self, value: Any) -> Target:
        found = self._target(value)
        if targets.is_directory(found) or found == _CONTROLLER:
            raise ValueError(f"expected a broker, got {value!r}")
        return found

    def _directory(self, value: Any) -> Target:
        found = self._target(value)
        if targets.is_node(found):
            raise ValueError(f"expected a directory, got the node {value!r}")
        return found

    def _replicas(self, value: Any) -> tuple[str, ...]:
        """Return the replicas of a reassignment: `2`, or `2/dir-1` for a chosen directory."""
        found, brokers = words(value), []
        for word in found:
            match = _REPLICA.fullmatch(word)
            if match is None:
                raise ValueError(f"expected a replica such as 2 or 2/dir-1, got {word!r}")
            broker, directory = int(match[1]), int(match[2] or 1)
            if self._need is not None and broker > self._need.brokers:
                raise ValueError(f"{word!r}: there are the brokers 1 to {self._need.brokers}")
            if self._need is not None and directory > self._need.disks:
                raise ValueError(f"{word!r}: a broker has the directories 1 to {self._need.disks}")
            if broker in brokers:
                raise ValueError(f"{word!r}: duplicate broker {broker}")
            brokers.append(broker)
        return found

    # Targets

    def _target(self, value: Any) -> Target:
        found = targets.parse(str(value))
        need = self._need
        broker = getattr(found, "broker", None)
        number = found.number if isinstance(found, targets.Node) else broker
        if need is not None and number is not None and number > need.brokers:
            raise ValueError(f"{value!r}: there are the brokers 1 to {need.brokers}")
        if number == 0 and found != _CONTROLLER:
            raise ValueError(f"{value!r}: brokers are counted from 1")
        if isinstance(found, targets.Directory):
            most = DISKS_MAX if need is None else need.disks
            if not 1 <= found.number <= most:
                raise ValueError(f"{value!r}: a broker has the directories 1 to {most}")
        if isinstance(found, targets.ReplicaOf):
            self._check_replica(str(value), found)
        return found

    def _check_replica(self, value: str, found: targets.ReplicaOf) -> None:
        topic = self._known.topics.get(found.partition.topic)
        if topic is None:
            there = ", ".join(self._known.topics) or "none"
            raise ValueError(f"{value!r}: unknown topic (topics of this plan: {there})")
        if found.partition.partition >= topic.partitions:
            raise ValueError(
                f"{value!r}: {topic.name} has the partitions 0 to {topic.partitions - 1}"
            )
        if not found.is_leader and topic.replicas < 2:
            raise ValueError(f"{value!r}: {topic.name} has one replica, so nobody follows")


def _settings(value: Any) -> dict[str, str]:
    found = texts(value)
    if not found:
        raise ValueError("expected at least one setting")
    return found
