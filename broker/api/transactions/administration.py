"""ListTransactions and DescribeTransactions: what administrators ask (KIP-664, KIP-994)."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiHandler, serves
from broker.api.services.coordinators import Each as EachShard
from broker.transactions import requests
from broker.transactions.requests import DescribedTransaction, ListedTransaction
from broker.transactions.transaction import TransactionState
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.answer import MILLISECOND, InParts, Later, RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.request_values import value_of
from jbodlab.server.resources import Each, Elsewhere, Resource, on_cluster, transaction
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.server.rights import client_of
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest

DESCRIBE_TRANSACTIONS = ResponseStructs(ApiKey.DESCRIBE_TRANSACTIONS, 0)
LIST_TRANSACTIONS = ResponseStructs(ApiKey.LIST_TRANSACTIONS, 2)

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_STATE_NAMES = frozenset(state.title for state in TransactionState)


@serves(
    ApiKey.LIST_TRANSACTIONS,
    (0, 2),
    # The rights to each of the transactions count.
    Elsewhere(on_cluster(AclOperation.DESCRIBE)),
)
class ListTransactionsApi(ApiHandler, FailsBySchema):
    """Lists the transactions of all coordinators here, as far as the client may describe them."""

    def answer(self, request: ListTransactionsRequest, context: RequestContext) -> InParts:
        """List transactions."""
        unknown = tuple(each for each in request.state_filters if each not in _STATE_NAMES)

        def finish(told: list[Any]) -> Response:
            return LIST_TRANSACTIONS.response(
                unknown_state_filters=unknown, transaction_states=tuple(told)
            )

        return InParts(self._told(request, context), finish)

    async def _told(
        self, request: ListTransactionsRequest, context: RequestContext
    ) -> AsyncIterator[Any]:
        duration_ms = getattr(request, "duration_filter", -1)
        asked = value_of(requests.ListTransactions, request, {"duration_ms": duration_ms})
        client = client_of(context.session)

        def entry(each: ListedTransaction) -> Any:
            resource = transaction(each.transactional_id, AclOperation.DESCRIBE)
            if not self._parts.rights.allows(client, resource, is_asked_for=False):
                return None
            return LIST_TRANSACTIONS.TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.title,
            )

        each: ListedTransaction | None
        for each in chain(*await self._parts.transactions.submit_to_all(asked)):
            yield None if each is None else entry(each)


@serves(
    ApiKey.DESCRIBE_TRANSACTIONS,
    (0, 0),
    Each(
        field="transactional_ids",
        resource=lambda _, each: transaction(each, AclOperation.DESCRIBE),
    ),
)
class DescribeTransactionsApi(ApiHandler):
    """Describes transactions; what went wrong for one is in its entry."""

    def answer(self, request: DescribeTransactionsRequest, context: RequestContext) -> Later:
        """Describe transactions."""

        def request_for(ids: tuple[str, ...]) -> requests.Request:
            return requests.DescribeTransactions(transactional_ids=ids)

        client = client_of(context.session)

        def is_told(topic: str) -> bool:
            resource = Resource(ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
            return self._parts.rights.allows(client, resource, is_asked_for=False)

        def finish(each: EachShard) -> Response:
            found = {entry.transactional_id: entry for entry in _entries(each)}
            return DESCRIBE_TRANSACTIONS.response(
                transaction_states=tuple(
                    _description(found[i], is_told) for i in request.transactional_ids
                )
            )

        return Later(
            self._parts.transactions.submit_each(request.transactional_ids, request_for), finish
        )

    def failure(
        self, request: DescribeTransactionsRequest, context: RequestContext, error: KafkaError
    ) -> Response:
        """Return the error for every transactional id."""
        return DESCRIBE_TRANSACTIONS.response(
            transaction_states=tuple(
                _description(DescribedTransaction(transactional_id=each, error_code=error.code))
                for each in request.transactional_ids
            )
        )

    refused = failure


def _entries(each: EachShard) -> Iterator[DescribedTransaction]:
    for ids, answer in each:
        if isinstance(answer, KafkaError):
            for transactional_id in ids:
                yield DescribedTransaction(
                    transactional_id=transactional_id, error_code=answer.code
                )
        else:
            yield from answer


def _description(
    entry: DescribedTransaction, is_told: Callable[[str], bool] = lambda _: True
) -> Any:
    is_found = entry.state is not None
    return DESCRIBE_TRANSACTIONS.TransactionState(
        error_code=entry.error_code,
        transactional_id=entry.transactional_id,
        transaction_state="" if entry.state is None else entry.state.title,
        transaction_timeout=entry.timeout_ms * MILLISECOND if is_found else 0 * MILLISECOND,
        transaction_start_time=_time(entry.start_time_ms if is_found else 0),
        producer_id=entry.producer_id if is_found else 0,
        producer_epoch=entry.producer_epoch if is_found else 0,
        topics=tuple(each for each in _topics(entry) if is_told(each.topic)),
    )


def _time(time_ms: int) -> dt.datetime | None:
    return None if time_ms < 0 else EPOCH + time_ms * MILLISECOND


def _topics(entry: DescribedTransaction) -> Iterable[Any]:
    for name, some in groupby(entry.partitions, lambda each: each.topic):
        yield DESCRIBE_TRANSACTIONS.TopicData(
            topic=name, partitions=tuple(each.partition for each in some)
        )
