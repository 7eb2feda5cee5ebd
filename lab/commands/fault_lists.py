"""`jbodlab faults list` and `faults kinds`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fault_injection import kinds
from fault_injection.errors import FaultError
from fault_injection.fuse import disk
from fault_injection.journal import Fault, read_faults
from jbodlab.cli.output import Output, table
from lab import opened
from lab.errors import LabError
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles

if TYPE_CHECKING:
    from jbodlab.cli.results import FaultKind, ListedFault


def list_open(options: Namespace, output: Output, _: Interrupts) -> int:
    """List open faults; returns the exit code."""
    files = StateFiles.open()
    try:
        found = read_faults(files.journal)
    except FaultError as error:
        raise LabError(str(error)) from error
    if options.cluster is not None:
        root = Path(opened.read(files, options.cluster).root)
        found = [fault for fault in found if root in fault.path.parents]
    for fault in found:
        if note := disk.remove_dead(fault.path):
            output.note(note)
    rows = [
        (fault.fault_id, fault.kind, fault.mechanism, fault.since, fault.path, _state(fault))
        for fault in found
    ]
    columns = ("id", "kind", "mechanism", "since", "path", "state")
    output.result(
        [_as_json(fault) for fault in found], table(columns, rows) if found else "no open faults"
    )
    return 0


def list_kinds(_: Namespace, output: Output, __: Interrupts) -> int:
    """List all kinds; returns the exit code."""
    found: list[FaultKind] = [
        {
            "kind": kind.name,
            "breaks": kind.scope.value,
            "meaning": kind.meaning,
            "mechanisms": list(kind.mechanisms),
            "options": [f"--{name}" for name in ("for", *kind.parameters)],
        }
        for kind in kinds.KINDS.values()
    ]
    width = max(map(len, kinds.KINDS))
    lines = [
        f"{kind.name:<{width}} {kind.meaning}\n"
        f"{'':<{width}} made by {', '.join(kind.mechanisms)}; {' '.join(one['options'])}"
        for kind, one in zip(kinds.KINDS.values(), found, strict=True)
    ]
    output.result(found, "\n".join(lines))
    return 0


def _state(fault: Fault) -> str:
    return "active" if fault.injected_ns else "interrupted: `jbodlab heal` reverts what was done"


def _as_json(fault: Fault) -> ListedFault:
    return {
        "id": fault.fault_id,
        "kind": fault.kind,
        "mechanism": fault.mechanism,
        "broker": fault.broker or None,
        "path": str(fault.path),
        "since": fault.since,
        "length_s": fault.length_s,
        "is_complete": fault.injected_ns is not None,
    }
