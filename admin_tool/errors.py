"""Errors about names on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from jbodlab.cli.parser import suggestion
from jbodlab.kafka_admin.errors import AdminError


def unknown(kind: str, name: str, known: Iterable[str]) -> AdminError:
    """Return the error for a name of a kind, such as `topic`, of which others are known."""
    return AdminError(f"unknown {kind} {name!r}{suggestion(name, known)}")
