from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

COMMANDS = (
    ("jbodlab.cli.program", "141", "faults", "kinds"),
    ("jbodlab.cli.program", "141", "up", "--help"),
    ("jbodlab.cli.program", "141", "--help"),
    ("storage_tool.__main__", "1", "version-mapping"),
    ("storage_tool.__main__", "1", "--help"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_whose_reader_has_left_ends_quietly(command: tuple[str, ...]) -> None:
    module, code, *arguments = command
    program = f"import sys; from {module} import main; sys.exit(main())"
    reader, writer = os.pipe()
    # Before the command starts: it may write all it has before this process runs again.
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert (done.returncode, done.stderr) == (int(code), "")


@pytest.mark.parametrize("module", ["lab.commands.up", "lab.rehearsal.command", "broker.server"])
def test_no_program_imports_what_only_tests_need(module: str) -> None:
    program = f"import sys, {module}; sys.exit('hypothesis' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
