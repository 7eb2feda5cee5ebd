"""`jbodlab.testing` costs nothing until something of it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import jbodlab.testing

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.process
def test_the_plugin_imports_pytest_and_nothing_else() -> None:
    look = (
        "import sys, pytest; before = set(sys.modules); import jbodlab.testing.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )

    done = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["jbodlab", "jbodlab.testing", "jbodlab.testing.plugin"]


def test_every_name_is_there() -> None:
    for name in jbodlab.testing.__all__:
        assert getattr(jbodlab.testing, name).__name__ == name


def test_a_name_that_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="'Klaster'"):
        jbodlab.testing.Klaster  # noqa: B018 - what is tested


@pytest.mark.process
def test_servers_are_started_before_what_asks_them_is_imported() -> None:
    """A cluster is soon there only if the machine's other core has something to do meanwhile."""
    late = ("asyncio", "confluent_kafka", "jbodlab.kafka_wire.api_table", "jbodlab.metadata.image")
    looks = {
        "lab.testing.clusters": late,
        # It waits beside every cluster, and nearly always has nothing to do.
        "lab.testing.keeper": (*late, "lab.cluster", "fault_injection"),
    }
    for module, unwanted in looks.items():
        look = f"import sys, {module}; print(*sys.modules)"

        done = subprocess.run(
            [sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True
        )

        assert set(done.stdout.split()) & set(unwanted) == set(), module
