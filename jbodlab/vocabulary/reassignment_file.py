"""The reassignment file of Kafka's tools, as a value.

    {"version":1,"partitions":[
       {"topic":"foo","partition":0,"replicas":[1,2],"log_dirs":["/mnt/d1","any"]}]}

`any` leaves the choice of the directory to the broker, and a replica where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jbodlab.cli.results import Assignment

VERSION = 1
ANY_LOG_DIR = "any"


def file_value(
    partitions: Iterable[tuple[str, int, Sequence[int], Sequence[str]]],
) -> Assignment:
    """Return the value of a file, in the order of its partitions.

    Args:
        partitions: Topic, index, brokers, and the directory of each.
    """
    return {
        "version": VERSION,
        "partitions": [
            {
                "topic": topic,
                "partition": index,
                "replicas": list(brokers),
                "log_dirs": list(log_dirs),
            }
            for topic, index, brokers, log_dirs in partitions
        ],
    }
