"""The errors that clients get for a partition whose directory failed or is full.

Inside the broker the error is KAFKA_STORAGE_ERROR. Produce up to version 3 and Fetch up to version
5 do not have this code, and libraries in use (`broker/clients/client_behaviour.py`) raise it to the
application instead of retrying; an idempotent producer is left with a gap in its sequence.
NOT_LEADER_OR_FOLLOWER makes every client look for the leader and retry, in every version, and new
clients do the same for both errors. So no request about a partition gets KAFKA_STORAGE_ERROR. It
remains where a directory itself is named: DescribeLogDirs, AlterReplicaLogDirs.

Apache Kafka translates the error for the old versions only.
"""

from __future__ import annotations

from jbodlab.vocabulary.error_code import ErrorCode


def told(code: ErrorCode) -> ErrorCode:
    """Return the code by which clients hear of an error of a partition."""
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code
