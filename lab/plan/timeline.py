"""The timeline of a plan, checked against all else that the plan names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET
from msgspec.structs import fields, replace

from fault_injection.errors import FaultError
from fault_injection.kinds import KINDS, Scope, spec
from jbodlab.config import topic_keys
from jbodlab.picture.places import CLUSTER, CONTROLLER
from jbodlab.vocabulary import expressions
from jbodlab.vocabulary.durations import duration_text
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.expressions import MetricUnit
from lab.cluster import ClusterSpec
from lab.plan import targets
from lab.plan.document import Item
from lab.plan.plan import (
    DISKS_MAX,
    LAST,
    PARTITIONS_MAX,
    After,
    At,
    Attach,
    Entry,
    EntryKeys,
    Instant,
    Topic,
    When,
)
from lab.plan.plan_file import OTHER
from lab.plan.targets import Target
from lab.plan.vocabulary import (
    ALL,
    OF_CONTROLLER,
    OF_DISK_OF_CONTROLLER,
    TRANSACTIONS,
    Owners,
    metrics_of,
)

DISK_MECHANISMS = ("loop", "fuse")
"""Mechanisms that make faults by the disks themselves, whatever rules the brokers follow."""
WHEN_WITHIN_S = 30.0
_ACTIVE = targets.ActiveController()
_CONTROLLER, _CLUSTER = targets.Node(CONTROLLER), targets.Node(CLUSTER)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_REPLICA = re.compile(r"([1-9]\d*)(?:/dir-([1-9]\d*))?")


@dataclass(slots=True)
class Names:
    """Names that a plan has declared so far: a part may only name what is above it.

    Attributes:
        cluster: The one of the plan.
        topics: The topics that the plan makes, before the load or in its timeline.
        owners: Owners of metrics, and which metrics.
        entries: Names of the entries of the timeline.
        transactional: Names of who has transactions.
    """

    cluster: ClusterSpec | Attach
    topics: dict[str, Topic] = field(default_factory=dict)
    owners: dict[str, Mapping[str, MetricUnit]] = field(default_factory=dict)
    entries: list[str] = field(default_factory=list)
    transactional: list[str] = field(default_factory=list)

    @property
    def need(self) -> ClusterSpec | None:
        """The cluster that is started; None for one that is there."""
        return self.cluster if isinstance(self.cluster, ClusterSpec) else None

    @property
    def disks(self) -> int:
        """How many directories a broker has at the most."""
        return self.need.disks if self.need else DISKS_MAX

    def add_owner(self, item: Item, name: str, metrics: Mapping[str, MetricUnit]) -> None:
        """Add a name that has metrics."""
        if not _NAME.fullmatch(name):
            item.wrong(f"expected a name of letters, digits, - and _, got {name!r}")
        elif name in self.owners or name in (LAST, ALL, TRANSACTIONS, "and"):
            item.wrong(f"the name {name!r} is taken")
            return
        self.owners[name] = metrics

    def add_topic(self, item: Item, topic: Topic) -> None:
        """Add a topic that the plan makes."""
        self.check_topic(item, topic)
        self.topics[topic.name] = topic

    def check_topic(self, item: Item, topic: Topic) -> None:
        """Look whether a topic can be made."""
        named = item.child("topic")
        if not _TOPIC.fullmatch(topic.name):
            named.wrong(f"{topic.name!r} is not a valid name of a topic")
        if topic.name in self.topics:
            named.wrong(f"duplicate topic {topic.name!r}")
        if self.need is None:
            return
        if topic.replicas > self.need.brokers:
            item.child("replicas").wrong(
                f"{topic.replicas} replicas need as many brokers, and there are {self.need.brokers}"
            )
        try:
            topic_keys.check(topic.config)
        except ConfigError as error:
            item.child("config").wrong(str(error))

    def topic(self, item: Item, name: str) -> None:
        """Look whether the plan has a topic."""
        if name not in self.topics:
            there = ", ".join(self.topics) or "none"
            item.wrong(f"unknown topic {name!r} (topics of this plan: {there})")

    def moment(self, item: Item, moment: After) -> None:
        """Look whether the timeline has the entry of a moment."""
        if moment.name != LAST and moment.name not in self.entries:
            there = ", ".join([*self.entries, LAST])
            item.wrong(f"unknown entry {moment.name!r} (entries of the timeline: {there})")

    def expression(self, item: Item, text: Any, *, live: bool) -> expressions.Expression | None:
        """Return a condition; None, and a mistake, where it is wrong.

        Args:
            item: Where it is written.
            text: The condition, or UNSET where its mistake is known.
            live: Whether it is evaluated while the load runs.
        """
        if text is UNSET:
            return None
        owners = Owners(self.owners, are_transactional=bool(self.transactional))
        try:
            return expressions.parse(text, owners.live_unit_of if live else owners.unit_of)
        except ValueError as error:
            item.wrong(str(error))
            return None

    def target(self, item: Item, found: Target) -> None:
        """Look whether the cluster and the topics of the plan have a target."""
        broker = found.number if isinstance(found, targets.Node) else getattr(found, "broker", None)
        if found == _CLUSTER:
            return
        if broker == 0 and found != _CONTROLLER:
            item.wrong(f"{item.shown}: brokers are counted from 1")
        elif broker is not None and self.need and broker > self.need.brokers:
            item.wrong(f"{item.shown}: there are the brokers 1 to {self.need.brokers}")
        elif isinstance(found, targets.Directory) and not 1 <= found.number <= self.disks:
            item.wrong(f"{item.shown}: a broker has the directories 1 to {self.disks}")
        elif isinstance(found, targets.ReplicaOf):
            self._replica(item, found)
        elif isinstance(found, targets.CoordinatorOf) and found.client not in self.transactional:
            there = ", ".join(self.transactional) or "none"
            item.wrong(f"{item.shown}: no client with transactions (there are: {there})")

    def _replica(self, item: Item, found: targets.ReplicaOf) -> None:
        topic = self.topics.get(found.partition.topic)
        if topic is None:
            there = ", ".join(self.topics) or "none"
            item.wrong(f"{item.shown}: unknown topic (topics of this plan: {there})")
        elif found.partition.partition >= topic.partitions:
            item.wrong(f"{item.shown}: {topic.name} has the partitions 0 to {topic.partitions - 1}")
        elif not found.is_leader and topic.replicas < 2:
            item.wrong(f"{item.shown}: {topic.name} has one replica, so nobody follows")


class Timeline:
    """Reads it, entry by entry.

    Args:
        items: The entries as they are written; others may come after their names.
        entries: Their keys; UNSET where one is wrong.
        names: Names that the plan has declared.
    """

    def __init__(self, items: Sequence[Item], entries: Sequence[Any], names: Names) -> None:
        self._lines = list(zip(items, entries, strict=True))
        self._names = names
        for item in items:
            self._announce(item)

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, repeated ones so many times."""
        found = [
            (item, self._entry(item, keys, name), keys)
            for (item, keys), name in zip(self._lines, self._names.entries, strict=True)
            if keys is not UNSET
        ]
        _check_order([(item, entry) for item, entry, _ in found])
        return tuple(
            each for item, entry, keys in found for each in self._repeat(item, entry, keys)
        )

    def _announce(self, item: Item) -> None:
        """Add an entry's name before any is read."""
        named, do = item.child("as"), item.child("do")
        name, entries = str((do if named is item else named).plain), self._names.entries
        if item.value is None or do is item:
            name = ""
        elif named is item and name in entries:
            name = f"{name}-{len(entries) + 1}"
        if name:
            self._names.add_owner(item, name, metrics_of(str(do.plain)))
        entries.append(name)

    def _entry(self, item: Item, keys: EntryKeys, name: str) -> Entry:
        do = item.child("do").plain
        given = {
            each.encode_name: value
            for each in fields(keys)
            if each.name.endswith("_") and (value := getattr(keys, each.name)) is not None
        }
        others = self._fault if do in KINDS else self._action
        return Entry(name=name, do=do, instant=self._instant(item, keys), **others(item, do, given))

    def _instant(self, item: Item, keys: EntryKeys) -> Instant:
        if keys.after:
            self._names.moment(item.child("after"), keys.after)
            moment: After = keys.after
            return replace(moment, plus_s=keys.plus_s or 0.0)
        if keys.when:
            expression = self._names.expression(item.child("when"), keys.when, live=True)
            if expression is not None:
                return When(expression=expression, within_s=keys.within_s or WHEN_WITHIN_S)
        return At(seconds=keys.at_s or 0.0)

    def _repeat(self, item: Item, entry: Entry, keys: EntryKeys) -> list[Entry]:
        """Return the entry so many times, as `NAME#1` and so on, the later ones after the first."""
        if keys.repeat is None:
            return [entry]
        times, every_s = keys.repeat.times, keys.repeat.every_s
        if entry.length_s is not None and every_s < entry.length_s:
            item.wrong(
                f"every {duration_text(every_s)} is sooner than {duration_text(entry.length_s)}, "
                "when the fault is reverted"
            )
        named = [replace(entry, name=f"{entry.name}#{number}") for number in range(1, times + 1)]
        owners = self._names.owners
        owners.update({each.name: owners[entry.name] for each in named})
        return named[:1] + [
            replace(
                each,
                instant=After(name=named[0].name, moment="injected", plus_s=every_s * number),
            )
            for number, each in enumerate(named[1:], start=1)
        ]

    # Faults

    def _fault(self, item: Item, do: str, given: dict[str, Any]) -> dict[str, Any]:
        where, other = given.pop("where"), given.pop("with", None)
        self._names.target(item.child("where"), where)
        self._check_where(item.child("where"), do, where)
        if self._makes_by_disks(do):
            given = {"mechanism": self._names.need.mechanism} | given  # type: ignore[union-attr]
        if other is not None:
            self._names.target(item.child("with"), other)
            _check_other(item.child("with"), where, other)
        if "from" in given:
            self._check_cut_from(item.child("from"), where)
        found = {"where": where, "given": given, "other": other}
        try:
            wanted = spec(do, given | (OTHER if other is not None else {}))
        except FaultError as error:
            item.wrong(str(error))
            return found
        return found | {"length_s": wanted.length_s, "spec": wanted}

    def _check_where(self, item: Item, do: str, where: Target) -> None:
        kind, need = KINDS[do], self._names.need
        if (kind.scope is Scope.CLUSTER) != (where == _CLUSTER):
            what = "the whole cluster" if kind.scope is Scope.CLUSTER else "a part of the cluster"
            item.wrong(f"expected {what} for {do}, got {item.shown}")
        elif kind.hits_clients and need is not None and not need.security:
            item.wrong(f"{do} needs a closed cluster: security in its cluster, such as sasl_ssl")
        elif kind.scope is Scope.DIRECTORY and targets.is_node(where):
            item.wrong(f"expected a directory for {do}, got the node {item.shown}")
        elif kind.scope is Scope.BROKER and targets.is_directory(where):
            item.wrong(f"expected a broker for {do}, got the directory {item.shown}")
        elif where == _ACTIVE and do not in (*OF_CONTROLLER, *OF_DISK_OF_CONTROLLER):
            known = ", ".join((*OF_CONTROLLER, *OF_DISK_OF_CONTROLLER))
            item.wrong(f"{do} is a fault of brokers; faults of a controller: {known}")
        elif where == _CONTROLLER and do not in OF_CONTROLLER:
            known = ", ".join(OF_CONTROLLER)
            item.wrong(f"{do} is a fault of brokers; faults of the controller: {known}")
        elif need is not None and kind.mechanisms == ("loop",) and need.disk_kind != "loop":
            item.wrong(f"{do} needs disks of the kind loop, and these are {need.disk_kind}")

    def _check_cut_from(self, item: Item, where: Target) -> None:
        if where == _CONTROLLER:
            item.wrong("a controller is cut off from all brokers")
        found = item.plain if isinstance(item.plain, list) else str(item.plain).split(",")
        need = self._names.need
        for word in map(str, found):
            if isinstance(where, targets.Node) and word == f"broker-{where.number}":
                item.wrong(f"{word!r} cannot be cut off from itself")
            number = word.removeprefix("broker-")
            if need is not None and number.isdecimal() and int(number) > need.brokers:
                item.wrong(f"{word!r}: there are the brokers 1 to {need.brokers}")

    def _makes_by_disks(self, do: str) -> bool:
        """Return whether the plan wants the disks to make a fault.

        Brokers may follow rules all the same, if only to be cut off.
        """
        need = self._names.need
        return (
            need is not None
            and need.mechanism in DISK_MECHANISMS
            and need.mechanism in KINDS[do].mechanisms
        )

    # Actions

    def _action(self, item: Item, do: str, given: dict[str, Any]) -> dict[str, Any]:
        names, name = self._names, given.get("topic", "")
        if do == "create-topic":
            topic = Topic(name=name, partitions=given["partitions"], replicas=given["replicas"])
            names.check_topic(item, topic)
        elif "topic" in given:
            names.topic(item.child("topic"), name)
            count = names.topics[name].partitions if name in names.topics else PARTITIONS_MAX
            if given.get("partition", 0) >= count:
                item.wrong(f"{name} has the partitions 0 to {count - 1}, not {given['partition']}")
        if do == "reassign":
            self._check_replicas(item.child("replicas"), given["replicas"])
        elif do == "set-config":
            self._check_broker(item.child("where"), given["where"])
        for key in {"to", "where"} & given.keys() if do != "set-config" else ():
            self._check_directory(item.child(key), given[key])
        return {"where": given.pop("where", None), "details": given}

    def _check_broker(self, item: Item, found: Target) -> None:
        self._names.target(item, found)
        if targets.is_directory(found) or found in (_CONTROLLER, _CLUSTER):
            item.wrong(f"expected a broker, got {item.shown}")

    def _check_directory(self, item: Item, found: Target) -> None:
        self._names.target(item, found)
        if targets.is_node(found):
            item.wrong(f"expected a directory, got the node {item.shown}")

    def _check_replicas(self, item: Item, words: Sequence[str]) -> None:
        """Check the replicas of a reassignment: `2`, or `2/dir-1` for a chosen directory."""
        brokers: list[int] = []
        for word in words:
            match = _REPLICA.fullmatch(word)
            if match is None:
                item.wrong(f"expected a replica such as 2 or 2/dir-1, got {word!r}")
                continue
            broker, directory = int(match[1]), int(match[2] or 1)
            if self._names.need is not None and broker > self._names.need.brokers:
                item.wrong(f"{word!r}: there are the brokers 1 to {self._names.need.brokers}")
            if directory > self._names.disks:
                item.wrong(f"{word!r}: a broker has the directories 1 to {self._names.disks}")
            if broker in brokers:
                item.wrong(f"{word!r}: duplicate broker {broker}")
            brokers.append(broker)


def _check_other(item: Item, where: Target, other: Target) -> None:
    """The second directory must be another one of the same broker."""
    brokers = {getattr(each, "broker", None) for each in (where, other)} - {None}
    if targets.is_node(other):
        item.wrong(f"expected a directory, got the node {item.shown}")
    elif isinstance(where, targets.Directory) and other == where:
        item.wrong(f"{item.shown} is the same directory twice")
    elif len(brokers) > 1:
        item.wrong(f"{item.shown} is a directory of another broker")


def _check_order(found: Sequence[tuple[Item, Entry]]) -> None:
    """Refuse what never comes: healing without an end, entries that wait for each other."""
    entries = {entry.name: entry for _, entry in found}
    above: list[str] = []
    for item, entry in found:
        instant = entry.instant
        if isinstance(instant, After):
            earlier, after = entries.get(instant.name), item.child("after")
            if instant.name == LAST and not above:
                after.wrong("there is no entry above this one")
            elif instant.moment == "healed" and earlier and _is_endless(earlier):
                after.wrong(f"{instant.name!r} lasts until the end: it has no 'for'")
            elif instant.name in (entry.name, *above) and _comes_after(entry.name, entries):
                # Of those that wait for each other the last one is reported.
                after.wrong(f"{instant.name!r} itself comes after {entry.name!r}")
        above.append(entry.name)


def _is_endless(entry: Entry) -> bool:
    return entry.is_fault and entry.length_s is None and entry.do != "restart"


def _comes_after(name: str, entries: Mapping[str, Entry]) -> bool:
    """Return whether an entry comes, over others, after itself."""
    seen: set[str] = set()
    entry = entries.get(name)
    while entry is not None and isinstance(entry.instant, After) and entry.name not in seen:
        seen.add(entry.name)
        if entry.instant.name == name:
            return True
        entry = entries.get(entry.instant.name)
    return False
