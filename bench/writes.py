"""Many partitions written in turn, with an account of when each was acknowledged."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Producer

from tests.cluster.harness import wait_for

PRODUCERS = 8
"""Each has five requests under way to a broker, of one partition each."""

Key = tuple[str, int]


class Writes:
    """Idempotent acks=all producers at a steady rate, over all partitions that are given.

    Args:
        bootstrap: Addresses.
        keys: The partitions.
        rate: Messages per second and partition.
    """

    def __init__(self, bootstrap: str, keys: Sequence[Key], rate: float) -> None:
        self.times: dict[Key, list[float]] = defaultdict(list)
        self.errors: list[str] = []
        self._keys = keys
        self._rate = rate * len(keys)
        self._stop = threading.Event()
        self._producers = [
            Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "enable.idempotence": True,
                    "acks": "all",
                    "linger.ms": 0,
                    "delivery.timeout.ms": 120_000,
                    "log_level": 0,
                }
            )
            for _ in range(PRODUCERS)
        ]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        wait_for("acknowledgements of all", lambda: len(self.times) == len(self._keys), 120)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(150)

    def longest_outage(self, since: float) -> tuple[float, float]:
        """Return how long no partition's outage lasted longer, and when the last of all ended.

        Args:
            since: Monotonic time before which outages do not count.
        """
        outages = [
            max((b - a, b) for a, b in pairwise(times) if b > since)
            for times in self.times.values()
        ]
        return max(length for length, _ in outages), max(end for _, end in outages)

    def _run(self) -> None:
        begin, sent = time.monotonic(), 0
        while not self._stop.is_set():
            due = int((time.monotonic() - begin) * self._rate)
            while sent < due:
                self._send(self._keys[sent % len(self._keys)], sent % len(self._keys))
                sent += 1
            for producer in self._producers:
                producer.poll(0)
            time.sleep(0.002)
        for producer in self._producers:
            producer.flush(60)

    def _send(self, key: Key, number: int) -> None:
        topic, partition = key
        self._producers[number % PRODUCERS].produce(
            topic,
            b"x" * 100,
            partition=partition,
            on_delivery=lambda error, _message: self._delivered(key, error),
        )

    def _delivered(self, key: Key, error: KafkaError | None) -> None:
        if error is None:
            self.times[key].append(time.monotonic())
        else:
            self.errors.append(str(error))
