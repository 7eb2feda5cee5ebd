"""Which cluster of this machine a command is about, and that it is said."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from jbodlab.cli.choice import NoClusterError, machine_cluster
from jbodlab.cli.output import Output
from tests.jbodlab.cli.clusters import write_cluster


def chosen(named: str | None = None) -> tuple[str, str]:
    """The cluster, and what was said."""
    err = io.StringIO()
    return machine_cluster(named, Output(err=err)), err.getvalue()


def test_a_cluster_that_is_named_is_taken_without_a_word(state_dir: Path) -> None:
    write_cluster(state_dir, "mine")

    assert chosen("yours") == ("yours", "")


def test_the_only_cluster_that_runs_is_taken_and_said(state_dir: Path) -> None:
    write_cluster(state_dir, "mine")
    write_cluster(state_dir, "stopped", ticks_earlier=1)

    assert chosen() == ("mine", "cluster mine at 127.0.0.1:9092\n")


def test_a_cluster_whose_processes_have_ended_is_taken_where_it_is_the_only_one(
    state_dir: Path,
) -> None:
    write_cluster(state_dir, "stopped", ticks_earlier=1)

    assert chosen()[0] == "stopped"


def test_several_clusters_are_an_error_that_names_them(state_dir: Path) -> None:
    write_cluster(state_dir, "mine")
    write_cluster(state_dir, "yours")

    with pytest.raises(NoClusterError, match=r"\(mine, yours\); choose one with --cluster"):
        chosen()


def test_no_cluster_is_an_error_that_says_how_to_start_one(state_dir: Path) -> None:
    with pytest.raises(NoClusterError, match="start one with `jbodlab up`"):
        chosen()
