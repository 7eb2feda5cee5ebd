"""Words that a shell completes: commands, options, values, and what runs on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jbodlab.cli.program import main, nouns
from lab.commands import completion
from tests.jbodlab.cli.clusters import write_cluster

BASH = """{script}
jbodlab() {{ [ "$1 $2" = "completion targets" ] && echo broker-7/2; }}
COMP_WORDS=(jbodlab {words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$(complete -p jbodlab | sed 's/.*-F \\([^ ]*\\).*/\\1/')
echo "${{COMPREPLY[*]}}"
"""


@pytest.fixture(scope="module")
def script() -> str:
    return completion.script("bash")


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("inj", "inject"),
        ("inject swa", "swapped"),
        ("inject eio brok", "broker-7/2"),
        ("up --kind t", "tmpfs"),
        ("up --mech", "--mechanism"),
        ("topics desc", "describe"),
        ("rehearse slow", "slow-disk"),
        ("storage ver", "verify"),
        ("completion z", "zsh"),
    ],
)
def test_bash_completes_commands_options_and_values(script: str, words: str, offered: str) -> None:
    done = subprocess.run(
        ["bash", "-c", BASH.format(script=script, words=words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == f"{offered}\n"


@pytest.mark.parametrize("shell", completion.FUNCTIONS)
def test_the_script_of_every_shell_has_every_command(shell: str) -> None:
    text = completion.script(shell)

    assert [name for name in nouns() if name not in text] == []
    assert "jbodlab completion clusters" in text


@pytest.mark.parametrize(
    ("what", "listed"),
    [
        ("clusters", ["mine"]),
        ("brokers", ["broker-1"]),
        ("targets", ["broker-1", "broker-1/1", "broker-1/2"]),
    ],
)
def test_what_runs_is_listed_for_the_script(
    state_dir: Path, capsys: pytest.CaptureFixture[str], what: str, listed: list[str]
) -> None:
    write_cluster(state_dir, "mine")
    write_cluster(state_dir, "stopped", ticks_earlier=1)

    assert main(["completion", what]) == 0
    assert capsys.readouterr().out.split() == listed
