"""Commands of `jbodlab`, called in this process."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from jbodlab.cli.program import main
from tests.cluster.harness import Cluster


class Done(NamedTuple):
    """What a user sees of a command."""

    code: int
    out: str
    err: str


def call(cluster: Cluster, *words: object) -> Done:
    """Run a command about a cluster."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*map(str, words), "--bootstrap-server", cluster.bootstrap])
    assert "Traceback" not in err.getvalue()
    return Done(code, out.getvalue(), err.getvalue())


def called(cluster: Cluster, *words: object) -> str:
    """Run a command that has to succeed; returns its result."""
    done = call(cluster, *words)
    assert done.code == 0, done
    return done.out


def value(cluster: Cluster, *words: object) -> Any:
    """Return the result of a command as JSON."""
    return json.loads(called(cluster, *words, "--output", "json"))


def dir_states(cluster: Cluster) -> dict[str, str]:
    """Return the states of all directories by their paths."""
    found = value(cluster, "dirs", "list")["directories"]
    return {one["path"]: one["state"] for one in found}
