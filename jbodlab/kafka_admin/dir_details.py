"""Details of directories that only jbodlab's brokers have: ids, conditions, causes of failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jbodlab.kafka_admin.errors import AdminError, RequestError, UnsupportedRequestError
from jbodlab.kafka_admin.log_dirs import describe_log_dir_states
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.error_code import ErrorCode

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient, Broker

TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DirDetail:
    """The details of a directory that the Kafka protocol does not have.

    Attributes:
        directory_id: Its text; empty where nobody ever knew it.
        conditions: Such as FULL or SLOW, or that its logs are being loaded; empty where it serves
            and all is well.
        cause: Why it is offline; empty where it is not.
    """

    directory_id: str
    conditions: tuple[str, ...] = ()
    cause: str = ""


async def dir_details(client: AdminClient, broker: Broker) -> Mapping[str, DirDetail]:
    """Return the details of a broker's directories by path; empty where it tells none.

    Brokers of Apache Kafka tell none, nor do ours at a listener that is not for brokers.

    Raises:
        AdminError: the broker knows the request, and does not answer.
    """
    try:
        states = await describe_log_dir_states(client, broker.id, TIMEOUT_S)
    except UnsupportedRequestError:
        return {}
    except RequestError as error:
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # Only the listener at which brokers find each other tells more than Kafka does.
            return {}
        raise AdminError(f"broker {broker.id}: {error}") from error
    return {
        one.path: DirDetail(
            directory_id="" if one.directory_id is None else kafka_uuid.to_text(one.directory_id),
            conditions=one.conditions if one.state in _SERVING else (one.state,),
            cause=one.cause or "",
        )
        for one in states
    }


_SERVING = ("ONLINE", "OFFLINE")
"""States that DescribeLogDirs shows too."""
