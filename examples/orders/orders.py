"""Orders: taken over HTTP, kept in a Kafka topic.

    python orders.py --bootstrap HOST:PORT,... --topic orders --port 8000

An order is taken when Kafka has acknowledged it; until then the client waits, or is told 503.
"""

from __future__ import annotations

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

TAKEN_DEADLINE_S = 10.0
HEALTH_DEADLINE_S = 2.0


class Orders:
    """The orders of one topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": int(TAKEN_DEADLINE_S * 1000),
            }
        )

    def take(self, number: int, deadline_s: float = TAKEN_DEADLINE_S) -> None:
        """Take an order; TimeoutError if nobody acknowledges it in time."""
        done = threading.Event()
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                errors.append(error)
            done.set()

        self._producer.produce(self._topic, str(number), on_delivery=delivered)
        self._producer.flush(deadline_s)
        if errors or not done.is_set():
            raise TimeoutError(f"order {number} was not taken: {errors or 'no answer'}")

    def all(self) -> list[int]:
        """Return all orders that were taken."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "orders",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        partitions = consumer.list_topics(self._topic, timeout=10).topics[self._topic].partitions
        consumer.assign(
            [TopicPartition(self._topic, each, OFFSET_BEGINNING) for each in partitions]
        )
        left, found = set(partitions), []
        while left:
            message = consumer.poll(10)
            if message is None:
                raise TimeoutError(f"partitions {sorted(left)} cannot be read")
            if message.error() is None:
                found.append(int(message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
        consumer.close()
        return sorted(found)


def serve(orders: Orders, port: int) -> ThreadingHTTPServer:
    """Return a server of the orders; whoever asks runs it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer(lambda: orders.take(int(self.path.rpartition("/")[2])) or "taken")

        def do_GET(self) -> None:
            if self.path == "/health":
                self._answer(lambda: orders.take(0, HEALTH_DEADLINE_S) or "well")
            else:
                self._answer(orders.all)

        def _answer(self, work) -> None:
            try:
                status, value = 200, work()
            except TimeoutError as error:
                status, value = 503, str(error)
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    """Run the service until it is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    serve(Orders(options.bootstrap, options.topic), options.port).serve_forever()


if __name__ == "__main__":
    main()
