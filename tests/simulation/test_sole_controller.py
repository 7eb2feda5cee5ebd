"""The metadata log of a sole controller has the same bytes as before."""

from __future__ import annotations

import pytest

from tests.simulation.command import ROOT, run_module

GOLDEN = ROOT / "tests" / "golden" / "metadata_logs_of_seeds.txt"

pytestmark = [pytest.mark.process, pytest.mark.timeout(1_800)]


def test_the_metadata_log_of_each_seed_has_the_bytes_that_it_had() -> None:
    """A change of a decision, a record or a format changes them; then it has to be meant."""
    ran = run_module("tests.simulation.sole_controller", "--seeds", "1..50")

    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.splitlines() == GOLDEN.read_text().splitlines()
