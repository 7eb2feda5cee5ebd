"""ListTransactions and DescribeTransactions: what administrators ask (KIP-664, KIP-994)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from broker.api.parts import ApiParts
from broker.api.services.coordinators import Each, TransactionCoordinators
from broker.api.services.transactions import on_transaction
from broker.transactions import requests
from broker.transactions.requests import DescribedTransaction, ListedTransaction
from broker.transactions.transaction import TransactionState
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.server.answer import MILLISECOND, Later, RequestContext
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import AclOperation, on_cluster
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_STATE_NAMES = frozenset(state.title for state in TransactionState)


class TransactionListing(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction in a list."""

    transactional_id: str
    producer_id: int
    transaction_state: str


class ListTransactionsResponse(Response, frozen=True, kw_only=True):
    """The transactions that pass the filters, and the states in these that do not exist."""

    error_code: ErrorCode = ErrorCode.NONE
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionListing, ...] = ()


class TopicOfTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


class TransactionDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction in full."""

    error_code: ErrorCode
    transactional_id: str
    transaction_state: str
    transaction_timeout: dt.timedelta
    transaction_start_time: dt.datetime | None
    """None for -1: there was no transaction."""
    producer_id: int
    producer_epoch: int
    topics: tuple[TopicOfTransaction, ...]


class DescribeTransactionsResponse(Response, frozen=True, kw_only=True):
    """One entry for each transactional id, in the order of the request."""

    transaction_states: tuple[TransactionDescription, ...]


class ListTransactionsApi(FailsBySchema):
    """Lists the transactions of all coordinators that are here."""

    def __init__(self, transactions: TransactionCoordinators) -> None:
        self._transactions = transactions

    def answer(self, request: ListTransactionsRequest, context: RequestContext) -> Later:
        """List transactions."""
        asked = requests.ListTransactions(
            state_filters=request.state_filters,
            producer_id_filters=request.producer_id_filters,
            duration_ms=getattr(request, "duration_filter", -1),
            transactional_id_pattern=getattr(request, "transactional_id_pattern", None),
        )
        unknown = tuple(each for each in request.state_filters if each not in _STATE_NAMES)

        def finish(lists: list[tuple[ListedTransaction, ...]]) -> ListTransactionsResponse:
            return ListTransactionsResponse(
                unknown_state_filters=unknown,
                transaction_states=tuple(
                    TransactionListing(
                        transactional_id=each.transactional_id,
                        producer_id=each.producer_id,
                        transaction_state=each.state.title,
                    )
                    for some in lists
                    for each in some
                ),
            )

        return Later(self._transactions.submit_to_all(asked), finish)


class DescribeTransactionsApi:
    """Describes transactions; what went wrong for one is in its entry."""

    def __init__(self, transactions: TransactionCoordinators) -> None:
        self._transactions = transactions

    def answer(self, request: DescribeTransactionsRequest, context: RequestContext) -> Later:
        """Describe transactions."""

        def request_for(ids: tuple[str, ...]) -> requests.Request:
            return requests.DescribeTransactions(transactional_ids=ids)

        def finish(each: Each) -> DescribeTransactionsResponse:
            found = {entry.transactional_id: entry for entry in _entries(each)}
            return DescribeTransactionsResponse(
                transaction_states=tuple(_description(found[i]) for i in request.transactional_ids)
            )

        return Later(self._transactions.submit_each(request.transactional_ids, request_for), finish)

    def failure(
        self, request: DescribeTransactionsRequest, context: RequestContext, error: KafkaError
    ) -> DescribeTransactionsResponse:
        """Return the error for every transactional id."""
        return DescribeTransactionsResponse(
            transaction_states=tuple(
                _description(DescribedTransaction(transactional_id=each, error_code=error.code))
                for each in request.transactional_ids
            )
        )


def _entries(each: Each) -> Iterator[DescribedTransaction]:
    for ids, answer in each:
        if isinstance(answer, KafkaError):
            for transactional_id in ids:
                yield DescribedTransaction(
                    transactional_id=transactional_id, error_code=answer.code
                )
        else:
            yield from answer


def _description(entry: DescribedTransaction) -> TransactionDescription:
    is_found = entry.state is not None
    return TransactionDescription(
        error_code=entry.error_code,
        transactional_id=entry.transactional_id,
        transaction_state="" if entry.state is None else entry.state.title,
        transaction_timeout=entry.timeout_ms * MILLISECOND if is_found else 0 * MILLISECOND,
        transaction_start_time=_time(entry.start_time_ms if is_found else 0),
        producer_id=entry.producer_id if is_found else 0,
        producer_epoch=entry.producer_epoch if is_found else 0,
        topics=tuple(_topics(entry)),
    )


def _time(time_ms: int) -> dt.datetime | None:
    return None if time_ms < 0 else EPOCH + time_ms * MILLISECOND


def _topics(entry: DescribedTransaction) -> Iterable[TopicOfTransaction]:
    for name, some in groupby(entry.partitions, lambda each: each.topic):
        yield TopicOfTransaction(topic=name, partitions=tuple(each.partition for each in some))


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.DESCRIBE_TRANSACTIONS,
        versions=(0, 0),
        resources=lambda request: tuple(
            on_transaction(each, AclOperation.DESCRIBE) for each in request.transactional_ids
        ),
        handler=lambda parts: DescribeTransactionsApi(parts.transactions),
    ),
    Api(
        key=ApiKey.LIST_TRANSACTIONS,
        versions=(0, 2),
        resources=on_cluster(AclOperation.DESCRIBE),
        handler=lambda parts: ListTransactionsApi(parts.transactions),
    ),
)
