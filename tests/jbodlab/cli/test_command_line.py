from __future__ import annotations

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
    started = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    started.stdout.close()

    _, said = started.communicate(timeout=60)

    assert (started.returncode, said) == (int(code), "")


@pytest.mark.parametrize("module", ["lab.commands.up", "lab.rehearsal.command", "broker.server"])
def test_no_program_imports_what_only_tests_need(module: str) -> None:
    program = f"import sys, {module}; sys.exit('hypothesis' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
