"""Facts of a broker about its directories beyond the Kafka protocol's, where it tells any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jbodlab.kafka_admin.errors import AdminError, RequestError, UnsupportedRequestError
from jbodlab.kafka_admin.log_dirs import (
    DescribedLogDir,
    describe_log_dir_states,
    with_states,
)
from jbodlab.vocabulary.error_code import ErrorCode

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient, Broker

TIMEOUT_S = 10.0


async def with_details(
    client: AdminClient, broker: Broker, log_dirs: tuple[DescribedLogDir, ...]
) -> tuple[DescribedLogDir, ...]:
    """Return directories of a broker with ids, conditions and causes, where it tells them.

    Brokers of Apache Kafka tell none, nor do ours at a listener that is not for brokers.

    Raises:
        AdminError: the broker knows the request, and does not answer.
    """
    try:
        states = await describe_log_dir_states(client, broker.id, TIMEOUT_S)
    except UnsupportedRequestError:
        return log_dirs
    except RequestError as error:
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # Only the listener at which brokers find each other tells more than Kafka does.
            return log_dirs
        raise AdminError(f"broker {broker.id}: {error}") from error
    return with_states(log_dirs, states)
