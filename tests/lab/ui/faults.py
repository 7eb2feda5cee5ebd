"""A fault as the model of the page has it."""

from __future__ import annotations

from pathlib import Path

from fault_injection.journal import Fault

FAULT = Fault(
    fault_id=7,
    kind="eio",
    mechanism="preload",
    path=Path("/b1/2"),
    broker="broker-1",
    uid=0,
    gid=0,
    undo={},
    state="proved",
    since="1970-01-01T00:00:10+00:00",
    length_s=20.0,
)
