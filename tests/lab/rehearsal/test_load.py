"""Answers that clients of a run get, and the records that stay."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lab.cluster import wait_for
from lab.plan.plan import Changes, Command
from lab.rehearsal.facts import Probe
from lab.rehearsal.load import Client, Process, counts

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[3]


def test_a_process_reads_what_it_is_told_and_nothing_of_that_is_kept(tmp_path: Path) -> None:
    code = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    told = "sasl.password=s3cr3t\n" * 100_000

    process = Process("p", tmp_path, [sys.executable, "-c", code], dict(os.environ), told=told)

    assert process.end(30.0) == 0
    assert len(process.last_line) == 64
    assert not any(b"s3cr3t" in path.read_bytes() for path in tmp_path.iterdir())


def test_the_password_of_a_client_is_in_no_file_of_the_run(tmp_path: Path) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "sasl.password": "s3cr3t", "no.such": "x"}
    config = {"role": "write", "client": settings}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    client = Client("writers", tmp_path, config, environment)
    wait_for("its end", lambda: client.process.exit_code is not None)
    client.process.end(5.0)

    assert "no.such" in str(client.status())
    assert not any(b"s3cr3t" in path.read_bytes() for path in tmp_path.iterdir())


def test_a_change_of_metadata_counts_from_its_end_and_a_probe_from_its_schedule() -> None:
    """A change that was due before the steady state and ends in the run bounds a gap."""
    probe = Probe(due_ns=1, done_ns=3, is_good=True)

    assert counts(Changes(changes="orders"), probe, 2)
    assert not counts(Command(command=("x",)), probe, 2)
