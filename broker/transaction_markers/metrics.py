"""The metrics of markers on their way."""

from __future__ import annotations

from collections.abc import Iterator

from broker.transaction_markers.marker_sender import MarkerSender
from jbodlab.runtime.metrics import Metric, by_label, rows, values


def marker_metrics(markers: MarkerSender) -> Iterator[Metric]:
    """Yield the metrics of the markers that the coordinators of this broker have written."""
    yield from values({"jbodlab_transaction_markers_waiting": markers.waiting_count})
    refusals = {code.name.lower(): count for code, count in markers.refusals.items()}
    yield from rows(
        by_label("error", refusals), {"jbodlab_transaction_marker_refusals_total": float}
    )
