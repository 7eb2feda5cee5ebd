from __future__ import annotations

import math
from collections.abc import Mapping
from uuid import UUID

import pytest

from broker.bounds.limits import TELEMETRY_CLIENTS_MAX, TELEMETRY_SILENCE_MS_MIN
from broker.telemetry.clients import TelemetryClients, asked_of
from broker.telemetry.metrics import telemetry_metrics
from broker.telemetry.subscriptions import Subscriptions
from jbodlab.config.client_metrics import Subscription, subscription
from jbodlab.metadata.image.settings_image import ConfigsImage
from jbodlab.metadata.records.config_records import CLIENT_METRICS_RESOURCE
from jbodlab.runtime.metrics import render
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.telemetry.metrics_data import gauge, metric, metrics_data, point

ID = UUID(int=77)
ATTRIBUTES = {"client_id": "app-1", "client_software_name": "apache-kafka-java"}
ALL = {"all": subscription({"metrics": "*", "interval.ms": "1000"})}
NONE, GZIP = 0, 1


class Scene:
    """Clients of one broker; `ms` is the clock."""

    def __init__(self, subscriptions: Mapping[str, Subscription] | None = None) -> None:
        self.ms = 0
        self.subscriptions = ALL if subscriptions is None else subscriptions
        self._next = 100
        self.clients = TelemetryClients(
            lambda: self.subscriptions, 1_000, lambda: self.ms, self._new_id
        )

    def _new_id(self) -> UUID:
        self._next += 1
        return UUID(int=self._next)

    def get(self, instance_id: UUID | None = ID) -> int:
        return self.clients.get(instance_id, ATTRIBUTES)[1].subscription_id

    def push(
        self,
        subscription_id: int,
        data: bytes = b"",
        compression: int = NONE,
        instance_id: UUID | None = ID,
        is_terminating: bool = False,
    ) -> ErrorCode:
        try:
            self.clients.push(
                instance_id,
                ATTRIBUTES,
                subscription_id,
                compression,
                data,
                is_terminating=is_terminating,
            )
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def shown(self) -> dict[str, float]:
        return {
            labels["metric"]: value
            for metric in telemetry_metrics(self.clients)
            if metric.name == "jbodlab_client_metric"
            for _, labels, value in metric.samples
        }


def test_client_is_asked_for_what_all_subscriptions_for_it_name_at_the_shortest_interval() -> None:
    subscriptions = [
        subscription({"metrics": "b,a", "interval.ms": "5000"}),
        subscription({"metrics": "a,c", "match": "client_id=app-.*"}),
        subscription({"metrics": "x", "interval.ms": "100", "match": "client_id=app"}),
    ]
    asked = asked_of(ID, ATTRIBUTES, subscriptions)
    assert (asked.metrics, asked.interval_ms) == (("a", "b", "c"), 5000)

    everything = asked_of(ID, ATTRIBUTES, [*subscriptions, ALL["all"]])
    assert (everything.metrics, everything.interval_ms) == (("*",), 1000)
    assert everything.subscription_id != asked.subscription_id

    nothing = asked_of(ID, ATTRIBUTES, [])
    assert (nothing.metrics, nothing.interval_ms) == ((), 300_000)


def test_client_without_an_id_gets_one() -> None:
    found, _ = Scene().clients.get(None, ATTRIBUTES)
    assert found == UUID(int=101)


def test_client_that_asks_again_within_its_interval_is_refused() -> None:
    scene = Scene()
    scene.get()
    scene.ms = 999
    with pytest.raises(KafkaError) as refused:
        scene.get()
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    scene.ms = 1_000
    scene.get()


def test_client_pushes_at_once_and_then_once_per_interval() -> None:
    scene = Scene()
    number = scene.get()
    assert scene.push(number) is ErrorCode.NONE
    scene.ms = 999
    assert scene.push(number) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    scene.ms = 1_000
    assert scene.push(number) is ErrorCode.NONE


def test_changed_subscription_makes_the_client_ask_at_once() -> None:
    scene = Scene()
    number = scene.get()
    scene.subscriptions = {"few": subscription({"metrics": "a", "interval.ms": "2000"})}
    assert scene.push(number) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    changed = scene.get()
    assert changed != number
    assert scene.push(changed) is ErrorCode.NONE


def test_wrong_pushes_are_refused_by_reason() -> None:
    for arguments, code in (
        ({"instance_id": None}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": UUID(int=1)}, ErrorCode.INVALID_REQUEST),
        ({"compression": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"data": bytes(1_001)}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"data": b"\xff\xff"}, ErrorCode.INVALID_RECORD),
        ({"data": b"no gzip", "compression": GZIP}, ErrorCode.INVALID_RECORD),
    ):
        scene = Scene()
        number = scene.get()
        assert scene.push(number, **arguments) is code  # type: ignore[arg-type]
        assert scene.clients.counts.pushes == 0


def test_last_push_of_a_client_is_taken_early_and_nothing_after_it() -> None:
    scene = Scene()
    number = scene.get()
    assert scene.push(number, gauge("a", 1)) is ErrorCode.NONE
    assert scene.push(number, gauge("a", 2), is_terminating=True) is ErrorCode.NONE
    assert scene.shown() == {}
    scene.ms = 5_000
    assert scene.push(number) is ErrorCode.INVALID_REQUEST


def test_last_push_is_shown_until_the_client_is_silent_for_three_intervals() -> None:
    scene = Scene()
    scene.push(scene.get(), gauge("org.apache.kafka.a", 5))
    assert scene.shown() == {"org.apache.kafka.a": 5.0}
    scene.ms = TELEMETRY_SILENCE_MS_MIN - 1
    assert scene.shown()
    scene.ms += 1
    assert not scene.shown()


def test_what_is_no_number_is_shown_as_prometheus_writes_it() -> None:
    """Java's rates are NaN before the first request."""
    scene = Scene()
    names = {"rate": math.nan, "most": math.inf, "least": -math.inf, 'b\n"': 1e300, "count": 7}
    points = (metric(name, 5, point(value)) for name, value in names.items())
    assert scene.push(scene.get(), metrics_data(*points)) is ErrorCode.NONE

    lines = render(telemetry_metrics(scene.clients)).splitlines()

    shown = [line.rsplit('metric="', 1)[1] for line in lines if 'metric="' in line]
    assert shown == [
        'rate",attributes=""} NaN',
        'most",attributes=""} +Inf',
        'least",attributes=""} -Inf',
        'b\\n\\"",attributes=""} 1e+300',
        'count",attributes=""} 7',
    ]


def test_only_so_many_clients_are_remembered() -> None:
    scene = Scene()
    for number in range(TELEMETRY_CLIENTS_MAX + 5):
        scene.get(UUID(int=1_000 + number))
    ids = [instance_id for instance_id, _ in scene.clients.shown()]
    assert (len(ids), ids[0]) == (TELEMETRY_CLIENTS_MAX, UUID(int=1_005))


def test_subscriptions_follow_the_metadata_and_those_that_make_no_sense_are_passed_over() -> None:
    images = [
        ConfigsImage(resources={(CLIENT_METRICS_RESOURCE, "a"): {"metrics": "x"}}),
        ConfigsImage(
            resources={
                (CLIENT_METRICS_RESOURCE, "b"): {"match": "client_id=(?=x)"},
                (CLIENT_METRICS_RESOURCE, "c"): {"interval.ms": "100"},
                (4, "1"): {"log.retention.ms": "1"},
            }
        ),
    ]
    current = images[0]
    subscriptions = Subscriptions(lambda: current)
    assert list(subscriptions()) == ["a"]
    assert subscriptions() is subscriptions()
    current = images[1]
    assert list(subscriptions()) == ["c"]
