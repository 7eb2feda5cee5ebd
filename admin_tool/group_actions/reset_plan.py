"""To which offsets a reset goes; no cluster is asked here.

Times are milliseconds since 1970. Where Kafka's tool only warns, `Plan.warnings` has the line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from admin_tool.errors import AdminError
from admin_tool.group_actions.table import Column, lines
from jbodlab.ids import TopicPartition

Offsets = Mapping[TopicPartition, int]

_DURATION = re.compile(
    r"([+-])?P(?:([+-]?\d+)D)?(?:T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
_DATE_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)(Z|[+-]\d{2}:?\d{2})?"
)
_MINUTE_LENGTH = len("YYYY-MM-DDThh:mm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """New offsets, and what there is to say about them."""

    offsets: Offsets
    warnings: tuple[str, ...] = ()


def within(wanted: Offsets, starts: Offsets, ends: Offsets) -> Plan:
    """Move offsets that a partition does not have to its nearest one."""
    offsets: dict[TopicPartition, int] = {}
    warnings = []
    for one, offset in wanted.items():
        offsets[one] = min(max(offset, starts[one]), ends[one])
        if offset != offsets[one]:
            relation = "higher than latest" if offset > ends[one] else "lower than earliest"
            warnings.append(
                f"New offset ({offset}) is {relation} offset for topic partition {one}. "
                f"Value will be set to {offsets[one]}"
            )
    return Plan(offsets=offsets, warnings=tuple(warnings))


def shifted(
    partitions: Iterable[TopicPartition],
    committed: Offsets,
    by: int,
    starts: Offsets,
    ends: Offsets,
) -> Plan:
    """Move committed offsets by so many records.

    Raises:
        AdminError: a partition has none.
    """
    wanted = {}
    for one in partitions:
        if one not in committed:
            raise AdminError(
                f"Cannot shift offset for partition {one} since there is no current committed "
                "offset"
            )
        wanted[one] = committed[one] + by
    return within(wanted, starts, ends)


def current(partitions: Iterable[TopicPartition], committed: Offsets, ends: Offsets) -> Plan:
    """Keep committed offsets; a partition without one starts at its end."""
    return Plan(offsets={one: committed.get(one, ends[one]) for one in partitions})


def at_time(found: Offsets, ends: Offsets) -> Plan:
    """Take the offsets found for a time; the end where no record is so late, which is -1."""
    late = sorted(one for one, offset in found.items() if offset < 0)
    return Plan(
        offsets={one: ends[one] if offset < 0 else offset for one, offset in found.items()},
        warnings=tuple(
            f"Warn: Partition {one.partition} from topic {one.topic} is empty. "
            "Falling back to latest known offset."
            for one in late
        ),
    )


def read_datetime(text: str) -> int:
    """Read the value of `--to-datetime`; UTC where it names no zone.

    Raises:
        AdminError: it is no time.
    """
    match = _DATE_TIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        moment, zone = match.groups()
        form = "%Y-%m-%dT%H:%M" + ("" if len(moment) == _MINUTE_LENGTH else ":%S")
        form += ".%f" if "." in moment else ""
        found = datetime.strptime(moment + (zone or "Z"), f"{form}%z")
    except ValueError:
        raise AdminError(
            f"{text} is no time such as 2026-01-31T23:59:59.999 or 2026-01-31T23:59:59.999+01:00"
        ) from None
    since = found - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1)


def read_duration(text: str) -> int:
    """Read the value of `--by-duration` as milliseconds.

    Raises:
        AdminError: it is no duration.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:]) or text.upper().endswith("T"):
        raise AdminError(f"{text} is no duration such as P1DT2H or PT30S")
    sign, days, hours, minutes, seconds = match.groups()
    found = timedelta(
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=float(seconds or 0),
    )
    return (-1 if sign == "-" else 1) * (found // timedelta(milliseconds=1))


def read_file(text: str, groups: Sequence[str]) -> Mapping[str, Offsets]:
    """Read the lines of a file that `--export` made, by group.

    Args:
        text: Its content.
        groups: The groups asked for; lines without one are about the only one.

    Raises:
        AdminError: a line cannot be read, or does not say about which group it is.
    """
    found: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row:
            continue
        fields = row if len(row) == 4 else [groups[0], *row]
        is_named = len(row) == 4 or (len(row) == 3 and len(groups) == 1)
        if not (is_named and _is_number(fields[2]) and _is_number(fields[3])):
            expected = "" if len(groups) == 1 else "group,"
            raise AdminError(
                f"line {number}, {','.join(row)}, is not {expected}topic,partition,offset"
            )
        group, topic, partition, offset = fields
        found.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
    return found


def export_lines(plans: Mapping[str, Offsets], *, with_group: bool) -> list[str]:
    """Return the lines of a file for `--from-file`."""
    return [
        ",".join(
            map(_csv_field, [*([group] if with_group else []), one.topic, one.partition, offset])
        )
        for group, offsets in plans.items()
        for one, offset in sorted(offsets.items())
    ]


def table(plans: Mapping[str, Offsets]) -> list[str]:
    """Return the table of new offsets."""
    columns = [
        Column(title="GROUP", grows=True),
        Column(title="TOPIC", grows=True),
        Column(title="PARTITION", width=10),
        Column(title="NEW-OFFSET"),
    ]
    rows = [
        [group, one.topic, one.partition, offset]
        for group, offsets in plans.items()
        for one, offset in sorted(offsets.items())
    ]
    return lines(columns, rows)


def _is_number(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdecimal()


def _csv_field(value: object) -> str:
    text = str(value)
    if any(character in text for character in ',"\n '):
        return '"' + text.replace('"', '""') + '"'
    return text
