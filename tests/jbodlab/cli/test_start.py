"""The imports are few: a help and the status of a cluster must be there at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

HEAVY = {"asyncio", "dataclasses", "inspect", "msgspec", "kafka", "confluent_kafka", "grpc", "kio"}


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (["--help"], set()),
        (["--version"], set()),
        (["topics", "--help"], {"dataclasses", "inspect", "msgspec"}),
        (["up", "--help"], {"dataclasses", "inspect", "msgspec"}),
        (["completion", "clusters"], {"dataclasses", "inspect", "msgspec"}),
    ],
)
def test_nothing_is_imported_that_a_command_does_not_need(
    words: list[str], allowed: set[str]
) -> None:
    # Modules that the interpreter brings by itself do not count.
    program = (
        "import sys; before = set(sys.modules); from jbodlab.cli.program import main;"
        f"main({words}); print(*sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert set(done.stderr.split()) & HEAVY <= allowed
