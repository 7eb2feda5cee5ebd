"""How far a reassignment has come: the lines of `--verify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from admin_tool.requests.log_dirs import Replica, ReplicaDirs
from admin_tool.requests.reassignments import Reassignment
from jbodlab.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Lines to print, and whether what they are about has come to an end."""

    lines: tuple[str, ...]
    is_done: bool


def partition_status(
    wanted: Mapping[TopicPartition, Sequence[int]],
    ongoing: Mapping[TopicPartition, Reassignment],
    current: Mapping[TopicPartition, Sequence[int]],
) -> Status:
    """Tell how far partitions have come.

    Args:
        wanted: The brokers that each shall have.
        ongoing: All reassignments of the cluster; it is done when there is none.
        current: The brokers that each has; those that do not exist are missing.
    """
    lines = []
    for one, replicas in sorted(wanted.items()):
        found = current.get(one, ())
        if one in ongoing:
            lines.append(f"Reassignment of partition {one} is still in progress.")
        elif tuple(found) == tuple(replicas):
            lines.append(f"Reassignment of partition {one} is completed.")
        else:
            lines.append(
                f"There is no active reassignment of partition {one}, but replica set is "
                f"{_listed(found)} rather than {_listed(replicas)}."
            )
    return Status(lines=tuple(lines), is_done=not ongoing)


def replica_status(wanted: Mapping[Replica, str], found: Mapping[Replica, ReplicaDirs]) -> Status:
    """Tell how far replicas have come.

    Args:
        wanted: The directory that each shall be in; compared with what brokers say as text.
        found: Where each is, and moves to; without those that no broker said anything of.
    """
    lines = []
    is_done = True
    for replica, target in sorted(wanted.items()):
        partition, broker = replica.topic_partition, replica.broker
        where = found.get(replica)
        if where is None:
            lines.append(
                f"Partition {partition} cannot be found in any live log directory on broker "
                f"{broker}."
            )
            is_done = False
        elif where.current is None:
            lines.append(
                f"Partition {partition} is not found in any live log dir on broker {broker}. "
                "There is likely an offline log directory on the broker."
            )
            is_done = False
        elif where.future is not None:
            lines.append(
                f"Reassignment of replica {replica} is still in progress."
                if where.future == target
                else f"Partition {partition} on broker {broker} is being moved to log dir "
                f"{where.future} instead of {target}."
            )
            is_done = False
        elif where.current == target:
            lines.append(f"Reassignment of replica {replica} completed successfully.")
        else:
            lines.append(
                f"Partition {partition} on broker {broker} is not being moved from log dir "
                f"{where.current} to {target}."
            )
    return Status(lines=tuple(lines), is_done=is_done)


def _listed(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
