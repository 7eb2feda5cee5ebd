"""A producer that numbers its batches."""

from __future__ import annotations

from typing import NamedTuple


class Producer(NamedTuple):
    """A producer in one of its epochs."""

    producer_id: int
    producer_epoch: int
