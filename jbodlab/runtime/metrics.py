"""Metrics as text, in the exposition format 0.0.4 of Prometheus.

    # HELP kafka_log_LogManager_LogDirectoryOffline 1 if offline, 0 if online
    # TYPE kafka_log_LogManager_LogDirectoryOffline gauge
    kafka_log_LogManager_LogDirectoryOffline{logDirectory="/d1"} 0

Names are Kafka's: of `kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory=/d1` the
domain, the type and the name with underscores between them, and the other tags as labels. Counters
end in `_total`. The names of metrics that Kafka lacks begin with `jbodlab_`.

Kinds and meanings stand in `metrics.tsv`, and packages name their values. This module keeps only
histograms: all other values are read at each scrape.
"""

from __future__ import annotations

import logging
import math
import pkgutil
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

import msgspec

logger = logging.getLogger(__name__)

T = TypeVar("T")
Labels = Mapping[str, str]

WHOLE_MAX = 1e16
"""Floats below it that are whole numbers are written as such."""

NO_LABELS: Labels = {}

LATENCY_BOUNDS_S: tuple[float, ...] = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
)
"""Upper bounds from a write into memory to a disk that is all but dead."""


class Metric(msgspec.Struct, frozen=True):
    """One metric with a value for each set of labels.

    Attributes:
        samples: Suffix of the name, labels, value.
    """

    name: str
    samples: Sequence[tuple[str, Labels, float]]


class Declared(NamedTuple):
    """Labels, kind and meaning of a metric.

    Attributes:
        labels: Their names, with commas between.
        kind: `gauge`, `counter` or `histogram`.
    """

    labels: str
    kind: str
    meaning: str


@cache
def metrics_of_servers() -> Mapping[str, Declared]:
    """Return what `metrics.tsv` says of the metrics of brokers and controllers, by name."""
    data = pkgutil.get_data(__package__, "metrics.tsv")
    assert data is not None
    table = (line.split("\t") for line in data.decode().splitlines()[1:])
    return {name: Declared(*said) for name, *said in table}


class Histogram:
    """How often a value fell under each bound; one thread observes, any may read.

    Args:
        bounds: Upper bounds, ascending.
    """

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_S) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self._counts)

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self, labels: Labels = NO_LABELS) -> list[tuple[str, Labels, float]]:
        """Return the samples of a metric of kind `histogram`."""
        # A copy: the other thread may count meanwhile, and the sums below would then disagree.
        counts, total = list(self._counts), self._sum
        samples: list[tuple[str, Labels, float]] = []
        below = 0
        for bound, count in zip([*map(_number, self._bounds), "+Inf"], counts, strict=True):
            below += count
            samples.append(("_bucket", {**labels, "le": bound}, below))
        samples += [("_sum", labels, total), ("_count", labels, below)]
        return samples


def values(found: Mapping[str, float], *, prefix: str = "") -> Iterator[Metric]:
    """Yield a metric without labels for each value; all names begin with the prefix."""
    for name, value in found.items():
        yield Metric(prefix + name, [("", NO_LABELS, value)])


def by_label(label: str, items: Mapping[str, T]) -> list[tuple[Labels, T]]:
    """Return items that differ in one label, for `rows`."""
    return [({label: key}, item) for key, item in items.items()]


def rows(
    items: Sequence[tuple[Labels, T]], found: Mapping[str, Callable[[T], float]]
) -> Iterator[Metric]:
    """Yield a metric for each function, with a value for each item.

    Args:
        items: Labels, and the object from which the values are read.
        found: The functions from an item to its value, by the names of the metrics.
    """
    for name, value in found.items():
        yield Metric(name, list(_read(name, items, value)))


def _read(
    name: str, items: Sequence[tuple[Labels, T]], value: Callable[[T], float]
) -> Iterator[tuple[str, Labels, float]]:
    for labels, item in items:
        try:
            yield "", labels, value(item)
        except Exception:
            # The other values are as good as before.
            logger.exception("cannot read a value of %s", name, extra={"labels": dict(labels)})


def each_by_itself(*parts: Callable[[], Iterable[Metric]]) -> Iterator[Metric]:
    """Yield the metrics of all parts; a part that fails costs only what it has not yielded."""
    for part in parts:
        try:
            yield from part()
        except Exception:
            # A scrape shows what can be known where something is broken.
            logger.exception("cannot collect some metrics")


def histograms(name: str, items: Sequence[tuple[Labels, Histogram]]) -> Metric:
    """Return a metric with a histogram for each set of labels."""
    samples = [sample for labels, histogram in items for sample in histogram.samples(labels)]
    return Metric(name, samples)


def render(metrics: Iterable[Metric], declared: Mapping[str, Declared] | None = None) -> str:
    """Return metrics as text; what cannot be written costs only its own line, and one of the log.

    A series is written once, with its first value: a scraper may refuse a page that has two.

    Args:
        metrics: Of one server, or of the table.
        declared: Labels, kind and meaning by name; None for the metrics of servers.
    """
    declared = metrics_of_servers() if declared is None else declared
    lines: dict[str, str] = {}
    left_out: list[str] = []
    for metric in metrics:
        if (said := declared.get(metric.name)) is not None:
            lines.setdefault(f"# HELP {metric.name}", f" {_escaped(said.meaning)}\n")
            lines.setdefault(f"# TYPE {metric.name}", f" {said.kind}\n")
        for suffix, labels, value in metric.samples:
            try:
                series = f"{_checked(metric.name + suffix)}{_labels(labels)}"
                lines.setdefault(series, f" {_number(value)}\n")
            except (AttributeError, TypeError, ValueError) as error:
                left_out.append(f"{metric.name}{suffix}: {error}")
    if left_out:
        logger.warning(
            "left %d values out of the metrics; the first is %r", len(left_out), left_out[0]
        )
    return "".join(f"{start}{end}" for start, end in lines.items())


@cache
def _checked(name: str) -> str:
    """Return the name of a metric or of a label; all of them stand in this program."""
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name):
        raise ValueError(f"{name!r} is no name of Prometheus")
    return name


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    quoted = (
        f'{_checked(name)}="{_escaped(value, quotes=True)}"' for name, value in labels.items()
    )
    return "{" + ",".join(quoted) + "}"


def _escaped(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    if quotes:
        text = text.replace('"', '\\"')
    # Names of files may be no UTF-8.
    return text.encode("utf-8", "replace").decode()


def _number(value: float) -> str:
    try:
        number = float(value)
    except OverflowError:
        number = math.copysign(math.inf, value > 0 or -1)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if isinstance(value, int) or (number.is_integer() and abs(number) < WHOLE_MAX):
        return str(int(value))
    return repr(number)
