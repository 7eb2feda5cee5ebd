"""The requests of a server: how many, how long each took, and which failed as a whole.

Everything is counted on the event loop.

Source: `kafka.network.RequestMetrics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.runtime.metrics import LATENCY_BOUNDS_S, Histogram, Metric, histograms, rows
from jbodlab.vocabulary.error_code import ErrorCode

BOUNDS_MS = tuple(bound * 1_000 for bound in LATENCY_BOUNDS_S)
REQUESTS = "kafka_network_RequestMetrics"


class RequestCounts:
    """The counts of one server since its start.

    Args:
        now_s: Clock that never goes back.

    Attributes:
        now_s: The clock by which requests are timed.
        requests: Requests by API.
        errors: Requests that failed as a whole, by API and error.
        times_ms: How long each took until its answer was there, waits included, by API.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self.requests: Counter[ApiKey] = Counter()
        self.errors: Counter[tuple[ApiKey, ErrorCode]] = Counter()
        self.times_ms: dict[ApiKey, Histogram] = {}

    def answered(self, api: ApiKey, begun_s: float) -> None:
        """A request has its answer that began at this time of the clock."""
        times = self.times_ms.get(api)
        if times is None:
            times = self.times_ms[api] = Histogram(BOUNDS_MS)
        times.observe((self.now_s() - begun_s) * 1_000)


def request_metrics(counts: RequestCounts) -> Iterator[Metric]:
    """Yield the metrics of requests."""
    yield from rows(
        [({"request": _name(api)}, count) for api, count in counts.requests.items()],
        {f"{REQUESTS}_Requests_total": float},
    )
    yield from rows(
        [
            ({"request": _name(api), "error": error.name}, count)
            for (api, error), count in counts.errors.items()
        ],
        {f"{REQUESTS}_Errors_total": float},
    )
    yield histograms(
        f"{REQUESTS}_TotalTimeMs",
        [({"request": _name(api)}, times) for api, times in counts.times_ms.items()],
    )


def _name(api: ApiKey) -> str:
    """Return an API's name as Kafka writes it."""
    return "".join(word.capitalize() for word in api.name.split("_"))
