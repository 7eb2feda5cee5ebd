"""Which cluster a command takes where no address is given, and what it says about that."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.cli import lab_state
from jbodlab.cli.program import main
from tests.state_files import cluster, node, this_process, write

DELETE = ["topics", "delete", "orders"]


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(lab_state.STATE_DIR_VARIABLE, str(tmp_path))
    (tmp_path / "clusters").mkdir()
    return tmp_path


def written(state_dir: Path, name: str, *, ticks_earlier: int = 0) -> None:
    """Write down a cluster of which a broker is this very process, or an earlier one."""
    process = this_process(ticks_earlier=ticks_earlier)
    write(state_dir, cluster(name, node(process=process)))


def test_the_chosen_cluster_is_named(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(state_dir, "mine")

    assert main(DELETE) == 1

    assert capsys.readouterr().err == (
        "cluster mine at 127.0.0.1:1\njbodlab: cannot connect to 127.0.0.1:1: Connection refused\n"
    )


def test_several_clusters_are_an_error_that_names_them(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")
    written(state_dir, "yours")

    assert main(DELETE) == 1

    said = capsys.readouterr().err
    assert "(mine, yours); choose one with --cluster" in said
    assert main([*DELETE, "--cluster", "yours"]) == 1
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err


def test_a_cluster_whose_pid_another_process_has_is_not_taken(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "former", ticks_earlier=1)

    assert main(DELETE) == 1

    assert capsys.readouterr().err.startswith("jbodlab: no cluster runs on this machine")


def test_an_address_that_is_given_is_taken_without_a_word(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")
    written(state_dir, "yours")

    assert main([*DELETE, "--bootstrap-server", "127.0.0.1:2"]) == 1

    assert capsys.readouterr().err.startswith("jbodlab: cannot connect to 127.0.0.1:2")
