"""The clients that push metrics to this broker: what each is asked for, and what it told last.

All of it is in memory: a client that comes to another broker, or is forgotten, asks again for its
subscription. A client asks and pushes once per interval; sooner requests are refused, except those
that follow a change of its subscription.

Source: `org.apache.kafka.server.ClientMetricsManager`, `ClientMetricsInstance`, KIP-714.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

import msgspec

from broker.bounds.limits import (
    TELEMETRY_CLIENTS_MAX,
    TELEMETRY_SILENCE_MS_MIN,
)
from broker.telemetry.points import Point, Pushed, read
from jbodlab.config.client_metrics import ALL_METRICS, DEFAULT_INTERVAL_MS, Subscription
from jbodlab.record_batch.compression import CODEC_NAMES, GZIP, LZ4, SNAPPY, ZSTD
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, DecompressedSizeError, KafkaError

CODECS = (ZSTD, LZ4, GZIP, SNAPPY)
"""Codecs that clients may compress with; they take the first that they have."""

RESERVED = frozenset({UUID(int=0), UUID(int=1)})
"""Ids that no client has."""


class ClientSubscriptions(msgspec.Struct, frozen=True, kw_only=True):
    """The question to a client: all subscriptions for it together.

    Attributes:
        subscription_id: Changes with the metrics and with the interval.
        metrics: Beginnings of names, sorted; `*` alone for all, none for no push.
    """

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class TelemetryClient(msgspec.Struct, kw_only=True):
    """One client.

    Attributes:
        attributes: Attributes by which subscriptions choose clients: `client_metrics.ATTRIBUTES`.
        may_push: Whether it has asked since its last push, after which it may push at once.
    """

    attributes: Mapping[str, str]
    asked: ClientSubscriptions
    heard_ms: int
    got_ms: int | None = None
    pushed_ms: int | None = None
    may_push: bool = False
    failed_with: ErrorCode = ErrorCode.NONE
    is_terminating: bool = False
    points: tuple[Point, ...] = ()


class Counts(msgspec.Struct):
    """Counts of telemetry since the start of the broker."""

    pushes: int = 0
    refused: int = 0
    dropped_points: int = 0


def asked_of(
    instance_id: UUID, attributes: Mapping[str, str], subscriptions: Iterable[Subscription]
) -> ClientSubscriptions:
    """Return what a client is asked for."""
    own = [each for each in subscriptions if each.is_for(attributes)]
    metrics = sorted({name for each in own for name in each.metrics})
    if ALL_METRICS in metrics:
        metrics = [ALL_METRICS]
    interval_ms = min((each.interval_ms for each in own), default=DEFAULT_INTERVAL_MS)
    number = crc32c(f"{metrics}{interval_ms}".encode()) ^ (instance_id.int & 0xFFFF_FFFF)
    return ClientSubscriptions(
        subscription_id=number - (1 << 32) if number >> 31 else number,
        metrics=tuple(metrics),
        interval_ms=interval_ms,
    )


class TelemetryClients:
    """All clients of one broker; on the event loop.

    Args:
        subscriptions: Returns those of the metadata; another object after each change.
        bytes_max: `telemetry.max.bytes`.
        now_ms: Clock that never goes back.
        new_id: Draws an id for a client.
    """

    def __init__(
        self,
        subscriptions: Callable[[], Mapping[str, Subscription]],
        bytes_max: int,
        now_ms: Callable[[], int],
        new_id: Callable[[], UUID],
    ) -> None:
        self._subscriptions = subscriptions
        self.bytes_max = bytes_max
        self._now_ms = now_ms
        self._new_id = new_id
        self._clients: dict[UUID, TelemetryClient] = {}
        self.counts = Counts()

    def get(
        self, instance_id: UUID | None, attributes: Mapping[str, str]
    ) -> tuple[UUID, ClientSubscriptions]:
        """Return the id of a client, a new one where it has none, and what it is asked for.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED, it asks again too soon.
        """
        if instance_id is None or instance_id == UUID(int=0):
            instance_id = self._new_id()
        client, now_ms = self._client(instance_id, attributes), self._now_ms()
        times_ms = (client.got_ms, client.pushed_ms)
        last_ms = max((each for each in times_ms if each is not None), default=None)
        follows_refusal = client.failed_with in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )
        if last_ms is None or now_ms - last_ms >= client.asked.interval_ms:
            client.got_ms = now_ms
        elif not follows_refusal:
            self._refuse_early(instance_id)
        client.failed_with = ErrorCode.NONE
        client.may_push = True
        return instance_id, client.asked

    def push(
        self,
        instance_id: UUID | None,
        attributes: Mapping[str, str],
        subscription_id: int,
        compression: int,
        data: bytes,
        *,
        is_terminating: bool,
    ) -> None:
        """Take what a client pushes.

        Raises:
            KafkaError: it is not accepted; the code says what the client is to do.
        """
        if instance_id is None or instance_id in RESERVED:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "invalid client instance id")
        client = self._client(instance_id, attributes)
        try:
            self._check(client, instance_id, subscription_id, compression, data, is_terminating)
            pushed = self._read(compression, data)
        except KafkaError as error:
            client.failed_with = error.code
            self.counts.refused += 1
            raise
        finally:
            client.is_terminating = is_terminating
        client.failed_with = ErrorCode.NONE
        self.counts.pushes += 1
        self.counts.dropped_points += pushed.dropped
        # The last push of a client is shown by nobody, as it is no longer true of anything.
        client.points = () if is_terminating else pushed.points

    def shown(self) -> Iterable[tuple[UUID, TelemetryClient]]:
        """Return the clients that are remembered, the longest silent one first."""
        self._forget_silent()
        return self._clients.items()

    def _client(self, instance_id: UUID, attributes: Mapping[str, str]) -> TelemetryClient:
        """Return a client as it is now, and remember that it was heard."""
        self._forget_silent()
        attributes = {**attributes, "client_instance_id": kafka_uuid.to_text(instance_id)}
        asked = asked_of(instance_id, attributes, self._subscriptions().values())
        client = self._clients.pop(instance_id, None)
        if client is None or client.asked != asked:
            # With another subscription it may ask and push at once.
            points = () if client is None else client.points
            client = TelemetryClient(attributes=attributes, asked=asked, heard_ms=0, points=points)
        client.heard_ms = self._now_ms()
        self._clients[instance_id] = client
        if len(self._clients) > TELEMETRY_CLIENTS_MAX:
            del self._clients[next(iter(self._clients))]
        return client

    def _forget_silent(self) -> None:
        now_ms = self._now_ms()
        for instance_id, client in list(self._clients.items()):
            silence_ms = max(3 * client.asked.interval_ms, TELEMETRY_SILENCE_MS_MIN)
            if now_ms - client.heard_ms >= silence_ms:
                del self._clients[instance_id]

    def _check(
        self,
        client: TelemetryClient,
        instance_id: UUID,
        subscription_id: int,
        compression: int,
        data: bytes,
        is_terminating: bool,
    ) -> None:
        name, now_ms = kafka_uuid.to_text(instance_id), self._now_ms()
        if client.is_terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"client [{name}] has said its last")
        pushed_ms = client.pushed_ms
        if client.may_push or pushed_ms is None or now_ms - pushed_ms >= client.asked.interval_ms:
            client.pushed_ms, client.may_push = now_ms, False
        elif not is_terminating:
            self._refuse_early(instance_id)
        if subscription_id != client.asked.subscription_id:
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"unknown subscription of the client [{name}]"
            )
        if compression not in range(len(CODEC_NAMES)):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression {compression}"
            )
        if len(data) > self.bytes_max:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE, f"more than {self.bytes_max} bytes of metrics"
            )

    def _read(self, compression: int, data: bytes) -> Pushed:
        if not data:
            return Pushed(points=(), dropped=0)
        try:
            return read(compression, data, self.bytes_max)
        except DecompressedSizeError as error:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, str(error)) from error
        except DecodeError as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error

    def _refuse_early(self, instance_id: UUID) -> None:
        raise KafkaError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"Request from the client [{kafka_uuid.to_text(instance_id)}] arrived before the next "
            "push interval time",
        )
