"""What a plan has named so far: what stands further below may only name what stands above."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jbodlab import expressions
from jbodlab.config import topic_keys
from jbodlab.errors import ConfigError
from jbodlab.expressions import Unit
from lab.rehearsal.document import Item
from lab.rehearsal.plan import LAST, Attach, ClusterNeed, Topic
from lab.rehearsal.vocabulary import ALL, Owners

BROKERS_MAX, DISKS_MAX, PARTITIONS_MAX = 20, 64, 1000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(slots=True)
class Known:
    """The names of a plan, while it is read.

    Attributes:
        cluster: The one of the plan.
        topics: The topics that the plan makes, before the load or in its timeline.
        owners: Who has metrics, and which.
        entries: Names of the entries of the timeline.
    """

    cluster: ClusterNeed | Attach = field(default_factory=ClusterNeed)
    topics: dict[str, Topic] = field(default_factory=dict)
    owners: dict[str, Mapping[str, Unit]] = field(default_factory=dict)
    entries: list[str] = field(default_factory=list)

    def own(self, item: Item, name: str, metrics: Mapping[str, Unit]) -> None:
        """Take notice of a name that has metrics."""
        if not _NAME.fullmatch(name):
            if name:
                item.wrong(f"expected a name of letters, digits, - and _, got {name!r}")
        elif name in self.owners or name in (LAST, ALL, "and"):
            item.wrong(f"the name {name!r} is taken")
            return
        self.owners[name] = metrics

    def topic(self, value: Any) -> str:
        """Return a topic of the plan by its name.

        Raises:
            ValueError: there is none.
        """
        if value not in self.topics:
            there = ", ".join(self.topics) or "none"
            raise ValueError(f"unknown topic {value!r} (topics of this plan: {there})")
        return str(value)

    def add_topic(self, item: Item, topic: Topic) -> None:
        """Take notice of a topic that is made."""
        try:
            self.check_topic(topic)
        except ValueError as error:
            item.wrong(str(error))
        if isinstance(self.cluster, ClusterNeed):
            if topic.replicas > self.cluster.brokers:
                item.wrong(
                    f"{topic.replicas} replicas need as many brokers, and there are "
                    f"{self.cluster.brokers}"
                )
            try:
                topic_keys.check(topic.config)
            except ConfigError as error:
                item.wrong(str(error))
        self.topics[topic.name] = topic

    def check_topic(self, topic: Topic) -> None:
        """Look whether a topic may have its name.

        Raises:
            ValueError: it may not.
        """
        if not _TOPIC.fullmatch(topic.name):
            raise ValueError(f"{topic.name!r} is not a valid name of a topic")
        if topic.name in self.topics:
            raise ValueError(f"duplicate topic {topic.name!r}")

    def expression(self, item: Item, *, live: bool) -> expressions.Expression | None:
        """Return an expression; None, and a mistake, where it is none.

        Args:
            item: Its text.
            live: Whether it is asked while the load runs.
        """
        if item.value is None:
            return None
        if not isinstance(item.value, str):
            item.wrong(f"expected a condition such as writers.lost == 0, got {item.shown}")
            return None
        owners = Owners(self.owners)
        try:
            return expressions.parse(item.value, owners.live_unit_of if live else owners.unit_of)
        except ValueError as error:
            item.wrong(str(error))
            return None
