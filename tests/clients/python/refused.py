"""Asks for a share group, which is not served, as an application does that knows nothing of that.

Called with bootstrap servers and topic.
"""

from __future__ import annotations

import sys

from confluent_kafka import KafkaException, ShareConsumer

BOOTSTRAP, TOPIC = sys.argv[1:]

consumer = ShareConsumer({"bootstrap.servers": BOOTSTRAP, "log_level": 0, "group.id": "not-served"})
consumer.subscribe([TOPIC])
while True:
    for message in consumer.poll(0.2) or ():
        if message.error() is not None:
            raise KafkaException(message.error())
