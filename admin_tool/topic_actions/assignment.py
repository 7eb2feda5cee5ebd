"""The value of `--replica-assignment`: `1:2,2:3` names the brokers of two partitions."""

from __future__ import annotations

from admin_tool.errors import AdminError


def parse_assignment(text: str) -> list[list[int]]:
    """Return the brokers of each partition.

    Raises:
        AdminError: a broker is no number or named twice, or the partitions differ in length.
    """
    assignment: list[list[int]] = []
    for partition, part in enumerate(text.split(",")):
        brokers = [_broker(one.strip()) for one in part.split(":")]
        twice = sorted({one for one in brokers if brokers.count(one) > 1})
        if twice:
            listed = ",".join(map(str, twice))
            raise AdminError(f"Partition replica lists may not contain duplicate entries: {listed}")
        if assignment and len(brokers) != len(assignment[0]):
            raise AdminError(f"Partition {partition} has different replication factor: {brokers}")
        assignment.append(brokers)
    return assignment


def _broker(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise AdminError(f'For input string: "{text}"')
    return int(text)
