"""The plans that are shipped: YAML files beside this module, by their names."""

from __future__ import annotations

from pathlib import Path


def shipped() -> dict[str, str]:
    """Return the texts of all plans by their names."""
    files = sorted(Path(__file__).parent.glob("*.yaml"))
    return {file.stem: file.read_text("utf-8") for file in files}
