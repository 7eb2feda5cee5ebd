"""Values on the command line that several commands take."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterable

from jbodlab.vocabulary.durations import duration_s
from jbodlab.vocabulary.ids import TopicPartition


def broker_ids(text: str) -> tuple[int, ...]:
    """Return a comma list of broker ids, as an argument's type.

    Raises:
        ArgumentTypeError: an entry is not a number, or occurs twice.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise ArgumentTypeError(f"expected broker ids such as 1,2, got {text!r}")
    found = tuple(map(int, parts))
    if len(set(found)) < len(found):
        raise ArgumentTypeError(f"a broker id occurs twice in {text!r}")
    return found


def names(text: str) -> frozenset[str]:
    """Return a comma list of names, as an argument's type."""
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def positive(text: str) -> int:
    """Return a number above 0, as an argument's type.

    Raises:
        ArgumentTypeError: it is not one.
    """
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return int(text)


def topic_partition(text: str) -> TopicPartition:
    """Return a partition such as `orders-0`, as an argument's type.

    Raises:
        ArgumentTypeError: it is not one.
    """
    topic, _, index = text.rpartition("-")
    if not (topic and index.isascii() and index.isdecimal()):
        raise ArgumentTypeError(f"expected a partition such as orders-0, got {text!r}")
    return TopicPartition(topic, int(index))


def seconds(text: str) -> float:
    """Return a duration such as 500ms, 10s or 2m in seconds, as an argument's type.

    Raises:
        ArgumentTypeError: it is not one.
    """
    try:
        return duration_s(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def key_value(text: str) -> tuple[str, str]:
    """Return key and value of KEY=VALUE, as an argument's type.

    Raises:
        ArgumentTypeError: it is not of this form.
    """
    key, equals, value = text.partition("=")
    if not (key.strip() and equals):
        raise ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return key.strip(), value.strip()


def listed(values: Iterable[object]) -> str:
    """Return values in a comma list."""
    return ",".join(map(str, values))
