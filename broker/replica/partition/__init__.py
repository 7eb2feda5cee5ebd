"""One replica: its states and transitions, its settings, and what it refuses."""

from broker.replica.partition.leadership import NOBODY, LeadershipListener
from broker.replica.partition.partition import Clock, Partition
from broker.replica.partition.refusals import check_isr
from broker.replica.partition.topic_settings import BatchLimits, SettingsOfTopics

__all__ = [
    "NOBODY",
    "BatchLimits",
    "Clock",
    "LeadershipListener",
    "Partition",
    "SettingsOfTopics",
    "check_isr",
]
