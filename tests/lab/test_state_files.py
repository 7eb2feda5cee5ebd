"""Files about clusters, and who may use one."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import ClusterState, ProcessState
from jbodlab.config import node_config
from jbodlab.vocabulary import properties
from jbodlab.vocabulary.errors import DecodeError
from lab import up_and_down
from lab.cluster import ClusterSpec, layout
from lab.errors import LabError
from lab.machine import processes
from lab.machine.ports import HeldPorts
from lab.machine.processes import ServerUser
from lab.state_files import StateFiles

USER = ServerUser(uid=1500, gid=1500)
REPOSITORY = Path(__file__).resolve().parents[2]


def planned(root: Path, name: str = "default") -> ClusterState:
    return layout.plan(name, root, "cluster-id", USER, [7000, 7001, 7002, 7003], ClusterSpec())


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFiles:
    monkeypatch.setenv("JBODLAB_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return StateFiles.open()


def test_a_cluster_is_read_as_it_was_written(files: StateFiles, tmp_path: Path) -> None:
    state = planned(tmp_path)
    process = ProcessState(pid=1, start_ticks=2)
    state = replace(
        state,
        owner=process,
        mounts=("/a", "/b"),
        nodes=(replace(state.nodes[0], process=process), *state.nodes[1:]),
    )

    files.write(state)

    assert files.read("default") == state
    assert files.names() == ["default"]
    assert files.read("other") is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 2}', '{"version": 1, "name": "x"}'])
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        lab_state.from_json(text)


def test_property_files_are_those_of_a_cluster_that_can_start(tmp_path: Path) -> None:
    state = planned(tmp_path)

    configs = {}
    for node in state.nodes:
        values, unknown = node_config.read_values(
            properties.parse(layout.property_file(state, node))
        )
        assert unknown == []
        configs[node.node_id] = node_config.node_config(values)

    assert sorted(configs) == [1, 2, 3, 100]
    assert configs[100].roles == {"controller"}
    assert [voter.port for voter in configs[1].voters] == [7000]
    assert [str(path) for path in configs[2].log_dirs] == [
        f"{tmp_path}/broker-2/disk-{number}/data" for number in (1, 2, 3)
    ]
    assert str(configs[2].metadata_log_dir) == f"{tmp_path}/broker-2/metadata-disk/metadata"
    assert state.bootstrap == "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003"


def test_every_directory_lies_on_a_disk_of_its_own(tmp_path: Path) -> None:
    directories = layout.directories(planned(tmp_path))

    assert len(directories) == 13
    assert len({path.parent for path in directories}) == 13


def test_a_held_port_is_given_to_nobody_and_a_server_that_names_it_may_listen() -> None:
    with HeldPorts.hold(2) as held, contextlib.ExitStack() as stack:
        others = [stack.enter_context(HeldPorts.hold(1)).numbers[0] for _ in range(200)]

        assert len({*held.numbers, *others}) == 202
        for _ in range(2):
            with (
                socket.create_server(("127.0.0.1", held.numbers[0])) as server,
                socket.create_connection(server.getsockname()) as client,
            ):
                assert client.getpeername()[1] == held.numbers[0]


def test_a_cluster_is_used_by_one_command_at_a_time(files: StateFiles) -> None:
    with files.lock("default"):
        with pytest.raises(LabError, match="in use"), files.lock("default"):
            pass
        with files.lock("other"):
            pass
    with files.lock("default"):
        pass


@pytest.mark.process
def test_the_lock_of_a_killed_process_is_free(files: StateFiles) -> None:
    program = (
        "import sys, time; from pathlib import Path; from lab.state_files import StateFiles\n"
        "with StateFiles(Path(sys.argv[1])).lock('default'):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(files.directory)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with files.try_lock("default") as is_free:
            assert not is_free
        holder.kill()

    with files.try_lock("default") as is_free:
        assert is_free


@pytest.mark.process
def test_a_cluster_that_runs_is_not_replaced(files: StateFiles, tmp_path: Path) -> None:
    state = planned(files.root("default"))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = processes.find(child.pid)
        files.write(
            replace(state, nodes=(replace(state.nodes[0], process=process), *state.nodes[1:]))
        )

        with pytest.raises(LabError, match=r"running already at 127\.0\.0\.1:7001"):
            up_and_down.make_room("default", files, lambda line: None)

        assert child.poll() is None
        child.kill()


@pytest.mark.process
def test_what_a_killed_command_left_is_removed(files: StateFiles) -> None:
    told: list[str] = []
    state = planned(files.root("demo"), "demo")
    files.write(replace(state, owner=ProcessState(pid=2**22 + 1, start_ticks=1)))
    (files.root("demo") / "broker-1").mkdir(parents=True)

    problems = up_and_down.remove_leftovers(files, told.append)

    assert problems == []
    assert told == ["removing cluster demo, whose owner was killed"]
    assert files.read("demo") is None
    assert not files.root("demo").exists()


def test_a_cluster_that_was_left_running_is_no_leftover(files: StateFiles) -> None:
    files.write(planned(files.root("default")))

    assert up_and_down.remove_leftovers(files, pytest.fail) == []
    assert files.names() == ["default"]


def test_state_lies_where_the_user_may_write(tmp_path: Path) -> None:
    own = os.geteuid()

    assert lab_state.state_dir({"JBODLAB_STATE_DIR": "/x"}, 0) == Path("/x")
    assert lab_state.state_dir({}, 0) == Path("/var/lib/jbodlab")
    assert lab_state.state_dir({"XDG_STATE_HOME": "/s"}, 7) == Path("/s/jbodlab")
    assert lab_state.state_dir({"HOME": "/nonexistent"}, 7).name == "jbodlab-7"
    if own:
        home = lab_state.state_dir({"HOME": str(tmp_path)}, own)
        assert home == tmp_path / ".local" / "state" / "jbodlab"


def test_a_cache_lies_in_the_home_and_else_with_temporary_files(tmp_path: Path) -> None:
    own = os.geteuid()
    last = Path(tempfile.gettempdir()) / "jbodlab-cache-7"

    assert lab_state.cache_dirs({}, 0)[0] == Path("/var/cache/jbodlab")
    assert lab_state.cache_dirs({}, 7) == [last]
    assert lab_state.cache_dirs({"HOME": "/"}, 7) == [last]
    assert lab_state.cache_dirs({"XDG_CACHE_HOME": "/c"}, 7) == [Path("/c/jbodlab"), last]
    assert lab_state.cache_dirs({"XDG_CACHE_HOME": "c"}, 7) == [last]
    if own:
        home = lab_state.cache_dirs({"HOME": str(tmp_path)}, own)[0]
        assert home == tmp_path / ".cache" / "jbodlab"


def test_a_cache_is_readable_for_all_and_written_by_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o777)

    for folder in (tmp_path / "theirs", tmp_path / "new" / "folder"):
        assert lab_state.make_cache(folder, os.geteuid()) == ""
        assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_cache_of_somebody_else_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "below").mkdir(parents=True)
    os.chown(tmp_path / "theirs", 7, 7)
    (tmp_path / "link").symlink_to(tmp_path)
    os.chown(tmp_path / "link", 7, 7, follow_symlinks=False)

    for folder in (tmp_path / "theirs", tmp_path / "theirs" / "below", tmp_path / "link"):
        assert "belongs to another user" in lab_state.make_cache(folder, os.geteuid())
