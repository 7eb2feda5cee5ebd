"""Sizes of clusters that cannot work are refused, with what they take and what there is."""

from __future__ import annotations

import os
from typing import Any

import pytest

from lab.cluster import ClusterSpec
from lab.cluster.limits import Machine, refusal, this_machine
from lab.errors import LabError
from lab.machine.ports import HeldPorts
from lab.state_files import StateFiles

MACHINE = Machine(memory_mb=8_000, threads=30_000, disk_mb=10_000)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ({"brokers": 3, "disks": 3}, ""),
        ({"brokers": 20, "disks": 100}, ""),
        (
            {"brokers": 50, "disks": 1000},
            "50 brokers with 1000 directories each need about 18,148 MiB of memory, 8,000 MiB "
            "are free",
        ),
        (
            {"brokers": 1, "disks": 16_000},
            "1 brokers with 16000 directories each need about 32,012 threads, this machine allows "
            "30,000",
        ),
        (
            {"brokers": 1, "disks": 1, "disk_mb": 4},
            "a disk of 4 MiB is too small, 8 MiB are the least",
        ),
        ({"brokers": 1, "disks": 1, "disk_mb": 4, "disk_kind": "folder"}, ""),
        ({"brokers": 1, "disks": 1, "disk_mb": 4, "disk_kind": "fuse"}, ""),
        (
            {"brokers": 10, "disks": 20, "disk_kind": "fuse"},
            "10 brokers with 20 directories each need about 8,758 MiB of memory, 8,000 MiB are "
            "free",
        ),
        (
            {"brokers": 2, "disks": 200, "disk_kind": "loop", "disk_mb": 8},
            "2 brokers with 200 directories each need 400 loop devices, at most 256 are used",
        ),
        (
            {"brokers": 2, "disks": 20, "disk_kind": "loop", "disk_mb": 512},
            "40 disks of 512 MiB do not fit in the 10,000 MiB that are free",
        ),
        (
            {"brokers": 3, "disks": 1, "port_base": 65_533},
            "ports 65533 to 65536 end beyond 65535",
        ),
    ],
)
def test_a_size_that_cannot_work_is_refused_with_the_reason(
    size: dict[str, Any], expected: str
) -> None:
    assert refusal(MACHINE, ClusterSpec(**size)) == expected


def test_this_machine_has_room_for_a_small_cluster(tmp_path: object) -> None:
    found = this_machine(StateFiles.open().directory, os.geteuid())

    assert refusal(found, ClusterSpec(brokers=1, disks=1, disk_mb=64, disk_kind="folder")) == ""


def test_ports_in_a_row_are_held_and_one_that_is_taken_is_named() -> None:
    with HeldPorts.hold(1) as found:
        (free,) = found.numbers
    with HeldPorts.hold_from(free, 1) as held:
        assert held.numbers == (free,)
        held._sockets[0].listen()
        with pytest.raises(LabError, match=f"port {free} on 127.0.0.1 cannot be used: Address"):
            HeldPorts.hold_from(free, 1)
