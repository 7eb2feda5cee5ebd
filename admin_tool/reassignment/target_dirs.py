"""Whether directories can take the replicas that are sent to them.

Checked before anything changes: a broker answers for a directory only when a move into it begins,
and by then the reassignment is under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from admin_tool.reassignment.moves import why_immovable
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import DescribedLogDir, Replica, by_broker, describe_log_dirs
from jbodlab.vocabulary.sizes import size_text

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


async def check_log_dirs(client: AdminClient, wanted: Mapping[Replica, str]) -> None:
    """Insist on directories that exist, are online, take replicas and have room.

    Raises:
        AdminError: one does not; the text names it, with the replica and the broker.
    """
    for broker, targets in by_broker(dict(sorted(wanted.items()))).items():
        problem = problem_of(targets, await describe_log_dirs(client, broker))
        if problem is not None:
            replica, reason = problem
            raise AdminError(f"cannot move {replica}: {reason}")


def problem_of(
    targets: Mapping[Replica, str], log_dirs: Sequence[DescribedLogDir]
) -> tuple[Replica, str] | None:
    """Return the first replica of a broker that cannot go where it should, and why; pure."""
    known = {log_dir.path: log_dir for log_dir in log_dirs}
    coming: dict[str, int] = {}
    for replica, path in targets.items():
        target = known.get(path)
        where = f"{path} of broker {replica.broker}"
        if target is None:
            listed = ", ".join(known)
            return replica, (
                f"{path} is not a log directory of broker {replica.broker}, which has {listed}"
            )
        # Refused even where the replica would stay where it is.
        immovable = why_immovable(replica.topic_partition)
        if immovable is not None:
            return replica, immovable
        if target.error_code:
            return replica, f"{where} is offline"
        if _holds(target, replica):
            # It stays there, or is on its way there already.
            continue
        blocked = why_blocked(replica.broker, log_dirs)
        if blocked is not None and any(_holds(log_dir, replica) for log_dir in log_dirs):
            return replica, blocked
        if target.is_cordoned:
            return replica, f"{where} is cordoned"
        coming[path] = coming.get(path, 0) + _size_bytes(log_dirs, replica)
        if 0 <= target.usable_bytes < coming[path]:
            return replica, (
                f"{where} has {size_text(target.usable_bytes)} left, "
                f"and {size_text(coming[path])} would come in"
            )
    return None


def why_blocked(broker: int, log_dirs: Iterable[DescribedLogDir]) -> str | None:
    """Return why a broker moves no replica, None if it does; pure.

    Nobody knows the replicas in an offline directory, so brokers refuse to copy anything.
    """
    offline = [log_dir.path for log_dir in log_dirs if log_dir.error_code]
    if not offline:
        return None
    return f"broker {broker} moves nothing while a log directory is offline: {', '.join(offline)}"


def _holds(log_dir: DescribedLogDir, replica: Replica) -> bool:
    one = replica.topic_partition
    return one in log_dir.current or one in log_dir.future


def _size_bytes(log_dirs: Sequence[DescribedLogDir], replica: Replica) -> int:
    """Return the size of a replica that the broker has already, 0 for one that it is to get."""
    found = (log_dir.current.get(replica.topic_partition) for log_dir in log_dirs)
    return sum(held.size_bytes for held in found if held is not None)
