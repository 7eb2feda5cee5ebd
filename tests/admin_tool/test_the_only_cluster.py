"""Which cluster a tool takes where no address is given, and what it says of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from admin_tool import log_dirs, topics
from jbodlab import lab_state
from tests.state_files import cluster, node, this_process, write

DELETE = ["--delete", "--topic", "orders"]


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(lab_state.STATE_DIR_VARIABLE, str(tmp_path))
    (tmp_path / "clusters").mkdir()
    return tmp_path


def written(state_dir: Path, name: str, *, ticks_earlier: int = 0) -> None:
    """Write down a cluster of which a broker is this very process, or an earlier one."""
    process = this_process(ticks_earlier=ticks_earlier)
    write(state_dir, cluster(name, node(process=process)))


def test_the_cluster_that_a_tool_took_is_said(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")

    assert topics.main(DELETE) == 1

    said = capsys.readouterr()
    assert said.err == "cluster mine at 127.0.0.1:1\n"
    assert "cannot connect to 127.0.0.1:1" in said.out


def test_several_clusters_are_an_error_that_names_them(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")
    written(state_dir, "yours")

    assert topics.main(DELETE) == 1

    assert capsys.readouterr().out == (
        "Error while executing topic command : several clusters run on this machine, give an "
        "address by --bootstrap-server: mine at 127.0.0.1:1; yours at 127.0.0.1:1\n"
    )


def test_a_cluster_whose_pid_another_process_has_is_not_taken(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "former", ticks_earlier=1)

    assert topics.main(DELETE) == 1

    said = capsys.readouterr()
    assert said.err.startswith('Missing required argument "[bootstrap-server]"')


def test_an_address_that_is_given_is_taken_without_a_word(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")
    written(state_dir, "yours")

    assert topics.main([*DELETE, "--bootstrap-server", "127.0.0.1:2"]) == 1

    said = capsys.readouterr()
    assert (said.err, "127.0.0.1:2" in said.out) == ("", True)


def test_to_verify_asks_no_cluster(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")
    written(state_dir, "yours")

    assert log_dirs.main(["verify", "--dir", str(tmp_path / "none")]) == 1
    assert "several clusters" not in capsys.readouterr().err
    assert log_dirs.main(["verify", "--mend", "--dir", str(tmp_path / "none")]) == 1
    assert "several clusters" in capsys.readouterr().err
