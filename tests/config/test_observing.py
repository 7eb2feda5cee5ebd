"""Alerts and dashboard: all metrics that they name exist, and Prometheus takes them as they are."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import yaml

from tests.config.observing import ALERTS, CONFIG, ROOT, dashboard, panel_expressions, rules

OF_PROMETHEUS = {"up"}
_NAME = re.compile(r"\b(?:kafka|jbodlab)_\w+|\bup\b")


def documented() -> set[str]:
    found: set[str] = set()
    text = (ROOT / "docs" / "metrics.md").read_text()
    for name, kind in re.findall(r"^\| `(\w+)[`{][^|]*\| ([a-z]+)", text, re.MULTILINE):
        found.add(name)
        if kind == "histogram":
            found |= {f"{name}_{part}" for part in ("bucket", "sum", "count")}
    return found


def test_every_metric_that_is_named_exists() -> None:
    expressions = [*panel_expressions(), *(rule["expr"] for rule in rules())]
    named = {name for text in expressions for name in _NAME.findall(text)}

    assert len(named) > 20
    assert named - documented() - OF_PROMETHEUS == set()


def test_what_must_wake_somebody_has_an_alert() -> None:
    critical = {rule["alert"] for rule in rules() if rule["labels"]["severity"] == "critical"}

    assert critical >= {
        "LogDirectoryOffline",
        "LogDirectoryFull",
        "PartitionsWithoutLeader",
        "UnderMinIsr",
        "ServerDown",
        "NoActiveController",
    }
    assert "LogDirectorySlow" in {rule["alert"] for rule in rules()}
    assert all(rule["annotations"]["summary"] for rule in rules())


def test_the_dashboard_loads_without_a_change() -> None:
    found = dashboard()

    # A value that a file asks for at its import is in `__inputs`; the data source is a variable
    # instead.
    assert "__inputs" not in found
    assert found["templating"]["list"][0]["type"] == "datasource"
    ids = [panel["id"] for panel in found["panels"]]
    assert len(ids) == len(set(ids))
    shown = [panel for panel in found["panels"] if panel["type"] != "row"]
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in shown)
    boxes = [panel["gridPos"] for panel in found["panels"]]
    assert all(box["x"] + box["w"] <= 24 for box in boxes)


def test_both_scrape_configurations_differ_in_targets_and_token_only() -> None:
    here, there = (
        yaml.safe_load((ROOT / folder / "prometheus.yml").read_text())
        for folder in ("config", "docker/config")
    )
    (ours,) = here["scrape_configs"][0].pop("static_configs")
    (theirs,) = there["scrape_configs"][0].pop("static_configs")

    # In containers the addresses are open to others.
    token = there["scrape_configs"][0].pop("authorization")
    assert token == {"credentials_file": "/run/metrics/token"}
    assert here == there
    assert len(ours["targets"]) == len(theirs["targets"]) == 4


@pytest.mark.process
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_wrong() -> None:
    for command in (["rules", str(ALERTS)], ["config", str(CONFIG / "prometheus.yml")]):
        done = subprocess.run(
            ["promtool", "check", *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
