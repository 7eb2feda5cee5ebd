"""The rest of a limit: the limit minus its own use, in whichever group it is set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fault_injection.control_groups import MEMORY, PIDS, Resource, left
from lab.cluster.limits import this_machine

MIB = 1 << 20


class Container:
    """A process in groups that a test writes down."""

    def __init__(self, folder: Path) -> None:
        self.process = folder / "process"
        self.process.mkdir()
        self._folder = folder
        self._mounts: list[str] = []
        self._groups: list[str] = []

    def mounts(self, kind: str, point: str, root: str = "/", options: str = "rw") -> None:
        where = f"{self._folder}/{point}".replace(" ", "\\040")
        number = len(self._mounts)
        self._mounts.append(
            f"{number} 1 0:{number} {root} {where} rw shared:9 - {kind} x {options}"
        )
        (self.process / "mountinfo").write_text("\n".join(self._mounts) + "\n")

    def is_in(self, group: str) -> None:
        self._groups.append(group)
        (self.process / "cgroup").write_text("\n".join(self._groups) + "\n")

    def says(self, file: str, text: object) -> None:
        path = self._folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def rest(container: Container, resource: Resource = PIDS) -> int | None:
    return left(resource, container.process)


def test_a_container_that_sees_its_group_as_the_root(container: Container) -> None:
    container.mounts("cgroup2", "cgroup")
    container.is_in("0::/")
    container.says("cgroup/pids.max", 2048)
    container.says("cgroup/pids.current", 11)
    container.says("cgroup/memory.max", 512 * MIB)
    container.says("cgroup/memory.current", 300 * MIB)
    container.says("cgroup/memory.stat", f"anon 5\ninactive_file {100 * MIB}")

    assert rest(container) == 2037
    assert rest(container, MEMORY) == 312 * MIB


def test_the_narrowest_limit_counts_and_each_minus_its_own_use(container: Container) -> None:
    container.mounts("cgroup2", "the cgroup")
    container.is_in("0::/user/session")
    container.says("the cgroup/user/session/pids.max", "max")
    container.says("the cgroup/user/session/pids.current", 4)
    container.says("the cgroup/user/pids.max", 500)
    container.says("the cgroup/user/pids.current", 400)
    container.says("the cgroup/cgroup.procs", 1)

    assert rest(container) == 100


def test_version_1_has_a_tree_for_each_resource(container: Container) -> None:
    container.mounts("cgroup", "pids", "/docker/1", "rw,pids")
    container.mounts("cgroup", "memory", "/docker/1", "rw,memory")
    container.mounts("cgroup2", "unified")
    container.is_in("8:pids:/docker/1")
    container.is_in("4:memory:/docker/1/below")
    container.is_in("0::/")
    container.says("pids/pids.max", 100)
    container.says("pids/pids.current", 40)
    container.says("memory/memory.limit_in_bytes", 100 * MIB)
    container.says("memory/memory.usage_in_bytes", 90 * MIB)
    container.says("memory/memory.stat", f"inactive_file 7\ntotal_inactive_file {50 * MIB}")

    assert rest(container) == 60
    assert rest(container, MEMORY) == 60 * MIB


def test_a_path_of_the_host_that_is_not_seen_here_means_the_root(container: Container) -> None:
    container.mounts("cgroup2", "cgroup")
    container.is_in("0::/kubepods/pod1/c1")
    container.says("cgroup/pids.max", 30)
    container.says("cgroup/pids.current", 10)

    assert rest(container) == 20


def test_where_nothing_is_limited_or_known_there_is_no_rest(container: Container) -> None:
    container.mounts("tmpfs", "elsewhere")
    assert rest(container) is None

    container.mounts("cgroup2", "cgroup")
    container.is_in("0::/")
    assert rest(container) is None
    container.says("cgroup/pids.max", "max")
    container.says("cgroup/pids.current", 10)
    assert rest(container) is None


def test_a_machine_is_as_large_as_its_group_lets_it_be(
    container: Container, tmp_path: Path
) -> None:
    container.mounts("cgroup2", "cgroup")
    container.is_in("0::/")
    container.says("cgroup/pids.max", 512)
    container.says("cgroup/pids.current", 12)
    container.says("cgroup/memory.max", 64 * MIB)
    container.says("cgroup/memory.current", MIB)

    found = this_machine(tmp_path, os.geteuid(), container.process)

    assert (found.threads, found.memory_mb) == (500, 63)
