"""Assignors: who shall have which partition. Each answer is the same for the same question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from broker.groups.consumer.assignors.question import Question
from broker.groups.consumer.assignors.range import assign_ranges
from broker.groups.consumer.assignors.uniform import assign_uniformly
from broker.groups.consumer.group import Target

Assignor = Callable[[Question], Mapping[str, Target]]

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_ranges}
)
"""By the names that clients and `group.consumer.assignors` use."""
