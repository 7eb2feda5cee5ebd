"""Needs of a test from its mark; the plugin imports it with nothing that starts a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lab.cluster.spec import ClusterSpec as ClusterSpec
from lab.cluster.spec import arguments_of_mark, of_mark


def mark_text() -> str:
    """Return the arguments of the mark with their defaults."""
    return ", ".join(f"{name}={default!r}" for name, default in arguments_of_mark().items())


def need(wanted: Mapping[str, Any]) -> ClusterSpec:
    """Return the cluster that the arguments of a mark describe; raises as `spec.of_mark`."""
    return of_mark(wanted, os.environ)
