"""How the commands start: their help, and an interrupt before they are there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.machine.waiting import wait_for
from tests.analytics.commands import ROOT, python
from tests.analytics.shared import FIXTURES

DEADLINE_S = 60
WORDS = {
    "replay": ["replay", "--input", "x", "--results", "y"],
    "why": ["why", "broker", "1", "--input", "x"],
}
WITHOUT_SPARK = "import sys; sys.modules.update(dict.fromkeys(('pyspark', 'pytz')))"
PANDAS = "print('with' if 'pandas' in sys.modules else 'without', 'pandas')"
START = "from jbodlab.cli.program import main; main({})"


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "needs"),
    [("replay", "jbodlab replay needs pyarrow"), ("why", "jbodlab why needs ")],
)
def test_a_command_without_its_extra_is_one_line_that_names_the_extra(
    command: str, needs: str
) -> None:
    missing = ("pyarrow", "numpy", "duckdb")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
        f"from jbodlab.cli.program import main; sys.exit(main({WORDS[command]}))"
    )
    done = python("-c", code)

    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"jbodlab: {needs}")
    assert line.endswith("-m pip install 'jbodlab[replay]'")


@pytest.mark.process
def test_a_replay_without_pyspark_says_so_and_is_done_in_its_process(tmp_path: Path) -> None:
    log, out = str(FIXTURES / "3.9.2-admin/controller"), str(tmp_path / "out")
    paths = ["--input", log, "--results", out]
    code = f"{WITHOUT_SPARK}; {START.format(['replay', *paths])}; {PANDAS}"
    done = python("-c", code)

    assert done.returncode == 0, done.stderr
    line = "jbodlab: PySpark is not installed: the replay runs with --engine local"
    # On a busy machine lines about its progress follow.
    assert done.stderr.splitlines()[0] == line
    assert done.stdout.endswith("Engine\n  this process\nwithout pandas\n")


@pytest.mark.process
@pytest.mark.parametrize("command", ["replay", "why"])
def test_an_interrupt_while_a_command_starts_leaves_no_trace(tmp_path: Path, command: str) -> None:
    # The first import does not come back until it is interrupted.
    (tmp_path / "numpy.py").write_text(
        "import pathlib, time\n"
        f"pathlib.Path({str(tmp_path / 'importing')!r}).touch()\n"
        f"time.sleep({DEADLINE_S})\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", START.format(WORDS[command])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        importing = tmp_path / "importing"
        wait_for("the first import", lambda: importing.exists() or child.poll(), DEADLINE_S)
        assert child.poll() is None, "it ended before it imported anything"
        child.send_signal(signal.SIGINT)
        said, _ = child.communicate(timeout=DEADLINE_S)
    finally:
        child.kill()

    assert (child.returncode, said) == (130, "")
