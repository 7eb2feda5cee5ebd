"""Results of partitions under the topics of their request."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from jbodlab.server.response_structs import Maker


def by_topic(
    make: Maker, topics: Iterable[Any], results: Iterable[Any], name: str = "name"
) -> tuple[Any, ...]:
    """Return the topics of a response.

    Args:
        make: Makes one of them.
        topics: Those of the request.
        results: Of all partitions, in the order of the request.
        name: Field that has the name of a topic, in both.
    """
    remaining = iter(results)
    found = tuple(
        make(
            **{name: getattr(topic, name)},
            partitions=tuple(islice(remaining, len(topic.partitions))),
        )
        for topic in topics
    )
    assert next(remaining, None) is None
    return found
