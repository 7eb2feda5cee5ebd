"""Pushes of clients, and how many clients there are, as metrics of the broker."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from broker.bounds.limits import TELEMETRY_SHOWN_MAX
from broker.telemetry.clients import TelemetryClients
from jbodlab.runtime.metrics import NO_LABELS, Labels, Metric, rows

SHOWN_ATTRIBUTES = (
    *("client_instance_id", "client_id"),
    *("client_software_name", "client_software_version"),
)


def telemetry_metrics(clients: TelemetryClients) -> Iterator[Metric]:
    """Yield the newest value of each metric of each client, up to a number of values."""
    shown = list(clients.shown())
    yield from rows(
        [(NO_LABELS, clients)],
        {
            "jbodlab_client_telemetry_clients": lambda _: len(shown),
            "jbodlab_client_telemetry_pushes_total": lambda one: one.counts.pushes,
            "jbodlab_client_telemetry_refused_pushes_total": lambda one: one.counts.refused,
            "jbodlab_client_telemetry_dropped_points_total": lambda one: one.counts.dropped_points,
        },
    )
    values: Iterator[tuple[str, Labels, float]] = (
        (
            "",
            {
                **{name: client.attributes.get(name, "") for name in SHOWN_ATTRIBUTES},
                "metric": point.name,
                "attributes": point.attributes,
            },
            point.value,
        )
        # The client that was heard last comes first.
        for _, client in reversed(shown)
        for point in client.points
    )
    samples = list(islice(values, TELEMETRY_SHOWN_MAX))
    yield Metric("jbodlab_client_metric", samples)
