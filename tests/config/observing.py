"""Dashboards and alerts as they are shipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config"
DASHBOARD = CONFIG / "grafana-dashboard.json"
ALERTS = CONFIG / "alerts.yml"


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text())


def panel_expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]
