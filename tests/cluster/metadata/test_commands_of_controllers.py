"""`jbodlab controllers` as a user types it: both streams, the exit code, and what it has done."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from lab.machine.folders import make_folder, remove_folder
from tests.cluster.staying import Staying

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture
def three() -> Iterator[Staying]:
    root = make_folder()
    cluster = Staying(root)
    try:
        words = ("--brokers", "1", "--disks", "1", "--controllers", "3", "--kind", "folder")
        assert len(cluster.told("up", *words)["nodes"]) == 4
        yield cluster
    finally:
        cluster.run("down", "--yes")
        remove_folder(root)


def said(cluster: Staying, *words: str, code: int = 0) -> str:
    """Run `controllers`; returns the result, or the one line of the error."""
    done = cluster.run("controllers", *words)
    assert done.returncode == code, done
    if code == 0:
        return done.stdout.rstrip("\n")
    assert done.stdout == ""
    return done.stderr.removeprefix(f"cluster default at {cluster.cluster.bootstrap}\n").rstrip()


def roles(cluster: Staying) -> dict[int, str]:
    return {each["id"]: each["role"] for each in cluster.told("controllers", "list")}


def test_controllers_are_listed_added_handed_over_to_replaced_and_removed(three: Staying) -> None:
    assert sorted(roles(three).values()) == ["active", "standby", "standby"]

    assert re.fullmatch(r"controller-103 added, pid \d+", said(three, "add"))
    assert re.fullmatch(r"controller-103 active in epoch \d+", said(three, "transfer", "103"))
    assert roles(three) == {100: "standby", 101: "standby", 102: "standby", 103: "active"}

    before = {each["id"]: each["directory_id"] for each in three.told("controllers", "list")}
    replaced = said(three, "replace", "controller-100")
    new = re.fullmatch(r"controller-100 has the empty directory (\S+), pid \d+", replaced)
    after = {each["id"]: each["directory_id"] for each in three.told("controllers", "list")}
    assert new is not None
    assert after == {**before, 100: new[1]}
    assert new[1] != before[100]

    # The active one, too, and down to one.
    for number in (103, 101, 102):
        assert said(three, "remove", f"{number}") == f"controller-{number} removed"
    assert roles(three) == {100: "active"}
    only = "jbodlab: controller-100 is the only controller"
    assert said(three, "remove", "100", code=1) == only
    assert said(three, "transfer", "100", code=1) == only
    assert said(three, "replace", "100", code=1).startswith(only)
    assert three.told("status")["healthy"]


def test_what_cannot_be_done_is_refused_in_one_line_and_changes_nothing(three: Staying) -> None:
    before = three.told("controllers", "list")
    standby = next(each["id"] for each in before if each["role"] == "standby")
    known = "controller-100, controller-101, controller-102"

    for verb in ("remove", "replace", "transfer"):
        assert said(three, verb, "7", code=1) == f"jbodlab: no controller 7, only {known}"
        missing = said(three, verb, code=2).splitlines()
        assert missing[0] == f"jbodlab controllers {verb}: missing CONTROLLER"
    assert said(three, "add", "104", code=2).startswith(
        "jbodlab controllers add: unexpected argument '104'"
    )
    three.run("stop", f"controller-{standby}")
    refused = said(three, "transfer", f"{standby}", code=1)
    assert refused == f"jbodlab: controller-{standby} does not run"
    listed = said(three, "list").splitlines()
    assert [line.split()[0] for line in listed if "does not run" in line] == [f"{standby}"]

    three.run("start", f"controller-{standby}")
    assert [each["id"] for each in three.told("controllers", "list")] == [100, 101, 102]
    unknown = three.run("controllers", "list", "--cluster", "nobodys")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr.count("\n") == 1
