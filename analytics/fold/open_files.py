"""What a bucket holds open at the end of a run, as a file that the next run goes on from.

A NumPy archive without objects: columns of numbers, distinct lists, and the topics as JSON text.
"""

from __future__ import annotations

import json
from io import BytesIO

import numpy as np

from analytics.bytes.arrays import Column
from analytics.decode.lists import Interned, Ragged
from analytics.fold.bucket import Open
from analytics.fold.intervals import Intervals
from analytics.fold.states import LISTS, NUMBERS, States, Topic, Topics

_INTERVALS = ("leadership", "placement", "shortages")


def pack_open(opened: Open, topics: Topics) -> bytes:
    """Return what is open as the bytes of a file."""
    columns: dict[str, Column] = {}
    for name in NUMBERS:
        columns[f"states.{name}"] = opened.states[name]
    for name in LISTS:
        part = opened.states.lists[name]
        columns[f"codes.{name}"] = part.codes
        columns[f"offsets.{name}"] = part.distinct.offsets
        columns[f"values.{name}"] = part.distinct.values
    for kind in _INTERVALS:
        intervals: Intervals | None = getattr(opened, kind)
        if intervals is not None:
            for name, column in intervals.columns.items():
                columns[f"{kind}.{name}"] = column
    known = [[topic.name, topic.topic_id.hex()] for topic in topics.all]
    columns["topics"] = np.frombuffer(json.dumps(known).encode(), dtype=np.uint8)
    file = BytesIO()
    np.savez(file, **columns)  # type: ignore[arg-type] # its type says one array only
    return file.getvalue()


def unpack_open(content: bytes) -> tuple[Open, Topics]:
    """Return what was open, and the topics that its numbers mean."""
    with np.load(BytesIO(content), allow_pickle=False) as found:
        columns = {name: found[name] for name in found.files}
    states = States(
        {name: columns[f"states.{name}"] for name in NUMBERS},
        {
            name: Interned(
                columns[f"codes.{name}"],
                Ragged(columns[f"offsets.{name}"], columns[f"values.{name}"]),
            )
            for name in LISTS
        },
    )
    opened = Open(states=states)
    for kind in _INTERVALS:
        prefix = f"{kind}."
        own = {
            name.removeprefix(prefix): column
            for name, column in columns.items()
            if name.startswith(prefix)
        }
        if own:
            setattr(opened, kind, Intervals(own))
    topics = Topics()
    for name, topic_id in json.loads(columns["topics"].tobytes()):
        topics.number(Topic(name, bytes.fromhex(topic_id)))
    return opened, topics
