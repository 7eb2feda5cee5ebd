"""The needs of a broker on its machine to be started, and what it can do without."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fault_injection.errors import FaultError
from fault_injection.preload import build
from fault_injection.preload.control import RULES_VARIABLE, Control
from fault_injection.targets import PRELOADED
from lab.cluster import Broker, Cluster, ClusterSpec, layout
from lab.machine import processes
from lab.machine.processes import ServerUser


def broker(folder: Path, user: ServerUser | None = None) -> Broker:
    """A broker of a cluster that nobody has started."""
    state = layout.plan(
        "x",
        folder,
        "id",
        user or processes.own_user(),
        range(1, 3),
        ClusterSpec(brokers=1, disks=1),
    )
    return Cluster(state).broker(1)


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine for which nobody has compiled it, and without a compiler."""

    def refuse() -> Path:
        raise FaultError("no C compiler")

    monkeypatch.setattr(build, "library", refuse)


@pytest.mark.usefixtures("no_library")
def test_a_broker_without_the_library_has_no_rules_to_follow(tmp_path: Path) -> None:
    first = broker(tmp_path)
    with pytest.raises(FaultError, match="no C compiler"):
        first.preload()
    assert not (tmp_path / "broker-1" / PRELOADED).exists()

    again = broker(tmp_path)
    again.follow_again()

    assert again.target_node().rules is None
    assert again.start_variables() == {}


@pytest.mark.usefixtures("no_library")
def test_a_broker_whose_library_is_gone_starts_without(tmp_path: Path) -> None:
    (tmp_path / "broker-1").mkdir()
    Control.create(tmp_path / "broker-1" / PRELOADED)
    again = broker(tmp_path)

    again.follow_again()

    assert again.target_node().rules is not None
    assert again.start_variables() == {}
    assert again.target_node().rules is None


def test_rules_that_cannot_be_read_cost_no_command(tmp_path: Path) -> None:
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / PRELOADED).write_bytes(b"")

    again = broker(tmp_path)
    again.follow_again()

    assert again.start_variables() == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_rules_are_written_by_the_servers_user_and_nobody_else(tmp_path: Path) -> None:
    one = broker(tmp_path, ServerUser(uid=1500, gid=1501))

    rules = one.preload().path

    found = rules.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1500, 1501, 0o600)
    assert one.start_variables()[RULES_VARIABLE] == str(rules)
